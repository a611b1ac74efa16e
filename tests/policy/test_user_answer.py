"""Permission options, how an answer is read, and what it grants."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.project import Project, always, granted
from tests.repetitions import repetitions

from accord.errors import InternalError
from accord.policy import Decision, Grants, Policy, UserAnswer, options_for, read_answer, remember
from accord.schema import (
    CancelledOutcome,
    PermissionOption,
    RequestPermissionResponse,
    SelectedPermissionOutcome,
)
from accord.schema.validation import violations

FOUR = [
    PermissionOption("allow_once", "Allow", "allow_once"),
    PermissionOption("allow_always", "Always allow", "allow_always"),
    PermissionOption("reject_once", "Reject", "reject_once"),
    PermissionOption("reject_always", "Always reject", "reject_always"),
]
ODD = [
    PermissionOption("x 1", "Go on", "allow_once"),
    PermissionOption("allow", "Do not", "reject_once"),
    PermissionOption("yes", "Never", "reject_always"),
]


def select_option(option_id: Any) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


@pytest.mark.rule("permission.option-members", "permission.option-ids")
def test_a_request_offers_four_options(project: Project):
    request = project.run("git commit -m x && npm test")
    options = options_for(request, project.decide(request))
    assert [(option.option_id, option.kind) for option in options] == [
        ("allow_once", "allow_once"),
        ("allow_always", "allow_always"),
        ("reject_once", "reject_once"),
        ("reject_always", "reject_always"),
    ]
    assert options[1].name == "Always allow `git commit`, `npm test` in this session"
    assert all(
        not violations(PermissionOption, {"optionId": o.option_id, "name": o.name, "kind": o.kind})
        for o in options
    )


def test_the_always_option_names_its_scope(project: Project):
    def name(request: Any) -> str:
        return options_for(request, project.decide(request))[1].name

    assert name(project.edit("a.py")) == "Always allow edit_file in this session"
    assert (
        name(project.fetch("https://docs.example.com/x?y")) == "Always allow docs.example.com in this session"
    )
    assert name(project.read(".env")) == "Always allow read_file on this path in this session"
    assert name(project.run("echo x > out")) == f"Always allow write on {project.root}/out in this session"
    assert name(project.mcp()) == "Always allow mcp__db__query in this session"
    assert len(name(project.run("npm test /" + "x" * 300))) < 200


def test_always_is_offered_only_when_its_scope_is_known(project: Project):
    for line in ("rm x", "$X", "npm test 'x", "npm test; rm x", "curl x | sh"):
        request = project.run(line)
        options = options_for(request, project.decide(request))
        assert [option.kind for option in options] == ["allow_once", "reject_once"]


@pytest.mark.rule(
    "permission.nothing-before-answer", "permission.reject-prevents", "permission.only-consent-allows"
)
@pytest.mark.parametrize(
    ("answer", "allowed", "kind"),
    [
        (select_option("allow_once"), True, "allow_once"),
        (select_option("allow_always"), True, "allow_always"),
        (select_option("reject_once"), False, "reject_once"),
        (select_option("reject_always"), False, "reject_always"),
        ({"outcome": {"outcome": "cancelled"}}, False, None),
        (select_option("unknown"), False, None),
        (select_option("Allow_Once"), False, None),
        (select_option(" allow_once"), False, None),
        (select_option(None), False, None),
        (select_option(1), False, None),
        (select_option(["allow_once"]), False, None),
        ({"outcome": {"outcome": "selected"}}, False, None),
        ({"outcome": {"outcome": "zzz", "optionId": "allow_once"}}, False, None),
        ({"outcome": {"optionId": "allow_once"}}, False, None),
        ({"outcome": None}, False, None),
        ({}, False, None),
        ([], False, None),
        (None, False, None),
        (True, False, None),
        ("allowed", False, None),
        ("approved", False, None),
        ("yes", False, None),
        ({"outcome": "allowed"}, False, None),
        ({"outcome": "approved"}, False, None),
        ({"outcome": "denied"}, False, "reject_once"),
        (InternalError("no"), False, None),
        (TimeoutError(), False, None),
        (float("nan"), False, None),
        (SelectedPermissionOutcome("allow_once"), True, "allow_once"),
        (SelectedPermissionOutcome("reject_once"), False, "reject_once"),
        (SelectedPermissionOutcome("?"), False, None),
        (CancelledOutcome(), False, None),
        (RequestPermissionResponse(SelectedPermissionOutcome("allow_always")), True, "allow_always"),
        (FOUR[0], True, "allow_once"),
        (FOUR[3], False, "reject_always"),
        (PermissionOption("other", "Allow", "allow_once"), False, None),
        (PermissionOption("reject_once", "Allow", "allow_once"), False, "reject_once"),
    ],
)
def test_an_answer_allows_only_by_an_offered_allow_option(answer: Any, allowed: bool, kind: str | None):
    read = read_answer(FOUR, answer)
    assert (read.allowed, read.kind) == (allowed, kind)


@pytest.mark.rule("accord.dialect-is-not-consent")
@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        (select_option("x 1"), True),
        (select_option("allow"), False),
        (select_option("yes"), False),
        ({"outcome": "allow"}, False),
        ("allow_once", True),
        ({"outcome": "allowed", "option_id": "x 1"}, True),
        ({"outcome": "allowed", "option_id": "allow"}, False),
        ({"outcome": "allowed"}, False),
        (True, False),
    ],
)
def test_an_option_id_has_the_meaning_that_was_offered(answer: Any, allowed: bool):
    assert read_answer(ODD, answer).allowed is allowed


def test_strict_mode_accepts_only_the_official_form():
    assert read_answer(ODD, select_option("x 1"), strict=True).allowed
    assert not read_answer(ODD, "allow_once", strict=True).allowed
    assert not read_answer(ODD, {"outcome": "allowed", "option_id": "x 1"}, strict=True).allowed


def test_an_option_id_offered_twice_is_not_an_answer():
    twice = [PermissionOption("a", "Yes", "allow_once"), PermissionOption("a", "No", "reject_once")]
    assert read_answer(twice, select_option("a")) == UserAnswer()
    assert read_answer(twice, twice[0]) == UserAnswer()


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["selected", "allowed", "allow", "cancelled", "yes"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["outcome", "optionId", "option_id", "kind", "_meta", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(answer=_json, strict=st.booleans())
@settings(deadline=None, max_examples=repetitions(400))
def test_only_an_answer_that_names_an_allow_option_allows(answer: Any, strict: bool):
    # Here only the id "x 1" and the kind `allow_once` allow.
    read = read_answer(ODD, answer, strict=strict)
    assert read.allowed is False or "x 1" in repr(answer) or "allow_once" in repr(answer)
    if read.allowed:
        assert read.kind == "allow_once"


def test_the_reason_of_a_rejection_is_kept_for_the_model():
    assert (
        read_answer(FOUR, select_option("reject_once") | {"_meta": {"reason": " use tabs "}}).reason
        == "use tabs"
    )
    outcome = {"outcome": "selected", "optionId": "reject_once", "_meta": {"feedback": "not now"}}
    assert read_answer(FOUR, {"outcome": outcome}).reason == "not now"
    assert read_answer(FOUR, select_option("allow_once") | {"_meta": {"reason": "x"}}).reason == ""
    assert read_answer(FOUR, {"outcome": {"outcome": "cancelled"}, "_meta": {"reason": 1}}).reason == ""


@pytest.mark.rule("permission.remembered")
def test_always_for_an_unnamed_tool_covers_no_other_one(project: Project):
    """Such as a question of an agent whether the files of a project are trusted."""
    assert project.decide(project.mcp(tool="")).scope is None
    assert project.decide(project.mcp(tool="", mode=None)).scope is None
    assert project.decide(project.mcp()).scope is not None


def test_only_always_answers_are_remembered(project: Project):
    def answered(kind: str) -> str:
        return project.verdict("npm test", grants=granted((project.run("npm test"), kind)))

    assert [answered(kind) for kind in ("allow_once", "allow_always", "reject_once", "reject_always")] == [
        "ask",
        "allow",
        "ask",
        "deny",
    ]


def test_always_for_an_edit_applies_to_that_tool(project: Project):
    grants = granted((project.edit("a.py"), "allow_always"))
    assert project.decide(project.edit("src/b.py", grants=grants)).effect == "allow"
    assert project.decide(project.edit("src/b.py", tool="write_file", grants=grants)).effect == "ask"
    for path in (".env", "../elsewhere/x", ".git/hooks/x", "leads_out/x"):
        assert project.decide(project.edit(path, grants=grants)).effect == "ask"
    assert project.verdict("npm test", grants=grants) == "ask"


def test_one_allowed_fetch_allows_the_host(project: Project):
    grants = granted((project.fetch("https://example.com/a"), "allow_once"))
    assert project.decide(project.fetch("https://example.com/b", grants=grants)).effect == "allow"
    assert project.decide(project.fetch("https://example.org/", grants=grants)).effect == "ask"
    assert project.decide(project.fetch("https://www.example.com/", grants=grants)).effect == "ask"
    refused = granted((project.fetch("https://example.com/a"), "reject_once"))
    assert project.decide(project.fetch("https://example.com/b", grants=refused)).effect == "ask"


def test_the_last_answer_counts(project: Project):
    grants = Grants()
    first = project.run("npm test", grants=grants)
    decision = Policy().decide(first)
    remember(first, decision, UserAnswer("reject_always"))
    assert Policy().decide(first).effect == "deny"
    remember(first, decision, UserAnswer("allow_always"))
    assert Policy().decide(first).effect == "allow"
    remember(first, decision, UserAnswer("reject_always"))
    assert Policy().decide(first).effect == "deny"


def test_an_answer_without_a_scope_is_not_remembered(project: Project):
    grants = Grants()
    request = project.run("rm x", grants=grants)
    remember(request, Policy().decide(request), UserAnswer("allow_always"))
    remember(request, Decision("ask", "", ""), UserAnswer("reject_always"))
    assert Policy().decide(request).effect == "ask"


def test_commands_rejected_together_are_rejected_only_together(project: Project):
    grants = granted((project.run("npm test && npm install"), "reject_always"))
    assert project.verdict("npm install; npm test", grants=grants) == "deny"
    assert project.verdict("npm test", grants=grants) == "ask"


@pytest.mark.parametrize("line", ["git push -f", "git push -fu origin main", "git push -uf origin main"])
def test_always_for_a_command_does_not_cover_a_dangerous_letter_among_its_options(
    project: Project, line: str
):
    grants = always(project, "git push origin main")
    assert project.verdict("git push -u origin main", grants=grants) == "allow"
    assert project.verdict(line, grants=grants) == "ask"
