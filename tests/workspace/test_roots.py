"""Which paths the roots accept: links, `..`, odd spellings, and links that are swapped during access."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.workspace.helpers import SECRET, names

from accord.errors import InvalidParams
from accord.workspace.roots import Folder, OutsideRoots, Roots, StopSignal


def read(roots: Roots, path: Path) -> str:
    descriptor, _size = roots.open_file(path)
    with os.fdopen(descriptor) as file:
        return file.read()


@pytest.mark.rule("file.inside-roots")
def test_a_path_inside_the_roots_is_resolved(roots: Roots, project: Path) -> None:
    assert roots.resolve(project) == project
    assert roots.resolve(project / "not" / "yet.txt") == project / "not" / "yet.txt"
    assert roots.resolve(f"{project}/a/../b/./c") == project / "b" / "c"


@pytest.mark.rule("file.inside-roots")
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/",
        "{project}/../outside/secret.txt",
        "{project}/new/../../outside",
        "{project}2/x",
        "{outside}",
    ],
)
def test_a_path_outside_the_roots_is_refused_with_its_name(
    roots: Roots, project: Path, outside: Path, path: str
) -> None:
    path = path.format(project=project, outside=outside)
    with pytest.raises(OutsideRoots) as refused:
        roots.resolve(path)
    assert refused.value.code == -32602
    assert path in refused.value.message
    assert str(project) in refused.value.message
    assert "\n" not in refused.value.message


@pytest.mark.rule("file.inside-roots")
@pytest.mark.parametrize(
    "path",
    ["", ".", "a.txt", "./a.txt", "~", "~/a.txt", "~root/x", "file:///etc/passwd", "{project}/a\0b", "\0"],
)
def test_a_path_that_is_not_absolute_is_refused(roots: Roots, project: Path, path: str) -> None:
    with pytest.raises(InvalidParams):
        roots.resolve(path.format(project=project))


@pytest.mark.parametrize("value", [None, 5, b"/etc", ["/etc"]])
def test_a_path_that_is_not_a_string_is_refused(roots: Roots, value: object) -> None:
    with pytest.raises(InvalidParams):
        roots.resolve(value)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("tail", ["x" * 256, "é" * 128, "/".join(["x" * 200] * 25), "\ud83d"])
def test_a_name_that_is_too_long_or_invalid_is_refused_in_one_line(
    roots: Roots, project: Path, tail: str
) -> None:
    with pytest.raises(InvalidParams) as refused:
        roots.resolve(f"{project}/{tail}")
    assert len(refused.value.message) < 500
    assert refused.value.message.isprintable()


@pytest.mark.rule("file.inside-roots")
def test_links_that_lead_outside_are_refused(roots: Roots, project: Path, outside: Path) -> None:
    (project / "file").symlink_to(outside / "secret.txt")
    (project / "folder").symlink_to(outside)
    (project / "deep").symlink_to("folder/nothing/there/yet")
    (project / "up").symlink_to("../outside")
    (project / "proc").symlink_to(f"/proc/self/root{outside}")
    for name in (
        "file",
        "folder",
        "folder/secret.txt",
        "folder/new/file",
        "deep",
        "deep/x",
        "up/secret.txt",
        "proc",
    ):
        with pytest.raises(OutsideRoots):
            roots.resolve(project / name)


def test_a_link_that_stays_inside_the_roots_is_followed(roots: Roots, project: Path) -> None:
    (project / "real").mkdir()
    (project / "link").symlink_to("real")
    assert roots.resolve(project / "link" / "new.txt") == project / "real" / "new.txt"


def test_a_link_to_itself_is_refused(roots: Roots, project: Path) -> None:
    (project / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        read(roots, project / "loop")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        read(roots, project / "loop" / "x")


def test_a_root_can_be_a_link(tmp_path: Path, project: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(project)
    roots = Roots(alias)
    assert roots.cwd == project
    assert roots.resolve(alias / "a.txt") == project / "a.txt"
    assert roots.resolve(project / "a.txt") == project / "a.txt"


@pytest.mark.rule("file.inside-roots")
def test_a_root_that_becomes_a_link_later_is_refused(roots: Roots, project: Path, outside: Path) -> None:
    project.rmdir()
    project.symlink_to(outside)
    with pytest.raises(OutsideRoots):
        roots.resolve(project / "secret.txt")


def test_a_missing_root_gives_no_access(tmp_path: Path, outside: Path) -> None:
    roots = Roots(tmp_path / "later")
    with pytest.raises(FileNotFoundError):
        read(roots, tmp_path / "later" / "a.txt")
    (tmp_path / "later").symlink_to(outside)
    with pytest.raises(OutsideRoots):
        read(roots, tmp_path / "later" / "secret.txt")


def test_additional_folders_are_roots_and_their_siblings_are_not(
    project: Path, outside: Path, tmp_path: Path
) -> None:
    roots = Roots(project, [outside, str(project)])
    assert roots.folders == (project, outside)
    assert read(roots, outside / "secret.txt") == SECRET
    with pytest.raises(OutsideRoots, match="outside the roots"):
        roots.resolve(tmp_path / "outside2")


@pytest.mark.rule("subagent.inherited-roots")
def test_a_child_inherits_unnamed_folders(project: Path, outside: Path) -> None:
    (project / "sub").mkdir()
    parent = Roots(project, [outside])
    assert parent.child().folders == (project, outside)
    assert parent.child(cwd=project / "sub").folders == (project / "sub", outside)
    assert parent.child(additional=[]).folders == (project,)
    assert parent.child(project / "sub", [project]).folders == (project / "sub", project)


@pytest.mark.rule("file.inside-roots")
def test_a_child_cannot_widen_the_roots(roots: Roots, outside: Path) -> None:
    with pytest.raises(OutsideRoots):
        roots.child(cwd=outside)
    with pytest.raises(OutsideRoots):
        roots.child(additional=["/"])


@pytest.mark.rule("file.inside-roots")
@example(parts=["link_out", "..", "project", "a"])
@example(parts=["loop", "..", "..", "outside", "secret.txt"])
@given(
    parts=st.lists(
        st.sampled_from(
            [
                "..",
                ".",
                "",
                "a",
                "dir",
                "link_in",
                "link_out",
                "loop",
                "~",
                "project",
                "outside",
                "secret.txt",
            ]
        ),
        max_size=8,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_spelling_of_a_path_reads_the_secret(
    parts: list[str], roots: Roots, project: Path, outside: Path
) -> None:
    if not (project / "dir").exists():
        (project / "dir").mkdir()
        (project / "dir" / "a").write_text("mine")
        (project / "link_in").symlink_to("dir")
        (project / "link_out").symlink_to(outside)
        (project / "loop").symlink_to("loop")
    path = "/".join([str(project), *parts])
    with suppress(InvalidParams):
        assert roots.resolve(path).is_relative_to(project)
    with suppress(InvalidParams, OSError):
        assert read(roots, Path(path)) == "mine"


@pytest.mark.rule("file.inside-roots")
def test_a_folder_swapped_after_the_check_is_not_followed(roots: Roots, project: Path, outside: Path) -> None:
    (project / "dir").mkdir()
    (project / "dir" / "secret.txt").write_text("mine")

    def swap_then_open(folder: Folder, name: str) -> int:
        (project / "dir").rename(project / "moved")
        (project / "dir").symlink_to(outside)
        return folder.open_file(name)

    with os.fdopen(roots.with_parent_folder(project / "dir" / "secret.txt", swap_then_open)) as file:
        assert file.read() == "mine"


@pytest.mark.rule("file.inside-roots")
def test_a_file_swapped_after_the_check_is_resolved_again(roots: Roots, project: Path, outside: Path) -> None:
    (project / "file").write_text("mine")

    def swap_then_open(folder: Folder, name: str) -> int:
        (project / "file").unlink()
        (project / "file").symlink_to(outside / "secret.txt")
        return folder.open_file(name)

    with pytest.raises(OutsideRoots):
        roots.with_parent_folder(project / "file", swap_then_open)


SWAP = """
import ctypes, sys
libc = ctypes.CDLL(None)
here, in_one_step = -100, 2
sys.stdin.readline()
for _ in range(30_000):
    for one, other in (("dir", "link"), ("file", "alias")):
        assert libc.renameat2(here, one.encode(), here, other.encode(), in_one_step) == 0
