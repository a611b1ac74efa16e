"""One connected client of the gateway: handles its messages in order and answers each request once.

Messages about one session are handled one after the other. Messages about different sessions, and the
gateway's own methods, run concurrently. Responses of the client are never queued.
"""

import asyncio
import shlex
from collections import deque
from collections.abc import Awaitable, Callable
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from accord.clock import OwnedTasks
from accord.errors import (
    BadAnswer,
    ConnectionClosed,
    InternalError,
    InvalidRequest,
    MethodNotFound,
    RequestCancelled,
    RpcError,
    to_rpc_error,
)
from accord.gateway.access.access_tokens import NOT_ALLOWED, TokenRights
from accord.gateway.access.audit_log import AuditValue
from accord.gateway.access.resource_limits import LIMIT_REACHED
from accord.gateway.client_connection import CallFrame, ClientConnection, IncomingFrame, OutgoingFrame
from accord.gateway.client_features import OfferedFeatures
from accord.gateway.contracts import Fenced, SessionLog
from accord.gateway.hosted_agent import HostedAgent
from accord.gateway.live_sessions import LiveSession
from accord.gateway.upstream import AgentReply, OfficialMessage, OfficialReader, Upstream, read_untyped
from accord.schema import LoadSessionResponse, ResumeSessionResponse
from accord.schema.codec import DECODE_ERRORS, decoder, encode
from accord.schema.message_reader import MessageReader
from accord.schema.methods import Method, request
from accord.session.protocol_v1 import accord_meta
from accord.trace.redaction import redact_command
from accord.wire.connection import CANCEL_REQUEST
from accord.wire.envelope import ABSENT, Fault, Notification, RequestId, RpcCore, Success, encode_failure

if TYPE_CHECKING:
    from accord.gateway.gateway import Gateway
    from accord.gateway.pending_requests import PendingRequest


LOG = getLogger("accord.gateway")

Lane: TypeAlias = str | tuple[str, str] | None
"""Messages with the same lane are handled one after the other: those of one session or one method."""
MethodHandler: TypeAlias = Callable[["GatewayClient", "ClientCall"], Awaitable[None] | None]

_MAX_STDERR_CHARS: Final = 2000

_MAX_WAITING_MESSAGES: Final = 1024
"""Messages of one client that may wait in one lane."""

_MAX_UNSENT_BYTES: Final = 64 << 20
"""Bytes that an agent may leave unread before it gets no more requests."""


class ClientCall:
    """One request of a client, or a notification (then `id` is UNSET)."""

    __slots__ = ("client", "id", "is_answered", "lane", "log", "method", "on_cancel", "params", "session_id")

    def __init__(
        self, client: "GatewayClient", id: Any, method: str, params: Raw | None, session_id: str | None
    ) -> None:
        self.client: GatewayClient = client
        self.id: Any = id
        self.method: str = method
        self.params: Raw | None = params
        self.session_id: str | None = session_id
        self.lane: Lane = self._lane
        """Decides which messages of the client this one waits for."""
        self.is_answered: bool = id is UNSET
        """Set once the request has its response; always set for a notification."""
        self.log: SessionLog | None = None
        """The log of the session that the request opens, once it is known."""
        self.on_cancel: Callable[[], None] | None = None
        """Called before the agent is asked to cancel the request."""

    @property
    def _lane(self) -> Lane:
        if self.client.capabilities is None:
            return None  # before `initialize`, all messages share one lane
        if self.method.startswith("_accord/") or self.method == "session/list":
            return ("", self.method)  # a slow list must not delay other messages
        return self.session_id

    @property
    def entry(self) -> Method | None:
        """The method's entry in the protocol's table; None for an unknown method."""
        return request("agent", self.method)

    def read_params(self) -> OfficialMessage:
        """Decode the params. Raise InvalidParams."""
        entry = self.entry
        return read_untyped(self.params) if entry is None else self.client.reader.params(entry, self.params)

    def answer(self, result: bytes) -> None:
        """Send the result, unless the request is already answered."""
        if not self.is_answered:
            self._respond(encode(Success(self.id, Raw(result))))

    def fail(self, error: BaseException) -> None:
        """Send an error response, unless the request is already answered."""
        if not self.is_answered:
            self._respond(encode_failure(self.id, rpc_error(error)))

    def _respond(self, body: bytes) -> None:
        self.is_answered = True
        self.client.forget_request(self.id)
        # The responses to these open a session, so the client reads the connection's own stream.
        opens = self.method in ("session/new", "session/load", "session/fork")
        log = self.log
        if log is None and (session := self.client.sessions.get(self.session_id or "")) is not None:
            log = session.log
        self.client.post(CallFrame(body, id=self.id), None if opens else self.session_id, log)

    def answer_value(self, value: Any, body: bytes | None = None) -> None:
        """Send a value as the result, without the options that the client does not support.

        `body` is the JSON text of the value, if known.
        """
        adapted = self.client.adapt(value)
        if self.client.extensions.get("turn") == "answer":
            adapted = self._with_turn(adapted)
        self.answer(encode(adapted) if body is None or adapted is not value else body)

    def _with_turn(self, value: Any) -> Any:
        """Say in the answer that opens a session that a turn runs, as a state of version 2 must."""
        session = self.client.gateway.sessions.find(self.client.agent.name, self.session_id or "")
        opens = isinstance(value, LoadSessionResponse | ResumeSessionResponse)
        if not opens or session is None or not session.running_turns:
            return value
        meta = {**(value.meta or {}), "accord": {**accord_meta(value.meta), "turn": "running"}}
        return msgspec.structs.replace(value, meta=meta)

    def answer_reply(self, upstream: Upstream, reply: AgentReply) -> Any:
        """Forward the agent's reply in official shape. Return the decoded result; None for an error."""
        try:
            decoded = upstream.decode_reply(self.entry, reply)
        except (RpcError, BadAnswer, ConnectionClosed) as error:
            self.fail(error)
            return None
        self.answer_value(decoded.value, decoded.body)
        return decoded.value


