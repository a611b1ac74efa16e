"""The events of a session, and the session state that they add up to.

`SessionState.apply` takes events, or updates from the wire, one after the other. Nothing here does I/O.
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
    StateChanged,
    TerminalChanged,
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
from accord.session.terminal_state import BackgroundItem, TerminalExit, TerminalState
from accord.session.tool_calls import Mark, ToolCallState

__all__ = [
    "BackgroundItem", "CompactionState", "Entry", "Event", "GrowingContent", "History", "Mark",
    "Message", "MessageChanged", "MessageChunk", "MessageKind", "ModeChanged", "PermissionAnswered",
    "PermissionAsked", "Picker", "PickerChoice", "PickerSource", "PlanBody", "PlanChanged", "PlanState",
    "ReplayEnded", "ReplayStarted", "SessionEvent", "SessionMessageState", "SessionOpened",
    "SessionSettings", "SessionState", "StateChanged", "SubagentState", "TerminalChanged",
    "TerminalExit", "TerminalState", "ToolCallChanged", "ToolCallState", "TurnCancelling", "TurnEnded",
    "TurnStarted", "TurnStatus", "text_of", "turn_ended", "turn_failed",
]  # fmt: skip
