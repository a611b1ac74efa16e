"""The JSON-RPC connection to one agent process, and messages in official shape."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msgspec import UNSET, Raw, Struct

from accord.errors import BadAnswer, ConnectionClosed, InternalError, InvalidParams, RpcError
from accord.schema import SessionNotification
from accord.schema.codec import UNFIT, NotJson, decoder, encode, is_utf8, parse_json
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
)
from accord.wire.transport import Frame, OversizedFrame, Transport, TransportEnd

# MERGED gateway.official: What a peer sends, in official shape: what is right already stays the bytes it was, a dialect is written anew.
#
# One of these stands for each peer, since a dialect is noted once per peer.

_DIGITS: Final = 19
"""More than any number of ours has."""


class OfficialMessage(NamedTuple):
    """One message's parameters or result, as it goes on and as we understand it."""

    body: bytes
    value: Any


class OfficialReader:
    """Reads parameters and results of one peer."""

    def __init__(self, reader: MessageReader) -> None:
        self._reader = reader
        self._params: dict[tuple[Method, str], Callable[[Raw | None], Any]] = {}
        self._results: dict[Method, Callable[[Raw], Any]] = {}

    def params(self, method: Method, raw: Raw | None, alias: Alias | None = None) -> OfficialMessage:
        """The parameters of a method of the table. Raises InvalidParams."""
        if raw is not None and alias is None and not _tells(raw, PARAMS_TELLTALES.get(method.name, ())):
            try:
                return OfficialMessage(line(raw), decoder(method.params).decode(raw))
            except UNFIT:
                pass
        key = (method, alias.sent if alias else "")
        read = self._params.get(key)
        if read is None:
            read = self._params[key] = self._reader.params_reader(method, alias)
        value = read(raw)
        return OfficialMessage(b"" if isinstance(value, SplitUpdate) else encode(value), value)

    def result(self, method: Method, raw: Raw) -> OfficialMessage:
        """The result of a method of the table. Raises BadAnswer."""
        if not _tells(raw, RESULT_TELLTALES.get(method.name, ())):
            try:
                return OfficialMessage(line(raw), decoder(method.result).decode(raw))
            except UNFIT:
                pass
        read = self._results.get(method)
        if read is None:
            read = self._results[method] = self._reader.result_reader(method)
        value = read(raw)
        return OfficialMessage(encode(value), value)


def line(raw: Raw) -> bytes:
    """The JSON text on one line, as pipes and event streams want it. Raises one of `UNFIT` where it is not UTF-8."""
    text = bytes(raw)
    if not text.isascii() and not is_utf8(text):
        text.decode()
    if b"\n" in text or b"\r" in text:
        return encode(parse_json(text))
    return text


def plain(raw: Raw | None) -> OfficialMessage:
    """The parameters or result of a method that is in no table. Raises InvalidParams."""
    if raw is None:
        return OfficialMessage(b"", None)
    try:
        return OfficialMessage(line(raw), parse_json(raw))
    except (NotJson, *UNFIT) as error:
        raise InvalidParams(f"Invalid params: {error}") from None


def our_id(id: Any) -> int | None:
    """The number that an answer names: we number our requests, and some peers give numbers back as texts."""
    if isinstance(id, str) and len(id) < _DIGITS and id.isascii() and id.isdecimal():
        return int(id)
    return id if isinstance(id, int) and not isinstance(id, bool) else None


def _tells(raw: Raw, telltales: tuple[bytes, ...]) -> bool:
    return bool(telltales) and any(telltale in bytes(raw) for telltale in telltales)


# MERGED gateway.upstream: One life of an agent's program, at the wire: frames in and out, ids, and calls that are answered in the order of the wire.
#
# Everything happens in the read that brought it: an update, an answer and a request of the agent are handed on in the order
# in which they came, without a task or a queue between. What one read brought is one batch, so that it can be logged at once.

T = TypeVar("T")

