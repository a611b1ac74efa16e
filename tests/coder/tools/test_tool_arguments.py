"""Tool arguments as models send them: valid, nearly valid, and wrong."""

import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Struct

from accord.coder.tools import TOOL_NAMES, built_in_tools
from accord.coder.tools.bash import BashArguments
from accord.coder.tools.builtin_tool import ToolArguments, read_arguments
from accord.coder.tools.edit_file import EditFileArguments
from accord.coder.tools.grep import GrepArguments
from accord.coder.tools.move_file import MoveFileArguments
from accord.coder.tools.plan import PlanArguments
from accord.coder.tools.read_file import ReadFileArguments
from accord.coder.tools.tool import BadArguments
from accord.coder.tools.write_file import WriteFileArguments


def read(cls: type[ToolArguments], given: Any) -> dict[str, Any]:
    arguments = read_arguments("tool", cls, given)
    return {
        name: getattr(arguments, name) for name in arguments.__struct_fields__ if getattr(arguments, name)
    }


def error_text(cls: type[ToolArguments], given: Any) -> str:
    with pytest.raises(BadArguments) as caught:
        read_arguments("tool", cls, given)
    return str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"path": "a.py", "offset": 3},
        {"path": "a.py", "offset": "3"},
        {"path": "a.py", "offset": " 3.0 "},
        {"path": "a.py", "offset": 3.0},
        {"path": "a.py", "offset": 3, "limit": None},
        {"path": "a.py", "offset": 3, "limit": ""},
        {"file_path": "a.py", "start_line": 3},
        {"filePath": "a.py", "startLine": "3"},
        {"path": None, "filename": "a.py", "line": 3},
        {"path": "a.py", "offset": 3, "reason": "because", "nested": {"a": [1]}},
        {"arguments": {"path": "a.py", "offset": 3}},
        {"input": '{"path": "a.py", "offset": 3}'},
        '{"path": "a.py", "offset": 3}',
        '"{\\"path\\": \\"a.py\\", \\"offset\\": 3}"',
        '```json\n{"path": "a.py", "offset": 3}\n```',
        "{'path': 'a.py', 'offset': 3, 'limit': None}",
    ],
    ids=str,
)
def test_nearly_valid_arguments_are_understood(given: Any) -> None:
    assert read(ReadFileArguments, given) == {"path": "a.py", "offset": 3}


def test_argument_names_of_other_agents_are_understood() -> None:
    assert read(BashArguments, {"cmd": "ls", "run_in_background": "true", "workdir": "src"}) == {
        "command": "ls",
        "background": True,
        "cwd": "src",
    }
    assert read(EditFileArguments, {"file_path": "a", "old_string": "x", "new_string": "y", "all": 1}) == {
        "path": "a",
        "old_text": "x",
        "new_text": "y",
        "replace_all": True,
    }
    assert read(MoveFileArguments, {"from": "a", "to": "b"}) == {"source": "a", "destination": "b"}
    assert read(MoveFileArguments, {"path": "a", "new_path": "b"}) == {"source": "a", "destination": "b"}
    assert read(GrepArguments, {"query": "x", "include": "*.py", "output_mode": "files"}) == {
        "pattern": "x",
        "path": ".",
        "glob": "*.py",
        "mode": "files",
    }


def test_own_argument_name_is_never_an_alias() -> None:
    """`glob` and `context` are arguments of grep; they do not become its path or pattern."""
    assert read(GrepArguments, {"pattern": "x", "glob": "*.py", "context": 2})["glob"] == "*.py"
    assert "`pattern` is missing" in error_text(GrepArguments, {"glob": "*.py"})


@pytest.mark.parametrize(
    "entries",
    [
        [{"content": "a"}, {"content": "b", "status": "completed"}],
        '[{"content": "a"}, {"content": "b", "status": "completed"}]',
        ["a", {"content": "b", "status": "completed", "activeForm": "doing b"}],
    ],
    ids=str,
)
def test_list_items_are_read(entries: Any) -> None:
    arguments = read_arguments("plan", PlanArguments, {"todos": entries})
    assert [(entry.content, entry.status) for entry in arguments.entries] == [
        ("a", "pending"),
        ("b", "completed"),
    ]


def test_incomplete_object_is_refused() -> None:
    """The missing part could change the meaning."""
    text = error_text(BashArguments, '{"command": "rm -rf build')
    assert text == (
        "tool was not run: its arguments must be one complete JSON object, "
        'not "{\\"command\\": \\"rm -rf build". '
        "Arguments of tool: command, [timeout], [background], [cwd], [outside_sandbox], [description]."
    )


def test_error_names_everything_that_is_wrong() -> None:
    arguments = {"path": ["a"], "new_text": {"a": 1}, "replace_all": "maybe", "edits": [{"old": "a"}]}
    assert error_text(EditFileArguments, arguments).split("\n") == [
        "tool was not run: its arguments are invalid:",
        '`path` must be a string, not empty, not ["a"]',
        '`new_text` must be a string, not {"a": 1}',
        '`replace_all` must be true or false, not "maybe"',
        '`edits` must be a list, of at least 1, not [{"old": "a"}] '
        "(at `edits[0]`: Object missing required field `new_text`)",
        "Arguments of tool: path, [old_text], [new_text], [replace_all], [edits], [patch], [cell], "
        "[cell_action], [cell_type].",
    ]
    assert "`content` is missing: a string" in error_text(WriteFileArguments, {"path": "a"})


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (["ls", "a b"], "ls 'a b'"),
        (["bash", "-lc", "ls | wc"], "ls | wc"),
        (["/bin/sh", "-c", "ls"], "ls"),
        (["make test"], "make test"),
    ],
)
def test_command_as_a_list_becomes_a_line(command: list[str], line: str) -> None:
    assert read_arguments("bash", BashArguments, {"cmd": command}).command == line
    assert "`command` must be a string" in error_text(BashArguments, {"command": [*command, 1]})


