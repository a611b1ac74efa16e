"""A WebSocket and the messages about the connection itself (resume, ack).

Imported on first use: it loads websockets.
"""

import asyncio
import logging
from typing import Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from websockets.exceptions import InvalidState
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import SERVER, Protocol

from accord.errors import InvalidParams, InvalidRequest, NotFound, RpcError
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.resource_limits import GatewayLimitReached
from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.http.resumable_connection import NORMAL, POLICY, PROTOCOL_ERROR, WebSocketClientConnection
from accord.gateway.http.server_state import HttpServerState
from accord.schema.codec import encode, is_utf8
from accord.wire.envelope import (
    ABSENT,
    Envelope,
    InvalidMessage,
    Notification,
    RequestId,
    Success,
    decode_envelope,
    decode_tolerantly,
    encode_failure,
    id_of_call,
)

# MERGED gateway.front.conversation: What the messages of a WebSocket mean to the front: the first one, those about the line itself, those that are none.

RESUME: Final = "_accord/resume"
ACK: Final = "_accord/ack"


class Resume(Struct, rename="camel"):
    """Where a client that comes back stopped."""

    connection_id: str
    received: int


class Ack(Struct):
    """How many messages the other side has."""

    received: int


_read_resume = msgspec.json.Decoder(Resume).decode
_read_ack = msgspec.json.Decoder(Ack).decode


class WebSocketMessages:
    """Sorts the messages of one socket; what is ACP goes to the line as it came."""

    def __init__(self, socket: "WebSocket") -> None:
        self._socket = socket
        self.fresh = True
        """Neither `initialize` nor a resume has come."""

    def take(self, messages: list[bytes]) -> None:
        """Messages in order. Stops where the socket is closed."""
        socket = self._socket
        forward: list[bytes] = []
        for message in messages:
            try:
                envelope = read_envelope(message)
            except InvalidMessage as error:
                self._count(len(message))
                self._answer(error.id, RpcError.of(error.code, error.message, error.reason))
                continue
            if envelope.method in (RESUME, ACK):
                socket.line.deliver(forward)
                forward = []
                self._own(envelope)
            elif self.fresh and not self._begins(envelope):
                break
            elif envelope.method == "initialize" and socket.line.initialized and envelope.id is not UNSET:
                self._count(len(message))
                self._answer(envelope.id, InvalidRequest(data="this connection is initialized already"))
            else:
                socket.line.initialized = True
                self._count(len(message))
                forward.append(message)
            if socket.line.over:
                return
        if forward:
            socket.line.deliver(forward)

    def _begins(self, envelope: Envelope) -> bool:
        """Whether the first message is `initialize`, and there is room for the line."""
        line = self._socket.line
        if envelope.method != "initialize" or envelope.id is UNSET:
            line.end(PROTOCOL_ERROR, "the first message must be initialize")
            return False
        try:
            self._socket.premises.lines.settle(line)
        except GatewayLimitReached as error:
            self._socket.premises.metrics.refused["connections"] += 1
            self._answer(envelope.id, error)
            line.end(POLICY, error.message)
            return False
        self.fresh = False
        return True

    def _count(self, size: int) -> None:
        line = self._socket.line
        if line.count(size):
            self._socket.say(encode(Notification(ACK, {"received": line.received})))

    def _answer(self, id: RequestId, error: RpcError) -> None:
        self._socket.line.send(OutgoingFrame(encode_failure(id, error)), None)

    def _own(self, envelope: Envelope) -> None:
        """A message about the line itself; it is not counted and has no number."""
        socket, id = self._socket, id_of_call(envelope)
        params = envelope.params if envelope.params is not ABSENT else Raw(b"null")
        try:
            if envelope.method == ACK:
                if not socket.line.acknowledged(_read_ack(params).received):
                    raise InvalidParams(data="more messages are acknowledged than were sent")
                return
            if not self.fresh:
                raise InvalidRequest(data=f"{RESUME} comes before anything else")
            answer = self._resume(_read_resume(params))
        except (msgspec.MsgspecError, ValueError) as error:
            self._refuse(id, InvalidParams(data=f"{envelope.method}: {error}"))
        except RpcError as error:
            self._refuse(id, error)
        else:
            socket.say(encode(Success(id, answer)))
            socket.line.flush()

    def _refuse(self, id: RequestId, error: RpcError) -> None:
        socket = self._socket
        if id is not None:
            socket.say(encode_failure(id, error))
        if self.fresh:
            socket.line.end(POLICY, "there is nothing to resume: initialize, then load the session")

    def _resume(self, wish: Resume) -> dict[str, object]:
        """Carry the line the client had. Raises NotFound, and nothing has happened then."""
        socket = self._socket
        lines, own = socket.premises.lines, socket.line
        line = lines.find(WebSocketClientConnection, wish.connection_id, socket.visa)
        if line is None or line is own or not line.initialized or line.agent != own.agent:
            raise NotFound("No such connection", {"connectionId": wish.connection_id[:64]})
        missing = line.missing(wish.received)
        if missing is None:
            raise NotFound("That many messages were never sent", {"received": wish.received})
        if missing:
            raise NotFound("The messages that were missed are no longer kept", {"missing": missing})
        former = line.outlet
        own.drop(socket)
        own.end(POLICY, "the client took up an earlier connection")
        if former is not None:
            line.drop(former)
            former.close(POLICY, "the client came back on another socket")
        self.fresh = False
        socket.line = line
        line.resumed()
        line.attach(socket, wish.received)
        lines.metrics.resumed += 1
        return {"connectionId": line.id, "received": line.received}


