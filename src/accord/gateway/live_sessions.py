"""The sessions that clients have opened since the gateway started: log, settings, pending requests,
attached clients.
"""

import asyncio
from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from msgspec import UNSET, UnsetType

from accord.client.turn_requests import TurnRequests
from accord.errors import INTERNAL_ERROR
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.parameter_rights import check_folders
from accord.gateway.access.resource_limits import LimitLease
from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.contracts import HIDDEN_FROM_ALL, Book, SessionLog
from accord.gateway.hosted_agent import HostedAgent
from accord.safe_text import one_line
from accord.schema import (
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    Error,
    Notice,
    SessionInfoUpdate,
    SessionNotification,
    SessionUpdate,
    Terminal,
    ToolCall,
    ToolCallChange,
    UsageUpdate,
    UserMessageChunk,
)
from accord.session import (
    Event,
    ModeChanged,
    SessionOpened,
    SessionSettings,
    SessionState,
    StateChanged,
    TerminalChanged,
    TerminalExit,
    ToolCallChanged,
    TurnEnded,
    TurnStarted,
    text_of,
    turn_ended,
)
from accord.session.history import History
from accord.session.plain_updates import terminal_text
from accord.session.rewind import rewind_marker
from accord.session.tool_calls import has_terminals, without_terminals

if TYPE_CHECKING:
    from accord.frontend.review import Hunk
    from accord.gateway.gateway_client import GatewayClient
    from accord.gateway.gateway_workspace import GatewayWorkspace
    from accord.gateway.pending_requests import PendingRequest
    from accord.workspace.terminals import ExitStatus


LiveSessionState: TypeAlias = Literal["running", "waiting", "idle"]

SessionKey: TypeAlias = tuple[str, str]
"""The agent's name and its session id: two agents may use the same id."""

_MAX_TERMINAL_CALLS = 256
"""Terminals of a session whose end is still to be reported."""
_MAX_GENERATED_TITLE = 80
_MAX_KNOWN_CALLS = 256
_MAX_TERMINALS = 32
"""Terminals of the agent whose output is kept here; the log has all of them."""
_TOOL_CALL_UPDATES = frozenset({ToolCall, ToolCallChange})

_SETTING_UPDATES = frozenset(
    {AvailableCommandsUpdate, ConfigOptionUpdate, CurrentModeUpdate, SessionInfoUpdate, UsageUpdate}
)


