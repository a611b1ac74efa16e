"""A WebSocket, and the messages about the connection itself (`_accord/resume`, `_accord/ack`).

The first message is `initialize`, or `_accord/resume` from a client that resumes. Invalid messages are
answered here. Imported on first use: it loads websockets.
"""

import asyncio
import logging
from struct import Struct as BinaryFormat
from typing import Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from websockets.exceptions import InvalidState
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import SERVER, Protocol

from accord.errors import InvalidParams, InvalidRequest, NotFound, RpcError
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.resource_limits import GatewayLimitReached
from accord.gateway.client_connection import IncomingFrame, OutgoingFrame
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
    encode_failure,
    id_of_call,
    parse_envelope,
)

RESUME_METHOD: Final = "_accord/resume"
ACK_METHOD: Final = "_accord/ack"

_MAX_UNREAD_PONGS: Final = 1024 * 1024
"""Bytes of unread pongs at which the peer is disconnected."""
_INVALID_TEXT_CODE: Final = 1007
_MAX_REASON_BYTES: Final = 123
# A WebSocket frame has a length field of 7, 16 or 64 bits.
_MIN_16_BIT_LENGTH: Final = 126
_MIN_64_BIT_LENGTH: Final = 1 << 16
_head_with_16_bits = BinaryFormat(">HH").pack
_LIBRARY_LOG = logging.getLogger("accord.gateway.http.websocket_server")


class ResumeParams(Struct, rename="camel"):
    """The params of `_accord/resume`: how far a resuming client got."""

    connection_id: str
    received: int


class AckParams(Struct):
    """The params of `_accord/ack`: how many messages the peer has."""

    received: int


_read_resume = msgspec.json.Decoder(ResumeParams).decode
_read_ack = msgspec.json.Decoder(AckParams).decode


class WebSocketMessages:
    """Sorts the messages of one socket; passes ACP messages to the connection unchanged."""

    def __init__(self, socket: "WebSocket") -> None:
        self._socket = socket
        self.awaiting_first: bool = True
        """Set until `initialize` or a resume."""

    def handle(self, messages: list[bytes]) -> None:
        """Handle messages in order. Stops when the connection ends."""
        socket = self._socket
        acp_messages: list[IncomingFrame] = []
        for message in messages:
            try:
                envelope = parse_envelope(message)
            except InvalidMessage as error:
                self._count_message(len(message))
                self._send_error(error.id, RpcError.of(error.code, error.message, error.reason))
                continue
            if envelope.method in (RESUME_METHOD, ACK_METHOD):
                socket.connection.deliver(acp_messages)
                acp_messages = []
                self._handle_own_message(envelope)
            elif self.awaiting_first and not self._accept_first(envelope):
                break
            elif (
                envelope.method == "initialize" and socket.connection.initialized and envelope.id is not UNSET
            ):
                self._count_message(len(message))
                self._send_error(envelope.id, InvalidRequest(data="the connection is already initialized"))
            else:
                socket.connection.initialized = True
                self._count_message(len(message))
                acp_messages.append(IncomingFrame(message, envelope))
            if socket.connection.ended:
                return
        if acp_messages:
            socket.connection.deliver(acp_messages)

    def _accept_first(self, envelope: Envelope) -> bool:
        """Whether the first message is `initialize` and the limits allow the connection."""
        connection = self._socket.connection
        if envelope.method != "initialize" or envelope.id is UNSET:
            connection.end(PROTOCOL_ERROR, "the first message must be initialize")
            return False
        try:
            self._socket.server_state.connections.take_lease(connection)
        except GatewayLimitReached as error:
            self._socket.server_state.metrics.refused["connections"] += 1
            self._send_error(envelope.id, error)
            connection.end(POLICY, error.message)
            return False
        self.awaiting_first = False
        return True

    def _count_message(self, size: int) -> None:
        connection = self._socket.connection
        if connection.count_message(size):
            self._socket.send_unnumbered(encode(Notification(ACK_METHOD, {"received": connection.received})))

    def _send_error(self, id: RequestId, error: RpcError) -> None:
        self._socket.connection.send((OutgoingFrame(encode_failure(id, error)),), None)

    def _handle_own_message(self, envelope: Envelope) -> None:
        """Handle a message about the connection itself, which is not numbered."""
        socket, id = self._socket, id_of_call(envelope)
        params = envelope.params if envelope.params is not ABSENT else Raw(b"null")
        try:
            if envelope.method == ACK_METHOD:
                if not socket.connection.acknowledge(_read_ack(params).received):
                    raise InvalidParams(data="acknowledged more messages than were sent")
                return
            if not self.awaiting_first:
                raise InvalidRequest(data=f"{RESUME_METHOD} must be the first message")
            answer = self._resume(_read_resume(params))
        except (msgspec.MsgspecError, ValueError) as error:
            self._refuse(id, InvalidParams(data=f"{envelope.method}: {error}"))
        except RpcError as error:
            self._refuse(id, error)
        else:
            socket.send_unnumbered(encode(Success(id, answer)))
            socket.connection.flush()

    def _refuse(self, id: RequestId, error: RpcError) -> None:
        socket = self._socket
        if id is not None:
            socket.send_unnumbered(encode_failure(id, error))
        if self.awaiting_first:
            socket.connection.end(POLICY, "cannot resume; initialize, then load the session")

    def _resume(self, params: ResumeParams) -> dict[str, object]:
        """Carry the client's earlier connection on this socket.

        Raises NotFound, and then nothing has changed.
        """
        socket = self._socket
        connections, new_connection = socket.server_state.connections, socket.connection
        connection = connections.find(WebSocketClientConnection, params.connection_id, socket.rights)
        if (
            connection is None
            or connection is new_connection
            or not connection.initialized
            or connection.agent != new_connection.agent
        ):
            raise NotFound("unknown connection", {"connectionId": params.connection_id[:64]})
        missing = connection.missing_count(params.received)
        if missing is None:
            raise NotFound("fewer messages were sent", {"received": params.received})
        if missing:
            raise NotFound("the missed messages are no longer kept", {"missing": missing})
        old_socket = connection.outlet
        new_connection.detach_outlet(socket)
        new_connection.end(POLICY, "the client resumed an earlier connection")
        if old_socket is not None:
            connection.detach_outlet(old_socket)
            old_socket.close(POLICY, "the client resumed on another socket")
        self.awaiting_first = False
        socket.connection = connection
        connection.mark_resumed()
        connection.attach(socket, params.received)
        connections.metrics.resumed += 1
        return {"connectionId": connection.id, "received": connection.received}


