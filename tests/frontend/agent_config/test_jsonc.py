"""Edits of JSON with comments: one entry changes, every other byte stays."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accord.frontend.agent_config.jsonc import BadJson, append_item, parse, remove_member, set_member

SETTINGS = """\
// mine
{
    /* looks */
    "theme": "One", // nice
    "agent_servers": {
        // the first
        "other": { "command": "x" }, // other's
        "last": { "command": "y" } // last's
    },
    "tabs": [1, 2, ], // trailing
}
"""


def test_a_new_entry_is_added_at_the_end_and_comments_keep_their_lines() -> None:
    after = set_member(SETTINGS, ["agent_servers", "new"], {"command": "z", "args": ["a", "b"]})
    assert after == SETTINGS.replace(
        '"last": { "command": "y" } // last\'s\n',
        '"last": { "command": "y" }, // last\'s\n'
        '        "new": {\n            "command": "z",\n            "args": ["a", "b"]\n        }\n',
    )
    assert remove_member(after, ["agent_servers"], "new") == SETTINGS


def test_a_new_section_keeps_the_trailing_comma() -> None:
    after = set_member(SETTINGS, ["more", "inner"], 1)
    assert after == SETTINGS.replace(
        "// trailing\n", '// trailing\n    "more": {\n        "inner": 1\n    },\n'
    )
    assert remove_member(after, [], "more") == SETTINGS


def test_a_value_is_replaced_in_place() -> None:
    after = set_member(SETTINGS, ["agent_servers", "other", "command"], "new")
    assert after == SETTINGS.replace('"command": "x"', '"command": "new"')
    assert set_member(after, ["agent_servers", "other", "command"], "new") is after


@pytest.mark.parametrize("number", [0, 1])
def test_removing_an_entry_removes_only_its_own_comment(number: int) -> None:
    which = ("other", "last")[number]
    after = remove_member(SETTINGS, ["agent_servers"], which)
    assert which not in parse(after).value["agent_servers"]
    assert "// the first" in after
    assert f"// {which}'s" not in after
    assert f"// {('other', 'last')[1 - number]}'s" in after


def test_line_ends_tabs_and_the_byte_order_mark_are_kept() -> None:
    text = '\ufeff{\r\n\t"a": {\r\n\t\t"b": 1\r\n\t}\r\n}\r\n'
    after = set_member(text, ["a", "c"], {"d": "e"})
    assert (
        after == '\ufeff{\r\n\t"a": {\r\n\t\t"b": 1,\r\n\t\t"c": {\r\n\t\t\t"d": "e"\r\n\t\t}\r\n\t}\r\n}\r\n'
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x": 1}', '{"x": 1, "a": {"b": 1}}'),
        ('{"a": {"b": 2}}', '{"a": {"b": 1}}'),
        ("{ /* nothing */ }", '{ /* nothing */\n  "a": {\n    "b": 1\n  }\n}'),
        ("{\n  // nothing\n}\n", '{\n  // nothing\n  "a": {\n    "b": 1\n  }\n}\n'),
    ],
)
def test_put_into_empty_and_one_line_texts(before: str, after: str) -> None:
    assert set_member(before, ["a", "b"], 1) == after


def test_list_items_are_appended_and_removed() -> None:
    text = '{"servers": [\n  {"name": "a"}, // a\n  {"name": "b"}\n]}'
    assert parse(append_item(text, ["servers"], {"name": "c"})).value["servers"][2] == {"name": "c"}
    assert remove_member(text, ["servers"], 1) == '{"servers": [\n  {"name": "a"} // a\n]}'
    assert remove_member(text, ["servers"], 0) == '{"servers": [\n  {"name": "b"}\n]}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 3}', "a is not an object"),
        ("[]", "the file is not an object"),
        ('{"a": {,}}', "line 1, column 8: a key in quotes is missing"),
        ('{"a" 1}', "line 1, column 6: a colon is missing after 'a'"),
        ('{"a": 1 "b": 2}', "line 1, column 9: a comma or '}' is missing"),
        ('{"a": nope}', "line 1, column 7: 'nope' is not a value"),
        ('{"a": 01}', "line 1, column 7: '01' is not a value"),
        ('{"a": "x\ny"}', "line 1, column 7: a string does not end"),
        ('{"a": "\\ud800"}', "line 1, column 7: a string contains half of a surrogate pair"),
        ("{} x", "line 1, column 4: unexpected text after the end"),
        ("{} /* x", "line 1, column 4: '/' is not a value"),
        ("[" * 500, "nested too deep"),
        ('{"a": {}, "a": {}}', "line 1, column 11: duplicate key 'a'"),
    ],
)
def test_invalid_json_raises_with_its_position(text: str, reason: str) -> None:
    with pytest.raises(BadJson) as caught:
        set_member(text, ["a", "b"], 1)
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", ['{"a": 1,}', '{"a": 1} // x', "[1,]"])
def test_plain_mode_refuses_comments_and_trailing_commas(text: str) -> None:
    parse(text)
    with pytest.raises(BadJson):
        parse(text, plain=True)


_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), _json, max_size=4),
    st.text(st.characters(codec="utf-8"), max_size=3),
    _json,
    st.sampled_from([None, 1, 2, "\t"]),
)
def test_an_edit_changes_only_its_key(
    whole: dict[str, Any], key: str, value: Any, indent: int | str | None
) -> None:
    text = json.dumps(whole, indent=indent)
    assert parse(text, plain=True).value == whole
    after = set_member(text, [key], value)
    assert json.loads(after) == {**whole, key: value}
    assert json.loads(remove_member(after, [], key)) == {
        name: one for name, one in whole.items() if name != key
    }
    if key not in whole:
        assert json.loads(remove_member(set_member(text, ["list"], [1]), ["list"], 0))["list"] == []