def read_envelope(message: bytes) -> Envelope:
    """One message. Raises NoMessage."""
    try:
        return decode_envelope(message)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return decode_tolerantly(message)


# MERGED gateway.front.websocket: A WebSocket: frames in by the `websockets` parser, frames out as the bytes they already are.
#
# Its first message is `initialize`, or `_accord/resume` from a client that comes back; what cannot be a message is answered here.

_UNREAD: Final = 1024 * 1024
"""Bytes of pongs for a peer that does not read them, at which it is dropped."""
_INVALID_TEXT: Final = 1007
_REASON: Final = 123
_quiet = logging.getLogger("accord.gateway.http.websocket_server")
_quiet.setLevel(logging.WARNING)  # it says "connection closed" for each


class WebSocket(asyncio.Protocol):
    """One socket after the handshake. It carries a line, and may go before it."""

    def __init__(self, premises: HttpServerState, visa: TokenRights, line: WebSocketClientConnection) -> None:
        self.premises = premises
        self.visa = visa
        self.line = line
        self._talk = WebSocketMessages(self)
        self._frames = Protocol(SERVER, max_size=premises.config.message_size, logger=_quiet)
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._unread = 0  # bytes of the protocol's own frames since the peer stopped reading
        self._parts: list[bytes] | None = None  # of a message in fragments; None while none is open
        self._text = False
        self._heard = True
        self._silent = premises.clock.now()
        self._begun = self._silent
        self._pinged = False
        self._closing: float | None = None  # since when; a goodbye was said

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's has no such base class
        self.premises.sockets.add(self)
        self.line.attach(self, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.premises.left(self)
        self.line.drop(self)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._unread = 0
        self.line.flush()

    # What goes out.

    @property
    def ready(self) -> bool:
        return not self._paused and self._closing is None

    @property
    def buffered(self) -> int:
        transport = self._transport
        return transport.get_write_buffer_size() if transport is not None else 0

    def write(self, frames: list[OutgoingFrame], first: int) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():  # where it is, uvloop would raise
            if len(frames) == 1:
                transport.write(frames[0].websocket)
            else:
                transport.writelines([frame.websocket for frame in frames])

    def say(self, body: bytes) -> None:
        """A message beside the line's: it has no number."""
        transport = self._transport
        if transport is not None and self._closing is None and not transport.is_closing():
            transport.write(OutgoingFrame(body).websocket)

    def close(self, code: int, reason: str) -> None:
        if self._closing is not None or self._transport is None:
            return
        self._closing = self.premises.clock.now()
        try:
            self._frames.send_close(code, shortened(reason))
        except InvalidState:
            pass  # the peer said it first
        self._reply()

    def leave(self) -> None:
        """See `Socket`: the line has said goodbye, where there was one."""
        self.close(1001, "the gateway stops")

    def abort(self) -> None:
        """See `Socket`."""
        if self._transport is not None:
            self._transport.abort()

    # What comes in.

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._frames.receive_data(data)
        messages = [
            message
            for frame in self._frames.events_received()
            if isinstance(frame, Frame) and (message := self._message(frame)) is not None
        ]
        if self._closing is None and messages:
            self._take(messages)
        goodbye = self._frames.close_rcvd
        if goodbye is not None and self._closing is None:
            self._farewell(goodbye)
        self._reply()

    def eof_received(self) -> bool | None:
        self._frames.receive_eof()
        return None

    def _message(self, frame: Frame) -> bytes | None:
        """The message that this frame completes; binary ones are nobody's."""
        if frame.opcode is Opcode.TEXT or frame.opcode is Opcode.BINARY:
            self._text = frame.opcode is Opcode.TEXT
            if frame.fin:
                return bytes(frame.data) if self._text else None
            self._parts = [bytes(frame.data)]
        elif frame.opcode is Opcode.CONT and self._parts is not None:
            self._parts.append(bytes(frame.data))
            if frame.fin:
                parts, self._parts = self._parts, None
                return b"".join(parts) if self._text else None
        return None

    def _take(self, messages: list[bytes]) -> None:
        allowed: list[bytes] = []
        refusal: tuple[int, str] | None = None
        for message in messages:
            if not is_utf8(message):
                refusal = _INVALID_TEXT, "a text message is not UTF-8"
                break
            try:
                self.premises.lines.meter.rate(self.visa)
            except GatewayLimitReached as error:
                self.premises.metrics.refused["rate"] += 1
                refusal = POLICY, error.message
                break
            allowed.append(message)
        if allowed:
            self._talk.take(allowed)
        if refusal is not None:
            code, reason = refusal
            self.line.flush()  # the answers to what came before
            if code == _INVALID_TEXT:
                self._frames.fail(code, reason)
            else:
                self.line.drop(self)
                self.close(code, reason)

    def _farewell(self, goodbye: Close) -> None:
        """The client closed. For one that knows how to come back, only a normal closure is the end of the line."""
        self._closing = self.premises.clock.now()
        if goodbye.code == NORMAL or not self.line.faithful:
            if self.line.outlet is self:
                self.line.end(NORMAL, "the client closed the connection")
        else:
            self.line.drop(self)

    def _reply(self) -> None:
        """What the protocol itself has to say: pongs, closes, the end."""
        transport = self._transport
        for data in self._frames.data_to_send():
            if transport is None or transport.is_closing():
                return
            if data:
                transport.write(data)
                self._unread += len(data) if self._paused else 0
            else:
                self._end(transport)
        if transport is not None and self._unread > _UNREAD:
            transport.abort()

    def _end(self, transport: asyncio.Transport) -> None:
        """Nothing more to say. A peer that has not said goodbye may be in the middle of a message: let it read ours first."""
        if self._closing is None:
            self._closing = self.premises.clock.now()
        if self._frames.close_rcvd is None and transport.can_write_eof():
            transport.write_eof()
            if self.line.outlet is self:
                self.line.end(1002, "the client broke the protocol")
        else:
            transport.close()

    def tick(self, now: float) -> None:
        """See `Watched`."""
        config = self.premises.config
        if self._closing is not None:
            if now - self._closing >= config.stop_time:
                self.abort()
            return
        if self._talk.fresh and now - self._begun >= config.header_time:
            self.premises.metrics.refused["slow"] += 1
            self.line.end(1002, f"no initialize within {config.header_time:g} seconds")
            return
        if self._heard:
            self._heard, self._pinged, self._silent = False, False, now
        elif now - self._silent >= 2 * config.ping:
            self.line.drop(self)
            self.abort()
        elif now - self._silent >= config.ping and not self._pinged:
            self._pinged = True
            self._frames.send_ping(b"")
            self._reply()


def shortened(reason: str) -> str:
    """As much of a reason as a close frame holds."""
    return reason.encode()[:_REASON].decode(errors="ignore")
