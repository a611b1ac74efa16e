"""The turn's status, how it ended, and the questions the agent asked meanwhile."""

import pytest
from tests.session.scene import Scene

from accord.errors import ConnectionClosed, NotFound
from accord.schema import UNSET, Error, Usage
from accord.session import PermissionAnswered, PermissionAsked, TurnEnded, turn_failed


def test_a_turn_runs_from_the_prompt_to_its_answer() -> None:
    scene = Scene()
    assert scene.state.turn == "idle"
    scene.prompts()
    assert scene.state.turn == "running"
    ended = scene.answers("max_tokens", usage={"totalTokens": 30, "inputTokens": 20, "outputTokens": 10})
    usage = Usage(total_tokens=30, input_tokens=20, output_tokens=10)
    assert ended == TurnEnded("max_tokens", "max_tokens", usage)
    assert (scene.state.turn, scene.state.stop_reason, scene.state.turn_usage) == (
        "idle",
        "max_tokens",
        usage,
    )


@pytest.mark.rule(154)
def test_an_unknown_stop_reason_still_ends_the_turn() -> None:
    scene = Scene()
    scene.prompts()
    ended = scene.answers("coffee_break")
    assert (ended.stop_reason, ended.raw_reason, ended.error) == (None, "coffee_break", None)
    assert scene.state.turn == "idle"


@pytest.mark.dialect(4)
def test_a_replaced_stop_reason_keeps_the_agents_word() -> None:
    ended = Scene().answers("end_turn", _meta={"accord/stopReasonAsSent": "tool_use"})
    assert (ended.stop_reason, ended.raw_reason) == ("end_turn", "tool_use")


def test_a_cancel_while_idle_changes_nothing() -> None:
    scene = Scene()
    scene.call("t1")
    scene.cancels()
    assert scene.state.turn == "idle"
    assert scene.the_call("t1").open


def test_a_cancel_answered_with_end_turn_is_over_all_the_same() -> None:
    scene = Scene()
    scene.prompts()
    scene.call("t1")
    scene.cancels()
    scene.answers("end_turn")
    assert (scene.state.turn, scene.state.stop_reason) == ("idle", "end_turn")
    assert scene.the_call("t1").cancelled


def test_a_failed_turn_says_why() -> None:
    scene = Scene()
    scene.prompts()
    scene.call("t1")
    scene.state.apply(turn_failed(NotFound("Session not found", {"sessionId": "s1"})))
    assert scene.state.error == Error(code=-32002, message="Session not found", data={"sessionId": "s1"})
    assert scene.the_call("t1").ended_without_result
    scene.prompts()
    assert scene.state.error is None
    scene.state.apply(turn_failed(ConnectionClosed("the agent is gone", exit_code=3)))
    assert scene.state.error == Error(code=-32603, message="the agent is gone", data=UNSET)
    assert scene.state.turn == "idle"


def test_a_question_shows_what_it_carries_and_waits_for_one_answer() -> None:
    scene = Scene()
    scene.call("t1", "Edit a.py", kind="edit")
    asked = scene.asks("1", toolCallId="t1", title="Edit a.py?", status=None)
    other = scene.asks("2", toolCallId="another-prefix/t7", title="Run make", kind="execute")
    assert isinstance(asked, PermissionAsked)
    assert isinstance(other, PermissionAsked)
    assert asked.call == scene.the_call("t1")
    assert other.call is not None
    assert (other.call.title, other.call.kind, other.call.status) == ("Run make", "execute", "pending")
    assert list(scene.state.permissions) == ["1", "2"]
    scene.state.apply(PermissionAnswered("2", other.options[0]))
    scene.state.apply(PermissionAnswered("2"))
    assert list(scene.state.permissions) == ["1"]


def test_nothing_at_all_after_a_rejection_is_an_end_without_a_result() -> None:
    scene = Scene()
    scene.prompts()
    scene.asks("1", toolCallId="t1", title="Delete everything")
    scene.state.apply(PermissionAnswered("1"))
    scene.answers("end_turn")
    assert scene.the_call("t1").ended_without_result
