"""Edits: unique matches only, with a reason otherwise, and other text untouched."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.coder.tools.harness import ToolHarness, diff_in, text_in

from accord.coder.tools.tool import BadArguments
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
            "     7\t    return 2\n     9\t",
            "It contains the line numbers that read_file shows; they are not in the file.",
        ),
        ("  return 2  \n\n", "It has blank lines or spaces around it that are not in the file."),
        ("if a:\\n        return 1", "It is escaped once too often: a \\n in it should be a line end"),
        (
            "if a:\n\treturn 1\n",
            "Lines 5-6 differ only in indentation (spaces in the file); the file has:\n     5\t    if a:",
        ),
        ("    if a:\n    return 1\n", "Lines 5-6 differ only in indentation; the file has:"),
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


@pytest.mark.parametrize(
    ("old", "new", "after", "difference"),
    [
        ("     7\t    return 2", "     7\t    return 3", "    return 3\n", "line numbers"),
        ("    return 2  ", "    return 3", "    return 3\n", "blanks at the ends of lines"),
        ("\t    return 2", "\t    a = 3\n\n\t    return a", "    a = 3\n\n    return a\n", "indentation"),
        ("      return 2", "      return 3", "    return 3\n", "indentation"),
        ("7\treturn 2 \n", "return 3\n", "    return 3\n", "line numbers and indentation"),
    ],
)
async def test_unique_loose_match_is_replaced_and_reported(
    harness: ToolHarness, code: Path, old: str, new: str, after: str, difference: str
) -> None:
    expected = CODE.replace("    return 2\n", after)
    call = await harness.prepare("edit_file", {"path": "a.py", "old_text": old, "new_text": new})
    note = f"The text to replace differs from the file in {difference}."
    diff, shown = await call.preview()
    assert diff == Diff(str(code), expected, CODE)
    assert text_in([shown]) == f"{note} The diff shows the real change."
    outcome = await harness.run(call)
    assert outcome.text == f"Edited a.py at line 7. {note}"
    assert code.read_text() == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("     6\t        return 1\n     7\t    return 2", "     6\tx\n    return 3"),
        ("     7\treturn", "     7\tyield"),
        ("          return 1\n      return 2", "x"),
        ("rn 1 ", "x"),
        ("  \n ", "x"),
    ],
)
async def test_unclear_or_partial_loose_match_is_refused(
    harness: ToolHarness, code: Path, old: str, new: str
) -> None:
    await harness.refused("edit_file", path="a.py", old_text=old, new_text=new)
    assert code.read_text() == CODE


async def test_loose_match_in_two_places_is_refused(harness: ToolHarness, write: Write) -> None:
    path = write("b.py", "  x = 1\n    x = 1\n")
    await harness.done("read_file", path="b.py")
    old = {"path": "b.py", "old_text": " " * 8 + "x = 1"}
    assert "old_text is not in" in await harness.refused("edit_file", **old, new_text="", replace_all=True)
    assert path.read_text() == "  x = 1\n    x = 1\n"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("old", ["}\n}\n", "}\n} \n", "     1\t}\n     2\t}\n"])
async def test_places_that_overlap_are_several(
    harness: ToolHarness, write: Write, old: str, line_end: str
) -> None:
    text = line_end.join(["}", "}", "}", ""])
    path = write("c.js", text)
    await harness.done("read_file", path="c.js")
    await harness.refused("edit_file", path="c.js", old_text=old, new_text="};\n")
    await harness.refused("edit_file", path="c.js", patch=" }\n-}\n+};")
    assert path.read_bytes().decode() == text


async def test_several_edits_are_made_in_order_or_not_at_all(harness: ToolHarness, code: Path) -> None:
    edits = [
        {"old_string": "return 2", "new_string": "return 3"},
        {"old_text": "import os\n", "new_text": "import os\nimport sys\n"},
        {"old_text": "return 3", "new_text": "return 4"},
    ]
    missing = {"old_text": "return 9", "new_text": "x"}
    text = await harness.refused("edit_file", path="a.py", edits=[*edits, missing])
    assert text.startswith(f"edit 4 of 4: old_text is not in {code}. ")
    assert text.endswith("None of the edits was made.")
    assert code.read_text() == CODE
    outcome = await harness.done("edit_file", path="a.py", edits=edits, old_text="", new_text="")
    assert outcome.text == "Edited a.py at lines 8, 1, 8."
    assert code.read_text() == CODE.replace("import os", "import os\nimport sys").replace(
        "return 2", "return 4"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"new_text": "a"},
        {"old_text": "a", "new_text": "b", "patch": "+c"},
        {"edits": [], "old_text": "a"},
    ],
)
async def test_edit_without_a_clear_change_is_not_run(harness: ToolHarness, arguments: Any) -> None:
    with pytest.raises(BadArguments, match="edit_file was not run"):
        await harness.prepare("edit_file", {"path": "a.py", **arguments})


PATCH = """\
@@ def f(a):
     if a:
