"""What happens in a session: its events, and the state they add up to.

`SessionState.apply` takes the events, or the updates of the wire, one after the other. Nothing here does I/O.
"""

from accord.session.compactions import CompactionState
from accord.session.content import Body
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
from accord.session.messages import Message, MessageKind, SessionMessageState
from accord.session.pickers import Choice, Picker, PickerSource
from accord.session.plans import PlanBody, PlanState
from accord.session.settings import Settings
from accord.session.state import SessionState, TurnStatus
from accord.session.subagents import SubagentState
from accord.session.toolcalls import Mark, ToolCallState

__all__ = [
    "Body",
    "Choice",
    "CompactionState",
    "Entry",
    "Event",
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
    "PickerSource",
    "PlanBody",
    "PlanChanged",
    "PlanState",
    "ReplayEnded",
    "ReplayStarted",
    "SessionEvent",
    "SessionMessageState",
    "SessionOpened",
    "SessionState",
    "Settings",
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
