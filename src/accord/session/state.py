"""The state of a session: everything its events add up to, kept current by applying them one after the other.

Pure: no I/O and no clock. `apply` never raises on what the reading of the wire lets through.
"""

from collections import deque
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, Final, Literal, TypeAlias, cast

from msgspec import structs

from accord.schema import (
    UNSET,
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CompactionSummaryChunk,
    CompactionUpdate,
    ConfigOptionUpdate,
    Error,
    Notice,
    PlanEntry,
    SessionInfoUpdate,
    SessionMessage,
    SessionMessageChunk,
    SessionUpdate,
    StopReason,
    SubagentUpdate,
    Usage,
    UsageUpdate,
    UserMessageChunk,
)
from accord.session import protocol_v1
from accord.session.events import (
    Event,
    MessageChanged,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    ReplayEnded,
    ReplayStarted,
    SessionOpened,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
)
from accord.session.history import Entry, History
from accord.session.history_items import THE_PLAN, Message
from accord.session.session_settings import SessionSettings
from accord.session.tool_calls import ToolCallState

TurnStatus: TypeAlias = Literal["idle", "running", "cancelling"]

NOTICES_KEPT: Final = 100


class SessionState:
    """One session as it stands. Read it freely; only `apply` changes it."""

    __slots__ = (
        "additional_directories",
        "commands",
        "cwd",
        "error",
        "history",
        "notices",
        "permissions",
        "session_id",
        "set_aside",
        "settings",
        "stop_reason",
        "title",
        "turn",
        "turn_usage",
        "updated_at",
        "usage",
    )

    def __init__(
        self, session_id: str = "", cwd: str = "", additional_directories: Iterable[str] = ()
    ) -> None:
        self.session_id = session_id
        self.cwd = cwd
        self.additional_directories = list(additional_directories)
        self.history = History()
        self.settings = SessionSettings()
        self.set_aside: History | None = None  # while the agent replays: what was known before
        self.turn: TurnStatus = "idle"
        self.stop_reason: StopReason | None = None  # of the latest turn that ended
        self.error: Error | None = None
        self.turn_usage: Usage | None = None
        self.title: str | None = None
        self.updated_at: str | None = None
        self.usage: UsageUpdate | None = None  # the context window, and the cost so far
        self.commands: list[AvailableCommand] = []
        self.notices: deque[Notice] = deque(maxlen=NOTICES_KEPT)  # the latest; never part of the history
        self.permissions: dict[str, PermissionAsked] = {}  # the questions that wait for an answer

    def apply(self, item: Event | SessionUpdate) -> Event:
        """Take in an event, or an update from the wire; gives back the event, completed by what the state knows."""
        reduce = _REDUCERS.get(type(item))
        if reduce is not None:
            return reduce(self, item)
        event = protocol_v1.event_of(cast(SessionUpdate, item))
        reduce = _REDUCERS.get(type(event))
        return event if reduce is None else reduce(self, event)

    @property
    def timeline(self) -> list[Entry]:
        """Messages, tool calls, plans and the rest, in the order in which they first appeared."""
        return self.history.timeline

    @property
    def messages(self) -> list[Message]:
        """The messages and thoughts, in order."""
        return self.history.messages

    @property
    def tool_calls(self) -> dict[str, ToolCallState]:
        """The tool calls by id, in the order in which they first appeared."""
        return self.history.tool_calls

    @property
    def plan(self) -> list[PlanEntry]:
        """The steps of the plan; where the agent keeps several, of the first that has steps."""
        plans = self.history.plans
        if THE_PLAN in plans:
            return plans[THE_PLAN].entries
        for plan in plans.values():
            if plan.entries:
                return plan.entries
        return []

    def roots_of(self, child: str) -> tuple[str, list[str]] | None:
        """The working directory and the extra roots of a child session, each inherited while the child has none; None
        for a child that was never announced. They are the agent's word: how far to trust it is for the caller to say.
        """
        told = self.history.subagents.get(child)
        if told is None:
            return None
        extra = told.additional_directories
        return (
            self.cwd if told.cwd is None else told.cwd,
            list(self.additional_directories if extra is None else extra),
        )

    def snapshot(self) -> list[Event]:
        """What a stored transcript needs, as few events: applied to a new state they give this one again. What is only
        live is left out: notices, waiting permission questions, the running turn.
        """
        opened = SessionOpened(self.session_id, self.cwd, list(self.additional_directories))
        events: list[Event] = [self.settings.whole(opened)]
        events += self.history.events()
        if self.commands:
            events.append(AvailableCommandsUpdate(available_commands=list(self.commands)))
        if self.title is not None or self.updated_at is not None:
            events.append(SessionInfoUpdate(title=self.title, updated_at=self.updated_at))
        if self.usage is not None:
            events.append(self.usage)
        return events


