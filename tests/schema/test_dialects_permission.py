"""Permission requests and answers in other shapes. Anything ambiguous is a rejection."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.schema.repair_checks import params_after, result_after

from accord.schema.client_requests import RequestPermissionRequest
from accord.schema.codec import read
from accord.schema.dialects import PermissionDecision, official_kind, read_outcome, repair_params

OFFERED = [("y", "allow_once"), ("always", "allow_always"), ("n", "reject_once")]
KINDS_AS_IDS = [(kind, kind) for kind in ("allow_once", "allow_always", "reject_once", "reject_always")]
NO = PermissionDecision()


def nested(outcome: str, **members: Any) -> dict[str, Any]:
    return {"outcome": {"outcome": outcome, **members}}


# -- answers --


@pytest.mark.parametrize("strict", [True, False])
def test_the_official_answer_selects_an_offered_option(strict: bool):
    yes = read_outcome(nested("selected", optionId="y"), OFFERED, strict=strict)
    assert yes == PermissionDecision("y", "allow_once")
    assert yes.allowed
    no = read_outcome(nested("selected", optionId="n"), OFFERED, strict=strict)
    assert no == PermissionDecision("n", "reject_once")
    assert not no.allowed


@pytest.mark.rule("permission.only-consent-allows")
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "answer",
    [
        nested("cancelled"),
        nested("canceled", optionId="y"),
        nested("cancelled", optionId="y"),
        nested("zzz", optionId="y"),
        nested("Selected", optionId="y"),
        nested("SELECTED", optionId="y"),
        nested("selected"),
        nested("selected", optionId=None),
        nested("selected", optionId=["y"]),
        nested("selected", optionId={"y": 1}),
        nested("selected", optionId=True),
        nested("selected", optionId="Y"),
        nested("selected", optionId=" y"),
        nested("selected", optionId="nope"),
        nested("selected", optionId="allow_once"),
        nested("selected", optionId=5, option_id="y"),
        nested("selected", optionId="nope", option_id="y"),
        nested("allowed", optionId="y"),
        nested("y"),
        {"outcome": {"optionId": "y"}},
        {"outcome": {}},
        {"outcome": []},
        {"outcome": ["selected", "y"]},
        {"outcome": True},
        {"outcome": None},
        {"outcome": "zzz"},
        {"optionId": "y"},
        {"outcome": "allow_sometimes"},
        {"_meta": {"outcome": {"outcome": "selected", "optionId": "y"}}},
        {},
        [],
        [nested("selected", optionId="y")],
        None,
        True,
        1,
        "",
    ],
)
def test_an_ambiguous_answer_is_a_rejection(answer: Any, strict: bool):
    assert read_outcome(answer, OFFERED, strict=strict) == NO


@pytest.mark.rule("accord.dialect-is-not-consent")
@pytest.mark.parametrize(
    "word",
    [
        "allowed",
        "approved",
        "selected",
        "yes",
        "true",
        "ok",
        "allow",
        "Allow_Once",
        "ALLOW_ONCE",
        "allowOnce",
    ],
)
@pytest.mark.parametrize("offered", [OFFERED, [("y", "allow_once")], [("y", "allow_always")], KINDS_AS_IDS])
def test_a_bare_word_is_a_rejection_even_with_one_allow_option(word: str, offered: list[tuple[str, str]]):
    assert read_outcome(word, offered) == NO
    assert read_outcome({"outcome": word}, offered) == NO
    assert read_outcome(nested(word), offered) == NO


@pytest.mark.rule("accord.dialect-is-not-consent")
@pytest.mark.dialect(24)
@pytest.mark.parametrize("word", ["allowed", "selected", "approved"])
def test_allowed_needs_an_offered_option_id(word: str):
    assert read_outcome({"outcome": word, "option_id": "y"}, OFFERED) == PermissionDecision(
        "y", "allow_once", (24,)
    )
    assert read_outcome({"outcome": word, "option_id": "nope"}, OFFERED) == NO
    assert read_outcome({"outcome": word, "option_id": "allow_once"}, OFFERED) == NO
    assert read_outcome({"outcome": word}, OFFERED) == NO
    assert read_outcome({"outcome": word, "optionId": "nope", "option_id": "y"}, OFFERED) == NO


@pytest.mark.dialect(24)
@pytest.mark.parametrize("word", ["denied", "rejected"])
def test_denied_selects_the_one_reject_option(word: str):
    denied = read_outcome({"outcome": word, "option_id": "y"}, OFFERED)
    assert denied == PermissionDecision("n", "reject_once", (24,))
    assert not denied.allowed
    assert read_outcome({"outcome": word}, [("y", "allow_once")]) == NO
    assert read_outcome({"outcome": word}, [("a", "reject_once"), ("b", "reject_once")]) == NO


@pytest.mark.dialect(24)
def test_a_nested_answer_with_a_snake_case_option_id():
    assert read_outcome(nested("selected", option_id="y"), OFFERED) == PermissionDecision(
        "y", "allow_once", (24,)
    )
    assert read_outcome(nested("selected", option_id="y"), OFFERED, strict=True) == NO


@pytest.mark.rule("accord.dialect-is-not-consent")
@pytest.mark.dialect(25)
@pytest.mark.parametrize("wrap", [lambda word: word, lambda word: {"outcome": word}])
def test_a_bare_option_id_or_kind(wrap: Any):
    assert read_outcome(wrap("y"), OFFERED) == PermissionDecision("y", "allow_once", (25,))
    assert read_outcome(wrap("allow_once"), OFFERED) == PermissionDecision("y", "allow_once", (25,))
    assert read_outcome(wrap("allow_always"), OFFERED) == PermissionDecision("always", "allow_always", (25,))
    assert read_outcome(wrap("reject_once"), OFFERED) == PermissionDecision("n", "reject_once", (25,))
    assert read_outcome(wrap("reject_always"), OFFERED) == NO
    assert read_outcome(wrap("allow_once"), KINDS_AS_IDS) == PermissionDecision(
        "allow_once", "allow_once", (25,)
    )


@pytest.mark.rule("accord.dialect-is-not-consent")
@pytest.mark.dialect(25)
def test_a_kind_that_several_options_have_selects_none():
    two = [("a", "allow_once"), ("b", "allow_once")]
    assert read_outcome("allow_once", two) == NO
    assert read_outcome({"outcome": "allow_once"}, two) == NO
    assert read_outcome("a", two) == PermissionDecision("a", "allow_once", (25,))


@pytest.mark.rule("accord.dialect-is-not-consent")
@pytest.mark.dialect(25)
def test_an_id_that_is_the_kind_of_another_option_selects_none():
    misleading = [("allow_once", "allow_always"), ("n", "reject_once")]
    assert read_outcome("allow_once", misleading) == NO
    assert read_outcome("allow_always", [("y", "allow_once")]) == NO
    crossed = [("reject_once", "allow_once"), ("n", "reject_once")]
    assert read_outcome("reject_once", crossed) == NO


@pytest.mark.dialect(25)
def test_a_bare_kind_with_another_option_id_is_a_rejection():
    assert read_outcome({"outcome": "allow_once", "optionId": "n"}, OFFERED) == NO
    assert read_outcome({"outcome": "allow_once", "option_id": None}, OFFERED) == NO
    assert read_outcome({"outcome": "allow_once", "optionId": "y"}, OFFERED).allowed


@pytest.mark.dialect(26)
def test_an_answer_that_is_not_nested():
    assert read_outcome({"outcome": "selected", "optionId": "y"}, OFFERED) == PermissionDecision(
        "y", "allow_once", (26,)
    )
    assert read_outcome({"outcome": "selected", "optionId": "nope"}, OFFERED) == NO
    assert read_outcome({"outcome": "selected"}, OFFERED) == NO
    assert read_outcome({"outcome": "cancelled", "optionId": "y"}, OFFERED) == NO


@pytest.mark.rule("accord.agent-strict-mode")
@pytest.mark.dialect(24, 25, 26)
@pytest.mark.parametrize(
    "answer",
    [
        {"outcome": "allowed", "option_id": "y"},
        {"outcome": "selected", "optionId": "y"},
        {"outcome": "allow_once"},
        "allow_once",
        "y",
    ],
)
def test_strict_reading_accepts_no_dialect(answer: Any):
    assert read_outcome(answer, OFFERED).allowed
    assert read_outcome(answer, OFFERED, strict=True) == NO


@pytest.mark.rule("accord.dialect-is-not-consent")
def test_reserved_words_never_select_an_option():
    offered = [(word, "allow_once") for word in ("selected", "allowed", "cancelled", "denied")]
    for word, _ in offered:
        assert read_outcome(word, offered) == NO
        assert not read_outcome({"outcome": word}, offered).allowed


def test_an_id_with_two_kinds_selects_none():
    offered = [("x", "allow_once"), ("x", "reject_once"), ("x", "allow_once")]
    assert read_outcome(nested("selected", optionId="x"), offered) == NO
    twice = [("x", "allow_once"), ("x", "allow_once")]
    assert read_outcome(nested("selected", optionId="x"), twice) == PermissionDecision("x", "allow_once")
    assert read_outcome("allow_once", twice) == NO


def test_without_options_nothing_is_allowed():
    assert read_outcome(nested("selected", optionId="y"), []) == NO


WORDS = st.sampled_from(
    [
        "y",
        "always",
        "n",
        "allow_once",
        "allow_always",
        "reject_once",
        "selected",
        "cancelled",
        "allowed",
        "denied",
        "Y",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | WORDS
KEYS = st.sampled_from(["outcome", "optionId", "option_id", "_meta", "result", "kind"]) | st.text(max_size=3)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
OPTIONS = st.lists(
    st.tuples(WORDS | st.text(max_size=3), st.sampled_from([kind for kind, _ in KINDS_AS_IDS])), max_size=5
)


def words_in(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {word for part in parts for word in words_in(part)}


@pytest.mark.rule("permission.only-consent-allows", "accord.dialect-is-not-consent")
@given(JSON, OPTIONS, st.booleans())
def test_only_an_offered_option_that_the_answer_names_is_selected(
    answer: Any, options: list[tuple[str, str]], strict: bool
):
    outcome = read_outcome(answer, options, strict=strict)
    if outcome.option_id is None:
        assert outcome == NO
        return
    assert (outcome.option_id, outcome.kind) in options
    named = words_in(answer)
    kinds = [kind for _, kind in options]
    by_kind = outcome.kind in named and kinds.count(outcome.kind) == 1
    denied = outcome.kind == "reject_once"
    assert outcome.option_id in named or (not strict and (by_kind or denied))
    if outcome.kind == "allow_always":
        assert named & {"allow_always", outcome.option_id}
    if strict:
        assert answer["outcome"]["outcome"] == "selected"
        assert answer["outcome"]["optionId"] == outcome.option_id


# -- answers as messages --


@pytest.mark.dialect(24, 25, 26)
def test_an_answer_is_rewritten_into_the_official_message():
    asked = {"options": [{"optionId": i, "name": i, "kind": kind} for i, kind in OFFERED]}
    method = "session/request_permission"
    flat = {"outcome": "allowed", "option_id": "y"}
    assert result_after(method, flat, 24, asked=asked) == nested("selected", optionId="y")
    assert result_after(method, "allow_once", 25, asked=asked) == nested("selected", optionId="y")
    assert result_after(method, "allow_once", 26) == nested("cancelled")
    assert result_after(method, {"outcome": "zzz"}, 26, asked=asked) == nested("cancelled")
    assert result_after(method, nested("cancelled"), asked=asked) == nested("cancelled")


# -- requests --


def permission_after(params: dict[str, Any], *rows: int, session: str | None = None) -> Any:
    return params_after("session/request_permission", params, *rows, session=session)


@pytest.mark.dialect(12, 22)
def test_a_flat_request_becomes_a_tool_call_and_four_options():
    flat = {"permissionId": "p1", "toolName": "rm", "args": {"path": "/x"}, "description": "Remove /x"}
    got = permission_after(flat, 22, 12, session="s")
    assert got["sessionId"] == "s"
    assert got["toolCall"] == {
        "toolCallId": "p1",
        "title": "rm",
        "name": "rm",
        "rawInput": {"path": "/x"},
        "content": [{"type": "content", "content": {"type": "text", "text": "Remove /x"}}],
    }
    assert [(one["optionId"], one["kind"]) for one in got["options"]] == KINDS_AS_IDS


@pytest.mark.dialect(22)
def test_a_flat_request_without_an_active_turn_stays_invalid():
    repaired = repair_params(
        "session/request_permission", {"permissionId": "p1", "toolName": "rm", "args": {}}
    )
    assert "sessionId" not in repaired.value


@pytest.mark.rule("accord.only-official-read-kind")
@pytest.mark.dialect(22)
def test_generated_options_have_no_official_kind():
    flat = {"sessionId": "s", "permissionId": "p1", "toolName": "rm"}
    request = read(RequestPermissionRequest, permission_after(flat, 22, 12))
    assert [official_kind(one) for one in request.options] == [None] * 4


@pytest.mark.dialect(14, 23)
def test_a_tool_call_without_an_id_gets_one():
    options = [{"optionId": "allow_once", "name": "Allow", "kind": "allow_once"}]
    params = {
        "sessionId": "s",
        "toolCall": {"title": "Run", "kind": "execute", "input": {"c": 1}},
        "options": options,
    }
    call = permission_after(params, 14, 23)["toolCall"]
    assert call["rawInput"] == {"c": 1}
    assert call["kind"] == "execute"
    assert call["toolCallId"] == permission_after(params, 14, 23)["toolCall"]["toolCallId"]
    other = params | {"toolCall": {"title": "Other"}}
    assert permission_after(other, 23)["toolCall"]["toolCallId"] != call["toolCallId"]


@pytest.mark.dialect(11, 21, 23)
def test_a_tool_call_with_id_and_name_under_the_short_method_name():
    params = {"sessionId": "s", "toolCall": {"id": "c", "name": "Bash", "status": "pending"}, "options": []}
    call = params_after("request_permission", params, 11)["toolCall"]
    assert call == {"toolCallId": "c", "name": "Bash", "title": "Bash", "status": "pending"}


@pytest.mark.rule("accord.only-official-read-kind")
@pytest.mark.dialect(73)
def test_option_kinds_in_another_case_are_not_official():
    options = [
        {"optionId": "a", "label": "Allow", "kind": "allowOnce"},
        {"optionId": "r", "name": "Reject", "kind": "reject_once"},
    ]
    params = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options}
    request = read(RequestPermissionRequest, permission_after(params, 73))
    assert [one.kind for one in request.options] == ["allow_once", "reject_once"]
    assert [official_kind(one) for one in request.options] == [None, "reject_once"]


def test_members_of_meta_are_never_used():
    meta = {"rawInput": {"c": 1}, "raw_input": {"c": 1}, "sessionId": "s", "options": []}
    params = {"sessionId": "s", "_meta": meta, "toolCall": {"toolCallId": "c", "_meta": meta}, "options": []}
    assert repair_params("session/request_permission", params) == (params, (), ())
