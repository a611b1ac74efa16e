"""The JSON-RPC connection to one agent process, and the conversion of messages to the official shape.

Updates, replies and requests are passed on in the order of the wire, within the read that brought them: no
task and no queue lies between. Everything of one read is one batch, so that it is logged in one
transaction.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msgspec import UNSET, Raw, Struct

from accord.errors import BadAnswer, ConnectionClosed, InternalError, InvalidParams, RpcError
from accord.schema import SessionNotification
from accord.schema.codec import DECODE_ERRORS, NotJson, decoder, encode, is_utf8, parse_json
from accord.schema.message_reader import PARAMS_TELLTALES, RESULT_TELLTALES, MessageReader, SplitUpdate
from accord.schema.methods import Alias, Method, notification, request
from accord.wire.envelope import (
    ABSENT,
    Envelope,
    InvalidMessage,
    RequestId,
    encode_failure,
    id_of_oversized,
    parse_envelope,
    read_error,
    request_number,
)
from accord.wire.transport import Frame, OversizedFrame, Transport, TransportEnd

CANCEL_REQUEST: Final = "$/cancel_request"
T = TypeVar("T")
_UPDATE_METHOD: Final = "session/update"
_UPDATE_PREFIX: Final = b'{"jsonrpc":"2.0","method":"session/update",'
_SESSION_CREATING: Final = ("session/new", "session/fork")
_MAX_LOGGED_ID: Final = 100


class AgentReply(Struct, frozen=True):
    """The reply to a call: the raw result, or an error."""

    result: Raw | None = None
    error: RpcError | ConnectionClosed | None = None


ReplyCallback = Callable[[AgentReply], None]


class UpstreamListener(Protocol):
    """Receives what an agent sends, in the order of the wire. `on_batch_end` ends each read."""

    @property
    def on_update(self) -> Callable[[SessionNotification, bytes], None]:
        """Handle a `session/update` in official shape, and its frame."""
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

    def __init__(self, transport: Transport, listener: UpstreamListener, reader: MessageReader) -> None:
        self.end: TransportEnd | None = None
        self.reader: OfficialReader = OfficialReader(reader)
        self._transport = transport
        self._listener = listener
        self._open_requests: dict[int, tuple[str, ReplyCallback]] = {}
        self._last_id = 0
        update = _known_method(notification("client", _UPDATE_METHOD))
        self._read_official_update = reader.line_reader(update)
        self._read_any_update = reader.params_reader(update)
        self._aliases = {alias.sent: alias for alias in reader.aliases("client", "request")}
        self._update_methods = {_UPDATE_METHOD} | {
            alias.sent for alias in reader.aliases("client", "notification") if alias.method == _UPDATE_METHOD
        }

    def start(self) -> None:
        """Begin to read."""
        self._transport.start(self)

    @property
    def open_calls(self) -> int:
        """The number of calls without a reply."""
        return len(self._open_requests)

    @property
    def is_creating_session(self) -> bool:
        """Whether a call that creates a session is open."""
        return any(method in _SESSION_CREATING for method, _ in self._open_requests.values())

    @property
    def unsent(self) -> int:
        """Bytes that the agent has not read."""
        return self._transport.unsent

    # -- to the agent

    def call(self, method: str, params: bytes, on_reply: ReplyCallback) -> int:
        """Send a request and return its id. `on_reply` is called exactly once, in the order of the wire."""
        self._last_id += 1
        id = self._last_id
        if self.end is not None:
            on_reply(AgentReply(error=_closed_error(method, self.end)))
            return id
        self._open_requests[id] = (method, on_reply)
        self._transport.send(
            _with_params(b'{"jsonrpc":"2.0","id":%d,"method":%s' % (id, encode(method)), params)
        )
        return id

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

    def decode_reply(self, method: Method, reply: AgentReply) -> OfficialMessage:
        """Decode a reply. Raises its error, or BadAnswer."""
        if reply.error is not None:
            raise reply.error
        assert reply.result is not None
        return self.reader.result(method, reply.result)

    def cancel(self, id: int) -> None:
        """Ask the agent to cancel a request, if it is still open."""
        if id in self._open_requests:
            self.notify(CANCEL_REQUEST, encode({"requestId": id}))

    def notify(self, method: str, params: bytes) -> None:
        self._transport.send(_with_params(b'{"jsonrpc":"2.0","method":%s' % encode(method), params))

    def answer(self, id: RequestId, result: bytes) -> None:
        """Send the result of a request of the agent."""
        self._transport.send(b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (encode(id), result))

    def refuse(self, id: RequestId, error: RpcError) -> None:
        """Send an error response to a request of the agent."""
        self._transport.send(encode_failure(id, error))

    async def aclose(self) -> None:
        """End the process, in bounded time."""
        await self._transport.aclose()

    # -- from the agent

    def frames(self, frames: list[Frame]) -> None:
        """Handle everything that one read brought."""
        read_official_update, on_update = self._read_official_update, self._listener.on_update
        try:
            for frame in frames:
                if isinstance(frame, OversizedFrame):
                    self._handle_oversized(frame)
                    continue
                if frame.startswith(_UPDATE_PREFIX):
                    params = read_official_update(frame)
                    if params is not None:
                        on_update(params, frame)
                        continue
                self._handle_frame(frame)
        finally:
            self._listener.on_batch_end()

    def ended(self, end: TransportEnd) -> None:
        """Handle the end of the transport."""
        self.end = end
        unanswered, self._open_requests = self._open_requests, {}
        for method, on_reply in unanswered.values():
            on_reply(AgentReply(error=_closed_error(method, end)))
        self._listener.on_end(self, end)
        self._listener.on_batch_end()

    def _handle_frame(self, frame: bytes) -> None:
        try:
            envelope = parse_envelope(frame)
        except InvalidMessage as problem:
            self._listener.on_problem(f"ignored a line that is not a message: {problem.reason}")
            if problem.id is not None:
                self.refuse(problem.id, RpcError.of(problem.code, problem.message, problem.reason))
            return
        method, id = envelope.method, envelope.id
        if method is UNSET:
            self._handle_response(id, envelope)
            return
        params = None if envelope.params is ABSENT else envelope.params
        if id is not UNSET:
            alias = self._aliases.get(method)
            self._listener.on_request(id, method if alias is None else alias.method, params, alias)
        elif method in self._update_methods:
            self._handle_repaired_update(params)
        else:
            try:
                self._listener.on_notification(method, params, json_on_one_line(Raw(frame)))
            except DECODE_ERRORS as error:
                self._listener.on_problem(f"{method}: {error}")

    def _handle_repaired_update(self, params: Raw | None) -> None:
        try:
            updates = self._read_any_update(params)
        except RpcError as error:
            self._listener.on_problem(f"{_UPDATE_METHOD}: {error}")
            return
        for update in updates if isinstance(updates, SplitUpdate) else (updates,):
            self._listener.on_update(
                update, b'{"jsonrpc":"2.0","method":"session/update","params":%s}' % encode(update)
            )

    def _handle_response(self, id: Any, envelope: Envelope) -> None:
        number = request_number(id)
        call = self._open_requests.pop(number, None) if number is not None else None
        if call is None:
            self._listener.on_problem(
                f"ignored a response to no open request (id {str(id)[:_MAX_LOGGED_ID]!r})"
            )
            return
        if envelope.error is not ABSENT and envelope.result is ABSENT:
            error = read_error(envelope.error)
            self._listener.on_failure(call[0], error)
            call[1](AgentReply(error=error))
        else:
            call[1](AgentReply(Raw(b"null") if envelope.result is ABSENT else envelope.result))

    def _handle_oversized(self, frame: OversizedFrame) -> None:
        reason = f"message of {frame.size} bytes exceeds the size limit"
        self._listener.on_problem(reason)
        id, is_answer = id_of_oversized(frame)
        if not is_answer:
            if id is not None:
                self.refuse(id, RpcError.of(-32600, "Invalid request", reason))
            return
        call = self._open_requests.pop(id, None) if (id := request_number(id)) is not None else None
        if call is not None:
            call[1](AgentReply(error=InternalError(f"{call[0]}: {reason}")))


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


def _with_params(head: bytes, params: bytes) -> bytes:
    return b'%s,"params":%s}' % (head, params) if params else head + b"}"


def _closed_error(method: str, end: TransportEnd) -> ConnectionClosed:
    return end.error(f"no answer to {method}: {end.reason}")


def _known_method(method: Method | None) -> Method:
    assert method is not None, "unknown method"
    return method
