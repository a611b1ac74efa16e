"""Reading files: lines and ranges, encodings, what is no text, what is too much."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.scene import Desk, only, text_in

from accord.coder.messages import ImagePart, TextPart
from accord.coder.tools.context import Limits
from accord.coder.tools.tool import ToolFailure
from accord.schema.content import ImageContent
from accord.schema.tools import Content, ToolCallLocation

Write = Callable[..., Path]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


async def test_lines_come_with_numbers_and_the_client_sees_the_text(desk: Desk, write: Write) -> None:
    path = write("src/a.py", "def f():\n\n    return 1\n")
    call = await desk.prepare("read_file", {"path": "src/a.py"})
    assert call.title == "Read src/a.py"
    assert call.category == "read-only"
    assert call.subject.paths == (str(path),)
    assert call.locations == (ToolCallLocation(str(path)),)
    assert call.arguments == {"path": "src/a.py"}
    outcome = await desk.run(call)
    assert outcome.text == "     1\tdef f():\n     2\t\n     3\t    return 1"
    assert text_in(outcome.content) == "```\ndef f():\n\n    return 1\n```"
    assert outcome.raw_output == {
        "first_line": 1,
        "lines": 3,
        "text": "def f():\n\n    return 1",
        "total_lines": 3,
        "encoding": "utf-8",
    }


async def test_a_range_says_where_it_stands_and_how_to_go_on(desk: Desk, write: Write) -> None:
    write("a", "".join(f"line {n}\n" for n in range(1, 11)))
    call = await desk.prepare("read_file", {"path": "a", "offset": 4, "limit": 2})
    assert call.title == "Read a (lines 4-5)"
    assert call.locations[0].line == 4
    assert (
        await desk.run(call)
    ).text == "     4\tline 4\n     5\tline 5\n(lines 4-5 of 10; read on with offset=6)"
    end = await desk.done("read_file", path="a", offset=9)
    assert end.text == "     9\tline 9\n    10\tline 10\n(lines 9-10 of 10, the end of the file)"
    assert "has 10 lines; there is no line 11" in await desk.refused("read_file", path="a", offset=11)


async def test_long_files_and_long_lines_are_cut_with_a_way_to_the_rest(project: Path, write: Write) -> None:
    desk = Desk(project, limits=Limits(read_lines=3, line_chars=10, output_chars=60))
    write("many", "a\n" * 5)
    assert (await desk.done("read_file", path="many")).text.endswith(
        "(lines 1-3 of 5; read on with offset=4)"
    )
    write("long", "x" * 25 + "\nend\n")
    assert (await desk.done("read_file", path="long", limit=1)).text.startswith(
        "     1\txxxxxxxxxx [... 15 more characters in this line]\n(lines 1-1 of 2"
    )
    write("wide", "0123456789\n" * 9)
    text = (await desk.done("read_file", path="wide", limit=3)).text
    assert text.endswith("(lines 1-3 of 9; read on with offset=4)")


async def test_an_empty_file(desk: Desk, write: Write) -> None:
    write("a", "")
    assert (await desk.done("read_file", path="a")).text == "(the file is empty)"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("grün\n".encode(), "utf-8"),
        ("\ufeffgrün\n".encode(), "utf-8"),
        ("\ufeffgrün\n".encode("utf-16-le"), "utf-16-le"),
        ("\ufeffgrün\n".encode("utf-16-be"), "utf-16-be"),
        ("grün\n".encode("utf-16-le"), "utf-16-le"),
        ("grün\n".encode("utf-16-be"), "utf-16-be"),
        ("grün\n".encode("latin-1"), "latin-1"),
        ("grün\r\n".encode(), "utf-8"),
    ],
)
async def test_encodings_are_recognised(desk: Desk, write: Write, data: bytes, encoding: str) -> None:
    write("a", data)
    outcome = await desk.done("read_file", path="a")
    assert outcome.text.startswith("     1\tgrün")
    assert outcome.raw_output["encoding"] == encoding
    assert ("the file is kept in" in outcome.text) == (encoding != "utf-8")


async def test_windows_quotes_are_told_from_latin_1(desk: Desk, write: Write) -> None:
    write("a", "“grün”".encode("cp1252"))
    assert (await desk.done("read_file", path="a")).text.startswith("     1\t“grün”")


@pytest.mark.parametrize(
    "data", [b"\x00\x01\x02", b"\x7fELF" + b"a" * 50, b"%PDF-1.7 text", bytes(range(256)), b"PK\x03\x04"]
)
async def test_binary_files_are_refused(desk: Desk, write: Write, data: bytes) -> None:
    write("a", data)
    assert f"is not text: {len(data):,} bytes of binary data" in await desk.refused("read_file", path="a")


async def test_a_picture_is_for_models_that_see(project: Path, write: Write) -> None:
    write("a.png", PNG)
    outcome = await Desk(project, sees_images=True).done("read_file", path="a.png")
    assert outcome.parts == (TextPart("a.png: image/png, 48 bytes"), ImagePart(PNG, "image/png"))
    shown = only(outcome.content)
    assert isinstance(shown, Content)
    assert isinstance(shown.content, ImageContent)
    assert shown.content.mime_type == "image/png"
    assert "this model cannot look at pictures" in await Desk(project).refused("read_file", path="a.png")
    small = Desk(project, sees_images=True, limits=Limits(image_bytes=10))
    assert "more than the 10 bytes" in await small.refused("read_file", path="a.png")


async def test_a_file_too_large_to_hold_is_read_by_lines(project: Path, write: Write) -> None:
    desk = Desk(project, limits=Limits(file_bytes=100))
    write("big", "".join(f"line {n}\n" for n in range(1, 101)))
    outcome = await desk.done("read_file", path="big", offset=50, limit=2)
    assert (
        outcome.text
        == "    50\tline 50\n    51\tline 51\n(lines 50-51 of a file of 792 bytes; read on with offset=52)"
    )
    assert "fewer than 500 lines" in await desk.refused("read_file", path="big", offset=500)
    assert "more than can be edited" in await desk.refused(
        "edit_file", path="big", old_text="line 50", new_text="x"
    )
    write("blob", b"\x00" * 1000)
    assert "is not text: 1,000 bytes" in await desk.refused("read_file", path="blob")


async def test_what_is_no_file(desk: Desk, project: Path, write: Write) -> None:
    write("src/reader.py")
    assert await desk.refused("read_file", path="src") == f"{project}/src is a folder; use list_files"
    assert await desk.refused("read_file", path="src/readr.py") == (
        f"{project}/src/readr.py does not exist; in the same folder there is reader.py"
    )
    assert "a part of its path is not a folder" in await desk.refused("read_file", path="src/reader.py/x")
    os.mkfifo(project / "pipe")
    assert "it is not a plain file" in await desk.refused("read_file", path="pipe")


@pytest.mark.parametrize("path", [" ", "a\0b", "x" * 300, "a/" * 3000, "half \ud800"])
async def test_what_is_no_path(desk: Desk, path: str) -> None:
    with pytest.raises(ToolFailure):
        await desk.prepare("read_file", {"path": path})


async def test_the_subject_is_where_links_lead(desk: Desk, project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (project / "link").symlink_to(tmp_path)
    for path in ("link/secret", f"file://{project}/link/secret", f"{project}/a/../link/secret", "../secret"):
        call = await desk.prepare("read_file", {"path": path})
        assert call.subject.paths == (str(tmp_path / "secret"),), path


async def test_a_link_that_is_changed_after_the_judgement_is_not_followed(
    desk: Desk, project: Path, tmp_path: Path, write: Write
) -> None:
    write("dir/a", "fine")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("secret")
    call = await desk.prepare("read_file", {"path": "dir/a"})
    (project / "dir").rename(project / "was")
    (project / "dir").symlink_to(tmp_path / "outside")
    outcome = await desk.run(call)
    assert outcome.failed
    assert "secret" not in outcome.text
    file = await desk.prepare("read_file", {"path": "was/a"})
    (project / "was" / "a").unlink()
    (project / "was" / "a").symlink_to(tmp_path / "outside" / "a")
    outcome = await desk.run(file)
    assert outcome.failed
    assert "secret" not in outcome.text


async def test_titles_hold_nothing_that_a_screen_would_act_on(desk: Desk) -> None:
    call = await desk.prepare("read_file", {"path": "a\x1b[2J\n\u202e" + "b" * 200})
    assert call.title.startswith(r"Read a\x1b[2J \u202ebbb")
    assert call.title.isprintable()
    assert len(call.title) < 220
