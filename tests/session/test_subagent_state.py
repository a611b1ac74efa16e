"""Subagents as reported by the parent session, and messages between sessions (unstable protocol)."""

import pytest
from tests.session.session_driver import SessionDriver, text

from accord.session import SubagentState


def child(driver: SessionDriver) -> SubagentState:
    return driver.state.history.subagents["c1"]


@pytest.mark.rule("subagent.patch")
def test_subagent_updates_keep_clear_and_replace_members() -> None:
    driver = SessionDriver()
    driver.update(
        "subagent_update",
        sessionId="c1",
        title="Tests",
        description="runs them",
        capabilities={"cancel": {}},
        state={"state": "running"},
        cwd="/home/me/app",
        additionalDirectories=["/a", "/b"],
    )
    driver.update("subagent_update", sessionId="c1")
    assert (child(driver).title, child(driver).description, child(driver).activity) == (
        "Tests",
        "runs them",
        "running",
    )
    assert child(driver).may_cancel
    driver.update(
        "subagent_update", sessionId="c1", title="T2", capabilities={}, additionalDirectories=["/c"]
    )
    assert (child(driver).title, child(driver).may_cancel) == ("T2", False)
    assert child(driver).additional_directories == ["/c"]
    driver.update(
        "subagent_update", sessionId="c1", title=None, description=None, capabilities=None, cwd=None
    )
    assert (child(driver).title, child(driver).description, child(driver).cwd) == (None, None, None)
    assert child(driver).additional_directories == ["/c"]
    assert driver.state.timeline == [child(driver)]


def test_a_null_capability_grants_nothing() -> None:
    driver = SessionDriver()
    driver.update("subagent_update", sessionId="c1", capabilities={"cancel": None})
    assert not child(driver).may_cancel


@pytest.mark.rule("subagent.unknown-state")
def test_an_unknown_or_cleared_subagent_state_does_not_affect_the_parent_turn() -> None:
    driver = SessionDriver()
    driver.start_turn()
    driver.tool_call("t1", status="in_progress")
    for reported, shown in (
        ({"state": "running"}, "running"),
        ({"state": "unknown"}, "unknown"),
        ({"state": "requires_action"}, "requires_action"),
        (None, "unknown"),
        ({"state": "_dreaming", "of": "sheep"}, "_dreaming"),
        ({"state": "idle", "stopReason": "error", "error": {"code": 1, "message": "m"}}, "idle"),
    ):
        driver.update("subagent_update", sessionId="c1", state=reported)
        assert child(driver).activity == shown
        assert driver.call_state("t1").open
        assert driver.state.turn == "running"


@pytest.mark.rule("subagent.inherited-roots")
def test_unset_cwd_and_directories_are_inherited_separately() -> None:
    driver = SessionDriver()
    driver.update("subagent_update", sessionId="c1")
    assert driver.state.roots_of("c1") == ("/home/me/app", ["/home/me/lib"])
    driver.update("subagent_update", sessionId="c1", cwd="/tmp/child")
    assert driver.state.roots_of("c1") == ("/tmp/child", ["/home/me/lib"])
    driver.update("subagent_update", sessionId="c1", cwd=None, additionalDirectories=[])
    assert driver.state.roots_of("c1") == ("/home/me/app", [])
    assert driver.state.roots_of("never announced") is None


@pytest.mark.rule("subagent.message-by-id")
def test_session_messages_are_updated_by_id_and_chunks_may_come_first() -> None:
    driver = SessionDriver()
    driver.update("session_message_chunk", messageId="x1", content=text("Run "))
    driver.update("session_message", messageId="x1", senderSessionId="s1", recipientSessionId="c1")
    driver.update("session_message_chunk", messageId="x1", content=text("the tests"))
    message = driver.state.history.session_messages["x1"]
    assert (message.text, message.sender_session_id, message.recipient_session_id) == (
        "Run the tests",
        "s1",
        "c1",
    )
    driver.update(
        "session_message", messageId="x1", senderSessionId=None, content=[text("Stop")], senderMessageId="m"
    )
    driver.update("session_message_chunk", messageId="x1", content=text("!"))
    assert (message.text, message.sender_session_id, message.sender_message_id) == ("Stop!", None, "m")
    driver.update("session_message", messageId="x1", content=[])
    assert message.blocks == ()
    assert driver.state.timeline == [message]
