"""Text files as an agent reads and writes them: lines, limits, encodings, links, unsaved buffers, order."""

import asyncio
import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workspace.helpers import SECRET, Write, names

from accord.errors import InvalidParams, NotFound
from accord.workspace.roots import OutsideRoots, Roots
from accord.workspace.text_files import TextFiles, lines_of


@pytest.fixture
def files(roots: Roots) -> TextFiles:
    return TextFiles(roots)


@pytest.mark.rule("file.read-result")
async def test_a_file_is_read_unchanged(files: TextFiles, write: Write) -> None:
    text = "\ufeffone\r\ntwo\rstill two\n\nlast without end"
    assert await files.read_text(write("a.txt", text)) == text
    assert await files.read_text(str(write("empty", ""))) == ""


@pytest.mark.rule("file.line-and-limit")
@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        (2, 1, "two\r\n"),
        (1, 2, "one\ntwo\r\n"),
        (0, 1, "one\n"),
        (None, 1, "one\n"),
        (3, None, "three\rthree\nfour"),
        (4, 1, "four"),
        (4, 100, "four"),
        (5, 1, ""),
        (4_000_000_000, 4_000_000_000, ""),
        (2, 0, ""),
        (None, 0, ""),
        (None, None, "one\ntwo\r\nthree\rthree\nfour"),
    ],
)
async def test_line_is_one_based_and_limit_is_a_number_of_lines(
    files: TextFiles, write: Write, line: int | None, limit: int | None, expected: str
) -> None:
    text = "one\ntwo\r\nthree\rthree\nfour"
    assert await files.read_text(write("a.txt", text), line, limit) == expected
    assert lines_of(text, line, limit) == expected


@pytest.mark.rule("file.invalid-line-or-limit")
@pytest.mark.parametrize("bad", ["2", -1, 1.5, True, [1]])
async def test_a_line_or_limit_of_the_wrong_type_is_refused(files: TextFiles, write: Write, bad: int) -> None:
    path = write("a.txt", "one\n")
    with pytest.raises(InvalidParams, match="line"):
        await files.read_text(path, line=bad)
    with pytest.raises(InvalidParams, match="limit"):
        await files.read_text(path, limit=bad)


@pytest.mark.rule("file.line-and-limit")
@given(text=st.text(alphabet="ab\r\né😀", max_size=50), step=st.integers(1, 4))
def test_consecutive_parts_join_to_the_whole_text(text: str, step: int) -> None:
    starts = range(1, text.count("\n") + 2, step)

    async def by_parts(path: Path) -> list[str]:
        files = TextFiles(Roots(path.parent))
        return [await files.read_text(path, start, step) for start in starts]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.txt")
        path.write_bytes(text.encode())
        parts = asyncio.run(by_parts(path))
    assert "".join(parts) == text
    assert parts == [lines_of(text, start, step) for start in starts]


@pytest.mark.rule("file.line-and-limit")
async def test_lines_are_found_in_a_long_file(files: TextFiles, write: Write) -> None:
    lines = [f"{number} {'é' * (number % 400)}\n" for number in range(5000)]
    path = write("long.txt", "".join(lines))
    for first in (1, 2, 700, 2500, 4999):
        assert await files.read_text(path, first, 900) == "".join(lines[first - 1 : first + 899])


@pytest.mark.rule("file.missing-file")
async def test_reading_a_missing_file_raises_not_found(files: TextFiles, project: Path) -> None:
    for path in (project / "no ne.txt", project / "no" / "folder" / "x"):
        with pytest.raises(NotFound) as missing:
            await files.read_text(path, 1, 10)
        assert missing.value.code == -32002
        assert missing.value.data == {"uri": path.as_uri()}


async def test_missing_is_empty_applies_only_inside_the_roots(
    roots: Roots, project: Path, outside: Path
) -> None:
    files = TextFiles(roots, missing_is_empty=True)
    assert await files.read_text(project / "none.txt") == ""
    with pytest.raises(OutsideRoots):
        await files.read_text(outside / "none.txt")


