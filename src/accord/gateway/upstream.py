"""The JSON-RPC connection to one agent process, and the conversion of messages to the official shape.

Updates, replies and requests are passed on in the order of the wire, within the read that brought them: no
task and no queue lies between. Everything of one read is one batch, so that it is logged in one
transaction.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from msgspec import UNSET, Raw, Struct

from accord.errors import BadAnswer, ConnectionClosed, InternalError, InvalidParams, RpcError
from accord.gateway.contracts import Fence, Fenced
from accord.gateway.renamed_sessions import RenamedSessions
from accord.schema import SessionNotification
from accord.schema.codec import DECODE_ERRORS, NotJson, decoder, encode, is_utf8, parse_json
from accord.schema.message_reader import PARAMS_TELLTALES, RESULT_TELLTALES, MessageReader, SplitUpdate
from accord.schema.methods import Alias, Method, notification, request
from accord.wire.connection import CANCEL_REQUEST
from accord.wire.envelope import (
    ABSENT,
    Envelope,
    Fault,
    Notification,
    Request,
    RequestId,
    Response,
    RpcCore,
    Success,
    connection_closed,
    encode_failure,
)
from accord.wire.transport import Frame, Transport, TransportEnd

_UPDATE_METHOD: Final = "session/update"
_UPDATE_PREFIX: Final = b'{"jsonrpc":"2.0","method":"session/update",'
_SESSION_CREATING: Final = ("session/new", "session/fork")


class AgentCall(Struct, frozen=True):
    """An open call of the gateway to an agent."""

    method: str
    on_reply: "Callable[[AgentReply], None]"


AgentReply: TypeAlias = Response[AgentCall]
"""The reply to a call: the raw result, or an error."""


class UpstreamListener(Protocol):
    """Receives what an agent sends, in the order of the wire. `on_batch_end` ends each read."""

    @property
    def on_update(self) -> Callable[[SessionNotification, bytes], None]:
        """Handle a `session/update` in official shape, and its frame."""
        ...

    @property
    def on_updates(self) -> Callable[[list[SessionNotification], list[bytes]], None]:
        """Handle several in order, as `on_update` would, and their frames."""
        ...

    def on_request(self, id: RequestId, method: str, params: Raw | None, alias: Alias | None) -> None:
        """Handle a request of the agent."""
        ...

    def on_notification(self, method: str, params: Raw | None, frame: bytes) -> None:
        """Handle any other notification."""
        ...

    def on_batch_end(self) -> None:
        """Handle the end of one read."""
        ...

    def on_end(self, upstream: "Upstream", end: TransportEnd) -> None:
        """Handle the end of the process. Every open call has failed by then."""
        ...

    def on_failure(self, method: str, error: RpcError) -> None:
        """Handle the error response to a call, before its callback."""
        ...

    def on_problem(self, problem: str) -> None:
        """Report a message that was ignored."""
        ...

    def on_oversized(self, head: bytes, problem: str) -> None:
        """Handle a message over the size limit that nothing answers. `head` is how it began."""
        ...


@runtime_checkable
class KillableTransport(Protocol):
    """A transport to a process of this machine."""

    def kill(self) -> None:
        """Kill the process and everything it started, at once. `Receiver.ended` follows."""
        ...


class OfficialMessage(NamedTuple):
    """Params or a result: the JSON to forward, and the decoded value."""

    body: bytes
    value: Any


class OfficialReader:
    """Decodes params and results of one peer.

    A message that follows the specification keeps its bytes. A message in a known dialect is repaired and
    encoded again. Each peer has its own reader, because a dialect is reported once per peer.
    """

    def __init__(self, reader: MessageReader) -> None:
        self._reader = reader
        self._params: dict[tuple[Method, str], Callable[[Raw | None], Any]] = {}
        self._results: dict[Method, Callable[[Raw], Any]] = {}

    def params(self, method: Method, raw: Raw | None, alias: Alias | None = None) -> OfficialMessage:
        """Decode the params of a known method. Raises InvalidParams."""
        if (
            raw is not None
            and alias is None
            and not _contains_any(raw, PARAMS_TELLTALES.get(method.name, ()))
        ):
            try:
                return OfficialMessage(json_on_one_line(raw), decoder(method.params).decode(raw))
            except DECODE_ERRORS:
                pass
        key = (method, alias.sent if alias else "")
        decode = self._params.get(key)
        if decode is None:
            decode = self._params[key] = self._reader.params_reader(method, alias)
        value = decode(raw)
        return OfficialMessage(b"" if isinstance(value, SplitUpdate) else encode(value), value)

    def result(self, method: Method, raw: Raw) -> OfficialMessage:
        """Decode the result of a known method. Raises BadAnswer."""
        if not _contains_any(raw, RESULT_TELLTALES.get(method.name, ())):
            try:
                return OfficialMessage(json_on_one_line(raw), decoder(method.result).decode(raw))
            except DECODE_ERRORS:
                pass
        decode = self._results.get(method)
        if decode is None:
            decode = self._results[method] = self._reader.result_reader(method)
        value = decode(raw)
        return OfficialMessage(encode(value), value)


class Upstream:
    """The connection to a running agent. Call `start` before anything else."""

    def __init__(
        self,
        transport: Transport,
        listener: UpstreamListener,
        reader: MessageReader,
        fence: Fence | None = None,
        renamed: RenamedSessions | None = None,
    ) -> None:
        """`fence` is asked before everything that makes the agent act; both are None on one machine."""
        self.reader: OfficialReader = OfficialReader(reader)
        self._core = RpcCore[AgentCall](answer_invalid=False)
        self._transport = transport
        self._paused_by: set[str] = set()
        self._listener = listener
        self._fence = fence
        self.renamed: RenamedSessions | None = renamed
        """Which sessions the gateway names differently."""
        self._held: list[Frame] | None = None
        """While the answers of the agent wait: what it sent meanwhile."""
        update = _known_method(notification("client", _UPDATE_METHOD))
        self._read_official_update = reader.line_reader(update)
        self._read_official_updates = reader.lines_reader(update)
        self._read_any_update = reader.params_reader(update)
        self._aliases = {alias.sent: alias for alias in reader.aliases("client", "request")}
        self._update_methods = {_UPDATE_METHOD} | {
            alias.sent for alias in reader.aliases("client", "notification") if alias.method == _UPDATE_METHOD
        }

    def start(self) -> None:
        """Begin to read."""
        self._transport.start(self)

    @property
    def end(self) -> TransportEnd | None:
        """Why the process has ended; None while it runs."""
        return self._core.end

    @property
    def open_calls(self) -> int:
        """The number of calls without a reply."""
        return len(self._core.calls)

    @property
    def is_creating_session(self) -> bool:
        """Whether a call that creates a session is open."""
        return any(call.method in _SESSION_CREATING for call in self._core.calls.values())

    @property
    def takes_events(self) -> bool:
        """Whether the agent speaks version 2: its translation sends events in place of some updates."""
        return getattr(self._transport, "takes_events", False)

    @property
    def unsent(self) -> int:
        """Bytes that the agent has not read."""
        return self._transport.unsent

    # -- to the agent

    def call(self, method: str, params: bytes, on_reply: Callable[[AgentReply], None]) -> int:
        """Send a request and return its id. `on_reply` is called exactly once, in the order of the wire."""
        call = AgentCall(method, on_reply)
        id = self._core.open_call(call)
        if self._core.end is not None:
            self._core.close_call(id)
            on_reply(Response(call, error=connection_closed(method, self._core.end)))
        elif (refusal := self._fence_refusal()) is not None:
            self._core.close_call(id)
            on_reply(Response(call, error=InternalError(str(refusal))))
        else:
            self._transport.send(encode(Request(id, method, _raw(self._own(method, params)))))
        return id

    def _own(self, method: str, params: bytes) -> bytes:
        return params if self.renamed is None else self.renamed.outgoing(method, params)

    def _fence_refusal(self) -> Fenced | None:
        """Return why nothing may be sent; None if it may."""
        if self._fence is not None:
            try:
                self._fence.check()
            except Fenced as error:
                return error
        return None

    async def request(self, method: str, params: Any) -> Any:
        """Send a request of the gateway and return the typed result.

        Raises RpcError, BadAnswer, ConnectionClosed.
        """
        entry = _known_method(request("agent", method))
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def on_reply(reply: AgentReply) -> None:
            if result.done():
                return
            try:
                result.set_result(self.decode_reply(entry, reply).value)
            except (RpcError, ConnectionClosed, BadAnswer) as error:
                result.set_exception(error)

        id = self.call(method, encode(params), on_reply)
        try:
            return await result
        except asyncio.CancelledError:
            self.cancel(id)
            raise

    def decode_reply(self, method: Method | None, reply: AgentReply) -> OfficialMessage:
        """Decode the reply to a known or an unknown method. Raises its error, or BadAnswer."""
        if isinstance(reply.error, BadAnswer):
            raise BadAnswer(f"{reply.call.method}: {reply.error}")
        if reply.error is not None:
            raise reply.error
        result = Raw(b"null") if reply.result is ABSENT else reply.result
        return read_untyped(result) if method is None else self.reader.result(method, result)

    def cancel(self, id: int) -> None:
        """Ask the agent to cancel a request, if it is still open."""
        if id in self._core.calls:
            self.notify(CANCEL_REQUEST, encode({"requestId": id}))

    def notify(self, method: str, params: bytes) -> None:
        self._transport.send(encode(Notification(method, _raw(self._own(method, params)))))

    def answer(self, id: RequestId, result: bytes) -> None:
        """Send the result of a request of the agent, unless the gateway is fenced: then it hears nothing."""
        if (refusal := self._fence_refusal()) is not None:
            self._listener.on_problem(f"a request is not answered: {refusal}")
            return
        self._transport.send(encode(Success(id, Raw(result))))

    def refuse(self, id: RequestId, error: RpcError) -> None:
        """Send an error response to a request of the agent."""
        self._transport.send(encode_failure(id, error))

    async def aclose(self) -> None:
        """End the process, in bounded time."""
        await self._transport.aclose()

    def set_paused(self, session_id: str, paused: bool) -> None:
        """Read nothing more from the agent while the log of any session is too far behind."""
        before = bool(self._paused_by)
        (self._paused_by.add if paused else self._paused_by.discard)(session_id)
        if bool(self._paused_by) != before:
            (self._transport.pause if paused else self._transport.resume)()

    def kill(self) -> None:
        """Kill the process and everything it started, at once, if it is a process of this machine."""
        if isinstance(self._transport, KillableTransport):
            self._transport.kill()

    # -- from the agent

    def hold(self) -> None:
        """Handle nothing more of the agent until `release`: a session that it created is not named yet."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Handle what arrived since `hold`."""
        held, self._held = self._held, None
        if held:
            self.frames(held)

    def frames(self, frames: list[Frame]) -> None:
        """Handle everything that one read brought."""
        read_official_update, on_update = self._read_official_update, self._listener.on_update
        if self._held is not None:
            self._held += frames
            return
        if self.renamed is not None and self.renamed.is_used:
            frames = [self.renamed.incoming(frame) for frame in frames]
        remaining = iter(frames)
        try:
            if len(frames) > 1 and self._handle_updates(frames):
                return
            for frame in remaining:
                if isinstance(frame, bytes) and frame.startswith(_UPDATE_PREFIX):
                    params = read_official_update(frame)
                    if params is not None:
                        on_update(params, frame)
                        continue
                event = self._core.receive(frame)
                if isinstance(event, Response):
                    self._handle_reply(event)
                elif isinstance(event, Fault):
                    self._handle_fault(event)
                else:
                    self._handle_call(event, frame)
                if self._held is not None:
                    self._held += remaining
        finally:
            self._listener.on_batch_end()

    def _handle_updates(self, frames: list[Frame]) -> bool:
        """Handle a read of only official updates, as agents that stream send them; False for any other."""
        prefix = _UPDATE_PREFIX
        updates = [frame for frame in frames if isinstance(frame, bytes) and frame.startswith(prefix)]
        notifications = self._read_official_updates(updates) if len(updates) == len(frames) else []
        if not notifications or not all(notifications):
            return False
        self._listener.on_updates(notifications, updates)
        return True

    def ended(self, end: TransportEnd) -> None:
        """Handle the end of the transport."""
        while self._held is not None:
            self.release()
        for call in self._core.close(end):
            call.on_reply(Response(call, error=connection_closed(call.method, end)))
        self._listener.on_end(self, end)
        self._listener.on_batch_end()

    def _handle_call(self, envelope: Envelope, frame: Frame) -> None:
        method, id = envelope.method, envelope.id
        assert method is not UNSET
        assert isinstance(frame, bytes)
        params = None if envelope.params is ABSENT else envelope.params
        if id is not UNSET:
            alias = self._aliases.get(method)
            self._listener.on_request(id, method if alias is None else alias.method, params, alias)
        elif method in self._update_methods:
            self._handle_repaired_update(params)
        else:
            self._listener.on_notification(method, params, json_on_one_line(Raw(frame)))

    def _handle_repaired_update(self, params: Raw | None) -> None:
        try:
            updates = self._read_any_update(params)
        except RpcError as error:
            self._listener.on_problem(f"{_UPDATE_METHOD}: {error}")
            return
        for update in updates if isinstance(updates, SplitUpdate) else (updates,):
            self._listener.on_update(update, encode(Notification(_UPDATE_METHOD, update)))

    def _handle_reply(self, reply: AgentReply) -> None:
        if reply.fault is not None:
            self._listener.on_problem(reply.fault.detail)
        if isinstance(reply.error, RpcError):
            self._listener.on_failure(reply.call.method, reply.error)
        reply.call.on_reply(reply)

    def _handle_fault(self, fault: Fault) -> None:
        ignored = {"unmatched": "ignored ", "oversized": "ignored: "}
        prefix = ignored.get(fault.kind, "ignored a line that is not a message: ")
        self._listener.on_problem(f"{prefix}{fault.detail}")
        if fault.answer is not None:
            self._transport.send(fault.answer)
        elif fault.kind == "oversized":
            self._listener.on_oversized(fault.frame, fault.detail)


def json_on_one_line(raw: Raw) -> bytes:
    """Return the JSON text on one line, for pipes and event streams.

    Raises one of `DECODE_ERRORS` if it is not UTF-8.
    """
    text = bytes(raw)
    if not text.isascii() and not is_utf8(text):
        text.decode()
    if b"\n" in text or b"\r" in text:
        return encode(parse_json(text))
    return text


def read_untyped(raw: Raw | None) -> OfficialMessage:
    """Decode the params or result of a method without a type. Raises InvalidParams."""
    if raw is None:
        return OfficialMessage(b"", None)
    try:
        return OfficialMessage(json_on_one_line(raw), parse_json(raw))
    except (NotJson, *DECODE_ERRORS) as error:
        raise InvalidParams(f"Invalid params: {error}") from None


def _contains_any(raw: Raw, telltales: tuple[bytes, ...]) -> bool:
    return bool(telltales) and any(telltale in bytes(raw) for telltale in telltales)


def _raw(params: bytes) -> Any:
    return Raw(params) if params else UNSET


def _known_method(method: Method | None) -> Method:
    assert method is not None, "unknown method"
    return method
