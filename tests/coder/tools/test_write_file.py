"""Writing whole files: new ones, and files that were read before."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.harness import ToolHarness, diff_in

from accord.coder.tools.tool import BadArguments
from accord.coder.tools.tool_context import ToolLimits
from accord.schema.content import Diff

Write = Callable[..., Path]


async def test_new_file_and_its_folders_are_created(harness: ToolHarness, project: Path) -> None:
    call = await harness.prepare("write_file", {"path": "src/new/a.py", "content": "x = 1\n"})
    assert (call.title, call.category) == ("Write src/new/a.py", "write")
    assert call.subject.paths == (str(project / "src/new/a.py"),)
    assert await call.preview() == (Diff(str(project / "src/new/a.py"), "x = 1\n", None),)
    assert not (project / "src").exists()
    outcome = await harness.run(call)
    assert outcome.text == "Created src/new/a.py, 1 line."
    assert outcome.content == (Diff(str(project / "src/new/a.py"), "x = 1\n", None),)
    assert outcome.raw_output == {"path": str(project / "src/new/a.py"), "created": True, "lines": 1}
    assert (project / "src/new/a.py").read_text() == "x = 1\n"


async def test_unread_file_is_not_overwritten(harness: ToolHarness, write: Write) -> None:
    path = write("a", "old")
    assert "was not read; read it first" in await harness.refused("write_file", path="a", content="new")
    assert path.read_text() == "old"
    await harness.done("read_file", path="a")
    outcome = await harness.done("write_file", path="a", content="new")
    assert diff_in(outcome) == Diff(str(path), "new", "old")
    assert path.read_text() == "new"


async def test_file_changed_since_the_read_is_not_overwritten(harness: ToolHarness, write: Write) -> None:
    path = write("a", "old")
    await harness.done("read_file", path="a", limit=1)
    path.write_text("somebody else's")
    assert "has changed since it was read; read it again" in await harness.refused(
        "write_file", path="a", content="new"
    )
    assert path.read_text() == "somebody else's"


async def test_own_file_may_be_written_again(harness: ToolHarness, project: Path) -> None:
    await harness.done("write_file", path="a", content="1")
    await harness.done("write_file", path="a", content="2")
    assert (project / "a").read_text() == "2"
    assert (await harness.done("write_file", path="a", content="2")).text.endswith("already has this text.")


async def test_mode_line_endings_and_encoding_are_kept(harness: ToolHarness, write: Write) -> None:
    path = write("run.sh", "grün\r\n".encode("utf-16"))
    path.chmod(0o755)
    await harness.done("read_file", path="run.sh")
    await harness.done("write_file", path="run.sh", content="blau\nrot\n")
    assert path.read_bytes() == "blau\r\nrot\r\n".encode("utf-16")
    assert path.stat().st_mode & 0o777 == 0o755
    assert [entry.name for entry in path.parent.iterdir()] == ["run.sh"]


async def test_text_that_the_encoding_cannot_hold_is_refused(harness: ToolHarness, write: Write) -> None:
    path = write("a", "grün".encode("latin-1"))
    await harness.done("read_file", path="a")
    assert "encoding is latin-1, which has no '→'" in await harness.refused(
        "write_file", path="a", content="a → b"
    )
    assert path.read_bytes() == "grün".encode("latin-1")
    with pytest.raises(BadArguments, match="lone surrogate"):
        await harness.prepare("write_file", {"path": "b", "content": "\ud800"})


async def test_binary_folders_and_read_only_files_are_refused(
    harness: ToolHarness, project: Path, write: Write
) -> None:
    write("blob", b"\0\1\2")
    assert "can only be replaced with bash" in await harness.refused("write_file", path="blob", content="x")
    (project / "dir").mkdir()
    assert "it is a folder" in await harness.refused("write_file", path="dir", content="x")
    if os.geteuid():
        write("fixed", "x").chmod(0o444)
        await harness.done("read_file", path="fixed")
        assert "read-only" in await harness.refused("write_file", path="fixed", content="y")


async def test_large_change_is_shown_by_its_lines(project: Path, write: Write) -> None:
    harness = ToolHarness(project, limits=ToolLimits(diff_chars=100))
    lines = [f"line {n}" for n in range(1, 51)]
    write("a", "\n".join(lines))
    await harness.done("read_file", path="a")
    lines[24] = "changed"
    diff = diff_in(await harness.done("write_file", path="a", content="\n".join(lines)))
    around = ["line 22", "line 23", "line 24", "line 25", "line 26", "line 27", "line 28"]
    assert diff.old_text == "\n".join(around)
    assert diff.new_text == "\n".join([*around[:3], "changed", *around[4:]])


async def test_preview_of_a_binary_file_is_empty(harness: ToolHarness, write: Write) -> None:
    write("blob", b"\0\1\2")
    call = await harness.prepare("write_file", {"path": "blob", "content": "x"})
    assert await call.preview() == ()
