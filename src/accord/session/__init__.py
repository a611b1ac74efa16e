"""What happens in a session: its events, and the state they add up to.

`SessionState.apply` takes the events, or the updates of the wire, one after the other. Nothing here does I/O.
"""

from accord.session.events import (
    Event,
    MessageChanged,
    MessageChunk,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    ReplayEnded,
    ReplayStarted,
    SessionEvent,
    SessionOpened,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
    text_of,
    turn_ended,
    turn_failed,
)
from accord.session.history import Entry, History
from accord.session.history_items import (
    CompactionState,
    GrowingContent,
    Message,
    MessageKind,
    PlanBody,
    PlanState,
    SessionMessageState,
    SubagentState,
)
from accord.session.session_settings import Picker, PickerChoice, PickerSource, SessionSettings
from accord.session.state import SessionState, TurnStatus
from accord.session.tool_calls import Mark, ToolCallState

__all__ = [
    "CompactionState",
    "Entry",
    "Event",
    "GrowingContent",
    "History",
    "Mark",
    "Message",
    "MessageChanged",
    "MessageChunk",
    "MessageKind",
    "ModeChanged",
    "PermissionAnswered",
    "PermissionAsked",
    "Picker",
    "PickerChoice",
    "PickerSource",
    "PlanBody",
    "PlanChanged",
    "PlanState",
    "ReplayEnded",
    "ReplayStarted",
    "SessionEvent",
    "SessionMessageState",
    "SessionOpened",
    "SessionSettings",
    "SessionState",
    "SubagentState",
    "ToolCallChanged",
    "ToolCallState",
    "TurnCancelling",
    "TurnEnded",
    "TurnStarted",
    "TurnStatus",
    "text_of",
    "turn_ended",
    "turn_failed",
]
