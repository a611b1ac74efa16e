"""Handles what agents send: updates to log and clients, requests, file and terminal calls, exit."""

import re
import shlex
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from msgspec import Raw

from accord.client import agent_requests
from accord.client.client_events import TerminalPrinted
from accord.errors import InvalidParams, MethodNotFound, NotFound, RpcError, StoreError, to_rpc_error
from accord.gateway.access.resource_limits import LimitLease
from accord.gateway.client_connection import MAX_UNSENT_HISTORY, LoggedFrame, OutgoingFrame
from accord.gateway.client_features import CAPABILITY_GATED, event_body
from accord.gateway.contracts import HIDDEN_FROM_ALL
from accord.gateway.gateway_client import GatewayClient
from accord.gateway.gateway_workspace import GatewayWorkspace
from accord.gateway.hosted_agent import HostedAgent
from accord.gateway.live_sessions import LiveSession
from accord.gateway.upstream import Upstream, read_untyped
from accord.safe_text import one_line
from accord.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ConfigOptionUpdate,
    CreateTerminalResponse,
    ElicitationFormMode,
    ElicitationUrlMode,
    MessageMcpRequest,
    Notice,
    SessionNotification,
    SessionUpdate,
    ToolCall,
    ToolCallChange,
    Unknown,
)
from accord.schema.codec import DECODE_ERRORS, decode, encode, to_builtins
from accord.schema.methods import Alias, notification, request
from accord.session import Event, StateChanged, TerminalChanged, TurnStarted, turn_failed
from accord.session.events import OWN_TAGS, own_event
from accord.session.plain_updates import PROMPT_KEY
from accord.session.tool_calls import has_terminals
from accord.trace.redaction import redact_command
from accord.wire.connection import CANCEL_REQUEST
from accord.wire.envelope import Notification, RequestId
from accord.wire.transport import DEFAULT_LIMIT, TransportEnd

if TYPE_CHECKING:
    from accord.gateway.gateway import Gateway


LOG = getLogger("accord.gateway")
_MAX_EARLY_UPDATES: Final = 256
_MAX_EARLY_BYTES: Final = 4 << 20

_UNSCOPED_NOTIFICATIONS: Final = ("elicitation/complete",)
"""Notifications without a session that any client of the agent may receive."""
_MAX_LOGGED_METHOD: Final = 100
_SESSION_ID: Final = re.compile(rb'"sessionId"\s*:\s*("(?:[^"\\]|\\.)*")')

_TERMINAL_END_METHODS: Final = (
    "terminal/output",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/release",
)

_CHANGING_METHODS: Final = ("fs/write_text_file", "terminal/create")
_TURN_METHODS: Final = ("fs/read_text_file", *_CHANGING_METHODS)
"""Methods whose requests end with the turn."""

_MESSAGE_UPDATES: Final = frozenset({AgentMessageChunk, AgentThoughtChunk})
"""Updates that every client gets and that change nothing but the messages."""