@pytest.mark.rule("file.inside-roots")
async def test_links_that_lead_outside_are_neither_read_nor_written(
    files: TextFiles, project: Path, outside: Path
) -> None:
    (project / "file").symlink_to(outside / "secret.txt")
    (project / "folder").symlink_to(outside)
    (project / "new").symlink_to(outside / "new.txt")
    (project / "proc").symlink_to("/proc/self/environ")
    for name in ("file", "folder/secret.txt", "new", "folder/new/x", "proc", "../outside/secret.txt"):
        with pytest.raises(OutsideRoots):
            await files.read_text(f"{project}/{name}")
        with pytest.raises(OutsideRoots):
            await files.write_text(f"{project}/{name}", "mine now")
    assert names(outside) == {"secret.txt"}
    assert (outside / "secret.txt").read_text() == SECRET


async def test_pipes_folders_and_sockets_are_refused_without_blocking(
    files: TextFiles, project: Path
) -> None:
    os.mkfifo(project / "pipe")
    (project / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(project / "s"))
        for name in ("pipe", "folder", "s", "."):
            with pytest.raises(InvalidParams, match=r"folder|plain file"):
                await files.read_text(f"{project}/{name}")
            with pytest.raises(InvalidParams, match=r"folder|plain file"):
                await files.write_text(f"{project}/{name}", "x")
    assert stat.S_ISFIFO((project / "pipe").lstat().st_mode)


async def test_devices_are_refused() -> None:
    files = TextFiles(Roots("/dev"))
    for name in ("null", "zero", "tty"):
        with pytest.raises(InvalidParams):
            await files.read_text(f"/dev/{name}")
        with pytest.raises(InvalidParams):
            await files.write_text(f"/dev/{name}", "x")


async def test_a_path_with_a_trailing_slash_is_refused(files: TextFiles, project: Path) -> None:
    with pytest.raises(InvalidParams, match="names a folder"):
        await files.write_text(f"{project}/new/", "x")
    assert names(project) == set()


async def test_a_path_below_a_file_is_refused(files: TextFiles, write: Write) -> None:
    path = write("a.txt", "text")
    with pytest.raises(InvalidParams, match="Not a directory"):
        await files.read_text(path / "b.txt")
    with pytest.raises(InvalidParams, match="Not a directory"):
        await files.write_text(path / "b.txt", "x")


@pytest.mark.parametrize(
    "data", [b"ok\n\xff\xfe\n", "text".encode("utf-16"), b"\xed\xa0\x80", b"half \xe2\x82"]
)
async def test_text_that_is_not_utf8_is_refused(files: TextFiles, write: Write, data: bytes) -> None:
    with pytest.raises(InvalidParams, match="is not text"):
        await files.read_text(write("a.bin", data))


async def test_a_huge_file_is_refused_as_a_whole_but_read_in_parts(files: TextFiles, write: Write) -> None:
    path = write("huge", "one\ntwo\n")
    os.truncate(path, 1 << 40)
    with pytest.raises(InvalidParams, match="too large: 1099511627776 bytes"):
        await files.read_text(path)
    assert await files.read_text(path, 2, 1) == "two\n"
    with pytest.raises(InvalidParams, match="too large"):
        await files.read_text(path, 3, 1)


async def test_max_bytes_is_an_exact_limit(roots: Roots, write: Write) -> None:
    path = write("a.txt", "0123\n56789")
    assert await TextFiles(roots, max_bytes=10).read_text(path) == "0123\n56789"
    short = TextFiles(roots, max_bytes=5)
    assert await short.read_text(path, limit=1) == "0123\n"
    assert await short.read_text(path, line=2) == "56789"
    with pytest.raises(InvalidParams, match="too large"):
        await short.read_text(path, limit=2)


async def test_max_bytes_applies_to_files_that_report_no_size() -> None:
    files = TextFiles(Roots("/proc/self"), max_bytes=200)
    assert os.stat("/proc/self/status").st_size == 0
    with pytest.raises(InvalidParams, match="too large"):
        await files.read_text(f"/proc/{os.getpid()}/status")