class GatewayClient(OfferedFeatures):
    """One client. `Gateway.open` creates it."""

    def __init__(
        self, gateway: "Gateway", connection: ClientConnection, rights: TokenRights, agent: HostedAgent
    ) -> None:
        super().__init__()
        self.gateway: Gateway = gateway
        self.connection: ClientConnection = connection
        self.rights: TokenRights = rights
        self.agent: HostedAgent = agent
        self.sessions: dict[str, LiveSession] = {}
        """The sessions that it is attached to."""
        self.message_reader: MessageReader = MessageReader()
        self.reader: OfficialReader = OfficialReader(self.message_reader)
        self.wants_inbox: bool = False
        self.wants_sessions: bool = False
        self.connected: bool = True
        self.core: RpcCore[PendingRequest] = RpcCore()
        """The requests of agents that this client was shown, by their number."""
        self._forwarded_requests: dict[RequestId, tuple[Upstream, int, ClientCall]] = {}
        """By the client's request id: the agent's connection, the request id there, and the request."""
        self._waiting: dict[Lane, deque[ClientCall]] = {}
        self._tasks = OwnedTasks()

    # -- to the client

    def post(self, frame: OutgoingFrame, stream: str | None, log: SessionLog | None = None) -> None:
        """Send a frame after everything appended to `log` so far is committed."""
        self.gateway.outbox.post((self,), frame, stream, log)

    def notify(self, method: str, params: Any) -> None:
        self.post(OutgoingFrame(encode(Notification(method, params))), None)

    def forget_request(self, id: RequestId) -> None:
        """Forget a request that was answered."""
        self._forwarded_requests.pop(id, None)

    # -- to the agent

    def forward(
        self,
        call: ClientCall,
        upstream: Upstream,
        body: bytes,
        on_reply: Callable[[AgentReply], None] | None = None,
    ) -> None:
        """Forward a request to the agent. Without `on_reply`, the reply goes to the client unchanged."""
        id = upstream.call(call.method, body, on_reply or (lambda reply: call.answer_reply(upstream, reply)))
        if not call.is_answered:
            self._forwarded_requests[call.id] = (upstream, id, call)

    def client_request_id(self, upstream: Upstream, id: Any) -> RequestId | None:
        """Return the client's id of an open forwarded request; None if there is none."""
        return next(
            (
                client_id
                for client_id, forwarded in self._forwarded_requests.items()
                if forwarded[:2] == (upstream, id)
            ),
            None,
        )

    # -- from the client

    def on_frames(self, frames: list[IncomingFrame]) -> None:
        """Handle the frames that arrived."""
        for frame in frames:
            try:
                self._handle_frame(frame)
            except Exception as error:
                LOG.exception("handling a client's message failed: %s", type(error).__name__)
        self.gateway.outbox.flush()

    def on_closed(self, reason: str) -> None:
        """Handle the end of the connection."""
        self.connected = False
        self._tasks.cancel()
        self.gateway.remove_client(self)

    def _handle_frame(self, frame: IncomingFrame) -> None:
        envelope = frame.envelope
        if envelope.method is UNSET:
            event = self.core.receive_response(envelope, frame.body)
            if not isinstance(event, Fault):
                self.gateway.pending_requests.handle_response(self, event)
            elif event.answer is not None:
                self.post(OutgoingFrame(event.answer), None)
            return
        params = None if envelope.params is ABSENT else envelope.params
        if envelope.method == CANCEL_REQUEST:
            self._handle_cancel(params)
            return
        call = ClientCall(self, envelope.id, envelope.method, params, session_id_of(params))
        lane = self._waiting.get(call.lane)
        if lane is None:
            self._dispatch(call)
        elif len(lane) >= _MAX_WAITING_MESSAGES:
            call.fail(
                InvalidRequest(
                    f"too many waiting messages for this session (at most {_MAX_WAITING_MESSAGES})"
                )
            )
        else:
            lane.append(call)

    def _dispatch(self, call: ClientCall) -> None:
        """Start the call. If it does not finish at once, later messages of its lane wait."""
        work = self._start(call)
        if work is None:
            return
        self._waiting.setdefault(call.lane, deque())
        self._tasks.start(self._finish(call, work), key=call)

    def _start(self, call: ClientCall) -> Awaitable[None] | None:
        try:
            if self.capabilities is None and call.method != "initialize":
                raise InvalidRequest("the first request must be `initialize`")
            handler = self.gateway.methods.find(call)
            if handler is None:
                raise MethodNotFound(data={"method": call.method})
            upstream = self.agent.upstream
            if upstream is not None and upstream.unsent > _MAX_UNSENT_BYTES:
                raise RpcError(f"agent {self.agent.name} is not reading its input; try again later")
            if self.gateway.methods.is_audited(call.method):
                self._record(call, "request")
            return handler(self, call)
        except Exception as error:  # noqa: BLE001 - request boundary: every error becomes a response
            self._fail(call, error)
            return None

    async def _finish(self, call: ClientCall, work: Awaitable[None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            call.fail(RequestCancelled())
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(call, error)
        finally:
            self._run_waiting(call.lane)
            self.gateway.outbox.flush()

    def _run_waiting(self, key: Lane) -> None:
        """Dispatch the messages that waited in this lane."""
        lane = self._waiting.pop(key, None)
        while lane and self.connected:
            self._dispatch(lane.popleft())
            waiting = self._waiting.get(key)
            if waiting is not None:  # this call is still running; the rest waits for it
                waiting.extend(lane)
                return

    def _fail(self, call: ClientCall, error: Exception) -> None:
        if not isinstance(error, RpcError | BadAnswer | ConnectionClosed):
            error = to_rpc_error(error)
        if isinstance(error, InternalError):
            LOG.warning("%s: %s", call.method, error)
        if isinstance(error, RpcError) and error.code in (NOT_ALLOWED, LIMIT_REACHED):
            self._record(call, "refused", error.code)
        call.fail(error)

    def _record(self, call: ClientCall, event: str, code: int | None = None) -> None:
        self.gateway.audit.record(
            self.rights,
            event,
            method=call.method,
            agent=self.agent.name,
            session=call.session_id,
            code=code,
            **_targets_of(call.params),
        )

    def _handle_cancel(self, params: Raw | None) -> None:
        try:
            id = read_untyped(params).value["requestId"]
        except (RpcError, TypeError, KeyError):
            return
        if not isinstance(id, int | str):
            return
        for lane in self._waiting.values():
            for call in tuple(lane):
                if call.id == id:
                    lane.remove(call)
                    call.fail(RequestCancelled())
                    return
        if (forwarded := self._forwarded_requests.get(id)) is not None:
            upstream, agent_request_id, call = forwarded
            if call.on_cancel is not None:
                call.on_cancel()
            upstream.cancel(agent_request_id)
            return
        for call in self._tasks.keys:
            if isinstance(call, ClientCall) and call.id == id:
                call.fail(RequestCancelled())
                self._tasks.cancel(call)


class _TargetParams(Struct):
    """What the params of a message name: folders, and commands of MCP servers."""

    cwd: Any = None
    path: Any = None
    additional_folders: Any = msgspec.field(name="additionalDirectories", default=None)
    mcp_servers: Any = msgspec.field(name="mcpServers", default=None)


def _targets_of(params: Raw | None) -> dict[str, AuditValue]:
    """Return the path and the commands in the params, for the audit log."""
    try:
        named = decoder(_TargetParams).decode(params or b"{}")
    except DECODE_ERRORS:
        return {}
    folders: Any = named.additional_folders
    more = cast("list[Any]", folders) if isinstance(folders, list) else ()
    paths = [path for path in (named.cwd, named.path, *more) if isinstance(path, str)]
    servers: Any = named.mcp_servers
    commands: list[str] = []
    for server in cast("list[Any]", servers) if isinstance(servers, list) else ():
        members = cast("dict[str, Any]", server) if isinstance(server, dict) else {}
        args: Any = members.get("args") or []
        if isinstance(command := members.get("command"), str) and isinstance(args, list):
            words = [command, *(word for word in cast("list[Any]", args) if isinstance(word, str))]
            commands.append(shlex.join(redact_command(words)))
    return {"path": ", ".join(paths) or None, "command": "; ".join(commands) or None}


class _SessionParams(Struct):
    """The session id in the params of a message."""

    session_id: Any = msgspec.field(name="sessionId", default=None)


def session_id_of(params: Raw | None) -> str | None:
    """Return the session id in the params, if any."""
    if params is None:
        return None
    try:
        session_id = decoder(_SessionParams).decode(params).session_id
    except DECODE_ERRORS:
        return None
    return session_id if isinstance(session_id, str) else None


def rpc_error(error: BaseException) -> RpcError:
    """Convert an exception to the error response for a client.

    If the agent ended, the data has its exit code, signal and the end of its stderr.
    """
    if isinstance(error, ConnectionClosed):
        members = {
            "exitCode": error.exit_code,
            "signal": error.signal,
            "stderr": error.stderr[-_MAX_STDERR_CHARS:] or None,
        }
        data = {name: value for name, value in members.items() if value is not None}
        return InternalError(error.args[0], data) if data else InternalError(error.args[0])
    if isinstance(error, BadAnswer | Fenced):
        return InternalError(str(error))
    return to_rpc_error(error)