class LiveSession:
    """A session that a client has opened since the gateway started."""

    def __init__(
        self,
        agent: HostedAgent,
        session_id: str,
        cwd: str,
        additional_folders: tuple[str, ...],
        log: SessionLog,
    ) -> None:
        self.agent: HostedAgent = agent
        self.id: str = session_id
        self.cwd: str = cwd
        self.additional_folders: tuple[str, ...] = additional_folders
        self.log: SessionLog = log
        self.owns_log: bool = False
        """Whether this gateway has claimed the log, or created it."""
        self.needs_claim: bool = True
        """Whether something in the log may be open that no agent process works on."""
        self.claim_task: asyncio.Task[None] | None = None
        """The claim of the log while it runs."""
        self.latest: SessionState = SessionState()
        """The tool calls and the agent's terminals of the latest turns, and its background work."""
        self.settings: SessionSettings = SessionSettings()
        self.title: str | None = None
        self.open_at_agent: bool = False
        """Whether the running agent process has this session open."""
        self.replay_buffer: list[Event] | None = None
        """During `session/load`: the replayed events, to be logged if the load succeeds. None otherwise."""
        self.loading_client: GatewayClient | None = None
        """The client that requested the load; only it gets the replay."""
        self.replay_unsent_from: int | None = None
        """Index of the first replayed update that was not sent because the client reads too slowly."""
        self.discards_updates: bool = False
        """Set while the agent replays a history that is already in the log."""
        self.clients: tuple[GatewayClient, ...] = ()
        """The attached clients, in the order in which they attached."""
        self.pending_requests: dict[int, PendingRequest] = {}
        self.running_turns: int = 0
        self.asking: dict[str, GatewayClient] = {}
        """Who asked for the prompts that an agent in version 2 has not taken yet, by their keys."""
        self.own_turn: int | None = None
        """The number of a turn that the agent began without a prompt."""
        self.last_end: TurnEnded | None = None
        """How the latest turn ended, as far as this gateway knows."""
        self.only_readable: bool = False
        """Whether the agent was asked for this session and cannot open it."""
        self.turn_start: int = 0
        """The number of the last record before the latest prompt."""
        self.turn_requests: TurnRequests = TurnRequests()
        """The agent's requests that the gateway serves and that end with the turn."""
        self.mcp_servers: bytes = b"[]"
        """The client's MCP servers as JSON, for reopening the session."""
        self.workspace: GatewayWorkspace | None = None
        self.reverted_hunks: dict[str, Hunk] = {}
        """Changes that were taken back in the review and can be brought back."""
        self._bounds: dict[tuple[str, ...], TokenRights] = {}
        self.lease: LimitLease | None = None
        """Counts it against the session limit."""
        self.opened_by: str = ""
        """The id of the token that it counts for."""
        self.joining_clients: int = 0
        """Number of clients that are receiving its history."""
        self.last_detach_time: float = 0.0
        """When the last client detached."""
        self.open_terminals: set[str] = set()
        """The gateway's own terminals whose end was not shown to clients that take events."""
        self._terminal_calls: dict[str, ToolCall] = {}
        self._current_updates: dict[type, OutgoingFrame] = {}
        self._expected_echo = ""
        self._has_generated_title = False

    @property
    def key(self) -> SessionKey:
        """The key in `LiveSessions`."""
        return self.agent.name, self.id

    @property
    def state(self) -> LiveSessionState:
        if self.pending_requests:
            return "waiting"
        return "running" if self.running_turns else "idle"

    @property
    def folders(self) -> tuple[str, ...]:
        """The working directory and the additional folders."""
        return (self.cwd, *self.additional_folders)

    @property
    def current_updates(self) -> list[OutgoingFrame]:
        """The latest settings-like updates, for a client that joins without history."""
        return list(self._current_updates.values())

    def take_lease(self, lease: LimitLease, rights: TokenRights) -> None:
        """Count the session for this token. A session that already counts releases the new lease."""
        if self.lease is not None:
            lease.release()
        else:
            self.lease, self.opened_by = lease, rights.token

    def add_user(self, rights: TokenRights) -> None:
        """Note that a client with these rights can cause commands from now on.

        Holds for good: a turn of the client may run on after it has disconnected.
        """
        if rights.folders is not None and not rights.read_only:
            self._bounds[rights.folders] = rights

    @property
    def confines_commands(self) -> bool:
        """Whether commands run in the sandbox, because a folder-bound token can have caused them."""
        return bool(self._bounds)

    def check_bounds(self) -> None:
        """Raise RpcError if a folder was replaced by a link that leads out of the folders of a token."""
        for rights in self._bounds.values():
            check_folders(rights, *self.folders)

    def release_lease(self) -> None:
        """Stop counting the session."""
        lease, self.lease = self.lease, None
        if lease is not None:
            lease.release()

    def is_shared_in(self, folders: tuple[str, ...]) -> bool:
        """Whether an agent that answers `session/new` with it shares it between clients."""
        return self.open_at_agent and self.folders == folders

    @property
    def is_unused(self) -> bool:
        """Whether it has no client, no turn, no pending request and no load in progress."""
        return not self.clients and not self.is_busy

    @property
    def has_work(self) -> bool:
        """Whether its agent has something to do: a turn, a pending request or background work."""
        return bool(self.running_turns or self.pending_requests or self.latest.background)

    @property
    def is_busy(self) -> bool:
        """Whether a turn, a pending request or a load is in progress."""
        return bool(
            self.running_turns
            or self.pending_requests
            or self.joining_clients
            or self.claim_task is not None
            or self.replay_buffer is not None
        )

    def record_opened(self, event: SessionOpened) -> None:
        """Record the agent's answer that opened the session."""
        self.settings.apply_opened(event)
        self.log.append(event)

    def record_update(self, notification: SessionNotification, frame: OutgoingFrame, by: str = "") -> bool:
        """Log an update, caused by the connection `by`. Return True, without logging, if it echoes the
        running prompt.
        """
        update = notification.update
        kind = type(update)
        if kind is UserMessageChunk and self._is_echo(cast(UserMessageChunk, update)):
            return True
        if kind in _SETTING_UPDATES:
            self._record_setting(update, frame)
        elif kind in _TOOL_CALL_UPDATES:
            self._record_tool_call(cast(ToolCall, update))
        if self.replay_buffer is not None:
            self.replay_buffer.append(cast(Event, update))
        elif by:
            self.log.append(cast(SessionUpdate, update), by=by)
        elif kind is not Notice:  # a notice is not part of the history
            self.log.append_one(cast(SessionUpdate, update))
        return False

    def record_event(self, event: Event) -> Event:
        """Log what updates of version 1 cannot say. Return the event, completed from what came before."""
        event = self.note_event(event)
        if self.replay_buffer is not None:
            self.replay_buffer.append(event)
        elif not isinstance(event, StateChanged):  # it is not part of the history
            self.log.append_one(event)
        return event

    def note_event(self, event: Event) -> Event:
        """Apply an event that is logged elsewhere. Return it, completed from what came before."""
        if not isinstance(event, ToolCallChanged | TerminalChanged | StateChanged):
            return event
        event, terminals = self.latest.apply(event), self.latest.terminals
        if len(terminals) > _MAX_TERMINALS:
            ended = [id for id, terminal in terminals.items() if terminal.exit is not None]
            for id in ended[: len(terminals) - _MAX_TERMINALS]:
                del terminals[id]
        return event

    def _record_tool_call(self, call: ToolCall | ToolCallChange) -> None:
        if self.replay_buffer is None or self.agent.takes_events:
            self.latest.apply(call)
        if has_terminals(call):
            for item in call.content or ():
                if isinstance(item, Terminal):
                    if len(self._terminal_calls) >= _MAX_TERMINAL_CALLS:
                        del self._terminal_calls[next(iter(self._terminal_calls))]
                    self._terminal_calls[item.terminal_id] = cast(ToolCall, call)

    def _record_setting(self, update: object, frame: OutgoingFrame) -> None:
        if isinstance(update, CurrentModeUpdate):
            self.settings.apply_mode(ModeChanged(update.current_mode_id))
        elif isinstance(update, ConfigOptionUpdate):
            self.settings.apply_options(update)
        else:
            if isinstance(update, SessionInfoUpdate):
                self.title = update.title or (None if update.title is None else self.title)
                if rewind_marker(update.meta) is not None:
                    return  # it changes the history, once
            self._current_updates[type(update)] = frame

    def terminal_text(self, terminal_id: str) -> str | None:
        """The output of a terminal of this session; None if the terminal is unknown."""
        shown = terminal_text(self.latest, terminal_id)
        if shown is not None:
            return shown
        view = self.workspace.terminals.get(terminal_id) if self.workspace is not None else None
        return view.text if view is not None else None

    def terminal_end_update(self, terminal_id: str) -> ToolCallChange | None:
        """Return the update that shows a finished terminal's output as text; once for each terminal."""
        view = self.workspace.terminals.get(terminal_id) if self.workspace is not None else None
        if view is None or not (view.released or view.exit_status is not None):
            return None
        call = self._terminal_calls.pop(terminal_id, None)
        if call is None:
            return None
        change = ToolCallChange(tool_call_id=call.tool_call_id, content=call.content)
        return without_terminals(change, self.terminal_text)

    def terminal_end(self, terminal_id: str) -> TerminalChanged | None:
        """Return the event for the end of a terminal of the gateway; once for each terminal."""
        view = self.workspace.terminals.get(terminal_id) if self.workspace is not None else None
        if view is None or terminal_id not in self.open_terminals:
            return None
        status = view.exit_status
        if status is None and not view.released:
            return None
        self.open_terminals.discard(terminal_id)
        return TerminalChanged(terminal_id, exit=_terminal_exit(status))

    @property
    def gateway_terminals(self) -> Iterator[TerminalChanged]:
        """The gateway's own terminals, each with all of its output so far."""
        if self.workspace is None:
            return
        for view in self.workspace.terminals.values():
            output = b64encode(view.text.encode()).decode("ascii")
            shown = TerminalChanged(view.terminal_id, view.command, self.cwd, output)
            if view.terminal_id not in self.open_terminals:
                shown.exit = _terminal_exit(view.exit_status)
            yield shown

    def begin_turn(self, event: TurnStarted, by: str = "", message_id: str | UnsetType = UNSET) -> int:
        """Record a prompt of the connection `by`, with its message id if another turn runs.

        The first prompt names the session if the agent gave it no title.
        """
        if len(self.latest.tool_calls) > _MAX_KNOWN_CALLS:
            self.latest.history = History()
        self.turn_start = self.log.noted
        if (
            not self.title
            and not self._has_generated_title
            and (title := one_line(text_of(event.prompt), _MAX_GENERATED_TITLE))
        ):
            self._has_generated_title = True
            self.log.append(SessionInfoUpdate(title=title), by=HIDDEN_FROM_ALL)
        if not self.running_turns:
            self.log.append(event, by=by)
            self._expected_echo = text_of(event.prompt)
        else:
            self.log.append(*(UserMessageChunk(block, message_id) for block in event.prompt), by=by)
        self.running_turns += 1
        running_turns = self.agent.running_turns
        running_turns[self.id] = running_turns.get(self.id, 0) + 1
        return self.turn_requests.begin_turn()

    def end_turn(self, event: TurnEnded, turn: int | None = None) -> None:
        """Record that a prompt ended. Without its number, all turns end."""
        self.turn_requests.end_turn(turn)
        self.running_turns = max(self.running_turns - 1, 0)
        self._expected_echo = ""
        running_turns = self.agent.running_turns
        if running_turns.get(self.id, 0) > 1:
            running_turns[self.id] -= 1
        else:
            running_turns.pop(self.id, None)
        if not self.running_turns:
            self.asking.clear()
            self.last_end = event
            self.log.append(event)

    def follow_state(self, event: StateChanged) -> TurnEnded | None:
        """Follow a turn that the agent begins without a prompt. Return its end.

        It counts as running until `end_turn`. While a prompt runs, the state says nothing new.
        """
        if event.state != "idle":
            if not self.running_turns:
                self.own_turn = self.begin_turn(TurnStarted())
            return None
        if self.own_turn is None:
            return None
        own_turn, self.own_turn = self.own_turn, None
        if event.stop_reason == "error":
            end = TurnEnded(error=event.error or Error(INTERNAL_ERROR, "The turn failed"))
        else:
            end = turn_ended(event.stop_reason or "end_turn", event.usage)
        self.end_turn(end, own_turn)
        return end

    def _is_echo(self, chunk: UserMessageChunk) -> bool:
        text = text_of(chunk)
        if text and self._expected_echo.startswith(text):
            self._expected_echo = self._expected_echo[len(text) :]
            return True
        self._expected_echo = ""
        return False