CANCEL_REQUEST: Final = "$/cancel_request"
_UPDATE: Final = "session/update"
_NAMING: Final = ("session/new", "session/fork")
_LONGEST_ID: Final = 100
_EXPRESS: Final = b'{"jsonrpc":"2.0","method":"session/update",'


class AgentReply(Struct, frozen=True):
    """What a call came to: the raw result, or an error."""

    result: Raw | None = None
    error: RpcError | ConnectionClosed | None = None


Done = Callable[[AgentReply], None]


class UpstreamListener(Protocol):
    """Who hears an agent. All calls come from one read, in the order of the wire; `batch_over` ends each."""

    @property
    def update(self) -> Callable[[SessionNotification, bytes], None]:
        """Hears a `session/update` in official shape, and its frame."""
        ...

    def requested(self, id: RequestId, method: str, params: Raw | None, alias: Alias | None) -> None:
        """The agent asks for something."""
        ...

    def notified(self, method: str, params: Raw | None, frame: bytes) -> None:
        """Any other notification."""
        ...

    def batch_over(self) -> None:
        """That was all of one read."""
        ...

    def ended(self, upstream: "Upstream", end: TransportEnd) -> None:
        """The program is gone; every open call has been failed."""
        ...

    def odd(self, what: str) -> None:
        """Something was survived."""
        ...


