"""`repair` closes what an interrupted turn left open."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repetitions

from accord.schema import (
    AgentMessageChunk,
    CompactionUpdate,
    Content,
    PermissionOption,
    RunningStateUpdate,
    SubagentUpdate,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallUpdate,
    UserMessageChunk,
)
from accord.session import (
    Event,
    PermissionAnswered,
    PermissionAsked,
    ReplayEnded,
    ReplayStarted,
    SessionOpened,
    SessionState,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
    protocol_v1,
    text_of,
)
from accord.store import INTERRUPTED, MemoryStore, repair

GO = TurnStarted([TextContent("go")])


def call(call_id: str, **members: object) -> Event:
    return protocol_v1.event_of(ToolCall(call_id, "Work", **members))  # type: ignore[arg-type]


def patch(call_id: str, **members: object) -> Event:
    return protocol_v1.event_of(ToolCallChange(call_id, **members))  # type: ignore[arg-type]


def test_an_unfinished_turn_is_ended_as_interrupted() -> None:
    state, closing = repair([GO, AgentMessageChunk(TextContent("I will"))])
    assert state.turn == "idle"
    (ended,) = closing
    assert isinstance(ended, TurnEnded)
    assert (ended.stop_reason, ended.raw_reason) == (None, INTERRUPTED)
    assert ended.error is not None
    assert "interrupted" in ended.error.message
    assert [message.text for message in state.messages] == ["go", "I will"]


def test_an_unfinished_tool_call_fails_with_an_explanation() -> None:
    shown = Content(TextContent("half of the output"))
    state, closing = repair(
        [
            GO,
            call("done", status="completed"),
            call("asked"),
            patch("asked", status="in_progress", content=[shown]),
        ]
    )
    changed, ended = closing
    assert isinstance(changed, ToolCallChanged)
    assert isinstance(ended, TurnEnded)
    one = state.tool_calls["asked"]
    assert (one.status, one.content[0]) == ("failed", shown)
    assert "stopped before this was done" in text_of(one.content)
    assert state.tool_calls["done"].content == []


def test_a_tool_call_left_open_by_an_ended_turn_fails() -> None:
    state, closing = repair([GO, call("c1"), TurnEnded("end_turn")])
    assert len(closing) == 1
    assert state.tool_calls["c1"].status == "failed"


def test_a_turn_that_was_being_cancelled_ends_as_cancelled() -> None:
    state, closing = repair([GO, call("c1"), TurnCancelling()])
    assert state.stop_reason == "cancelled"
    assert "Cancelled" in text_of(state.tool_calls["c1"].content)
    assert len(closing) == 2


def test_permissions_compactions_and_subagents_are_closed() -> None:
    state, closing = repair(
        [
            GO,
            PermissionAsked("p1", [PermissionOption("y", "Yes", "allow_once")], ToolCallUpdate("c1")),
            CompactionUpdate("k1", "in_progress"),
            CompactionUpdate("k2", "completed"),
            SubagentUpdate("child", state=RunningStateUpdate()),
        ]
    )
    assert state.permissions == {}
    assert PermissionAnswered("p1") in closing
    assert state.tool_calls["c1"].status == "failed"
    assert [one.status for one in state.history.compactions.values()] == ["failed", "completed"]
    assert state.history.subagents["child"].activity == "unknown"


def test_an_unfinished_replay_does_not_hide_the_earlier_history() -> None:
    events: list[Event] = [
        SessionOpened("s1", "/home/me"),
        GO,
        AgentMessageChunk(TextContent("done"), "m1"),
        call("c1", status="completed"),
        TurnEnded("end_turn"),
    ]
    whole, nothing = repair(events)
    assert nothing == []
    state, closing = repair([*events, ReplayStarted(), UserMessageChunk(TextContent("g"))])
    assert [type(event) for event in closing][:1] == [ReplayStarted]
    assert state.snapshot() == whole.snapshot()
    first, closing = repair([ReplayStarted(), UserMessageChunk(TextContent("g"))])
    assert closing == [ReplayEnded()]
    assert [message.text for message in first.messages] == ["g"]


def test_a_finished_session_needs_no_repair() -> None:
    assert repair([]).closing == []
    assert repair([GO, call("c1", status="failed"), TurnEnded("cancelled")]).closing == []


some_calls = st.sampled_from(["a", "b"])
log_events = st.one_of(
    st.just(GO),
    st.just(TurnEnded("end_turn")),
    st.just(TurnCancelling()),
    st.builds(call, some_calls),
    st.builds(
        lambda name, status: patch(name, status=status),
        some_calls,
        st.sampled_from(["in_progress", "completed"]),
    ),
    st.just(PermissionAsked("p", [])),
    st.just(PermissionAnswered("p")),
    st.just(CompactionUpdate("k", "in_progress")),
    st.just(ReplayStarted()),
    st.just(ReplayEnded()),
    st.text(max_size=3).map(lambda text: AgentMessageChunk(TextContent(text))),
)


@settings(max_examples=repetitions(200), deadline=None)
@given(st.lists(log_events, max_size=15))
def test_any_log_needs_only_one_repair(events: list[Event]) -> None:
    store = MemoryStore()
    store.create("s1", "/home/me")
    with store.journal("s1") as journal:
        journal.append(*events)
    state, closing = repair(store.events("s1"))
    assert state.turn == "idle"
    assert state.history_before_replay is None
    assert state.permissions == {}
    assert all(one.finished for one in state.tool_calls.values())
    with store.journal("s1") as journal:
        journal.append(*closing)
    again, nothing = repair(store.events("s1"))
    assert nothing == []
    assert again.snapshot() == state.snapshot()


@pytest.mark.parametrize("cut", range(6))
def test_a_repaired_history_can_be_replayed_to_a_client(cut: int) -> None:
    events = [
        GO,
        call("c1"),
        patch("c1", status="in_progress"),
        patch("c1", status="completed"),
        TurnEnded("end_turn"),
    ]
    state, _ = repair(events[:cut])
    client = SessionState()
    for event in state.snapshot():
        for update in protocol_v1.updates_of(event):
            client.apply(update)
    assert all(one.finished for one in client.tool_calls.values())
