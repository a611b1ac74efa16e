"""Deleting and moving: exactly the named path, and nothing is overwritten."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.harness import ToolHarness, diff_in

from accord.coder.files.exact_disk import DiskError, ExactDisk
from accord.schema.content import Diff, ToolCallLocation

Write = Callable[..., Path]


async def test_deleted_file_is_shown_as_a_diff(harness: ToolHarness, write: Write) -> None:
    path = write("a", "text\r\n")
    call = await harness.prepare("delete_file", {"path": "a"})
    assert (call.title, call.category, call.subject.paths) == ("Delete a", "write", (str(path),))
    assert await call.preview() == (Diff(str(path), "", "text\n"),)
    assert path.exists()
    outcome = await harness.run(call)
    assert outcome.text == "Deleted a."
    assert diff_in(outcome) == Diff(str(path), "", "text\n")
    assert not path.exists()


async def test_only_empty_folders_are_deleted(harness: ToolHarness, project: Path, write: Write) -> None:
    write("full/a")
    assert "the folder is not empty" in await harness.refused("delete_file", path="full")
    (project / "empty").mkdir()
    await harness.done("delete_file", path="empty/")
    assert not (project / "empty").exists()
    assert "does not exist" in await harness.refused("delete_file", path="empty")
    assert "the root of the file system" in await harness.refused("delete_file", path="/")


async def test_links_are_not_deleted_or_moved(harness: ToolHarness, project: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("x")
    os.symlink(tmp_path / "target", project / "link")
    for tool, arguments in (
        ("delete_file", {"path": "link"}),
        ("move_file", {"source": "link", "destination": "b"}),
    ):
        assert "is a symbolic link; use the bash tool" in await harness.refused(tool, **arguments)
    assert (project / "link").is_symlink()
    assert (tmp_path / "target").exists()


async def test_folder_replaced_by_a_link_before_the_delete_is_not_followed(
    harness: ToolHarness, project: Path, tmp_path: Path, write: Write
) -> None:
    write("dir/a")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("x")
    call = await harness.prepare("delete_file", {"path": "dir/a"})
    (project / "dir").rename(project / "was")
    os.symlink(tmp_path / "outside", project / "dir")
    assert (await harness.run(call)).failed
    assert (tmp_path / "outside" / "a").exists()


async def test_recreated_file_must_be_read_again(harness: ToolHarness, write: Write) -> None:
    write("a", "x")
    await harness.done("read_file", path="a")
    await harness.done("delete_file", path="a")
    write("a", "x")
    assert "was not read" in await harness.refused("write_file", path="a", content="y")


async def test_moved_file_keeps_its_mode_and_stays_known(
    harness: ToolHarness, project: Path, write: Write
) -> None:
    path = write("a", "x")
    path.chmod(0o750)
    await harness.done("read_file", path="a")
    call = await harness.prepare("move_file", {"source": "a", "destination": "new/b"})
    assert (call.title, call.category) == ("Move a to new/b", "write")
    assert call.subject.paths == (str(path), str(project / "new/b"))
    assert call.locations == (ToolCallLocation(str(path)), ToolCallLocation(str(project / "new/b")))
    assert (await harness.run(call)).text == "Moved a to new/b."
    assert not path.exists()
    assert (project / "new/b").read_text() == "x"
    assert (project / "new/b").stat().st_mode & 0o777 == 0o750
    await harness.done("edit_file", path="new/b", old_text="x", new_text="y")


async def test_moved_folder_keeps_its_read_files_known(harness: ToolHarness, write: Write) -> None:
    write("old/a", "x")
    await harness.done("read_file", path="old/a")
    await harness.done("move_file", source="old", destination="new")
    await harness.done("edit_file", path="new/a", old_text="x", new_text="y")


async def test_move_never_overwrites(harness: ToolHarness, project: Path, write: Write) -> None:
    write("a", "a")
    write("b", "b")
    (project / "dir").mkdir()
    assert "exists already" in await harness.refused("move_file", source="a", destination="b")
    assert await harness.refused("move_file", source="a", destination="dir") == (
        f"{project}/dir is a folder; give the whole new path, such as {project}/dir/a"
    )
    os.symlink("nowhere", project / "dangling")
    assert "exists already" in await harness.refused("move_file", source="a", destination="dangling")
    assert "does not exist" in await harness.refused("move_file", source="c", destination="d")
    assert ((project / "a").read_text(), (project / "b").read_text()) == ("a", "b")


async def test_move_does_not_overwrite_a_file_created_meanwhile(harness: ToolHarness, write: Write) -> None:
    source, destination = await harness.context.resolve("a"), await harness.context.resolve("b")
    write("a", "a")
    path = write("b", "b")
    with pytest.raises(DiskError, match="exists already"):
        await ExactDisk().move(source, destination)
    assert path.read_text() == "b"
