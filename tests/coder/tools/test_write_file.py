"""Writing whole files: new ones, and those that were read."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.scene import Desk, diff_in

from accord.coder.tools.context import Limits
from accord.coder.tools.tool import BadArguments
from accord.schema.tools import Diff

Write = Callable[..., Path]


async def test_a_new_file_and_its_folders(desk: Desk, project: Path) -> None:
    call = await desk.prepare("write_file", {"path": "src/new/a.py", "content": "x = 1\n"})
    assert (call.title, call.category) == ("Write src/new/a.py", "write")
    assert call.subject.paths == (str(project / "src/new/a.py"),)
    assert await call.preview() == (Diff(str(project / "src/new/a.py"), "x = 1\n", None),)
    assert not (project / "src").exists()
    outcome = await desk.run(call)
    assert outcome.text == "Made src/new/a.py, 1 line."
    assert outcome.content == (Diff(str(project / "src/new/a.py"), "x = 1\n", None),)
    assert outcome.raw_output == {"path": str(project / "src/new/a.py"), "created": True, "lines": 1}
    assert (project / "src/new/a.py").read_text() == "x = 1\n"


async def test_a_file_that_was_not_read_is_not_overwritten(desk: Desk, write: Write) -> None:
    path = write("a", "old")
    assert "was not read yet; read it first" in await desk.refused("write_file", path="a", content="new")
    assert path.read_text() == "old"
    await desk.done("read_file", path="a")
    outcome = await desk.done("write_file", path="a", content="new")
    assert diff_in(outcome) == Diff(str(path), "new", "old")
    assert path.read_text() == "new"


async def test_a_file_that_changed_since_is_not_overwritten(desk: Desk, write: Write) -> None:
    path = write("a", "old")
    await desk.done("read_file", path="a", limit=1)
    path.write_text("somebody else's")
    assert "has changed since it was read; read it again" in await desk.refused(
        "write_file", path="a", content="new"
    )
    assert path.read_text() == "somebody else's"


async def test_ones_own_file_may_be_written_again(desk: Desk, project: Path) -> None:
    await desk.done("write_file", path="a", content="1")
    await desk.done("write_file", path="a", content="2")
    assert (project / "a").read_text() == "2"
    assert (await desk.done("write_file", path="a", content="2")).text.endswith("has this text already.")


async def test_mode_line_ends_and_encoding_are_kept(desk: Desk, write: Write) -> None:
    path = write("run.sh", "grün\r\n".encode("utf-16"))
    path.chmod(0o755)
    await desk.done("read_file", path="run.sh")
    await desk.done("write_file", path="run.sh", content="blau\nrot\n")
    assert path.read_bytes() == "blau\r\nrot\r\n".encode("utf-16")
    assert path.stat().st_mode & 0o777 == 0o755
    assert [entry.name for entry in path.parent.iterdir()] == ["run.sh"]


async def test_what_an_encoding_cannot_hold_is_refused(desk: Desk, write: Write) -> None:
    path = write("a", "grün".encode("latin-1"))
    await desk.done("read_file", path="a")
    assert "kept in latin-1, which has no '→'" in await desk.refused("write_file", path="a", content="a → b")
    assert path.read_bytes() == "grün".encode("latin-1")
    with pytest.raises(BadArguments, match="lone surrogate"):
        await desk.prepare("write_file", {"path": "b", "content": "\ud800"})


async def test_what_is_no_text_file_is_left_alone(desk: Desk, project: Path, write: Write) -> None:
    write("blob", b"\0\1\2")
    assert "can only be replaced with bash" in await desk.refused("write_file", path="blob", content="x")
    (project / "dir").mkdir()
    assert "it is a folder" in await desk.refused("write_file", path="dir", content="x")
    if os.geteuid():
        write("fixed", "x").chmod(0o444)
        await desk.done("read_file", path="fixed")
        assert "read-only" in await desk.refused("write_file", path="fixed", content="y")


async def test_a_change_too_large_to_show_whole_is_shown_by_its_lines(project: Path, write: Write) -> None:
    desk = Desk(project, limits=Limits(diff_chars=100))
    lines = [f"line {n}" for n in range(1, 51)]
    write("a", "\n".join(lines))
    await desk.done("read_file", path="a")
    lines[24] = "changed"
    diff = diff_in(await desk.done("write_file", path="a", content="\n".join(lines)))
    around = ["line 22", "line 23", "line 24", "line 25", "line 26", "line 27", "line 28"]
    assert diff.old_text == "\n".join(around)
    assert diff.new_text == "\n".join([*around[:3], "changed", *around[4:]])


async def test_the_preview_never_reaches_the_model_and_never_fails(desk: Desk, write: Write) -> None:
    write("blob", b"\0\1\2")
    call = await desk.prepare("write_file", {"path": "blob", "content": "x"})
    assert await call.preview() == ()