-        return 1
+        return 10
     return 2
@@
+
+VALUE = f(1)
*** End of File
"""


async def test_hunks_of_a_patch_are_applied_with_the_line_ends_of_the_file(
    harness: ToolHarness, write: Write
) -> None:
    path = write("a.py", CODE.replace("\n", "\r\n").replace("if a:", "if a: "))
    await harness.done("read_file", path="a.py")
    outcome = await harness.done("edit_file", path="a.py", patch=PATCH)
    assert outcome.text == "Edited a.py at lines 6, 8."
    after = CODE.replace("return 1", "return 10").replace("if a:", "if a: ") + "\nVALUE = f(1)\n"
    assert path.read_bytes() == after.replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ("-    return 5\n+x", "these lines are not in the file:\n    return 5"),
        ("-\n+x", "there 3 times, at 2, 3, 8; add lines around them"),
        ("@@ def g():\n-    return 2", "there is no line 'def g():' for `@@`"),
        ("     if a:", "the patch changes nothing"),
        ("return 2", "begins with neither blank"),
    ],
)
async def test_patch_that_does_not_fit_changes_nothing(
    harness: ToolHarness, code: Path, patch: str, reason: str
) -> None:
    assert reason in await harness.refused("edit_file", path="a.py", patch=patch)
    assert code.read_text() == CODE


METHODS = "class A:\n    def f(self):\n        pass\n\nclass B:\n    def f(self):\n        pass\n"


@pytest.mark.parametrize(
    ("patch", "outcome"),
    [
        ("@@     def f(self):\n-        pass\n+        return 1", "there 2 times, at 3, 7; add lines"),
        (
            "@@     def f(self):\n+        x = 1",
            "'def f(self):' for `@@` is there 2 times, at 2, 6; add lines",
        ),
        ("         pass\n+\n*** End of File\n@@\n-class A:\n+class C:", "not in the file"),
        ("@@ class B:\n@@     def f(self):\n-        pass\n+        return 1", "Edited b.py at line 7."),
        ("@@ class A:\n-        pass\n+        return 1", "Edited b.py at line 3."),
        ("-        pass\n+        return 1\n*** End of File", "Edited b.py at line 7."),
        ("-    def f(self):\n+    def g(self):\n*** End of File", "there 2 times, at 2, 6; add lines"),
    ],
)
async def test_a_hunk_below_a_repeated_line_needs_a_clear_place(
    harness: ToolHarness, write: Write, patch: str, outcome: str
) -> None:
    path = write("b.py", METHODS)
    await harness.done("read_file", path="b.py")
    if outcome.startswith("Edited"):
        assert outcome in (await harness.done("edit_file", path="b.py", patch=patch)).text
    else:
        assert outcome in await harness.refused("edit_file", path="b.py", patch=patch)
        assert path.read_text() == METHODS


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