Reducer: TypeAlias = Callable[[SessionState, Any], Event]


def _to_history(take: Callable[[History, Any], None]) -> Reducer:
    def reduce(state: SessionState, event: Event) -> Event:
        take(state.history, event)
        return event

    return reduce


def _to_settings(take: Callable[[SessionSettings, Any], None]) -> Reducer:
    def reduce(state: SessionState, event: Event) -> Event:
        take(state.settings, event)
        return event

    return reduce


def _tool_call(state: SessionState, event: ToolCallChanged) -> Event:
    return state.history.tool_call(event)


def _commands(state: SessionState, event: AvailableCommandsUpdate) -> Event:
    state.commands = event.available_commands
    return event


def _info(state: SessionState, event: SessionInfoUpdate) -> Event:
    if event.title is not UNSET:
        state.title = event.title
    if event.updated_at is not UNSET:
        state.updated_at = event.updated_at
    return event


def _usage(state: SessionState, event: UsageUpdate) -> Event:
    before = state.usage
    # The cost adds up over the session: an update that does not mention it has not taken it back.
    if event.cost is UNSET and before is not None and before.cost:
        state.usage = structs.replace(event, cost=before.cost)
    else:
        state.usage = event
    return event


def _notice(state: SessionState, event: Notice) -> Event:
    state.notices.append(event)
    return event


def _opened(state: SessionState, event: SessionOpened) -> Event:
    state.session_id = event.session_id
    if event.cwd is not UNSET:
        state.cwd = event.cwd
    if event.additional_directories is not UNSET:
        state.additional_directories = list(event.additional_directories)
    state.settings.open(event)
    return event


def _replay_started(state: SessionState, event: ReplayStarted) -> Event:
    state.set_aside = state.history
    state.history = History()
    return event


def _replay_ended(state: SessionState, event: ReplayEnded) -> Event:
    if state.set_aside is not None and not state.history.timeline:
        state.history = state.set_aside
    state.set_aside = None
    state.history.end_turn("ended_without_result")
    return event


def _turn_started(state: SessionState, event: TurnStarted) -> Event:
    state.turn = "running"
    state.stop_reason = state.error = state.turn_usage = None
    state.history.begin_turn(event.prompt)
    return event


def _turn_cancelling(state: SessionState, event: TurnCancelling) -> Event:
    if state.turn == "running":
        state.turn = "cancelling"
        state.history.mark_open("cancelled")
    return event


def _turn_ended(state: SessionState, event: TurnEnded) -> Event:
    cancelled = state.turn == "cancelling" or event.stop_reason == "cancelled"
    state.turn = "idle"
    state.stop_reason, state.error, state.turn_usage = event.stop_reason, event.error, event.usage
    state.history.end_turn("cancelled" if cancelled else "ended_without_result")
    return event


def _permission_asked(state: SessionState, event: PermissionAsked) -> Event:
    if event.tool_call is not None:
        call, _ = state.history.patch_call(event.tool_call)
        event = structs.replace(event, call=copy(call))
    state.permissions[event.permission_id] = event
    return event


def _permission_answered(state: SessionState, event: PermissionAnswered) -> Event:
    state.permissions.pop(event.permission_id, None)
    return event


_REDUCERS: dict[type, Reducer] = {
    AgentMessageChunk: _to_history(History.chunk),
    AgentThoughtChunk: _to_history(History.chunk),
    UserMessageChunk: _to_history(History.user_chunk),
    MessageChanged: _to_history(History.message),
    ToolCallChanged: _tool_call,
    PlanChanged: _to_history(History.plan),
    CompactionUpdate: _to_history(History.compaction),
    CompactionSummaryChunk: _to_history(History.compaction),
    SubagentUpdate: _to_history(History.subagent),
    SessionMessage: _to_history(History.session_message),
    SessionMessageChunk: _to_history(History.session_message),
    AvailableCommandsUpdate: _commands,
    SessionInfoUpdate: _info,
    UsageUpdate: _usage,
    Notice: _notice,
    ModeChanged: _to_settings(SessionSettings.set_mode),
    ConfigOptionUpdate: _to_settings(SessionSettings.set_options),
    SessionOpened: _opened,
    ReplayStarted: _replay_started,
    ReplayEnded: _replay_ended,
    TurnStarted: _turn_started,
    TurnCancelling: _turn_cancelling,
    TurnEnded: _turn_ended,
    PermissionAsked: _permission_asked,
    PermissionAnswered: _permission_answered,
}