class Upstream:
    """A running agent. `start` it, then call and answer."""

    def __init__(self, transport: Transport, ears: UpstreamListener, reader: MessageReader) -> None:
        self.end: TransportEnd | None = None
        self.official = OfficialReader(reader)
        self._transport = transport
        self._ears = ears
        self._open: dict[int, tuple[str, Done]] = {}
        self._last_id = 0
        update = _entry(notification("client", _UPDATE))
        self._whole = reader.line_reader(update)
        self._read_update = reader.params_reader(update)
        self._aliases = {alias.sent: alias for alias in reader.aliases("client", "request")}
        self._updates = {_UPDATE} | {
            alias.sent for alias in reader.aliases("client", "notification") if alias.method == _UPDATE
        }

    def start(self) -> None:
        """Begin to read."""
        self._transport.start(self)

    @property
    def busy(self) -> int:
        """Calls that have not been answered."""
        return len(self._open)

    @property
    def naming(self) -> bool:
        """Whether it is about to name a session."""
        return any(method in _NAMING for method, _ in self._open.values())

    @property
    def unsent(self) -> int:
        """Bytes that the agent has not taken."""
        return self._transport.unsent

    # -- to the agent -------------------------------------------------------------------------------------------

    def call(self, method: str, params: bytes, done: Done) -> int:
        """Send a request; `done` is called exactly once, in the order of the wire. Gives the id."""
        self._last_id += 1
        id = self._last_id
        if self.end is not None:
            done(AgentReply(error=_gone(method, self.end)))
            return id
        self._open[id] = (method, done)
        self._transport.send(
            _with_params(b'{"jsonrpc":"2.0","id":%d,"method":%s' % (id, encode(method)), params)
        )
        return id

    async def ask(self, method: str, params: Any) -> Any:
        """A call of our own: the typed result. Raises RpcError, BadAnswer, ConnectionClosed."""
        entry = _entry(request("agent", method))
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(answer: AgentReply) -> None:
            if answered.done():
                return
            try:
                answered.set_result(self.result(entry, answer).value)
            except (RpcError, ConnectionClosed, BadAnswer) as error:
                answered.set_exception(error)

        id = self.call(method, encode(params), done)
        try:
            return await answered
        except asyncio.CancelledError:
            self.cancel(id)
            raise

    def result(self, method: Method, answer: AgentReply) -> Any:
        """The answer read and in official shape. Raises what it says, and BadAnswer."""
        if answer.error is not None:
            raise answer.error
        assert answer.result is not None
        return self.official.result(method, answer.result)

    def cancel(self, id: int) -> None:
        """Ask the agent to give up a request, if it is still open."""
        if id in self._open:
            self.notify(CANCEL_REQUEST, encode({"requestId": id}))

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification."""
        self._transport.send(_with_params(b'{"jsonrpc":"2.0","method":%s' % encode(method), params))

    def answer(self, id: RequestId, result: bytes) -> None:
        """Answer a request of the agent."""
        self._transport.send(b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (encode(id), result))

    def refuse(self, id: RequestId, error: RpcError) -> None:
        """Answer a request of the agent with an error."""
        self._transport.send(encode_failure(id, error))

    async def aclose(self) -> None:
        """End the program; bounded."""
        await self._transport.aclose()

    # -- from the agent -----------------------------------------------------------------------------------------

    def frames(self, frames: list[Frame]) -> None:
        """Take everything that one read brought."""
        whole, update = self._whole, self._ears.update
        try:
            for frame in frames:
                if isinstance(frame, OversizedFrame):
                    self._oversized(frame)
                    continue
                if frame.startswith(_EXPRESS):
                    params = whole(frame)
                    if params is not None:
                        update(params, frame)
                        continue
                self._slow(frame)
        finally:
            self._ears.batch_over()

    def ended(self, end: TransportEnd) -> None:
        """Nothing more will come."""
        self.end = end
        unanswered, self._open = self._open, {}
        for method, done in unanswered.values():
            done(AgentReply(error=_gone(method, end)))
        self._ears.ended(self, end)
        self._ears.batch_over()

    def _slow(self, frame: bytes) -> None:
        try:
            envelope = parse_envelope(frame)
        except InvalidMessage as problem:
            self._ears.odd(f"a line that is no message: {problem.reason}")
            if problem.id is not None:
                self.refuse(problem.id, RpcError.of(problem.code, problem.message, problem.reason))
            return
        method, id = envelope.method, envelope.id
        if method is UNSET:
            self._answered(id, envelope)
            return
        params = None if envelope.params is ABSENT else envelope.params
        if id is not UNSET:
            alias = self._aliases.get(method)
            self._ears.requested(id, method if alias is None else alias.method, params, alias)
        elif method in self._updates:
            self._odd_update(params)
        else:
            try:
                self._ears.notified(method, params, line(Raw(frame)))
            except UNFIT as error:
                self._ears.odd(f"{method}: {error}")

    def _odd_update(self, params: Raw | None) -> None:
        try:
            read = self._read_update(params)
        except RpcError as error:
            self._ears.odd(f"{_UPDATE}: {error}")
            return
        for one in read if isinstance(read, SplitUpdate) else (read,):
            self._ears.update(one, b'{"jsonrpc":"2.0","method":"session/update","params":%s}' % encode(one))

    def _answered(self, id: Any, envelope: Envelope) -> None:
        number = our_id(id)
        call = self._open.pop(number, None) if number is not None else None
        if call is None:
            self._ears.odd(f"an answer to no open request (id {str(id)[:_LONGEST_ID]!r})")
            return
        if envelope.error is not ABSENT and envelope.result is ABSENT:
            call[1](AgentReply(error=read_error(envelope.error)))
        else:
            call[1](AgentReply(Raw(b"null") if envelope.result is ABSENT else envelope.result))

    def _oversized(self, frame: OversizedFrame) -> None:
        reason = f"a message of {frame.size} bytes is over the size limit"
        self._ears.odd(reason)
        id, is_answer = id_of_oversized(frame)
        if not is_answer:
            if id is not None:
                self.refuse(id, RpcError.of(-32600, "Invalid request", reason))
            return
        call = self._open.pop(id, None) if isinstance(id, int) else None
        if call is not None:
            call[1](AgentReply(error=InternalError(f"{call[0]}: {reason}")))


def _with_params(head: bytes, params: bytes) -> bytes:
    return b'%s,"params":%s}' % (head, params) if params else head + b"}"


def _gone(method: str, end: TransportEnd) -> ConnectionClosed:
    return ConnectionClosed(
        f"{method} was not answered: {end.reason}",
        exit_code=end.exit_code,
        signal=end.signal,
        stderr=end.stderr,
    )


def _entry(method: Method | None) -> Method:
    assert method is not None, "the method is in the table"
    return method
