"""Removing and renaming: exactly what was named, never over something else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.scene import Desk, diff_in

from accord.coder.files.disk import DiskRefused, ExactDisk
from accord.schema.tools import Diff, ToolCallLocation

Write = Callable[..., Path]


async def test_a_file_is_deleted_and_shown_once_more(desk: Desk, write: Write) -> None:
    path = write("a", "text\r\n")
    call = await desk.prepare("delete_file", {"path": "a"})
    assert (call.title, call.category, call.subject.paths) == ("Delete a", "write", (str(path),))
    assert await call.preview() == (Diff(str(path), "", "text\n"),)
    assert path.exists()
    outcome = await desk.run(call)
    assert outcome.text == "Deleted a."
    assert diff_in(outcome) == Diff(str(path), "", "text\n")
    assert not path.exists()


async def test_folders_are_deleted_only_when_empty(desk: Desk, project: Path, write: Write) -> None:
    write("full/a")
    assert "the folder is not empty" in await desk.refused("delete_file", path="full")
    (project / "empty").mkdir()
    await desk.done("delete_file", path="empty/")
    assert not (project / "empty").exists()
    assert "does not exist" in await desk.refused("delete_file", path="empty")
    assert "the root of the file system" in await desk.refused("delete_file", path="/")


async def test_links_are_left_to_others_because_the_judgement_was_about_where_they_lead(
    desk: Desk, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "target").write_text("x")
    os.symlink(tmp_path / "target", project / "link")
    for tool, arguments in (
        ("delete_file", {"path": "link"}),
        ("move_file", {"source": "link", "destination": "b"}),
    ):
        assert "is a link; use bash" in await desk.refused(tool, **arguments)
    assert (project / "link").is_symlink()
    assert (tmp_path / "target").exists()


async def test_a_link_put_in_the_place_of_a_file_is_removed_and_not_its_target(
    desk: Desk, project: Path, tmp_path: Path, write: Write
) -> None:
    write("dir/a")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("x")
    call = await desk.prepare("delete_file", {"path": "dir/a"})
    (project / "dir").rename(project / "was")
    os.symlink(tmp_path / "outside", project / "dir")
    assert (await desk.run(call)).failed
    assert (tmp_path / "outside" / "a").exists()


async def test_a_deleted_file_must_be_read_again_when_it_comes_back(desk: Desk, write: Write) -> None:
    write("a", "x")
    await desk.done("read_file", path="a")
    await desk.done("delete_file", path="a")
    write("a", "x")
    assert "was not read yet" in await desk.refused("write_file", path="a", content="y")


async def test_a_file_moves_with_its_mode_and_stays_known(desk: Desk, project: Path, write: Write) -> None:
    path = write("a", "x")
    path.chmod(0o750)
    await desk.done("read_file", path="a")
    call = await desk.prepare("move_file", {"source": "a", "destination": "new/b"})
    assert (call.title, call.category) == ("Move a to new/b", "write")
    assert call.subject.paths == (str(path), str(project / "new/b"))
    assert call.locations == (ToolCallLocation(str(path)), ToolCallLocation(str(project / "new/b")))
    assert (await desk.run(call)).text == "Moved a to new/b."
    assert not path.exists()
    assert (project / "new/b").read_text() == "x"
    assert (project / "new/b").stat().st_mode & 0o777 == 0o750
    await desk.done("edit_file", path="new/b", old_text="x", new_text="y")


async def test_a_folder_moves_with_what_was_read_in_it(desk: Desk, write: Write) -> None:
    write("old/a", "x")
    await desk.done("read_file", path="old/a")
    await desk.done("move_file", source="old", destination="new")
    await desk.done("edit_file", path="new/a", old_text="x", new_text="y")


async def test_nothing_is_ever_overwritten(desk: Desk, project: Path, write: Write) -> None:
    write("a", "a")
    write("b", "b")
    (project / "dir").mkdir()
    assert "exists already" in await desk.refused("move_file", source="a", destination="b")
    assert await desk.refused("move_file", source="a", destination="dir") == (
        f"{project}/dir is a folder; give the whole new path, such as {project}/dir/a"
    )
    os.symlink("nowhere", project / "dangling")
    assert "exists already" in await desk.refused("move_file", source="a", destination="dangling")
    assert "does not exist" in await desk.refused("move_file", source="c", destination="d")
    assert ((project / "a").read_text(), (project / "b").read_text()) == ("a", "b")


async def test_what_came_there_in_the_last_moment_is_not_overwritten_either(desk: Desk, write: Write) -> None:
    source, destination = await desk.context.place("a"), await desk.context.place("b")
    write("a", "a")
    path = write("b", "b")
    with pytest.raises(DiskRefused, match="exists already"):
        await ExactDisk().move(source, destination)
    assert path.read_text() == "b"
