"""Reading files: lines and ranges, encodings, binary files and size limits."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.harness import ToolHarness, only, text_in

from accord.coder.model_history import ImagePart, TextPart
from accord.coder.tools.tool import ToolFailure
from accord.coder.tools.tool_context import ToolLimits
from accord.schema.content import Content, ImageContent, ToolCallLocation

Write = Callable[..., Path]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


async def test_lines_are_numbered_for_the_model_and_plain_for_the_client(
    harness: ToolHarness, write: Write
) -> None:
    path = write("src/a.py", "def f():\n\n    return 1\n")
    call = await harness.prepare("read_file", {"path": "src/a.py"})
    assert call.title == "Read src/a.py"
    assert call.category == "read-only"
    assert call.subject.paths == (str(path),)
    assert call.locations == (ToolCallLocation(str(path)),)
    assert call.arguments == {"path": "src/a.py"}
    outcome = await harness.run(call)
    assert outcome.text == "     1\tdef f():\n     2\t\n     3\t    return 1"
    assert text_in(outcome.content) == "```\ndef f():\n\n    return 1\n```"
    assert outcome.raw_output == {
        "first_line": 1,
        "lines": 3,
        "text": "def f():\n\n    return 1",
        "total_lines": 3,
        "encoding": "utf-8",
    }


async def test_range_reports_its_position_and_the_next_offset(harness: ToolHarness, write: Write) -> None:
    write("a", "".join(f"line {n}\n" for n in range(1, 11)))
    call = await harness.prepare("read_file", {"path": "a", "offset": 4, "limit": 2})
    assert call.title == "Read a (lines 4-5)"
    assert call.locations[0].line == 4
    assert (
        await harness.run(call)
    ).text == "     4\tline 4\n     5\tline 5\n(lines 4-5 of 10; read on with offset=6)"
    end = await harness.done("read_file", path="a", offset=9)
    assert end.text == "     9\tline 9\n    10\tline 10\n(lines 9-10 of 10, the end of the file)"
    assert "has 10 lines; there is no line 11" in await harness.refused("read_file", path="a", offset=11)


async def test_long_files_and_lines_are_truncated_with_a_next_offset(project: Path, write: Write) -> None:
    harness = ToolHarness(project, limits=ToolLimits(read_lines=3, line_chars=10, output_chars=60))
    write("many", "a\n" * 5)
    assert (await harness.done("read_file", path="many")).text.endswith(
        "(lines 1-3 of 5; read on with offset=4)"
    )
    write("long", "x" * 25 + "\nend\n")
    assert (await harness.done("read_file", path="long", limit=1)).text.startswith(
        "     1\txxxxxxxxxx [... 15 more characters in this line]\n(lines 1-1 of 2"
    )
    write("wide", "0123456789\n" * 9)
    text = (await harness.done("read_file", path="wide", limit=3)).text
    assert text.endswith("(lines 1-3 of 9; read on with offset=4)")


async def test_empty_file(harness: ToolHarness, write: Write) -> None:
    write("a", "")
    assert (await harness.done("read_file", path="a")).text == "(the file is empty)"


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
async def test_encodings_are_recognized(
    harness: ToolHarness, write: Write, data: bytes, encoding: str
) -> None:
    write("a", data)
    outcome = await harness.done("read_file", path="a")
    assert outcome.text.startswith("     1\tgrün")
    assert outcome.raw_output["encoding"] == encoding
    assert ("the encoding of the file is" in outcome.text) == (encoding != "utf-8")


async def test_windows_1252_is_distinguished_from_latin_1(harness: ToolHarness, write: Write) -> None:
    write("a", "“grün”".encode("cp1252"))
    assert (await harness.done("read_file", path="a")).text.startswith("     1\t“grün”")


@pytest.mark.parametrize("data", [b"\x00\x01\x02", b"\x7fELF" + b"a" * 50, bytes(range(256)), b"PK\x03\x04"])
async def test_binary_files_are_refused(harness: ToolHarness, write: Write, data: bytes) -> None:
    write("a", data)
    assert f"is not text: {len(data):,} bytes of binary data" in await harness.refused("read_file", path="a")


async def test_images_are_for_vision_models_only(project: Path, write: Write) -> None:
    write("a.png", PNG)
    outcome = await ToolHarness(project, sees_images=True).done("read_file", path="a.png")
    assert outcome.parts == (TextPart("a.png: image/png, 48 bytes"), ImagePart(PNG, "image/png"))
    shown = only(outcome.content)
    assert isinstance(shown, Content)
    assert isinstance(shown.content, ImageContent)
    assert shown.content.mime_type == "image/png"
    assert "this model does not accept images" in await ToolHarness(project).refused(
        "read_file", path="a.png"
    )
    small = ToolHarness(project, sees_images=True, limits=ToolLimits(image_bytes=10))
    assert "48 bytes are too many" in await small.refused("read_file", path="a.png")


async def test_oversized_file_is_read_by_lines(project: Path, write: Write) -> None:
    harness = ToolHarness(project, limits=ToolLimits(file_bytes=100))
    write("big", "".join(f"line {n}\n" for n in range(1, 101)))
    outcome = await harness.done("read_file", path="big", offset=50, limit=2)
    assert (
        outcome.text
        == "    50\tline 50\n    51\tline 51\n(lines 50-51 of a file of 792 bytes; read on with offset=52)"
    )
    assert "fewer than 500 lines" in await harness.refused("read_file", path="big", offset=500)
    assert "more than can be edited" in await harness.refused(
        "edit_file", path="big", old_text="line 50", new_text="x"
    )
    write("blob", b"\x00" * 1000)
    assert "is not text: 1,000 bytes" in await harness.refused("read_file", path="blob")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": "src"}),
        ("list_files", {"path": "src/reader.py"}),
        ("edit_file", {"path": "src/reader.py", "old_text": "", "new_text": "x"}),
        ("write_file", {"path": "src/blob", "content": "x"}),
    ],
)
async def test_the_user_is_not_shown_the_advice_to_the_model(
    harness: ToolHarness, project: Path, write: Write, tool: str, arguments: dict[str, str]
) -> None:
    write("src/reader.py")
    (project / "src" / "blob").write_bytes(bytes(9))
    call = await harness.prepare(tool, arguments)
    with pytest.raises(ToolFailure) as caught:
        await call.check()
    assert str(caught.value).startswith(f"{caught.value.shown}; ")
    assert not re.search(r"\b(use|give|bash|write_file)\b", caught.value.shown)


async def test_folders_missing_files_and_pipes_are_refused(
    harness: ToolHarness, project: Path, write: Write
) -> None:
    write("src/reader.py")
    assert await harness.refused("read_file", path="src") == f"{project}/src is a folder; use list_files"
    assert await harness.refused("read_file", path="src/readr.py") == (
        f"{project}/src/readr.py does not exist; in the same folder there is reader.py"
    )
    assert "a part of its path is not a folder" in await harness.refused("read_file", path="src/reader.py/x")
    os.mkfifo(project / "pipe")
    assert "it is not a plain file" in await harness.refused("read_file", path="pipe")


@pytest.mark.parametrize("path", [" ", "a\0b", "x" * 300, "a/" * 3000, "half \ud800"])
async def test_invalid_paths_are_refused(harness: ToolHarness, path: str) -> None:
    with pytest.raises(ToolFailure):
        await harness.prepare("read_file", {"path": path})


async def test_subject_is_the_target_of_links(harness: ToolHarness, project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (project / "link").symlink_to(tmp_path)
    for path in ("link/secret", f"file://{project}/link/secret", f"{project}/a/../link/secret", "../secret"):
        call = await harness.prepare("read_file", {"path": path})
        assert call.subject.paths == (str(tmp_path / "secret"),), path


async def test_path_replaced_by_a_link_before_the_read_is_not_followed(
    harness: ToolHarness, project: Path, tmp_path: Path, write: Write
) -> None:
    write("dir/a", "fine")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("secret")
    call = await harness.prepare("read_file", {"path": "dir/a"})
    (project / "dir").rename(project / "was")
    (project / "dir").symlink_to(tmp_path / "outside")
    outcome = await harness.run(call)
    assert outcome.failed
    assert "secret" not in outcome.text
    file = await harness.prepare("read_file", {"path": "was/a"})
    (project / "was" / "a").unlink()
    (project / "was" / "a").symlink_to(tmp_path / "outside" / "a")
    outcome = await harness.run(file)
    assert outcome.failed
    assert "secret" not in outcome.text


async def test_titles_are_printable(harness: ToolHarness) -> None:
    call = await harness.prepare("read_file", {"path": "a\x1b[2J\n\u202e" + "b" * 200})
    assert call.title.startswith(r"Read a\x1b[2J \u202ebbb")
    assert call.title.isprintable()
    assert len(call.title) < 220
