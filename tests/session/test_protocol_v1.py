"""Conversion between ACP v1 updates and session events."""

from typing import Any

import pytest
from tests.session.session_driver import SessionDriver

from accord.errors import RequestCancelled
from accord.schema import (
    UNSET,
    AgentMessageChunk,
    Content,
    CurrentModeUpdate,
    Notice,
    Plan,
    PlanEntry,
    PlanItems,
    PlanMarkdown,
    PlanRemoved,
    PlanUpdate,
    SessionMessageChunk,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallUpdate,
    Unknown,
    UserMessageChunk,
)
from accord.session import (
    MessageChanged,
    ModeChanged,
    PlanChanged,
    SessionState,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
    protocol_v1,
    text_of,
    turn_failed,
)

HI = TextContent(text="hi")
STEP = PlanEntry(content="a", priority="low", status="pending")


@pytest.mark.parametrize(
    "update",
    [
        AgentMessageChunk(content=HI),
        Notice(severity="info", title="n"),
        Unknown("later", {"sessionUpdate": "later"}),
    ],
)
def test_updates_with_the_same_shape_are_used_as_events(update: Any) -> None:
    assert protocol_v1.event_of(update) is update
    assert SessionState().apply(update) is update
    assert protocol_v1.updates_of(update) == [update]


@pytest.mark.parametrize(
    ("update", "event"),
    [
        (CurrentModeUpdate(current_mode_id="code"), ModeChanged("code")),
        (Plan(entries=[STEP]), PlanChanged("", PlanItems(plan_id="", entries=[STEP]))),
        (Plan(entries=[]), PlanChanged("", PlanItems(plan_id="", entries=[]))),
        (
            PlanUpdate(plan=PlanMarkdown(plan_id="p", content="x")),
            PlanChanged("p", PlanMarkdown(plan_id="p", content="x")),
        ),
        (PlanRemoved(plan_id="p"), PlanChanged("p", None)),
        (
            ToolCall(tool_call_id="t", title="Read", status="pending", content=[]),
            ToolCallChanged(ToolCallUpdate("t", title="Read", status="pending"), announce=True),
        ),
        (
            ToolCallChange(tool_call_id="t", title=None, status="completed", content=[], raw_output=None),
            ToolCallChanged(ToolCallUpdate("t", status="completed", content=[])),
        ),
    ],
)
def test_updates_with_another_shape_are_converted(update: Any, event: Any) -> None:
    assert protocol_v1.event_of(update) == event


def test_events_without_an_update_form_give_no_updates() -> None:
    assert protocol_v1.updates_of(TurnCancelling()) == []
    assert protocol_v1.updates_of(TurnEnded("end_turn")) == []


def test_removing_the_default_plan_empties_it_and_others_are_removed() -> None:
    assert protocol_v1.updates_of(PlanChanged("", None)) == [Plan(entries=[])]
    assert protocol_v1.updates_of(PlanChanged("p", None)) == [PlanRemoved(plan_id="p")]


def test_whole_messages_and_prompts_become_chunks() -> None:
    assert protocol_v1.updates_of(MessageChanged("agent", "m", [HI, HI])) == [AgentMessageChunk(HI, "m")] * 2
    assert protocol_v1.updates_of(TurnStarted([HI])) == [UserMessageChunk(HI)]


def test_a_call_first_seen_in_an_update_is_forwarded_as_an_announcement() -> None:
    event = SessionDriver().tool_call_update("t1", status="in_progress")
    assert protocol_v1.updates_of(event) == [ToolCall(tool_call_id="t1", title="t1", status="in_progress")]


def test_a_cleared_list_becomes_an_empty_list() -> None:
    event = ToolCallChanged(ToolCallUpdate("t", title=None, content=None))
    assert protocol_v1.updates_of(event) == [ToolCallChange(tool_call_id="t", title=UNSET, content=[])]


def test_text_of_finds_text_in_every_kind_of_content() -> None:
    for thing in (
        HI,
        [HI],
        (HI,),
        [Content(content=HI)],
        AgentMessageChunk(content=HI),
        SessionMessageChunk(message_id="m", content=HI),
        MessageChanged("user", None, [HI]),
        TurnStarted([HI]),
        ToolCallChanged(ToolCallUpdate("t", content=[Content(content=HI)])),
    ):
        assert text_of(thing) == "hi"
    for silent in (ModeChanged("m"), Unknown("x", {}), None, 5):
        assert text_of(silent) == ""


def test_an_error_without_data_has_none() -> None:
    error = turn_failed(RequestCancelled()).error
    assert error is not None
    assert (error.code, error.message, error.data) == (-32800, "Request cancelled", UNSET)


def test_a_value_that_is_not_an_update_passes_through() -> None:
    state: Any = SessionState()
    assert state.apply("not an update") == "not an update"
    assert state.timeline == []
