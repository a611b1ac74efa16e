"""The state of a session: everything its events add up to.

Pure: no I/O and no clock. `apply` never raises for anything that the message reader accepts.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
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
    ToolCall,
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
    StateChanged,
    TerminalChanged,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
)
from accord.session.history import Entry, History
from accord.session.history_items import V1_PLAN_ID, Message
from accord.session.rewind import rewind_marker
from accord.session.session_settings import SessionSettings
from accord.session.terminal_state import BackgroundItem, TerminalState
from accord.session.tool_calls import ToolCallState, without_terminals

TurnStatus: TypeAlias = Literal["idle", "running", "cancelling"]
"""Whether a turn runs."""

MAX_NOTICES: Final = 100


class SessionState:
    """The current state of one session. Read it freely; only `apply` changes it."""

    __slots__ = (
        "additional_directories",
        "background",
        "commands",
        "cwd",
        "error",
        "history",
        "history_before_replay",
        "node",
        "notices",
        "permissions",
        "reported_activity",
        "session_id",
        "settings",
        "stop_reason",
        "terminals",
        "title",
        "turn",
        "turn_usage",
        "updated_at",
        "usage",
    )  # fmt: skip

    def __init__(
        self, session_id: str = "", cwd: str = "", additional_directories: Iterable[str] = ()
    ) -> None:
        self.session_id: str = session_id
        self.cwd: str = cwd
        self.additional_directories: list[str] = list(additional_directories)
        self.history: History = History()
        self.settings: SessionSettings = SessionSettings()
        self.history_before_replay: History | None = None  # set while the agent replays
        self.turn: TurnStatus = "idle"
        self.stop_reason: StopReason | None = None  # of the latest ended turn
        self.error: Error | None = None
        self.turn_usage: Usage | None = None
        self.title: str | None = None
        self.updated_at: str | None = None
        self.node: str = ""  # of a cluster; "" on one machine
        self.usage: UsageUpdate | None = None  # context window and total cost
        self.commands: list[AvailableCommand] = []
        self.notices: deque[Notice] = deque(maxlen=MAX_NOTICES)  # not part of the history
        self.permissions: dict[str, PermissionAsked] = {}  # the open permission requests
        self.terminals: dict[str, TerminalState] = {}  # terminals of the agent, version 2 only
        self.background: list[BackgroundItem] = []  # what goes on while the session is idle
        self.reported_activity: str = ""  # what the agent said last, version 2 only

    def apply(self, item: Event | SessionUpdate) -> Event:
        """Apply an event, or an update from the wire. Return the event, completed from the state."""
        if type(item) is AgentMessageChunk:  # the most frequent one
            self.history.chunk(item)
            return item
        reduce = _REDUCERS.get(type(item))
        if reduce is not None:
            return reduce(self, item)
        event = protocol_v1.event_of(cast(SessionUpdate, item))
        reduce = _REDUCERS.get(type(event))
        return event if reduce is None else reduce(self, event)

    @property
    def activity(self) -> str:
        """running, idle or requires_action. Another word of the agent counts as busy."""
        if self.reported_activity:
            return self.reported_activity
        if self.turn == "idle":
            return "idle"
        return "requires_action" if self.permissions else "running"

    @property
    def timeline(self) -> list[Entry]:
        """Messages, tool calls, plans and other entries, in order of first appearance."""
        return self.history.timeline

    @property
    def messages(self) -> list[Message]:
        """The messages and thoughts, in order."""
        return self.history.messages

    @property
    def tool_calls(self) -> dict[str, ToolCallState]:
        """The tool calls by id, in order of first appearance."""
        return self.history.tool_calls

    @property
    def plan(self) -> list[PlanEntry]:
        """The steps of the plan; of several plans, the first that has steps."""
        plans = self.history.plans
        if V1_PLAN_ID in plans:
            return plans[V1_PLAN_ID].entries
        for plan in plans.values():
            if plan.entries:
                return plan.entries
        return []

    def roots_of(self, child: str) -> tuple[str, list[str]] | None:
        """Return the working directory and the additional roots of a child session.

        Each is inherited from this session if the child has none. None for an unknown child. The agent
        reports them, so the caller must decide how far to trust them.
        """
        subagent = self.history.subagents.get(child)
        if subagent is None:
            return None
        directories = subagent.additional_directories
        return (
            self.cwd if subagent.cwd is None else subagent.cwd,
            list(self.additional_directories if directories is None else directories),
        )

    def snapshot(self) -> list[Event]:
        """Return the events of a stored transcript; applied to a new state they rebuild this one.

        Live state is left out: notices, open permission requests, the running turn.
        """
        opened = SessionOpened(self.session_id, self.cwd, list(self.additional_directories))
        events: list[Event] = [self.settings.with_settings(opened)]
        events += self.history.events()
        events += map(terminal_event, self.terminals.values())
        if self.commands:
            events.append(AvailableCommandsUpdate(available_commands=list(self.commands)))
        if self.title is not None or self.updated_at is not None:
            events.append(SessionInfoUpdate(title=self.title, updated_at=self.updated_at))
        if self.usage is not None:
            events.append(self.usage)
        return events

    def updates(self) -> Iterator[SessionUpdate]:
        """Yield the updates with which an agent replays this session: history, title and usage.

        Terminals become text, because they belong to an earlier client. Modes, options and commands are left
        out: the agent offers its current ones. Apply nothing meanwhile.
        """
        for event in self.history.iter_events():
            for update in cast(list[SessionUpdate], protocol_v1.updates_of(event)):
                is_call = isinstance(update, ToolCall)
                yield without_terminals(update, lambda _terminal: None) if is_call else update
        if self.title is not None:
            yield SessionInfoUpdate(self.title)
        if self.usage is not None:
            yield self.usage


Reducer: TypeAlias = Callable[[SessionState, Any], Event]


def _history_reducer(method: Callable[[History, Any], None]) -> Reducer:
    def reduce(state: SessionState, event: Event) -> Event:
        method(state.history, event)
        return event

    return reduce


def _settings_reducer(method: Callable[[SessionSettings, Any], None]) -> Reducer:
    def reduce(state: SessionState, event: Event) -> Event:
        method(state.settings, event)
        return event

    return reduce


def _tool_call(state: SessionState, event: ToolCallChanged) -> Event:
    return state.history.tool_call(event)


def terminal_event(terminal: TerminalState) -> TerminalChanged:
    """The event that shows a terminal as it is now."""
    return TerminalChanged(
        terminal.terminal_id,
        terminal.command,
        terminal.cwd,
        terminal.encoded_output,
        exit=terminal.exit,
        cancellable=terminal.cancellable,
    )


def _terminal(state: SessionState, event: TerminalChanged) -> Event:
    terminal = state.terminals.setdefault(event.terminal_id, TerminalState(event.terminal_id))
    if event.command is not UNSET:
        terminal.command = event.command
    if event.cwd is not UNSET:
        terminal.cwd = event.cwd
    if event.output is not UNSET:
        terminal.replace_output(event.output or "")
    if event.append:
        terminal.append_output(event.append)
    if event.exit is not UNSET:
        terminal.exit = event.exit
    if event.cancellable is not UNSET:
        terminal.cancellable = event.cancellable
    return event


def _activity(state: SessionState, event: StateChanged) -> Event:
    state.reported_activity = event.state
    if event.background is not UNSET:
        state.background = event.background
    return event


def _commands(state: SessionState, event: AvailableCommandsUpdate) -> Event:
    state.commands = event.available_commands
    return event


def _info(state: SessionState, event: SessionInfoUpdate) -> Event:
    if event.title is not UNSET:
        state.title = event.title
    if event.updated_at is not UNSET:
        state.updated_at = event.updated_at
    if event.meta:
        if (marker := rewind_marker(event.meta)) is not None:
            state.history.rewind(marker)
        if (node := protocol_v1.node_in(event.meta)) is not UNSET:
            state.node = node
    return event


def _usage(state: SessionState, event: UsageUpdate) -> Event:
    previous = state.usage
    # The cost is a total of the session: an update without it keeps the previous value.
    if event.cost is UNSET and previous is not None and previous.cost:
        state.usage = structs.replace(event, cost=previous.cost)
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
    if event.node is not UNSET:
        state.node = event.node
    state.settings.apply_opened(event)
    return event


def _replay_started(state: SessionState, event: ReplayStarted) -> Event:
    state.history_before_replay = state.history
    state.history = History()
    return event


def _replay_ended(state: SessionState, event: ReplayEnded) -> Event:
    if state.history_before_replay is not None and not state.history.timeline:
        state.history = state.history_before_replay
    state.history_before_replay = None
    state.history.end_turn("ended_without_result")
    return event


def _turn_started(state: SessionState, event: TurnStarted) -> Event:
    if state.turn != "idle" and event.message_id and not event.prompt:
        state.history.name_prompt(event.message_id)
        return event
    state.turn = "running"
    state.stop_reason = state.error = state.turn_usage = None
    state.history.begin_turn(event.prompt, event.message_id)
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
    AgentMessageChunk: _history_reducer(History.chunk),
    AgentThoughtChunk: _history_reducer(History.chunk),
    UserMessageChunk: _history_reducer(History.user_chunk),
    MessageChanged: _history_reducer(History.message),
    ToolCallChanged: _tool_call,
    TerminalChanged: _terminal,
    StateChanged: _activity,
    PlanChanged: _history_reducer(History.plan),
    CompactionUpdate: _history_reducer(History.compaction),
    CompactionSummaryChunk: _history_reducer(History.compaction),
    SubagentUpdate: _history_reducer(History.subagent),
    SessionMessage: _history_reducer(History.session_message),
    SessionMessageChunk: _history_reducer(History.session_message),
    AvailableCommandsUpdate: _commands,
    SessionInfoUpdate: _info,
    UsageUpdate: _usage,
    Notice: _notice,
    ModeChanged: _settings_reducer(SessionSettings.apply_mode),
    ConfigOptionUpdate: _settings_reducer(SessionSettings.apply_options),
    SessionOpened: _opened,
    ReplayStarted: _replay_started,
    ReplayEnded: _replay_ended,
    TurnStarted: _turn_started,
    TurnCancelling: _turn_cancelling,
    TurnEnded: _turn_ended,
    PermissionAsked: _permission_asked,
    PermissionAnswered: _permission_answered,
}
