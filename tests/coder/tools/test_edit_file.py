"""Edits: exact and unique matches only, with a reason otherwise, and other text untouched."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.harness import ToolHarness, diff_in

from accord.schema.content import Diff, ToolCallLocation

Write = Callable[..., Path]

CODE = "import os\n\n\ndef f(a):\n    if a:\n        return 1\n    return 2\n"


@pytest.fixture
async def code(harness: ToolHarness, write: Write) -> Path:
    path = write("a.py", CODE)
    await harness.done("read_file", path="a.py")
    return path


async def test_edit_replaces_exactly_the_text(harness: ToolHarness, code: Path) -> None:
    call = await harness.prepare(
        "edit_file", {"path": "a.py", "old_text": "return 2", "new_text": "return a or 2"}
    )
    after = CODE.replace("return 2", "return a or 2")
    assert (call.title, call.category, call.subject.paths) == ("Edit a.py", "write", (str(code),))
    assert await call.preview() == (Diff(str(code), after, CODE),)
    assert code.read_text() == CODE
    outcome = await harness.run(call)
    assert outcome.text == "Edited a.py at line 7."
    assert diff_in(outcome) == Diff(str(code), after, CODE)
    assert outcome.locations == [ToolCallLocation(str(code), 7)]
    assert outcome.raw_output == {"path": str(code), "replacements": 1, "lines": [7]}
    assert code.read_text() == after


async def test_second_edit_needs_no_new_read(harness: ToolHarness, code: Path) -> None:
    await harness.done("edit_file", path="a.py", old_text="return 2", new_text="return 3")
    await harness.done("edit_file", path="a.py", old_text="return 3", new_text="return 4")
    assert code.read_text() == CODE.replace("return 2", "return 4")


async def test_ambiguous_text_is_refused_without_replace_all(harness: ToolHarness, code: Path) -> None:
    assert await harness.refused("edit_file", path="a.py", old_text="return", new_text="yield") == (
        f"old_text is in {code} 2 times, at lines 6, 7; "
        "give more of the lines around the one you mean, or set replace_all"
    )
    assert code.read_text() == CODE
    outcome = await harness.done(
        "edit_file", path="a.py", old_text="return", new_text="yield", replace_all=True
    )
    assert outcome.text == "Edited a.py at line 6, 2 times."
    assert code.read_text() == CODE.replace("return", "yield")


async def test_unread_and_changed_files_are_refused(harness: ToolHarness, code: Path, write: Write) -> None:
    other = write("b.py", CODE)
    assert "was not read" in await harness.refused(
        "edit_file", path="b.py", old_text="import os", new_text=""
    )
    assert other.read_text() == CODE
    code.write_text(CODE + "# more\n")
    assert "has changed since" in await harness.refused(
        "edit_file", path="a.py", old_text="import os", new_text=""
    )
    await harness.done("read_file", path="a.py")
    await harness.done("edit_file", path="a.py", old_text="import os\n", new_text="")
    assert code.read_text() == CODE.removeprefix("import os\n") + "# more\n"
    assert "does not exist; create it with write_file" in await harness.refused(
        "edit_file", path="c.py", old_text="a", new_text="b"
    )


async def test_edit_without_a_change_is_refused(harness: ToolHarness, code: Path) -> None:
    assert "nothing to change" in await harness.refused(
        "edit_file", path="a.py", old_text="os", new_text="os"
    )
    assert "old_text is empty" in await harness.refused("edit_file", path="a.py", old_text="", new_text="os")


@pytest.mark.parametrize(
    ("old", "reason"),
    [
        (
            "     7\t    return 2",
            "It contains the line numbers that read_file shows; they are not in the file.",
        ),
        ("  return 2  \n\n", "It has blank lines or spaces around it that are not in the file."),
        ("if a:\\n        return 1", "It is escaped once too often: a \\n in it should be a line end"),
        (
            "if a:\n\treturn 1\n",
            "Lines 5-6 differ only in indentation (spaces in the file); the file has:\n     5\t    if a:",
        ),
        ("    if a:\n    return 1\n", "Lines 5-6 differ only in indentation; the file has:"),
        ("def f(a):  \n    if a:", "Lines 4-5 differ only in spaces at the ends of lines; the file has:"),
        ("def f( a ):", "The nearest lines in the file are:\n     4\tdef f(a):"),
        ("def  f(a):", "Lines 4-4 differ only in whitespace; the file has:\n     4\tdef f(a):"),
        ("IMPORT OS", "Line 1 differs only in upper and lower case; the file has:\n     1\timport os"),
        ("        return 10\n    return 2", "The nearest lines in the file are:"),
        ("nothing of the sort", "Nothing like it is in the file."),
    ],
)
async def test_missing_text_gets_the_likeliest_reason(
    harness: ToolHarness, code: Path, old: str, reason: str
) -> None:
    text = await harness.refused("edit_file", path="a.py", old_text=old, new_text="x")
    assert text.startswith(f"old_text is not in {code}. {reason}"), text
    assert code.read_text() == CODE


async def test_typographic_characters_are_noticed(harness: ToolHarness, write: Write) -> None:
    write("t", "say “hello” – now\n")
    await harness.done("read_file", path="t")
    assert "Line 1 differs only in quotes, dashes" in await harness.refused(
        "edit_file", path="t", old_text='say "hello" - now', new_text="x"
    )


async def test_crlf_is_matched_and_kept(harness: ToolHarness, write: Write) -> None:
    path = write("a", "one\r\ntwo\r\nthree\r\n")
    await harness.done("read_file", path="a")
    diff = diff_in(await harness.done("edit_file", path="a", old_text="one\ntwo", new_text="1\n1.5\n2"))
    assert path.read_bytes() == b"1\r\n1.5\r\n2\r\nthree\r\n"
    assert diff.new_text == "1\n1.5\n2\nthree\n"


async def test_utf16_file_keeps_its_encoding_and_mode(harness: ToolHarness, write: Write) -> None:
    path = write("a", "eins\r\nzwei\r\n".encode("utf-16"))
    path.chmod(0o640)
    await harness.done("read_file", path="a")
    await harness.done("edit_file", path="a", old_text="zwei", new_text="drei\nvier")
    assert path.read_bytes() == "eins\r\ndrei\r\nvier\r\n".encode("utf-16")
    assert path.stat().st_mode & 0o777 == 0o640


async def test_change_between_read_and_write_is_detected(harness: ToolHarness, code: Path) -> None:
    """The last check happens directly before the replacement."""
    place = await harness.context.resolve("a.py")
    before = await harness.context.files.read(place, 1000)
    code.write_text("somebody else's")
    from accord.coder.files.exact_disk import FileChanged

    with pytest.raises(FileChanged, match="by another program just now"):
        await harness.context.files.write(place, "mine", before)
    assert code.read_text() == "somebody else's"


async def test_lines_of_an_unread_file_are_not_shown(harness: ToolHarness, write: Write) -> None:
    write("secret", "the password is xyzzy\n")
    text = await harness.refused("edit_file", path="secret", old_text="the password was", new_text="x")
    assert "xyzzy" not in text