@pytest.mark.rule("file.write-creates")
async def test_a_write_creates_the_file_and_its_folders(files: TextFiles, project: Path) -> None:
    await files.write_text(project / "a" / "b" / "c.txt", "one\r\ntwo\n\ufeff")
    assert (project / "a" / "b" / "c.txt").read_bytes() == "one\r\ntwo\n\ufeff".encode()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((project / "a" / "b" / "c.txt").stat().st_mode) == 0o666 & ~umask


@pytest.mark.rule("file.write-creates")
async def test_a_write_replaces_the_file_and_leaves_no_temporary_file(files: TextFiles, write: Write) -> None:
    path = write("a.txt", "a long text before")
    await files.write_text(path, "short")
    await files.write_text(path.with_name("n" * 255), "a name as long as names get")
    assert path.read_text() == "short"
    assert names(path.parent) == {"a.txt", "n" * 255}


async def test_a_write_keeps_the_file_mode_without_set_id_bits(files: TextFiles, write: Write) -> None:
    path = write("run.sh", "#!/bin/sh\n")
    path.chmod(0o4751)
    await files.write_text(path, "#!/bin/sh\nexit 1\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


async def test_a_write_follows_a_link_inside_the_roots(files: TextFiles, project: Path, write: Write) -> None:
    write("real/a.txt", "before")
    (project / "link").symlink_to("real/a.txt")
    (project / "new").symlink_to("real/not-yet.txt")
    await files.write_text(project / "link", "after")
    await files.write_text(project / "new", "made")
    assert (project / "link").is_symlink()
    assert (project / "real" / "a.txt").read_text() == "after"
    assert (project / "real" / "not-yet.txt").read_text() == "made"


@pytest.mark.rule("file.inside-roots")
async def test_a_write_replaces_a_hard_link_to_an_outside_file(
    files: TextFiles, project: Path, outside: Path
) -> None:
    (project / "same").hardlink_to(outside / "secret.txt")
    await files.write_text(project / "same", "mine")
    assert (outside / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("content", ["half \ud83d", "\udc80", 5, None, b"bytes"])
async def test_content_that_is_not_text_is_not_written(files: TextFiles, write: Write, content: str) -> None:
    path = write("a.txt", "before")
    with pytest.raises(InvalidParams):
        await files.write_text(path, content)
    assert path.read_text() == "before"


async def test_a_missing_root_is_not_created(project: Path) -> None:
    files = TextFiles(Roots(project / "later"))
    with pytest.raises(NotFound, match="root folder"):
        await files.write_text(project / "later" / "a.txt", "x")
    assert names(project) == set()


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """A folder owned by a user other than root, with that user active."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve()
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
            os.seteuid(65534)
            yield path
            os.seteuid(0)
        else:
            yield path


async def test_a_read_only_file_is_not_overwritten(ordinary_user: Path) -> None:
    files = TextFiles(Roots(ordinary_user))
    path = ordinary_user / "a.txt"
    path.write_text("keep")
    path.chmod(0o444)
    with pytest.raises(InvalidParams, match="read-only"):
        await files.write_text(path, "lost")
    path.chmod(0)
    with pytest.raises(InvalidParams, match="Permission denied"):
        await files.read_text(path)
    path.chmod(0o600)
    assert path.read_text() == "keep"
    assert names(ordinary_user) == {"a.txt"}


async def test_calls_on_one_path_run_in_the_order_they_were_made(files: TextFiles, project: Path) -> None:
    path = project / "a.txt"
    seen = await asyncio.gather(
        *[call for n in range(60) for call in (files.write_text(path, str(n)), files.read_text(path))]
    )
    assert seen[1::2] == [str(n) for n in range(60)]


async def test_a_cancelled_read_ends_at_once_and_frees_the_path(files: TextFiles, write: Write) -> None:
    path = write("huge", "one\n")
    os.truncate(path, 1 << 40)
    reading = asyncio.create_task(files.read_text(path, line=10**9))
    after = asyncio.create_task(files.read_text(path, limit=1))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await after == "one\n"


async def test_a_cancelled_write_never_replaces_the_next_one(files: TextFiles, project: Path) -> None:
    path = project / "a.txt"
    for _ in range(20):
        first = asyncio.create_task(files.write_text(path, "first" * 100_000))
        second = asyncio.create_task(files.write_text(path, "second"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert path.read_text() == "second"
    assert names(project) == {"a.txt"}


class OpenInEditor:
    """The buffers of an editor with one open file. Writes to that file stay unsaved."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text

    def read(self, path: Path) -> str | None:
        return self.text if path == self.path else None

    def write(self, path: Path, text: str) -> bool:
        if path != self.path:
            return False
        self.text = text
        return True


@pytest.mark.rule("file.unsaved-buffers", "file.line-and-limit")
async def test_reads_and_writes_use_the_unsaved_buffer(
    roots: Roots, project: Path, outside: Path, write: Write
) -> None:
    path, other = write("open.txt", "saved\n"), write("other.txt", "other\n")
    (project / "alias").symlink_to("open.txt")
    editor = OpenInEditor(path, "unsaved\nsecond\nthird")
    files = TextFiles(roots, buffers=editor)
    assert await files.read_text(path) == "unsaved\nsecond\nthird"
    assert await files.read_text(project / "alias", 2, 1) == "second\n"
    assert await files.read_text(other) == "other\n"
    await files.write_text(path, "typed by the agent")
    await files.write_text(other, "on disk")
    assert editor.text == "typed by the agent"
    assert path.read_text() == "saved\n"
    assert other.read_text() == "on disk"
    with pytest.raises(OutsideRoots):
        await files.read_text(outside / "secret.txt")


@pytest.mark.rule("file.inside-roots")
async def test_the_buffer_of_an_outside_file_is_not_available(roots: Roots, outside: Path) -> None:
    editor = OpenInEditor(outside / "secret.txt", SECRET)
    files = TextFiles(roots, buffers=editor)
    with pytest.raises(OutsideRoots):
        await files.read_text(outside / "secret.txt")
    with pytest.raises(OutsideRoots):
        await files.write_text(outside / "secret.txt", "mine")
    assert editor.text == SECRET


async def fast_files(folder: Path) -> TextFiles:
    """Files whose last read in this folder was fast, so that small files are read without a thread."""
    files = TextFiles(Roots(folder))
    (folder / "first.txt").write_text("one\ntwo\n")
    while files.read_now(folder / "first.txt") is None:
        await files.read_text(folder / "first.txt")
    return files


async def test_a_small_file_is_read_without_a_thread_after_a_fast_read(tmp_path: Path) -> None:
    files = await fast_files(tmp_path)
    assert files.read_now(tmp_path / "first.txt", line=2) == "two\n"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("a")
    assert files.read_now(tmp_path / "other" / "a.txt") is None, "nothing is known about this folder"


async def test_a_large_file_is_left_to_a_thread(tmp_path: Path) -> None:
    files = await fast_files(tmp_path)
    text = "x" * (256 * 1024 + 1)
    (tmp_path / "large.txt").write_text(text)
    assert files.read_now(tmp_path / "large.txt") is None
    assert await files.read_text(tmp_path / "large.txt") == text


async def test_a_read_without_a_thread_keeps_to_the_roots_and_to_regular_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    files = await fast_files(root)
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(OutsideRoots):
        files.read_now(root / "link.txt")
    files = await fast_files(root)
    os.mkfifo(root / "pipe")
    with pytest.raises(InvalidParams):
        files.read_now(root / "pipe")


async def test_a_read_waits_for_an_earlier_write_of_the_file(tmp_path: Path) -> None:
    files = await fast_files(tmp_path)
    write = asyncio.ensure_future(files.write_text(tmp_path / "first.txt", "new"))
    await asyncio.sleep(0)
    assert files.read_now(tmp_path / "first.txt") is None
    assert await files.read_text(tmp_path / "first.txt") == "new"
    await write
