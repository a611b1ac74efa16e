"""One connected client: takes its messages in order and answers each once."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from logging import getLogger
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct

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
from accord.gateway.access.resource_limits import LIMIT_REACHED
from accord.gateway.client_connection import ClientConnection, OutgoingFrame
from accord.gateway.hosted_agent import HostedAgent
from accord.gateway.live_sessions import LiveSession
from accord.gateway.upstream import (
    CANCEL_REQUEST,
    AgentReply,
    OfficialMessage,
    OfficialReader,
    Upstream,
    read_untyped,
    request_number,
)
from accord.schema import (
    ClientCapabilities,
    CompactionSummaryChunk,
    CompactionUpdate,
    Notice,
    SessionConfigBoolean,
)
from accord.schema.codec import UNFIT, decoder, encode
from accord.schema.message_reader import MessageReader
from accord.schema.methods import Method, request
from accord.wire.envelope import (
    ABSENT,
    Envelope,
    InvalidMessage,
    RequestId,
    encode_failure,
    parse_envelope,
    read_error,
)

if TYPE_CHECKING:
    from accord.gateway.gateway import Gateway


# MERGED gateway.ending: How an error reaches a client: as an answer that says what happened, and of an agent that ended, how, and the last it said.

_MAX_STDERR: Final = 2000


def rpc_error(error: BaseException) -> RpcError:
    """The error answer for whatever came in the way."""
    if isinstance(error, ConnectionClosed):
        members = {
            "exitCode": error.exit_code,
            "signal": error.signal,
            "stderr": error.stderr[-_MAX_STDERR:] or None,
        }
        data = {name: value for name, value in members.items() if value is not None}
        return InternalError(error.args[0], data) if data else InternalError(error.args[0])
    if isinstance(error, BadAnswer):
        return InternalError(str(error))
    return to_rpc_error(error)


# MERGED gateway.incoming: One message of a client that wants something done: what it is about, and how it is answered, once.

Lane: TypeAlias = str | tuple[str, str] | None
"""Messages of one lane are handled one after the other: those about one session, or of one method."""


class _SessionParams(Struct):
    """Which session a message is about."""

    session_id: Any = msgspec.field(name="sessionId", default=None)


class ClientCall:
    """One request of the client, or a notification (`id` is UNSET)."""

    __slots__ = ("client", "id", "is_answered", "lane", "method", "params", "session_id")

    def __init__(
        self, client: "GatewayClient", id: Any, method: str, params: Raw | None, session_id: str | None
    ) -> None:
        self.client = client
        self.id = id
        self.method = method
        self.params = params
        self.session_id = session_id
        self.lane = self._lane
        """Among which messages of its client it keeps its place."""
        self.is_answered = id is UNSET
        """Whether it has been answered."""

    @property
    def _lane(self) -> Lane:
        if self.client.capabilities is None:
            return None  # everything waits for `initialize`
        if self.method.startswith("_accord/") or self.method == "session/list":
            return (
                "",
                self.method,
            )  # a list that an agent does not give keeps nothing else waiting, least of all an answer
        return self.session_id

    @property
    def entry(self) -> Method | None:
        """The method in the table."""
        return request("agent", self.method)

    def read_params(self) -> OfficialMessage:
        """Its parameters. Raises InvalidParams."""
        entry = self.entry
        return read_untyped(self.params) if entry is None else self.client.reader.params(entry, self.params)

    def answer(self, result: bytes) -> None:
        """Answer it, once."""
        if not self.is_answered:
            self.is_answered = True
            self.client.request_done(self.id)
            body = b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (encode(self.id), result)
            self.client.post(OutgoingFrame(body), self._stream)

    def fail(self, error: BaseException) -> None:
        """Answer it with an error, once."""
        if not self.is_answered:
            self.is_answered = True
            self.client.request_done(self.id)
            self.client.post(OutgoingFrame(encode_failure(self.id, rpc_error(error))), self._stream)

    def answer_value(self, value: Any, body: bytes | None = None) -> None:
        """Answer with a value, whose JSON text may be known; options that the client does not know are left out."""
        adapted = self.client.adapt(value)
        self.answer(encode(adapted) if body is None or adapted is not value else body)

    def answer_reply(self, upstream: Upstream, answer: AgentReply) -> Any:
        """Answer as the agent did, in official shape; gives the result as it was understood, None for an error."""
        if answer.error is not None:
            self.fail(answer.error)
            return None
        assert answer.result is not None
        entry = self.entry
        try:
            read = (
                read_untyped(answer.result) if entry is None else upstream.reader.result(entry, answer.result)
            )
        except (RpcError, BadAnswer) as error:
            self.fail(error)
            return None
        self.answer_value(read.value, read.body)
        return read.value

    @property
    def _stream(self) -> str | None:
        # Those open a session: whoever asked reads the connection's own stream.
        return None if self.method in ("session/new", "session/load", "session/fork") else self.session_id


def session_of(params: Raw | None) -> str | None:
    """Which session parameters name, if they do."""
    if params is None:
        return None
    try:
        found = decoder(_SessionParams).decode(params).session_id
    except UNFIT:
        return None
    return found if isinstance(found, str) else None


# MERGED gateway.visitor: A client of the gateway: the session's end of one line. Takes what the client sends in order, and answers it.
#
# Messages about one session are handled one after the other, those about different sessions, and what the gateway itself is
# asked, side by side; answers wait for nobody.

LOG = getLogger("accord.gateway")

MethodHandler: TypeAlias = Callable[["GatewayClient", "ClientCall"], Awaitable[None] | None]

CAPABILITY_GATED: Final = frozenset({Notice, CompactionUpdate, CompactionSummaryChunk})
"""Updates that only clients get who announced that they show them."""

_MAX_WAITING: Final = 1024
"""Messages of one client that wait for their turn."""

_MAX_UNSENT: Final = 64 << 20
"""Bytes that an agent may leave unread before it gets no more requests."""


class GatewayClient:
    """One client. `gateway.open` makes it."""

    def __init__(
        self, gateway: "Gateway", connection: ClientConnection, rights: TokenRights, agent: HostedAgent
    ) -> None:
        self.gateway = gateway
        self.connection = connection
        self.rights = rights
        self.agent = agent
        self.capabilities: ClientCapabilities | None = None
        """What it can do, once it has said `initialize`."""
        self.extensions: dict[str, Any] = {}
        """What it said about extensions of ours."""
        self.sessions: dict[str, LiveSession] = {}
        """Those it is attached to."""
        self.message_reader = MessageReader()
        self.reader = OfficialReader(self.message_reader)
        self.wants_inbox = False
        self.wants_sessions = False
        self.connected = True
        self._forwarded: dict[RequestId, tuple[Upstream, int]] = {}
        self._waiting: dict[Lane, deque[ClientCall]] = {}
        self._tasks: dict[asyncio.Task[None], ClientCall] = {}

    # -- what it can show ---------------------------------------------------------------------------------------

    @property
    def shows_forms(self) -> bool:
        """Whether it shows forms."""
        elicitation = self.capabilities.elicitation if self.capabilities else None
        return bool(elicitation) and elicitation.form is not UNSET and elicitation.form is not None

    @property
    def opens_urls(self) -> bool:
        """Whether it opens addresses."""
        elicitation = self.capabilities.elicitation if self.capabilities else None
        return bool(elicitation) and elicitation.url is not UNSET and elicitation.url is not None

    def wants_update(self, update: object) -> bool:
        """Whether it wants updates of this kind: some are sent only to those who said so."""
        kind = type(update)
        if kind not in CAPABILITY_GATED:
            return True
        session = self.capabilities.session if self.capabilities else None
        if not session:
            return False
        members = session.notices if kind is Notice else session.compaction
        return members is not UNSET and members is not None

    def adapt(self, value: Any) -> Any:
        """The same without options that are on or off, for a client that did not say it takes them."""
        options = getattr(value, "config_options", None)
        if not options or not any(isinstance(option, SessionConfigBoolean) for option in options):
            return value
        session = self.capabilities.session if self.capabilities else None
        config_options = session.config_options if session else None
        if config_options and config_options.boolean is not UNSET and config_options.boolean is not None:
            return value
        options_kept = [option for option in options if not isinstance(option, SessionConfigBoolean)]
        return msgspec.structs.replace(value, config_options=options_kept)

    # -- to the client ------------------------------------------------------------------------------------------

    def post(self, frame: OutgoingFrame, stream: str | None) -> None:
        """Send a frame, once everything logged before it is in the file."""
        self.gateway.post((self,), frame, stream)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        body = b'{"jsonrpc":"2.0","method":%s,"params":%s}' % (encode(method), encode(params))
        self.post(OutgoingFrame(body), None)

    def request_done(self, id: RequestId) -> None:
        """A request of its was answered."""
        self._forwarded.pop(id, None)

    # -- to the agent -------------------------------------------------------------------------------------------

    def forward(
        self,
        call: ClientCall,
        upstream: Upstream,
        body: bytes,
        on_reply: Callable[[AgentReply], None] | None = None,
    ) -> None:
        """Hand a request on; without `then`, its answer goes back as it comes."""
        id = upstream.call(
            call.method, body, on_reply or (lambda answer: call.answer_reply(upstream, answer))
        )
        if not call.is_answered:
            self._forwarded[call.id] = (upstream, id)

    def client_request_id(self, upstream: Upstream, id: Any) -> RequestId | None:
        """The client's own id of a request that was handed on; None if it is not open."""
        return next(
            (client_id_ for client_id_, forwarded in self._forwarded.items() if forwarded == (upstream, id)),
            None,
        )

    # -- from the client ----------------------------------------------------------------------------------------

    def frames(self, frames: list[bytes]) -> None:
        """Take what arrived."""
        for frame in frames:
            try:
                self._handle_frame(frame)
            except Exception as error:
                LOG.exception("a message of a client could not be handled: %s", type(error).__name__)
        self.gateway.flush()

    def closed(self, reason: str) -> None:
        """The line is over for good."""
        self.connected = False
        for task in tuple(self._tasks):
            task.cancel()
        self.gateway.remove_client(self)

    def _handle_frame(self, frame: bytes) -> None:
        try:
            envelope = parse_envelope(frame)
        except InvalidMessage as problem:
            error = RpcError.of(problem.code, problem.message, problem.reason)
            self.post(OutgoingFrame(encode_failure(problem.id, error)), None)
            return
        if envelope.method is UNSET:
            self._handle_response(envelope)
            return
        params = None if envelope.params is ABSENT else envelope.params
        if envelope.method == CANCEL_REQUEST:
            self._handle_cancel(params)
            return
        call = ClientCall(self, envelope.id, envelope.method, params, session_of(params))
        lane = self._waiting.get(call.lane)
        if lane is None:
            self._dispatch(call)
        elif len(lane) >= _MAX_WAITING:
            call.fail(InvalidRequest(f"{_MAX_WAITING} messages about this wait already"))
        else:
            lane.append(call)

    def _dispatch(self, call: ClientCall) -> None:
        """Serve it now; what takes longer keeps the messages behind it waiting."""
        work = self._start(call)
        if work is None:
            return
        self._waiting.setdefault(call.lane, deque())
        task = asyncio.get_running_loop().create_task(self._finish(call, work))
        self._tasks[task] = call
        task.add_done_callback(lambda _: self._tasks.pop(task, None))

    def _start(self, call: ClientCall) -> Awaitable[None] | None:
        try:
            if self.capabilities is None and call.method != "initialize":
                raise InvalidRequest("`initialize` comes first")
            serve = self.gateway.methods.find(call)
            if serve is None:
                raise MethodNotFound(data={"method": call.method})
            upstream = self.agent.upstream
            if upstream is not None and upstream.unsent > _MAX_UNSENT:
                raise RpcError(f"The agent {self.agent.name} does not read what it is sent: try again later")
            if self.gateway.methods.is_audited(call.method):
                self._record(call, "request")
            return serve(self, call)
        except Exception as error:  # noqa: BLE001 - the boundary of a request: whatever it was, it is answered
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
            self.gateway.flush()

    def _run_waiting(self, key: Lane) -> None:
        """Serve what waited behind; with nothing left, messages are served as they come again."""
        lane = self._waiting.pop(key, None)
        while lane and self.connected:
            self._dispatch(lane.popleft())
            waiting = self._waiting.get(key)
            if waiting is not None:  # it takes longer: the rest waits behind it
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
            self.rights, event, method=call.method, agent=self.agent.name, session=call.session_id, code=code
        )

    def _handle_response(self, envelope: Envelope) -> None:
        number = request_number(envelope.id)
        if number is None:
            return
        failed = envelope.error is not ABSENT
        error = read_error(envelope.error) if failed else None
        result = None if failed or envelope.result is ABSENT else envelope.result
        self.gateway.pending_requests.handle_response(self, number, result, error)

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
        if (forwarded := self._forwarded.get(id)) is not None:
            forwarded[0].cancel(forwarded[1])
            return
        for task, call in tuple(self._tasks.items()):
            if call.id == id:
                call.fail(RequestCancelled())
                task.cancel()
