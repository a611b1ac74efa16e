"""Editing: exact and unique, with a reason when it is not, and nothing disturbed that was not meant."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.coder.tools.scene import Desk, diff_in

from accord.schema.tools import Diff, ToolCallLocation

Write = Callable[..., Path]

CODE = "import os\n\n\ndef f(a):\n    if a:\n        return 1\n    return 2\n"


@pytest.fixture
async def code(desk: Desk, write: Write) -> Path:
    path = write("a.py", CODE)
    await desk.done("read_file", path="a.py")
    return path


async def test_an_edit_is_exactly_the_replacement(desk: Desk, code: Path) -> None:
    call = await desk.prepare(
        "edit_file", {"path": "a.py", "old_text": "return 2", "new_text": "return a or 2"}
    )
    after = CODE.replace("return 2", "return a or 2")
    assert (call.title, call.category, call.subject.paths) == ("Edit a.py", "write", (str(code),))
    assert await call.preview() == (Diff(str(code), after, CODE),)
    assert code.read_text() == CODE
    outcome = await desk.run(call)
    assert outcome.text == "Edited a.py at line 7."
    assert diff_in(outcome) == Diff(str(code), after, CODE)
    assert outcome.locations == [ToolCallLocation(str(code), 7)]
    assert outcome.raw_output == {"path": str(code), "replacements": 1, "lines": [7]}
    assert code.read_text() == after


async def test_edits_follow_each_other_without_reading_again(desk: Desk, code: Path) -> None:
    await desk.done("edit_file", path="a.py", old_text="return 2", new_text="return 3")
    await desk.done("edit_file", path="a.py", old_text="return 3", new_text="return 4")
    assert code.read_text() == CODE.replace("return 2", "return 4")


async def test_a_text_that_is_there_twice_must_be_made_unique(desk: Desk, code: Path) -> None:
    assert await desk.refused("edit_file", path="a.py", old_text="return", new_text="yield") == (
        f"old_text is in {code} 2 times, at lines 6, 7. Give more of the lines around the one you mean, or set replace_all."
    )
    assert code.read_text() == CODE
    outcome = await desk.done("edit_file", path="a.py", old_text="return", new_text="yield", replace_all=True)
    assert outcome.text == "Edited a.py at line 6, 2 times."
    assert code.read_text() == CODE.replace("return", "yield")


async def test_unread_and_changed_files_are_refused(desk: Desk, code: Path, write: Write) -> None:
    other = write("b.py", CODE)
    assert "was not read yet" in await desk.refused(
        "edit_file", path="b.py", old_text="import os", new_text=""
    )
    assert other.read_text() == CODE
    code.write_text(CODE + "# more\n")
    assert "has changed since" in await desk.refused(
        "edit_file", path="a.py", old_text="import os", new_text=""
    )
    await desk.done("read_file", path="a.py")
    await desk.done("edit_file", path="a.py", old_text="import os\n", new_text="")
    assert code.read_text() == CODE.removeprefix("import os\n") + "# more\n"
    assert "does not exist; make it with write_file" in await desk.refused(
        "edit_file", path="c.py", old_text="a", new_text="b"
    )


async def test_what_changes_nothing_is_refused(desk: Desk, code: Path) -> None:
    assert "nothing to change" in await desk.refused("edit_file", path="a.py", old_text="os", new_text="os")
    assert "old_text is empty" in await desk.refused("edit_file", path="a.py", old_text="", new_text="os")


@pytest.mark.parametrize(
    ("old", "reason"),
    [
        (
            "     7\t    return 2",
            "It carries the line numbers that read_file shows; they are not in the file.",
        ),
        ("  return 2  \n\n", "It has blank lines or spaces around it that are not in the file."),
        ("if a:\\n        return 1", "It is escaped once too often: a \\n in it should be a line end"),
        (
            "if a:\n\treturn 1\n",
            "Lines 5-6 differ only in indentation (spaces in the file); the file has:\n     5\t    if a:",
        ),
        ("    if a:\n    return 1\n", "Lines 5-6 differ only in indentation; the file has:"),
        ("def f(a):  \n    if a:", "Lines 4-5 differ only in blanks at the ends of lines; the file has:"),
        ("def f( a ):", "The nearest lines in the file are:\n     4\tdef f(a):"),
        ("def  f(a):", "Lines 4-4 differ only in blanks; the file has:\n     4\tdef f(a):"),
        ("IMPORT OS", "Line 1 differs only in upper and lower case; the file has:\n     1\timport os"),
        ("        return 10\n    return 2", "The nearest lines in the file are:"),
        ("nothing of the sort", "Nothing like it is in the file."),
    ],
)
async def test_a_text_that_is_not_there_gets_the_likeliest_reason(
    desk: Desk, code: Path, old: str, reason: str
) -> None:
    text = await desk.refused("edit_file", path="a.py", old_text=old, new_text="x")
    assert text.startswith(f"old_text is not in {code}. {reason}"), text
    assert code.read_text() == CODE


async def test_typographic_characters_are_noticed(desk: Desk, write: Write) -> None:
    write("t", "say “hello” – now\n")
    await desk.done("read_file", path="t")
    assert "Line 1 differs only in quotes, dashes" in await desk.refused(
        "edit_file", path="t", old_text='say "hello" - now', new_text="x"
    )


async def test_windows_line_ends_are_matched_and_kept(desk: Desk, write: Write) -> None:
    path = write("a", "one\r\ntwo\r\nthree\r\n")
    await desk.done("read_file", path="a")
    diff = diff_in(await desk.done("edit_file", path="a", old_text="one\ntwo", new_text="1\n1.5\n2"))
    assert path.read_bytes() == b"1\r\n1.5\r\n2\r\nthree\r\n"
    assert diff.new_text == "1\n1.5\n2\nthree\n"


async def test_a_marked_utf_16_file_keeps_its_form_and_mode(desk: Desk, write: Write) -> None:
    path = write("a", "eins\r\nzwei\r\n".encode("utf-16"))
    path.chmod(0o640)
    await desk.done("read_file", path="a")
    await desk.done("edit_file", path="a", old_text="zwei", new_text="drei\nvier")
    assert path.read_bytes() == "eins\r\ndrei\r\nvier\r\n".encode("utf-16")
    assert path.stat().st_mode & 0o777 == 0o640


async def test_a_change_between_reading_and_writing_is_noticed(desk: Desk, code: Path) -> None:
    """The last look is taken in the moment of the replacement itself."""
    place = await desk.context.place("a.py")
    before = await desk.context.files.read(place, 1000)
    code.write_text("somebody else's")
    from accord.coder.files.disk import Changed

    with pytest.raises(Changed, match="at this very moment"):
        await desk.context.files.write(place, "mine", before)
    assert code.read_text() == "somebody else's"


async def test_the_lines_of_a_file_that_was_not_read_are_not_told(desk: Desk, write: Write) -> None:
    write("secret", "the password is xyzzy\n")
    text = await desk.refused("edit_file", path="secret", old_text="the password was", new_text="x")
    assert "xyzzy" not in text