def test_error_names_the_expected_values() -> None:
    assert "`offset` must be a whole number, at least 0, not -4" in error_text(
        ReadFileArguments, {"path": "a", "offset": -4}
    )
    assert "`limit` must be a whole number, at least 1, not 1.5" in error_text(
        ReadFileArguments, {"path": "a", "limit": 1.5}
    )
    assert '`mode` must be one of "content", "count", "files", not "all"' in error_text(
        GrepArguments, {"pattern": "x", "mode": "all"}
    )
    assert "(at `entries[0].status`" in error_text(
        PlanArguments, {"entries": [{"content": "a", "status": "soon"}]}
    )


def test_error_is_short_for_any_input() -> None:
    assert len(error_text(ReadFileArguments, {"path": {"a": "x" * 100_000}})) < 500
    assert len(error_text(ReadFileArguments, "[" * 100_000)) < 500


class Item(Struct):
    content: str
    done: bool = False


class SampleArguments(ToolArguments):
    path: Annotated[str, Meta(min_length=1)]
    content: str
    offset: Annotated[int, Meta(ge=0, le=10**15)] | None = None
    replace_all: bool = False
    mode: Literal["one", "two"] = "one"
    options: list[str] = []
    entries: list[Item] = []


items = st.builds(Item, st.text(), st.booleans())
sample_arguments = st.builds(
    SampleArguments,
    path=st.text(min_size=1),
    content=st.text() | st.sampled_from(['{"a": 1}', "[1]", "12", "true", '"x"', "```\n{}\n```"]),
    offset=st.none() | st.integers(0, 10**15),
    replace_all=st.booleans(),
    mode=st.sampled_from(["one", "two"]),
    options=st.lists(st.text()),
    entries=st.lists(items, max_size=3),
)


def sent(arguments: SampleArguments) -> dict[str, Any]:
    import msgspec

    return {name: value for name, value in msgspec.to_builtins(arguments).items() if value is not None}


@settings(deadline=None)
@given(sample_arguments)
def test_valid_arguments_are_never_changed(arguments: SampleArguments) -> None:
    given = sent(arguments)
    assert read_arguments("tool", SampleArguments, given) == arguments
    assert read_arguments("tool", SampleArguments, {**given, "extra": 1}) == arguments
    assert read_arguments("tool", SampleArguments, json.dumps(given)) == arguments


@settings(deadline=None)
@given(sample_arguments, st.data())
def test_common_mistakes_are_repaired(arguments: SampleArguments, data: st.DataObject) -> None:
    given = sent(arguments)
    if data.draw(st.booleans()):
        given["offset"] = given.get("offset") if given.get("offset") is None else str(given["offset"])
    if data.draw(st.booleans()):
        given["replace_all"] = data.draw(
            st.sampled_from(["True", "true"] if arguments.replace_all else ["false", 0])
        )
    if data.draw(st.booleans()):
        given["entries"] = json.dumps(given.get("entries", []))
    for name, alias in (
        ("path", "file_path"),
        ("path", "filePath"),
        ("content", "fileText"),
        ("mode", "outputMode"),
    ):
        if name in given and data.draw(st.booleans()):
            given[alias] = given.pop(name)
    if data.draw(st.booleans()):
        given["because"] = data.draw(st.text())
    whole: Any = given
    if data.draw(st.booleans()):
        whole = {"arguments": whole}
    if data.draw(st.booleans()):
        whole = json.dumps(whole)
    assert read_arguments("tool", SampleArguments, whole) == arguments


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from([*SampleArguments.__struct_fields__, "file_path", "text", "plan", "arguments", "x"])


@settings(deadline=None)
@given(json_values | st.dictionaries(names, json_values))
def test_any_value_is_understood_or_refused_with_a_message(given: Any) -> None:
    refused = ""
    try:
        assert isinstance(read_arguments("tool", SampleArguments, given), SampleArguments)
    except BadArguments as error:
        refused = str(error)
    assert not refused or refused.startswith("tool was not run")


def test_every_tool_schema_suits_all_providers() -> None:
    for name, tool in built_in_tools().items():
        schema = tool.schema
        assert tool.name == name
        assert schema["type"] == "object"
        assert set(schema.get("required", ())) <= schema["properties"].keys()
        text = json.dumps(schema)
        assert not any(word in text for word in ("$ref", "anyOf", '"null"', "$defs")), text
        assert all("description" in inner for inner in schema["properties"].values()), name
        assert all("type" in inner for inner in schema["properties"].values()), name
    assert tuple(built_in_tools()) == TOOL_NAMES


def test_every_tool_has_a_description() -> None:
    for name, tool in built_in_tools().items():
        assert tool.description, name
        assert not tool.description.startswith("#"), name