"""


@pytest.fixture
def swapper(project: Path, outside: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that repeatedly swaps a folder and a file with links to the outside, once started."""
    (project / "dir").mkdir()
    (project / "dir" / "secret.txt").write_text("mine")
    (project / "link").symlink_to(outside)
    (project / "file").write_text("mine")
    (project / "alias").symlink_to(outside / "secret.txt")
    with subprocess.Popen([sys.executable, "-c", SWAP], cwd=project, stdin=subprocess.PIPE) as process:
        yield process


def start_swapping(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin
    process.stdin.write(b"go\n")
    process.stdin.close()


@pytest.mark.rule("file.inside-roots")
def test_swapping_links_in_a_race_never_reveals_the_secret(
    roots: Roots, project: Path, swapper: subprocess.Popen[bytes]
) -> None:
    start_swapping(swapper)
    seen: set[str] = set()
    while swapper.poll() is None:
        for path in (project / "dir" / "secret.txt", project / "file"):
            try:
                seen.add(read(roots, path))
            except (InvalidParams, OSError) as error:
                seen.add(type(error).__name__)
    assert swapper.returncode == 0
    assert {"mine", "OutsideRoots"} <= seen
    assert SECRET not in seen


@pytest.mark.rule("file.inside-roots")
def test_swapping_links_in_a_race_never_creates_a_file_outside(
    roots: Roots, project: Path, outside: Path, swapper: subprocess.Popen[bytes]
) -> None:
    def make(folder: Folder, name: str) -> None:
        os.close(folder.create_file(name, 0o600))

    start_swapping(swapper)
    count = 0
    while swapper.poll() is None:
        with suppress(InvalidParams, OSError):
            roots.with_parent_folder(project / "dir" / f"made{count}" / "x", make, create=StopSignal())
            count += 1
    assert swapper.returncode == 0
    assert count > 0
    assert names(outside) == {"secret.txt"}


def test_folders_opened_on_the_path_are_closed(roots: Roots, project: Path) -> None:
    (project / "a" / "b").mkdir(parents=True)
    (project / "a" / "b" / "c").write_text("mine")
    before = sorted(os.listdir("/proc/self/fd"))
    assert read(roots, project / "a" / "b" / "c") == "mine"
    with pytest.raises(FileNotFoundError):
        read(roots, project / "a" / "b" / "x" / "y")
    assert sorted(os.listdir("/proc/self/fd")) == before
