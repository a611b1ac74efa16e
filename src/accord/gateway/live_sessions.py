"""The sessions of the gateway: each with its log, its settings, what it waits for, and who is attached to it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.resource_limits import LimitLease
from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.hosted_agent import HostedAgent
from accord.gateway.session_log import SessionLog, SessionLogs
from accord.safe_text import one_line
from accord.schema import (
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
    SessionNotification,
    SessionUpdate,
    Terminal,
    ToolCall,
    ToolCallChange,
    UsageUpdate,
    UserMessageChunk,
)
from accord.session import Event, ModeChanged, SessionOpened, SessionSettings, TurnEnded, TurnStarted, text_of
from accord.session.tool_calls import shows_terminals, without_terminals

if TYPE_CHECKING:
    from accord.gateway.agent_events import GatewayWorkspace
    from accord.gateway.gateway_client import GatewayClient
    from accord.gateway.pending_requests import PendingRequest

LiveSessionState: TypeAlias = Literal["running", "waiting", "idle"]
SessionKey: TypeAlias = tuple[str, str]
"""The agent's name and the agent's id of the session: two agents may use the same id."""


class LiveSession:
    """A session that somebody opened here since the gateway runs."""

    def __init__(
        self,
        agent: HostedAgent,
        session_id: str,
        cwd: str,
        additional: tuple[str, ...],
        log: SessionLog,
    ) -> None:
        self.agent = agent
        self.id = session_id
        self.cwd = cwd
        self.additional = additional
        self.log = log
        self.settings = SessionSettings()
        self.title: str | None = None
        self.updated: str | None = None
        self.live = False
        """Whether the running program knows it."""
        self.replay_buffer: list[Event] | None = None
        """While the agent sends the history again: what is to be logged once that has worked."""
        self.loading_client: GatewayClient | None = None
        """Who asked for that history, and alone gets it."""
        self.replay_held_from: int | None = None
        """From which update of that history on it waits, since its client reads more slowly than the agent sends."""
        self.discards_updates = False
        """While the agent sends the history again and nobody wants it."""
        self.clients: tuple[GatewayClient, ...] = ()
        """Who is attached, in the order of coming."""
        self.pending_requests: dict[int, PendingRequest] = {}
        self.running_turns = 0
        self.mcp_servers: bytes = b"[]"
        """Those it was opened with, to open it again."""
        self.workspace: GatewayWorkspace | None = None
        self.lease: LimitLease | None = None
        """What it counts for among the limits."""
        self.opened_by = ""
        """The token that it counts for."""
        self.joining_clients = 0
        """Clients that are being sent its history."""
        self.last_detached = 0.0
        """When the last client left it."""
        self._terminal_calls: dict[str, ToolCall] = {}
        self._current_updates: dict[type, OutgoingFrame] = {}
        self._expected_echo = ""
        self._has_name = False

    @property
    def key(self) -> SessionKey:
        """By which it is found."""
        return self.agent.name, self.id

    @property
    def state(self) -> LiveSessionState:
        """What a list shows."""
        if self.pending_requests:
            return "waiting"
        return "running" if self.running_turns else "idle"

    @property
    def folders(self) -> tuple[str, ...]:
        """All its folders."""
        return (self.cwd, *self.additional)

    @property
    def current_updates(self) -> list[OutgoingFrame]:
        """For whoever joins without history: the latest of those updates that say how things stand."""
        return list(self._current_updates.values())

    def take_lease(self, lease: LimitLease, rights: TokenRights) -> None:
        """It counts for this token among the limits; once, whoever opens it."""
        if self.lease is not None:
            lease.release()
        else:
            self.lease, self.opened_by = lease, rights.token

    def release_lease(self) -> None:
        """It no longer counts."""
        lease, self.lease = self.lease, None
        if lease is not None:
            lease.release()

    @property
    def is_unused(self) -> bool:
        """Whether nobody looks at it, and nothing happens in it."""
        return not (
            self.clients
            or self.running_turns
            or self.pending_requests
            or self.joining_clients
            or self.replay_buffer is not None
        )

    def record_opened(self, event: SessionOpened) -> None:
        """The agent told how things stand."""
        self.settings.open(event)
        self.log.append(event)

    def record_update(self, notification: SessionNotification, out: OutgoingFrame) -> bool:
        """Take in and log an update; whether it is the agent's echo of the running prompt, which the others know."""
        update = notification.update
        kind = type(update)
        if kind is UserMessageChunk and self._is_echo(cast(UserMessageChunk, update)):
            return True
        if kind in _SETTING_UPDATES:
            self._keep_setting(update, out)
        elif kind in _TOOL_CALL_UPDATES and shows_terminals(cast(ToolCall, update)):
            for item in cast(ToolCall, update).content or ():
                if isinstance(item, Terminal):
                    if len(self._terminal_calls) >= _MAX_TERMINAL_CALLS:
                        del self._terminal_calls[next(iter(self._terminal_calls))]
                    self._terminal_calls[item.terminal_id] = cast(ToolCall, update)
        if self.replay_buffer is None:
            self.log.append_one(cast(SessionUpdate, update))
        else:
            self.replay_buffer.append(cast(Event, update))
        return False

    def _keep_setting(self, update: object, out: OutgoingFrame) -> None:
        if isinstance(update, CurrentModeUpdate):
            self.settings.set_mode(ModeChanged(update.current_mode_id))
        elif isinstance(update, ConfigOptionUpdate):
            self.settings.set_options(update)
        else:
            if isinstance(update, SessionInfoUpdate):
                self.title = update.title or (None if update.title is None else self.title)
            self._current_updates[type(update)] = out

    def terminal_text(self, terminal_id: str) -> str | None:
        """What a terminal of this session printed, as far as it is known."""
        view = self.workspace.terminals.get(terminal_id) if self.workspace is not None else None
        return view.text if view is not None else None

    def terminal_end_update(self, terminal_id: str) -> ToolCallChange | None:
        """A terminal is over: what tells clients that cannot look at it what it printed. Once for each."""
        view = self.workspace.terminals.get(terminal_id) if self.workspace is not None else None
        if view is None or not (view.released or view.exit_status is not None):
            return None
        call = self._terminal_calls.pop(terminal_id, None)
        if call is None:
            return None
        change = ToolCallChange(tool_call_id=call.tool_call_id, content=call.content)
        return without_terminals(change, self.terminal_text)

    def begin_turn(self, started: TurnStarted) -> None:
        """A prompt goes out. Where the agent gave the session no title, its first prompt names it in lists."""
        if not self.title and not self._has_name and (name := one_line(text_of(started.prompt), _MAX_NAME)):
            self._has_name = True
            self.log.append(SessionInfoUpdate(title=name))
        if not self.running_turns:
            self.log.append(started)
            self._expected_echo = text_of(started.prompt)
        else:
            self.log.append(*(UserMessageChunk(content=block) for block in started.prompt))
        self.running_turns += 1
        running_turns = self.agent.running_turns
        running_turns[self.id] = running_turns.get(self.id, 0) + 1

    def end_turn(self, ended: TurnEnded) -> None:
        """A prompt was answered, or never will be."""
        self.running_turns = max(self.running_turns - 1, 0)
        self._expected_echo = ""
        running_turns = self.agent.running_turns
        if running_turns.get(self.id, 0) > 1:
            running_turns[self.id] -= 1
        else:
            running_turns.pop(self.id, None)
        if not self.running_turns:
            self.log.append(ended)

    def _is_echo(self, chunk: UserMessageChunk) -> bool:
        text = text_of(chunk)
        if text and self._expected_echo.startswith(text):
            self._expected_echo = self._expected_echo[len(text) :]
            return True
        self._expected_echo = ""
        return False