def _terminal_exit(status: "ExitStatus | None") -> TerminalExit:
    return TerminalExit() if status is None else TerminalExit(status.exit_code, status.signal)


class LiveSessions:
    """The live sessions by agent and id."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._by_key: dict[SessionKey, LiveSession] = {}

    def __iter__(self) -> Iterator[LiveSession]:
        return iter(tuple(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, agent: str, session_id: str) -> LiveSession | None:
        return self._by_key.get((agent, session_id))

    def of(self, agent: HostedAgent) -> list[LiveSession]:
        return [session for session in self._by_key.values() if session.agent is agent]

    def add(
        self,
        agent: HostedAgent,
        session_id: str,
        cwd: str,
        additional_folders: tuple[str, ...] = (),
        *,
        new: bool = False,
    ) -> LiveSession:
        """Return the session, added if it is not live. Reads no records of its log.

        `new` is whether the agent has just created it. Raises InvalidRequest if it cannot be logged.
        """
        session = self._by_key.get((agent.name, session_id))
        if session is not None:
            session.cwd, session.additional_folders = cwd, additional_folders
            return session
        log = self._book.open_log(agent.name, session_id, cwd, additional_folders, new=new)
        session = LiveSession(agent, session_id, cwd, additional_folders, log)
        session.owns_log, session.needs_claim = new, not new
        summary = log.summary
        if summary is not None:
            session.title = summary.title
        self._by_key[session.key] = session
        return session

    def forget(self, session: LiveSession) -> None:
        """Remove the session and close its log."""
        self._by_key.pop(session.key, None)
        session.log.close()