_LIBRARY_LOG.setLevel(logging.WARNING)  # on lower levels it reports every closed connection


class WebSocket(asyncio.Protocol):
    """One socket after the handshake. It carries a connection and may end before it."""

    def __init__(
        self, server_state: HttpServerState, rights: TokenRights, connection: WebSocketClientConnection
    ) -> None:
        self.server_state: HttpServerState = server_state
        self.rights: TokenRights = rights
        self.connection: WebSocketClientConnection = connection
        self._messages = WebSocketMessages(self)
        self._protocol = Protocol(SERVER, max_size=server_state.config.message_size, logger=_LIBRARY_LOG)
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._unread_pongs = 0  # bytes of the protocol's own frames since the peer stopped reading
        self._fragments: list[bytes] | None = None  # of a message in fragments; None while none is open
        self._is_text = False
        self._active = True
        self._silent_since = server_state.clock.now()
        self._opened_at = self._silent_since
        self._pinged = False
        self._closing_since: float | None = None  # when the close was sent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's has no such base class
        self.server_state.sockets.add(self)
        self.connection.attach(self, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.server_state.remove_socket(self)
        self.connection.detach_outlet(self)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._unread_pongs = 0
        self.connection.flush()

    # Outgoing

    @property
    def ready(self) -> bool:
        return not self._paused and self._closing_since is None

    @property
    def buffered(self) -> int:
        transport = self._transport
        return transport.get_write_buffer_size() if transport is not None else 0

    def write(self, frames: list[OutgoingFrame], first: int) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():  # where it is, uvloop would raise
            transport.writelines([frame.websocket_form or _encode(frame) for frame in frames])

    def send_unnumbered(self, body: bytes) -> None:
        """Send a message about the connection itself, without a number."""
        transport = self._transport
        if transport is not None and self._closing_since is None and not transport.is_closing():
            transport.write(_encode(OutgoingFrame(body)))

    def close(self, code: int, reason: str) -> None:
        if self._closing_since is not None or self._transport is None:
            return
        self._closing_since = self.server_state.clock.now()
        try:
            self._protocol.send_close(code, _shorten_reason(reason))
        except InvalidState:
            pass  # the peer has already closed
        self._write_protocol_data()

    def stop(self) -> None:
        """See `ServerSocket.stop`; the connection has already sent its close, if there was one."""
        self.close(1001, "the gateway is stopping")

    def abort(self) -> None:
        """See `ServerSocket.abort`."""
        if self._transport is not None:
            self._transport.abort()

    # Incoming

    def data_received(self, data: bytes) -> None:
        self._active = True
        self._protocol.receive_data(data)
        messages = [
            message
            for frame in self._protocol.events_received()
            if isinstance(frame, Frame) and (message := self._completed_message(frame)) is not None
        ]
        if self._closing_since is None and messages:
            self._handle_messages(messages)
        close_frame = self._protocol.close_rcvd
        if close_frame is not None and self._closing_since is None:
            self._handle_close(close_frame)
        self._write_protocol_data()

    def eof_received(self) -> bool | None:
        self._protocol.receive_eof()
        return None

    def _completed_message(self, frame: Frame) -> bytes | None:
        """Return the message that this frame completes; binary messages are ignored."""
        if frame.opcode is Opcode.TEXT or frame.opcode is Opcode.BINARY:
            self._is_text = frame.opcode is Opcode.TEXT
            if frame.fin:
                return bytes(frame.data) if self._is_text else None
            self._fragments = [bytes(frame.data)]
        elif frame.opcode is Opcode.CONT and self._fragments is not None:
            self._fragments.append(bytes(frame.data))
            if frame.fin:
                fragments, self._fragments = self._fragments, None
                return b"".join(fragments) if self._is_text else None
        return None

    def _handle_messages(self, messages: list[bytes]) -> None:
        allowed: list[bytes] = []
        refusal: tuple[int, str] | None = None
        for message in messages:
            if not is_utf8(message):
                refusal = _INVALID_TEXT_CODE, "a text message is not UTF-8"
                break
            try:
                self.server_state.connections.limit_counter.count_message(self.rights)
            except GatewayLimitReached as error:
                self.server_state.metrics.refused["rate"] += 1
                refusal = POLICY, error.message
                break
            allowed.append(message)
        if allowed:
            self._messages.handle(allowed)
        if refusal is not None:
            code, reason = refusal
            self.connection.flush()  # the answers to earlier messages
            if code == _INVALID_TEXT_CODE:
                self._protocol.fail(code, reason)
            else:
                self.connection.detach_outlet(self)
                self.close(code, reason)

    def _handle_close(self, close_frame: Close) -> None:
        """Handle the client's close.

        For a client that can resume, only a normal closure ends the connection.
        """
        self._closing_since = self.server_state.clock.now()
        if close_frame.code == NORMAL or not self.connection.acknowledges:
            if self.connection.outlet is self:
                self.connection.end(NORMAL, "the client closed the connection")
        else:
            self.connection.detach_outlet(self)

    def _write_protocol_data(self) -> None:
        """Write what the protocol itself sends: pongs, closes, the end."""
        transport = self._transport
        for data in self._protocol.data_to_send():
            if transport is None or transport.is_closing():
                return
            if data:
                transport.write(data)
                self._unread_pongs += len(data) if self._paused else 0
            else:
                self._end_of_stream(transport)
        if transport is not None and self._unread_pongs > _MAX_UNREAD_PONGS:
            transport.abort()

    def _end_of_stream(self, transport: asyncio.Transport) -> None:
        """End the stream.

        A peer that has not sent a close may be in the middle of a message: let it read ours first.
        """
        if self._closing_since is None:
            self._closing_since = self.server_state.clock.now()
        if self._protocol.close_rcvd is None and transport.can_write_eof():
            transport.write_eof()
            if self.connection.outlet is self:
                self.connection.end(1002, "the client broke the protocol")
        else:
            transport.close()

    def tick(self, now: float) -> None:
        """See `TimedConnection.tick`."""
        config = self.server_state.config
        if self._closing_since is not None:
            if now - self._closing_since >= config.stop_time:
                self.abort()
            return
        if self._messages.awaiting_first and now - self._opened_at >= config.header_time:
            self.server_state.metrics.refused["slow"] += 1
            self.connection.end(1002, f"no initialize within {config.header_time:g} seconds")
            return
        if self._active:
            self._active, self._pinged, self._silent_since = False, False, now
        elif now - self._silent_since >= 2 * config.ping:
            self.connection.detach_outlet(self)
            self.abort()
        elif now - self._silent_since >= config.ping and not self._pinged:
            self._pinged = True
            self._protocol.send_ping(b"")
            self._write_protocol_data()


def _shorten_reason(reason: str) -> str:
    """Cut a reason to the size of a close frame."""
    return reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore")


def _encode(frame: OutgoingFrame) -> bytes:
    """Encode a frame as one unmasked WebSocket text frame, and keep that form for the other clients."""
    size = len(frame.body)
    if size < _MIN_16_BIT_LENGTH:
        head = bytes((0x81, size))
    elif size < _MIN_64_BIT_LENGTH:
        head = _head_with_16_bits(0x817E, size)
    else:
        head = b"\x81\x7f" + size.to_bytes(8, "big")
    frame.websocket_form = form = head + frame.body
    return form
