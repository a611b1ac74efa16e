"""Version 1 on the wire and the events above it."""

from typing import Any

import pytest
from tests.session.scene import Scene

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
    text_of,
    turn_failed,
    v1,
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
def test_where_the_shapes_agree_the_update_is_the_event(update: Any) -> None:
    assert v1.event_of(update) is update
    assert SessionState().apply(update) is update
    assert v1.updates_of(update) == [update]


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
def test_where_they_differ_one_event_stands_for_both(update: Any, event: Any) -> None:
    assert v1.event_of(update) == event


def test_events_that_no_update_can_say_are_not_told() -> None:
    assert v1.updates_of(TurnCancelling()) == []
    assert v1.updates_of(TurnEnded("end_turn")) == []


def test_the_single_plan_is_emptied_and_others_are_removed() -> None:
    assert v1.updates_of(PlanChanged("", None)) == [Plan(entries=[])]
    assert v1.updates_of(PlanChanged("p", None)) == [PlanRemoved(plan_id="p")]


def test_whole_messages_and_prompts_are_told_in_chunks() -> None:
    assert v1.updates_of(MessageChanged("agent", "m", [HI, HI])) == [AgentMessageChunk(HI, "m")] * 2
    assert v1.updates_of(TurnStarted([HI])) == [UserMessageChunk(HI)]


def test_a_call_first_seen_in_a_patch_is_announced_when_told_on() -> None:
    event = Scene().patch("t1", status="in_progress")
    assert v1.updates_of(event) == [ToolCall(tool_call_id="t1", title="t1", status="in_progress")]


def test_a_cleared_list_is_told_as_an_empty_one() -> None:
    event = ToolCallChanged(ToolCallUpdate("t", title=None, content=None))
    assert v1.updates_of(event) == [ToolCallChange(tool_call_id="t", title=UNSET, content=[])]


def test_text_is_found_wherever_something_is_said() -> None:
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
    for silent in (Notice(severity="info", title="n"), ModeChanged("m"), Unknown("x", {}), None, 5):
        assert text_of(silent) == ""


def test_an_error_without_data_has_none() -> None:
    error = turn_failed(RequestCancelled()).error
    assert error is not None
    assert (error.code, error.message, error.data) == (-32800, "Request cancelled", UNSET)


def test_what_is_no_update_at_all_passes_through() -> None:
    state: Any = SessionState()
    assert state.apply("not an update") == "not an update"
    assert state.timeline == []
