"""The status of a turn, how it ended, and the permission requests of the agent."""

import pytest
from tests.session.session_driver import SessionDriver

from accord.errors import ConnectionClosed, NotFound
from accord.schema import UNSET, Error, Usage
from accord.session import PermissionAnswered, PermissionAsked, TurnEnded, turn_failed


def test_a_turn_runs_from_the_prompt_to_its_response() -> None:
    driver = SessionDriver()
    assert driver.state.turn == "idle"
    driver.start_turn()
    assert driver.state.turn == "running"
    ended = driver.end_turn("max_tokens", usage={"totalTokens": 30, "inputTokens": 20, "outputTokens": 10})
    usage = Usage(total_tokens=30, input_tokens=20, output_tokens=10)
    assert ended == TurnEnded("max_tokens", "max_tokens", usage)
    assert (driver.state.turn, driver.state.stop_reason, driver.state.turn_usage) == (
        "idle",
        "max_tokens",
        usage,
    )


@pytest.mark.rule("prompt.unknown-stop-reason")
def test_an_unknown_stop_reason_still_ends_the_turn() -> None:
    driver = SessionDriver()
    driver.start_turn()
    ended = driver.end_turn("coffee_break")
    assert (ended.stop_reason, ended.raw_reason, ended.error) == (None, "coffee_break", None)
    assert driver.state.turn == "idle"


@pytest.mark.dialect(4)
def test_a_repaired_stop_reason_keeps_the_raw_value() -> None:
    ended = SessionDriver().end_turn("end_turn", _meta={"accord/stopReasonAsSent": "tool_use"})
    assert (ended.stop_reason, ended.raw_reason) == ("end_turn", "tool_use")


def test_a_cancel_while_idle_has_no_effect() -> None:
    driver = SessionDriver()
    driver.tool_call("t1")
    driver.cancel_turn()
    assert driver.state.turn == "idle"
    assert driver.call_state("t1").open


def test_a_cancelled_turn_may_end_with_end_turn() -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.tool_call("t1")
    driver.cancel_turn()
    driver.end_turn("end_turn")
    assert (driver.state.turn, driver.state.stop_reason) == ("idle", "end_turn")
    assert driver.call_state("t1").cancelled


def test_a_failed_turn_keeps_its_error_until_the_next_turn() -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.tool_call("t1")
    driver.state.apply(turn_failed(NotFound("Session not found", {"sessionId": "s1"})))
    assert driver.state.error == Error(code=-32002, message="Session not found", data={"sessionId": "s1"})
    assert driver.call_state("t1").ended_without_result
    driver.start_turn()
    assert driver.state.error is None
    driver.state.apply(turn_failed(ConnectionClosed("the agent is gone", exit_code=3)))
    assert driver.state.error == Error(code=-32603, message="the agent is gone", data=UNSET)
    assert driver.state.turn == "idle"


def test_a_permission_request_shows_its_tool_call_and_stays_pending_until_answered() -> None:
    driver = SessionDriver()
    driver.tool_call("t1", "Edit a.py", kind="edit")
    asked = driver.ask_permission("1", toolCallId="t1", title="Edit a.py?", status=None)
    other = driver.ask_permission("2", toolCallId="another-prefix/t7", title="Run make", kind="execute")
    assert isinstance(asked, PermissionAsked)
    assert isinstance(other, PermissionAsked)
    assert asked.call == driver.call_state("t1")
    assert other.call is not None
    assert (other.call.title, other.call.kind, other.call.status) == ("Run make", "execute", "pending")
    assert list(driver.state.permissions) == ["1", "2"]
    driver.state.apply(PermissionAnswered("2", other.options[0]))
    driver.state.apply(PermissionAnswered("2"))
    assert list(driver.state.permissions) == ["1"]


def test_a_call_without_updates_after_a_rejection_ended_without_result() -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.ask_permission("1", toolCallId="t1", title="Delete everything")
    driver.state.apply(PermissionAnswered("1"))
    driver.end_turn("end_turn")
    assert driver.call_state("t1").ended_without_result
