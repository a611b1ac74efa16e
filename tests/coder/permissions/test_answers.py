"""What an answer to a permission question does to the call, over the wire: only a yes runs it, and the turn goes on."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.coder.permissions.scene import ALLOW, ALWAYS, NEVER, REJECT, make_session, served

from accord.testing import FakeClock

WRITE = ("write_file", {"path": "made.txt", "content": "made"})


def selected(option: Any) -> Any:
    return {"outcome": {"outcome": "selected", "optionId": option}}


async def made(tmp_path: Path, result: Any, *, strict: bool = False) -> tuple[bool, str]:
    """Whether the file was written after this answer, and what the model was told; the turn ends in any case."""
    session = make_session(tmp_path)
    file = session.root / "made.txt"
    file.unlink(missing_ok=True)
    async with served(session, strict=strict) as editor:
        turn = editor.prompt(WRITE)
        asked = await editor.asked()
        assert not file.exists()
        if isinstance(result, BaseException):
            editor.client.raw.refuse(asked, -32603, "no window")
        else:
            editor.client.raw.reply(asked, result)
        assert (await editor.end(turn))["stopReason"] == "end_turn"
    assert editor.client.said("agent_message_chunk")[-1]["content"]["text"] == "done"
    last = session.written()[-1]
    assert last["effect"] == "ask"
    assert (last["answer"] in (ALLOW, ALWAYS)) is file.exists()
    assert session.rulings[0].allowed is file.exists()
    if not file.exists():
        assert session.results[0].startswith("Permission denied.")
        assert editor.client.said("tool_call_update")[-1]["status"] == "failed"
    return file.exists(), session.results[0]


@pytest.mark.rule(198, 201)
@pytest.mark.parametrize("option", [ALLOW, ALWAYS])
async def test_a_yes_runs_the_call(tmp_path: Path, option: str) -> None:
    assert (await made(tmp_path, selected(option)))[0]


@pytest.mark.rule(199, 200, 388)
@pytest.mark.parametrize(
    ("result", "told"),
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
async def test_everything_else_is_a_no_and_the_turn_goes_on(tmp_path: Path, result: Any, told: str) -> None:
    for strict in (False, True):
        ran, said = await made(tmp_path, result, strict=strict)
        assert not ran
        assert told in said


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
async def test_no_answer_that_names_no_offered_allow_option_runs_anything(
    tmp_path: Path, result: Any, strict: bool
) -> None:
    # Neither `allow_once` nor `allow_always`, which alone stand for a yes here, can come out of this.
    ran, _ = await made(tmp_path, result, strict=strict)
    assert not ran


async def test_no_answer_in_time_is_a_no_and_nobody_is_asked_again_in_that_turn(tmp_path: Path) -> None:
    clock = FakeClock()
    session = make_session(tmp_path, clock=clock)
    async with served(session) as editor:
        turn = editor.prompt(WRITE, ("delete_file", {"path": "x"}), ("read_file", {"path": "x"}))
        asked = await editor.asked()
        await clock.advance(600)
        withdrawn = await editor.client.raw.until_method("$/cancel_request")
        editor.client.raw.reply(asked, selected(ALLOW))  # too late
        await editor.end(turn)
        assert withdrawn["params"] == {"requestId": asked["id"]}
        assert "Nobody answered the question in time" in session.results[0]
        assert "Nobody answered an earlier question" in session.results[1]
        assert "Permission denied" not in session.results[2]  # what needs no permission goes on
        again = editor.prompt(WRITE)  # whoever prompts is there
        editor.answer(await editor.asked(), ALLOW)
        await editor.end(again)
    assert (session.root / "made.txt").read_text() == "made"
    assert [(line["tool"], line.get("answer"), line.get("note")) for line in session.written()] == [
        ("write_file", "no", "timeout"),
        ("delete_file", "no", "nobody there"),
        ("read_file", None, None),
        ("write_file", "allow_once", None),
    ]


async def test_a_question_may_wait_as_long_as_the_turn(tmp_path: Path) -> None:
    clock = FakeClock()
    session = make_session(tmp_path, clock=clock, seconds=None)
    async with served(session) as editor:
        turn = editor.prompt(WRITE)
        asked = await editor.asked()
        await clock.advance(1e6)
        editor.answer(asked, ALLOW)
        await editor.end(turn)
    assert (session.root / "made.txt").exists()


@pytest.mark.parametrize("late", [False, True])
async def test_cancel_while_asked_ends_the_turn_and_runs_nothing(tmp_path: Path, late: bool) -> None:
    session = make_session(tmp_path)
    async with served(session) as editor:
        turn = editor.prompt(WRITE)
        asked = await editor.asked()
        editor.client.cancel(editor.session_id)
        if not late:
            editor.client.raw.reply(asked, {"outcome": {"outcome": "cancelled"}})
        assert (await editor.end(turn))["stopReason"] == "cancelled"
        if late:
            editor.client.raw.reply(asked, selected(ALLOW))
        after = editor.prompt(("list_files", {}))  # and the next turn works
        await editor.end(after)
    assert not (session.root / "made.txt").exists()
    assert not any(ruling.allowed for ruling in session.rulings[:-1])
    assert [line.get("note") for line in session.written()] == ["cancelled", None]


async def test_a_question_that_cannot_be_asked_is_a_no(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = make_session(tmp_path)

    def broken(options: Any, decision: Any) -> Any:
        raise ZeroDivisionError

    ruling = await session.ruling("write_file", broken, path="x", content="x")
    assert not ruling.allowed
    assert "could not be asked (ZeroDivisionError)" in ruling.told
    assert "could not be asked for" in caplog.text
