"""Irregular behavior of real agents, as far as it concerns the state of a session."""

import pytest
from tests.session.session_driver import SessionDriver, text

from accord.schema import NewSessionResponse, Unknown
from accord.schema.codec import read
from accord.session import PermissionAnswered, protocol_v1


def test_updates_before_the_session_new_response_are_kept() -> None:
    driver = SessionDriver()
    driver.update("available_commands_update", availableCommands=[{"name": "web", "description": "Search"}])
    driver.update("current_mode_update", currentModeId="code")
    driver.agent_text("Welcome.")
    driver.state.apply(protocol_v1.session_opened_event("s1", read(NewSessionResponse, {"sessionId": "s1"})))
    assert [command.name for command in driver.state.commands] == ["web"]
    assert driver.state.settings.current_mode_id == "code"
    assert driver.timeline_summary == ["Welcome."]


def test_unknown_updates_are_passed_through_without_changing_the_state() -> None:
    driver = SessionDriver()
    driver.agent_text("a")
    before = driver.state.snapshot()
    event = driver.update("vendor/telemetry", load=3)
    assert isinstance(event, Unknown)
    assert event.kind == "vendor/telemetry"
    assert driver.state.snapshot() == before


@pytest.mark.parametrize("reason", ["cancelled", "end_turn"])
def test_a_rejection_may_end_the_turn_without_a_tool_call_update(reason: str) -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.ask_permission("1", toolCallId="t1", title="Run rm")
    driver.state.apply(PermissionAnswered("1"))
    driver.end_turn(reason)
    assert (driver.state.turn, driver.state.stop_reason) == ("idle", reason)
    assert not driver.call_state("t1").open


def test_tool_call_updates_before_the_call_and_after_the_turn_are_applied() -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.tool_call_update("t1", status="completed", rawOutput="ok")
    driver.tool_call("t1", "Run", kind="execute", status="pending")
    driver.end_turn()
    driver.update("usage_update", used=5, size=9)
    driver.tool_call_update("t1", content=[{"type": "content", "content": text("late")}])
    call = driver.call_state("t1")
    assert (call.title, call.kind, call.status, call.raw_output, call.mark) == (
        "Run",
        "execute",
        "completed",
        "ok",
        "",
    )
    assert len(call.content) == 1


def test_ten_thousand_chunks_make_one_message() -> None:
    driver = SessionDriver()
    for count in range(10_000):
        driver.agent_text(f"{count} ", "m")
    [message] = driver.state.messages
    assert message.text == "".join(f"{count} " for count in range(10_000))
    assert len(message.blocks) == 1