class AgentEvents:
    """Handles the events of all hosted agents."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._early_updates: dict[str, list[tuple[SessionNotification, bytes]]] = {}
        self._last_session: LiveSession | None = None  # consecutive updates are usually of the same session

    def on_batch_end(self) -> None:
        """Log everything of one read, then send it."""
        self._last_session = None
        self._gateway.outbox.flush()

    def on_updates(
        self, agent: HostedAgent, notifications: list[SessionNotification], frames: list[bytes]
    ) -> None:
        """Handle the updates of one read. Those of one session that are parts of messages go together."""
        session_id = notifications[0].session_id
        session = self._gateway.sessions.find(agent.name, session_id)
        if session is not None and session.replay_buffer is None and not session.discards_updates:
            updates = [update.update for update in notifications if update.session_id == session_id]
            if len(updates) == len(frames) and _MESSAGE_UPDATES.issuperset(map(type, updates)):
                session.log.append(*cast("list[SessionUpdate]", updates))
                if session.clients:
                    outgoing: list[OutgoingFrame] = list(map(LoggedFrame, frames))
                    self._gateway.outbox.post_in_batch(session.clients, outgoing, session_id, session.log)
                return
        for update, frame in zip(notifications, frames, strict=True):
            self.on_update(agent, update, frame)

    def on_update(self, agent: HostedAgent, notification: SessionNotification, frame: bytes) -> None:
        """Log an update and queue it for the attached clients. The end of the batch sends it."""
        session = self._last_session
        if session is None or session.id != notification.session_id or session.agent is not agent:
            session = self._gateway.sessions.find(agent.name, notification.session_id)
            if session is None:
                self._keep_early_update(agent, notification, frame)
                return
            self._last_session = session
        if session.discards_updates:
            return
        kind = type(notification.update)
        if kind is Unknown and (update := cast(Unknown, notification.update)).kind.startswith(OWN_TAGS):
            if agent.takes_events:  # an agent itself sends none
                event = own_event(update)
                if isinstance(event, TurnStarted):
                    self._on_prompt_taken(session, event, update.raw.get(PROMPT_KEY), frame)
                else:
                    self._on_event(session, event, frame)
            return
        if kind in _MESSAGE_UPDATES and session.replay_buffer is None:  # the common case
            log = session.log
            log.append_one(notification.update)  # type: ignore[arg-type]  # no cast on the hot path
            if session.clients:
                self._gateway.outbox.post_in_batch(session.clients, [LoggedFrame(frame)], session.id, log)
            return
        is_logged = session.replay_buffer is None and kind is not Notice
        outgoing = LoggedFrame(frame) if is_logged else OutgoingFrame(frame)
        if session.record_update(notification, outgoing) and session.loading_client is None:
            return
        clients = self._recipients(session)
        update = notification.update
        if isinstance(update, ToolCall | ToolCallChange):
            if has_terminals(update):
                call, text = update, session.terminal_text
                self._send_adapted(
                    session, update, outgoing, clients, lambda client: client.adapt_call(call, text)
                )
                return
        elif isinstance(update, ConfigOptionUpdate):
            self._send_adapted(session, update, outgoing, clients, lambda client: client.adapt(update))
            return
        elif kind in CAPABILITY_GATED:
            clients = tuple(client for client in clients if client.wants_update(update))
        if clients:
            self._gateway.outbox.post_in_batch(clients, [outgoing], session.id, session.log)

    def _recipients(self, session: LiveSession) -> "Sequence[GatewayClient]":
        """The clients that get what was just recorded: during a replay the one that asked for it, as long as
        it reads fast enough.
        """
        client = session.loading_client
        if client is None:
            return session.clients
        if (
            session.replay_unsent_from is None
            and session.replay_buffer
            and client.connection.unsent > MAX_UNSENT_HISTORY
        ):
            session.replay_unsent_from = len(session.replay_buffer) - 1
        return (client,) if session.replay_unsent_from is None else ()

    def _on_event(self, session: LiveSession, event: Event, frame: bytes) -> None:
        """Log what an agent in version 2 says and updates of version 1 cannot, and send it."""
        event = session.record_event(event)
        if isinstance(event, StateChanged):
            self._follow_state(session, event)
        is_logged = session.replay_buffer is None and not isinstance(event, StateChanged)
        clients = self._recipients(session)
        if clients:
            outgoing = LoggedFrame(frame) if is_logged else OutgoingFrame(frame)
            self._gateway.send_event(session, event, clients, frame=outgoing)

    def _on_prompt_taken(self, session: LiveSession, event: TurnStarted, key: Any, frame: bytes) -> None:
        """Log the id of a prompt's message, and tell the client that asked for it."""
        client = session.asking.pop(key, None)
        if event.message_id != key:
            session.log.append(event, by=HIDDEN_FROM_ALL)
        if client is not None and client.extensions.get("turn") == "answer":
            self._gateway.outbox.post((client,), OutgoingFrame(frame), session.id, session.log)

    def _follow_state(self, session: LiveSession, event: StateChanged) -> None:
        """Tell the clients of a turn that the agent begins without a prompt, and of its end."""
        was_running = session.running_turns
        end = session.follow_state(event)
        if end is not None:
            members: dict[str, object] = {"stopReason": end.raw_reason}
            if end.error is not None:
                members = {"error": to_builtins(end.error)}
            self._gateway.on_turn_ended(session, members)
        elif session.running_turns > was_running:
            self._gateway.notify_turn(session, {"state": "started"})
            self._gateway.overview.notify_changed(session)

    def _send_adapted(
        self,
        session: LiveSession,
        update: SessionUpdate,
        outgoing: OutgoingFrame,
        clients: Sequence[GatewayClient],
        adapt: Callable[[GatewayClient], SessionUpdate],
    ) -> None:
        """Send config options or a tool call, adapted to each client."""
        for client in clients:
            adapted = adapt(client)
            if adapted is update:
                self._gateway.outbox.post((client,), outgoing, session.id, session.log)
            else:
                is_logged = isinstance(outgoing, LoggedFrame)
                self._gateway.send_update(session, adapted, (client,), is_logged=is_logged)

    def _keep_early_update(self, agent: HostedAgent, notification: SessionNotification, frame: bytes) -> None:
        """Keep an update for a session that the agent has not named yet.

        Some agents send updates before they answer `session/new`.
        """
        early_updates = self._early_updates.setdefault(agent.name, [])
        upstream = agent.upstream
        if upstream is None or not upstream.is_creating_session:
            early_updates.clear()
        elif (
            len(early_updates) < _MAX_EARLY_UPDATES
            and sum(len(early_frame) for _, early_frame in early_updates) < _MAX_EARLY_BYTES
        ):
            early_updates.append((notification, frame))

    def deliver_early_updates(self, agent: HostedAgent, session: LiveSession) -> None:
        """Handle the updates that arrived before the session was named."""
        early_updates = self._early_updates.pop(agent.name, [])
        renamed = None if agent.upstream is None else agent.upstream.renamed
        for update, frame in early_updates:
            if renamed is not None and renamed.own_id(session.id) == update.session_id:
                update = SessionNotification(session.id, update.update)
                frame = encode(Notification("session/update", update))
            if update.session_id == session.id:
                self.on_update(agent, update, frame)
            else:
                self._keep_early_update(agent, update, frame)

    def on_request(
        self, agent: HostedAgent, id: RequestId, method: str, params: Raw | None, alias: Alias | None
    ) -> None:
        """Handle a request of an agent: serve files and terminals here, show the rest to clients."""
        upstream = agent.upstream
        if upstream is None:
            return
        try:
            entry = request("client", method)
            if entry is None and not method.startswith("_"):
                raise MethodNotFound(data={"method": method})
            body, value = (
                read_untyped(params) if entry is None else upstream.reader.params(entry, params, alias)
            )
            if isinstance(value, MessageMcpRequest):
                self._gateway.mcp_providers.forward_request(agent, upstream, id, value)
            elif method in WORKSPACE_METHODS:
                self._serve_workspace_request(agent, upstream, id, method, value)
            else:
                self._forward_request(agent, upstream, id, method, body, value)
        except RpcError as error:
            upstream.refuse(id, error)

    def _serve_workspace_request(
        self, agent: HostedAgent, upstream: Upstream, id: RequestId, method: str, value: Any
    ) -> None:
        session = self._session(agent, value.session_id)
        session.check_bounds()
        workspace = session.workspace
        if workspace is None or workspace.folders != session.folders:
            if workspace is not None:
                self._gateway.tasks.start(workspace.aclose())

            def on_output(event: TerminalPrinted) -> None:
                self._send_terminal_output(session, event)

            def on_control_files(names: list[str]) -> None:
                text = "session %s of %s: a command wrote files that steer other programs: %s"
                self._gateway.log_warning(text, session.id, agent.name, ", ".join(names))

            workspace = session.workspace = GatewayWorkspace(
                session.folders,
                on_output,
                confines=lambda: session.confines_commands,
                on_control_files=on_control_files,
            )

        def work() -> Awaitable[Any]:
            return WORKSPACE_METHODS[method](workspace, value)

        request = None
        if method in _TURN_METHODS:
            request = session.turn_requests.admit(changes=method in _CHANGING_METHODS)

        async def serve() -> None:
            try:
                response = await (work() if request is None else request.run(work))
                result = encode(response)
            except Exception as error:  # noqa: BLE001 - request boundary: every error becomes a response
                upstream.refuse(id, to_rpc_error(error))
            else:
                upstream.answer(id, result)
                self._record_served(agent, session, method, value)
                if isinstance(response, CreateTerminalResponse):
                    self._show_terminal(session, response.terminal_id, value.cwd or session.cwd)
                if method in _TERMINAL_END_METHODS:
                    self._send_terminal_end(session, value.terminal_id)

        workspace.tasks.start(serve())

    def _record_served(self, agent: HostedAgent, session: LiveSession, method: str, value: Any) -> None:
        """Record a command that was started or a file that was accessed for an agent."""
        command: str | None = None
        if method == "terminal/create":
            command = shlex.join(redact_command([value.command, *(value.args or ())]))
            path = value.cwd or session.cwd
        elif method.startswith("fs/"):
            path = value.path
        else:
            return
        self._gateway.audit.record(
            None,
            "agent request",
            method=method,
            agent=agent.name,
            session=session.id,
            command=command,
            path=path,
        )

    def _send_terminal_end(self, session: LiveSession, terminal_id: str) -> None:
        """Show the end of a terminal; send its output to clients that cannot show the gateway's terminals."""
        end = session.terminal_end(terminal_id)
        if end is not None:
            self._send_to_event_clients(session, end)
        without_terminals = [client for client in session.clients if not client.shows_terminals]
        update = session.terminal_end_update(terminal_id)
        if without_terminals and update is not None:
            self._gateway.send_update(session, update, without_terminals, is_logged=False)

    def _show_terminal(self, session: LiveSession, terminal_id: str, cwd: str) -> None:
        """Show a terminal of the gateway to clients that take events, as if it was the agent's."""
        session.open_terminals.add(terminal_id)
        view = None if session.workspace is None else session.workspace.terminals.get(terminal_id)
        self._send_to_event_clients(session, TerminalChanged(terminal_id, view and view.command, cwd))

    def _send_to_event_clients(self, session: LiveSession, event: Event) -> None:
        clients = [client for client in session.clients if client.takes_events]
        if clients:
            frame = OutgoingFrame(event_body(session.id, event))
            self._gateway.outbox.post(clients, frame, session.id, session.log)

    def _forward_request(
        self, agent: HostedAgent, upstream: Upstream, id: RequestId, method: str, body: bytes, value: Any
    ) -> None:
        if isinstance(value, ElicitationFormMode | ElicitationUrlMode) and not value.session_id:
            for client in self._gateway.clients:
                client_request_id = client.client_request_id(upstream, value.request_id)
                if client_request_id is not None:
                    value.request_id = client_request_id
                    self._gateway.pending_requests.add(
                        None, upstream, id, method, encode(value), value, [client]
                    )
                    return
            raise InvalidParams("requestId names no open request")
        session_id = _as_dict(value).get("sessionId") or getattr(value, "session_id", None)
        if not isinstance(session_id, str):
            raise MethodNotFound(data={"method": method})
        session = self._session(agent, session_id)
        self._gateway.pending_requests.add(session, upstream, id, method, body, value, list(session.clients))
        self._gateway.overview.notify_changed(session)

    def on_notification(self, agent: HostedAgent, method: str, params: Raw | None, frame: bytes) -> None:
        """Forward any other notification to the clients that it concerns."""
        try:
            value = read_untyped(params).value
        except RpcError:
            return
        members = _as_dict(value)
        upstream = agent.upstream
        if method == CANCEL_REQUEST:
            request_id = members.get("requestId")
            if upstream is not None and isinstance(request_id, int | str):
                self._gateway.pending_requests.cancel_by_agent(request_id, upstream)
            return
        entry = notification("client", method)
        if upstream is None:
            return
        if entry is None and not method.startswith("_"):
            LOG.info("agent %s sent an unknown notification: %s", agent.name, method[:_MAX_LOGGED_METHOD])
            return
        if entry is not None:
            try:
                body = upstream.reader.params(entry, params).body
            except RpcError as error:
                agent.on_problem(f"{method}: {error}")
                return
            if params is None or body != bytes(params):
                frame = encode(Notification(method, Raw(body)))
        session_id = members.get("sessionId")
        session = self._gateway.sessions.find(agent.name, session_id) if isinstance(session_id, str) else None
        if session is not None:
            self._gateway.outbox.post(session.clients, OutgoingFrame(frame), session.id, session.log)
        elif session_id is None:
            # It may concern any session: send it only to clients that may see all of them.
            folders = {folder for other in self._gateway.sessions.of(agent) for folder in other.folders}
            clients = tuple(
                client
                for client in self._gateway.clients
                if client.agent is agent
                and client.capabilities
                and (method in _UNSCOPED_NOTIFICATIONS or client.rights.covers(agent.name, folders))
            )
            self._gateway.outbox.post(clients, OutgoingFrame(frame), None)

    def lease_process(self, agent: HostedAgent) -> LimitLease:
        """Count a process that is about to start. Raise GatewayLimitReached."""
        limit_counter, metrics = self._gateway.limit_counter, self._gateway.metrics
        lease = limit_counter.lease_process(agent.name)
        metrics.processes = limit_counter.processes

        def release() -> None:
            lease.release()
            metrics.processes = limit_counter.processes

        return LimitLease(release)

    def on_agent_end(self, agent: HostedAgent, end: TransportEnd) -> None:
        """Close what the agent left open in its sessions. Its prompts are already answered."""
        for session in self._gateway.sessions.of(agent):
            session.open_at_agent = False
            session.release_lease()
            session.discards_updates = False
            session.replay_buffer = session.loading_client = session.replay_unsent_from = None
            session.turn_requests.stop()
            session.own_turn = None
            if session.latest.background:
                idle = session.note_event(StateChanged("idle", []))
                frame = OutgoingFrame(event_body(session.id, idle))
                self._gateway.send_event(session, idle, session.clients, frame=frame)
            while session.running_turns:
                session.end_turn(turn_failed(RpcError(end.reason)))
            session.turn_requests.resume()  # for the next process
            for pending in tuple(session.pending_requests.values()):
                self._gateway.pending_requests.close_agent_requests(pending.upstream, "the agent ended")
            if session.workspace is not None:
                self._gateway.tasks.start(session.workspace.aclose())
                session.workspace = None
            self._gateway.overview.notify_changed(session)
            session.needs_claim = True
            self._gateway.tasks.start(self._close_open_items(session))
        self._early_updates.pop(agent.name, None)
        self._gateway.outbox.flush()

    def on_oversized(self, agent: HostedAgent, head: bytes, problem: str) -> None:
        """Tell the clients of a session that an update of the agent is missing."""
        found = _SESSION_ID.search(head)
        session = None if found is None else self._gateway.sessions.find(agent.name, _json_text(found[1]))
        if session is not None:
            limit = f"the gateway accepts {DEFAULT_LIMIT >> 20} MiB"
            notice = Notice("error", "A message of the agent is missing", f"{one_line(problem)}; {limit}")
            self._gateway.show_notice(session, notice)

    async def _close_open_items(self, session: LiveSession) -> None:
        """Close what an agent that ended left open, also for the attached clients."""
        try:
            await self._gateway.claim_session(session)
        except StoreError as error:
            self._gateway.log_warning("session %s of %s: %s", session.id, session.agent.name, error)

    def _session(self, agent: HostedAgent, session_id: str) -> LiveSession:
        session = self._gateway.sessions.find(agent.name, session_id)
        if session is None:
            raise NotFound("session not found", {"sessionId": session_id})
        return session

    def _send_terminal_output(self, session: LiveSession, event: TerminalPrinted) -> None:
        data = b64encode(event.text.encode()).decode("ascii")
        self._send_to_event_clients(session, TerminalChanged(event.terminal_id, append=data))
        clients = tuple(
            client
            for client in session.clients
            if client.extensions.get("terminal") and not client.takes_events
        )
        if clients:
            members = {"sessionId": session.id, "terminalId": event.terminal_id, "data": event.text}
            body = encode(Notification("_accord/terminal", members))
            self._gateway.outbox.post(clients, OutgoingFrame(body), session.id, session.log)


def _json_text(quoted: bytes) -> str:
    try:
        return decode(str, quoted)
    except DECODE_ERRORS:
        return ""


WorkspaceHandler: TypeAlias = Callable[[GatewayWorkspace, Any], Awaitable[Any]]

WORKSPACE_METHODS: Final[dict[str, WorkspaceHandler]] = {
    "fs/read_text_file": agent_requests.read_text_file,
    "fs/write_text_file": agent_requests.write_text_file,
    "terminal/create": agent_requests.create_terminal,
    "terminal/output": agent_requests.terminal_output,
    "terminal/wait_for_exit": agent_requests.wait_for_exit,
    "terminal/kill": agent_requests.kill_terminal,
    "terminal/release": agent_requests.release_terminal,
}
"""Methods that the gateway serves itself, on its own machine."""


def _as_dict(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}
