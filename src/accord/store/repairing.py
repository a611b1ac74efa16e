"""What an interrupted turn left open, and the events that close it.

A process that is killed ends no turn and finishes no tool call. Whoever takes the session up again appends these events to its
log first, so that every reading of the log agrees: the turn is over, and what did not finish says so. The model's own history is
for the agent to repair.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from accord.errors import INTERNAL_ERROR
from accord.schema import (
    CompactionUpdate,
    Content,
    Error,
    RequiresActionStateUpdate,
    RunningStateUpdate,
    SubagentUpdate,
    TextContent,
    ToolCallUpdate,
    UnknownStateUpdate,
)
from accord.session import (
    Event,
    PermissionAnswered,
    ReplayEnded,
    ReplayStarted,
    SessionState,
    ToolCallChanged,
    ToolCallState,
    TurnEnded,
    turn_ended,
)

INTERRUPTED: Final = "interrupted"
"""The raw reason of a turn that was never ended by the agent."""

_TURN: Final = "The turn was interrupted: the agent stopped before it was done."
_CALL: Final = "Interrupted: the agent stopped before this was done, and its result is unknown."
_CANCELLED: Final = "Cancelled before it was done."
_COMPACTION: Final = "Interrupted: the agent stopped before it was done."


class Repaired(NamedTuple):
    """A session taken up again."""

    state: SessionState
    """With the closing events applied."""
    closing: list[Event]
    """What to append to the log; empty if nothing was left open."""


def repair(events: Iterable[Event]) -> Repaired:
    """The state that the events of a log add up to, and what closes it. Repairing twice adds nothing."""
    state = SessionState()
    for event in events:
        state.apply(event)
    closing = unfinished(state)
    for event in closing:
        state.apply(event)
    return Repaired(state, closing)


def unfinished(state: SessionState) -> list[Event]:
    """The events that close what is open in a session nobody works on any more."""
    closing: list[Event] = []
    if state.set_aside is not None:
        # A replay broke off: what was known before it counts again, unless that was nothing.
        before = state.set_aside.events()
        closing += [ReplayStarted(), *before, ReplayEnded()] if before else [ReplayEnded()]
        history = state.set_aside if before else state.history
    else:
        history = state.history
    closing += [PermissionAnswered(permission_id) for permission_id in state.permissions]
    closing += [_closed(call) for call in history.tool_calls.values() if not call.finished]
    closing += [
        CompactionUpdate(compaction_id=one.compaction_id, status="failed", error=_COMPACTION)
        for one in history.compactions.values()
        if one.status == "in_progress"
    ]
    closing += [
        SubagentUpdate(session_id=child.session_id, state=UnknownStateUpdate())
        for child in history.subagents.values()
        if isinstance(child.state, RunningStateUpdate | RequiresActionStateUpdate)
    ]
    if state.turn == "cancelling":
        closing.append(turn_ended("cancelled"))
    elif state.turn == "running":
        closing.append(TurnEnded(raw_reason=INTERRUPTED, error=Error(code=INTERNAL_ERROR, message=_TURN)))
    return closing


def _closed(call: ToolCallState) -> ToolCallChanged:
    note = Content(content=TextContent(text=_CANCELLED if call.cancelled else _CALL))
    return ToolCallChanged(
        ToolCallUpdate(tool_call_id=call.tool_call_id, status="failed", content=[*call.content, note])
    )