_MAX_TERMINAL_CALLS = 256
"""Terminals of a session whose end is still to be told."""
_MAX_NAME = 80
_TOOL_CALL_UPDATES = frozenset({ToolCall, ToolCallChange})
_SETTING_UPDATES = frozenset(
    {AvailableCommandsUpdate, ConfigOptionUpdate, CurrentModeUpdate, SessionInfoUpdate, UsageUpdate}
)


class LiveSessions:
    """All of them, by agent and id."""

    def __init__(self, logs: SessionLogs) -> None:
        self.logs = logs
        self._by_key: dict[SessionKey, LiveSession] = {}

    def __iter__(self) -> Iterator[LiveSession]:
        return iter(tuple(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, agent: str, session_id: str) -> LiveSession | None:
        """The session, if it was opened here."""
        return self._by_key.get((agent, session_id))

    def of(self, agent: HostedAgent) -> list[LiveSession]:
        """Those of one agent."""
        return [session for session in self._by_key.values() if session.agent is agent]

    def add(
        self,
        agent: HostedAgent,
        session_id: str,
        cwd: str,
        additional: tuple[str, ...] = (),
        *,
        logged: bool = True,
    ) -> LiveSession:
        """Begin to know a session."""
        session = self._by_key.get((agent.name, session_id))
        if session is not None:
            session.cwd, session.additional = cwd, additional
            return session
        log = self.logs.open_log(agent.name, session_id, cwd, additional, is_kept=logged)
        session = LiveSession(agent, session_id, cwd, additional, log)
        summary = log.summary
        if summary is not None:
            session.title = summary.title
        self._by_key[session.key] = session
        return session

    def forget(self, session: LiveSession) -> None:
        """No longer know it; its log stays."""
        self._by_key.pop(session.key, None)
        session.log.close()
