"""A WebSocket: frames in by the `websockets` parser, frames out as the bytes they already are.

Its first message is `initialize`, or `_accord/resume` from a client that comes back; what cannot be a message is answered here.
"""

import asyncio
import logging
from typing import Final, cast

from websockets.exceptions import InvalidState
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import SERVER, Protocol

from accord.gateway.access.limits import LimitReached
from accord.gateway.access.passes import Pass
from accord.gateway.front.conversation import Conversation
from accord.gateway.front.line import NORMAL, POLICY
from accord.gateway.front.premises import Premises
from accord.gateway.front.socketline import SocketLine
from accord.gateway.line import Outgoing
from accord.schema.jsontext import is_utf8

_UNREAD: Final = 1024 * 1024
"""Bytes of pongs for a peer that does not read them, at which it is dropped."""
_INVALID_TEXT: Final = 1007
_REASON: Final = 123
_quiet = logging.getLogger("accord.gateway.front.websocket")
_quiet.setLevel(logging.WARNING)  # it says "connection closed" for each


class WebSocket(asyncio.Protocol):
    """One socket after the handshake. It carries a line, and may go before it."""

    def __init__(self, premises: Premises, visa: Pass, line: SocketLine) -> None:
        self.premises = premises
        self.visa = visa
        self.line = line
        self._talk = Conversation(self)
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

    def write(self, frames: list[Outgoing], first: int) -> None:
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
            transport.write(Outgoing(body).websocket)

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
            except LimitReached as error:
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
