"""Answers to a permission request: only an allow option runs the call, and the turn continues."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.coder.permissions.harness import ALLOW, ALWAYS, NEVER, REJECT, connected, make_session

from accord.testing import FakeClock

WRITE = ("write_file", {"path": "made.txt", "content": "made"})


def selected(option: Any) -> Any:
    return {"outcome": {"outcome": "selected", "optionId": option}}


async def write_after_answer(tmp_path: Path, result: Any, *, strict: bool = False) -> tuple[bool, str]:
    """Answer the request. Return whether the file was written and what the model was told."""
    session = make_session(tmp_path)
    file = session.root / "made.txt"
    file.unlink(missing_ok=True)
    async with connected(session, strict=strict) as editor:
        turn = editor.prompt(WRITE)
        question = await editor.asked()
        assert not file.exists()
        if isinstance(result, BaseException):
            editor.client.raw.refuse(question, -32603, "no window")
        else:
            editor.client.raw.reply(question, result)
        assert (await editor.end(turn))["stopReason"] == "end_turn"
    assert editor.client.updates_of("agent_message_chunk")[-1]["content"]["text"] == "done"
    last = session.audit_lines()[-1]
    assert last["effect"] == "ask"
    assert (last["answer"] in (ALLOW, ALWAYS)) is file.exists()
    assert session.rulings[0].allowed is file.exists()
    if not file.exists():
        assert session.results[0].startswith("Permission denied.")
        assert editor.client.updates_of("tool_call_update")[-1]["status"] == "failed"
    return file.exists(), session.results[0]


@pytest.mark.rule("permission.nothing-before-answer", "permission.remembered")
@pytest.mark.parametrize("option", [ALLOW, ALWAYS])
async def test_allow_option_runs_the_call(tmp_path: Path, option: str) -> None:
    assert (await write_after_answer(tmp_path, selected(option)))[0]


@pytest.mark.rule(
    "permission.reject-prevents", "permission.only-consent-allows", "accord.dialect-is-not-consent"
)
@pytest.mark.parametrize(
    ("result", "expected_text"),
    [
        (selected(REJECT), "rejected this call"),
        (selected(NEVER), "rejected this for the rest of the session"),
        (selected(REJECT) | {"_meta": {"reason": "write it in src/"}}, "The user said: write it in src/"),
        ({"outcome": {"outcome": "cancelled"}}, "closed without a choice"),
        ({"outcome": {"outcome": "cancelled"}, "_meta": {"feedback": "later"}}, "The user said: later"),
        (selected("allow"), "closed without a choice"),
        (selected("Allow_once"), "closed without a choice"),
        (selected(None), "closed without a choice"),
        (selected(["allow_once"]), "closed without a choice"),
        ({"outcome": {"outcome": "selected"}}, "closed without a choice"),
        ({"outcome": "allowed"}, "closed without a choice"),
        ({"outcome": True}, "closed without a choice"),
        ({}, "closed without a choice"),
        (None, "closed without a choice"),
        (True, "closed without a choice"),
        ([], "closed without a choice"),
        (RuntimeError(), "could not be asked (no window"),
    ],
)
async def test_any_other_answer_denies_and_the_turn_continues(
    tmp_path: Path, result: Any, expected_text: str
) -> None:
    for strict in (False, True):
        ran, message = await write_after_answer(tmp_path, result, strict=strict)
        assert not ran
        assert expected_text in message


_words = st.sampled_from(
    ["selected", "allow", "allowed", "approved", "yes", "cancelled", "reject_once", "reject_always", "denied"]
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | _words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["outcome", "optionId", "option_id", "kind", "_meta", "reason", "x"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(result=_json, strict=st.booleans())
@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
async def test_answer_without_an_offered_allow_option_never_runs_the_call(
    tmp_path: Path, result: Any, strict: bool
) -> None:
    # The strategy never generates `allow_once` or `allow_always`, the only ids that allow the call.
    ran, _ = await write_after_answer(tmp_path, result, strict=strict)
    assert not ran


async def test_timeout_denies_and_later_calls_of_the_turn_are_not_asked_about(tmp_path: Path) -> None:
    clock = FakeClock()
    session = make_session(tmp_path, clock=clock)
    async with connected(session) as editor:
        turn = editor.prompt(WRITE, ("delete_file", {"path": "x"}), ("read_file", {"path": "x"}))
        question = await editor.asked()
        await clock.advance(600)
        withdrawn = await editor.client.raw.until_method("$/cancel_request")
        editor.client.raw.reply(question, selected(ALLOW))  # too late
        await editor.end(turn)
        assert withdrawn["params"] == {"requestId": question["id"]}
        assert "The user did not answer in time" in session.results[0]
        assert "The user did not answer an earlier question" in session.results[1]
        assert "Permission denied" not in session.results[2]  # calls that need no permission still run
        again = editor.prompt(WRITE)  # a new prompt shows that the user is present
        editor.answer(await editor.asked(), ALLOW)
        await editor.end(again)
    assert (session.root / "made.txt").read_text() == "made"
    assert [(line["tool"], line.get("answer"), line.get("note")) for line in session.audit_lines()] == [
        ("write_file", "no", "timeout"),
        ("delete_file", "no", "nobody there"),
        ("read_file", None, None),
        ("write_file", "allow_once", None),
    ]


async def test_question_without_time_limit_waits_as_long_as_the_turn(tmp_path: Path) -> None:
    clock = FakeClock()
    session = make_session(tmp_path, clock=clock, seconds=None)
    async with connected(session) as editor:
        turn = editor.prompt(WRITE)
        question = await editor.asked()
        await clock.advance(1e6)
        editor.answer(question, ALLOW)
        await editor.end(turn)
    assert (session.root / "made.txt").exists()


@pytest.mark.parametrize("late", [False, True])
async def test_cancel_during_a_question_ends_the_turn_and_runs_nothing(tmp_path: Path, late: bool) -> None:
    session = make_session(tmp_path)
    async with connected(session) as editor:
        turn = editor.prompt(WRITE)
        question = await editor.asked()
        editor.client.cancel(editor.session_id)
        if not late:
            editor.client.raw.reply(question, {"outcome": {"outcome": "cancelled"}})
        assert (await editor.end(turn))["stopReason"] == "cancelled"
        if late:
            editor.client.raw.reply(question, selected(ALLOW))
        after = editor.prompt(("list_files", {}))  # the next turn works
        await editor.end(after)
    assert not (session.root / "made.txt").exists()
    assert not any(ruling.allowed for ruling in session.rulings[:-1])
    assert [line.get("note") for line in session.audit_lines()] == ["cancelled", None]


async def test_error_while_asking_denies_the_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    session = make_session(tmp_path)

    def broken(options: Any, decision: Any) -> Any:
        raise ZeroDivisionError

    ruling = await session.ruling("write_file", broken, path="x", content="x")
    assert not ruling.allowed
    assert "could not be asked (ZeroDivisionError)" in ruling.message
    assert "a permission request failed" in caplog.text
