"""One WebSocket on one TCP connection: handshake, cookies, messages, pings, loss.

The `websockets` package implements the protocol, without its I/O: all messages of one read are delivered in
one call, and all messages of one loop iteration leave in one write.

Imported on first use: it loads websockets.
"""

import asyncio
import logging
from collections.abc import Iterable
from email.message import Message
from http.client import HTTPResponse
from typing import Final, Protocol, cast
from urllib.request import Request

from msgspec import Struct
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus, PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from accord.clock import Clock, Timer, within
from accord.wire.pipes import HIGH_WATER
from accord.wire.remote.address import AgentAddress, NetworkTimeouts
from accord.wire.remote.network_errors import (
    FINAL_CODES,
    POLICY_CODE,
    close_sentence,
    error_sentence,
    status_sentence,
)


def cookie_header(address: AgentAddress) -> str | None:
    """Return the `Cookie` header for the handshake."""
    request = Request(address.http_url)
    address.cookies.add_cookie_header(request)
    return request.get_header("Cookie")


def keep_cookies(address: AgentAddress, headers: Iterable[tuple[str, str]]) -> None:
    """Keep the cookies that the server set in its response."""
    set_cookies = Message()
    for name, value in headers:
        if name.lower() == "set-cookie":
            set_cookies[name] = value
    address.cookies.extract_cookies(
        cast(HTTPResponse, _ResponseHeaders(set_cookies)), Request(address.http_url)
    )


class _ResponseHeaders:
    """Headers in the form that the standard library's cookie jar needs."""

    def __init__(self, headers: Message) -> None:
        self._headers = headers

    def info(self) -> Message:
        return self._headers


class WebSocketLoss(Struct, frozen=True):
    """Why a socket was lost; `final` if it cannot be replaced by another one."""

    reason: str
    final: bool = False
    explained: bool = False
    """Whether the server said why it refuses this client."""


class WebSocketRefused(Exception):
    """The handshake failed; `final` if another attempt makes no sense."""

    def __init__(self, reason: str, *, final: bool) -> None:
        super().__init__(reason)
        self.final: bool = final


def explain_refusal(websocket: ClientProtocol, error: Exception | None) -> WebSocketRefused:
    """Explain why the handshake failed."""
    failure = websocket.handshake_exc
    if isinstance(failure, InvalidStatus):
        status = failure.response.status_code
        final = status < 500 and status != 429
        return WebSocketRefused(status_sentence(status, bytes(failure.response.body or b"")), final=final)
    if isinstance(failure, InvalidHandshake) and not isinstance(failure.__cause__, EOFError):
        return WebSocketRefused(
            f"there is no ACP server over WebSocket at this address: {error_sentence(failure)}",
            final=True,
        )
    if error is not None:
        return WebSocketRefused(error_sentence(error), final=False)
    return WebSocketRefused("the server closed the connection before a WebSocket was opened", final=False)


def explain_loss(websocket: ClientProtocol, error: Exception | None) -> WebSocketLoss:
    """Explain why the socket was lost."""
    failure = websocket.parser_exc
    if isinstance(failure, PayloadTooBig):
        return WebSocketLoss(
            f"the server sent a message over the limit of {websocket.max_message_size} bytes", final=True
        )
    if failure is not None and not isinstance(failure, EOFError):
        return WebSocketLoss(
            f"the server broke the WebSocket protocol: {error_sentence(failure)}", final=True
        )
    close_frame = websocket.close_rcvd
    if close_frame is not None:
        return WebSocketLoss(
            close_sentence(close_frame.code, close_frame.reason),
            final=close_frame.code in FINAL_CODES,
            explained=close_frame.code == POLICY_CODE and bool(close_frame.reason),
        )
    detail = f": {error_sentence(error)}" if error is not None else ""
    return WebSocketLoss(f"the connection broke{detail}")


_MAX_JOINED: Final = 64 * 1024
"""Messages of one loop iteration are written early at this many bytes."""
_SILENT_LOGGER: Final = logging.Logger("accord.websocket", logging.CRITICAL + 1)
"""Not part of the logger tree, because at debug level it would log the token."""


class WebSocketListener(Protocol):
    """Receives the events of a socket."""

    def messages(self, socket: "WebSocketConnection", messages: list[bytes]) -> None:
        """Receive all messages that one read completed, in order."""
        ...

    def lost(self, socket: "WebSocketConnection", loss: WebSocketLoss) -> None:
        """Receive the loss of the socket; called once, after the last message."""
        ...

    def writable(self, socket: "WebSocketConnection", writable: bool) -> None:
        """Receive whether the write buffer is below its limit."""
        ...


async def open_socket(
    address: AgentAddress, listener: WebSocketListener, *, limit: int, timeouts: NetworkTimeouts, clock: Clock
) -> "WebSocketConnection":
    """Connect; messages are read only after `resume`. Raises WebSocketRefused, UsageError."""
    socket = WebSocketConnection(address, listener, limit, timeouts, clock)
    context = address.tls_context() if address.secure else None
    if context is not None:
        context.set_alpn_protocols(["http/1.1"])
    connecting = asyncio.ensure_future(
        asyncio.get_running_loop().create_connection(
            lambda: socket,
            address.host,
            address.port,
            ssl=context,
            server_hostname=address.host if context is not None else None,
        )
    )
    try:
        if not await within(clock, timeouts.connect, connecting):
            raise WebSocketRefused(f"it does not respond within {timeouts.connect:g} s", final=False)
        await connecting
        if not await within(clock, timeouts.connect, socket.opened):
            raise WebSocketRefused(f"no WebSocket was opened within {timeouts.connect:g} s", final=False)
        await socket.opened
    except OSError as error:
        raise WebSocketRefused(error_sentence(error), final=False) from None
    finally:
        connecting.cancel()
        if not socket.is_open:
            socket.abort()
    return socket


class WebSocketConnection(asyncio.Protocol):
    """One open socket; created by `open_socket`."""

    def __init__(
        self,
        address: AgentAddress,
        listener: WebSocketListener,
        limit: int,
        timeouts: NetworkTimeouts,
        clock: Clock,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.connection_id: str | None = None
        self._address = address
        self._listener = listener
        self._timeouts = timeouts
        self._clock = clock
        self._loop = loop
        self._websocket = ClientProtocol(parse_uri(address.url), max_size=limit, logger=_SILENT_LOGGER)
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._message_parts: list[bytes] = []  # of a message in several frames
        self._is_text = False  # whether those are text
        self._early_messages: list[bytes] = []  # received with the handshake
        self._started = False
        self._queued: list[bytes] = []  # messages of this loop iteration
        self._queued_bytes = 0
        self._flush_scheduled = False
        self._reads = 0
        self._last_check: tuple[int, bool] = (0, False)  # reads at the last check; whether a ping was sent
        self._timer: Timer | None = None
        self._loss: WebSocketLoss | None = None

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._websocket.state is OPEN

    @property
    def unsent(self) -> int:
        """Bytes that have not left this process yet."""
        waiting = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return waiting + self._queued_bytes

    def send(self, message: bytes) -> None:
        """Queue a text message; drop it if the socket is not open."""
        if not self.is_open:
            return
        self._queued.append(message)
        self._queued_bytes += len(message)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._iteration_ended)
            self._flush()
        elif self._queued_bytes >= _MAX_JOINED:
            self._flush()

    def pause(self) -> None:
        """Stop reading until `resume`."""
        self._paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Continue reading; the first time, deliver the messages received with the handshake."""
        self._paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        if not self._started:
            self._started = True
            self._check_alive()
        if self._early_messages:
            early_messages, self._early_messages = self._early_messages, []
            self._listener.messages(self, early_messages)

    def close(self) -> None:
        """Send a close frame; `closed` is done when the server has closed or did not in time."""
        self._flush()
        if self.is_open:
            self._websocket.send_close(1000)
            self._write()
            self._abort_unless_closed()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- called by the event loop -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER, low=HIGH_WATER // 4)
        request = self._websocket.connect()
        for name, value in self._address.headers:
            request.headers[name] = value
        if cookies := cookie_header(self._address):
            request.headers["Cookie"] = cookies
        self._websocket.send_request(request)
        self._write()

    def data_received(self, data: bytes) -> None:
        self._reads += 1
        self._websocket.receive_data(data)
        messages: list[bytes] = []
        for event in self._websocket.events_received():
            if isinstance(event, Frame):
                self._receive_frame(event, messages)
            elif isinstance(event, Response):
                self._handle_handshake_response(event)
        self._write()
        if self._websocket.close_expected():
            self._abort_unless_closed()
        if messages:
            if self._started:
                self._listener.messages(self, messages)
            else:
                self._early_messages += messages

    def eof_received(self) -> None:
        self._websocket.receive_eof()
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        self._websocket.receive_eof()
        self._stop_timer()
        self._queued.clear()
        self._queued_bytes = 0
        if not self.opened.done():
            self.opened.set_exception(explain_refusal(self._websocket, exc))
            self.opened.exception()  # mark it as retrieved
            self.closed.set_result(None)
            return
        self._listener.lost(self, self._loss or explain_loss(self._websocket, exc))
        self.closed.set_result(None)

    def pause_writing(self) -> None:
        self._listener.writable(self, False)

    def resume_writing(self) -> None:
        self._listener.writable(self, True)

    # -- the handshake ----------------------------------------------------------------------------

    def _handle_handshake_response(self, response: Response) -> None:
        keep_cookies(self._address, response.headers.raw_items())
        if self._websocket.handshake_exc is not None:
            return  # `connection_lost` reports it
        self.connection_id = response.headers.get("Acp-Connection-Id")
        if self._transport is not None and not self._started:
            self._transport.pause_reading()
        if not self.opened.done():
            self.opened.set_result(None)

    # -- messages ---------------------------------------------------------------------------------

    def _receive_frame(self, frame: Frame, messages: list[bytes]) -> None:
        if frame.opcode is Opcode.TEXT or frame.opcode is Opcode.BINARY:
            self._is_text = frame.opcode is Opcode.TEXT
        elif frame.opcode is not Opcode.CONT:
            return
        if not self._is_text:
            return  # binary messages are ignored
        if not frame.fin:
            self._message_parts.append(bytes(frame.data))
        elif self._message_parts:
            parts, self._message_parts = self._message_parts, []
            messages.append(b"".join((*parts, frame.data)))
        else:
            messages.append(bytes(frame.data))

    def _iteration_ended(self) -> None:
        self._flush_scheduled = False
        if self._queued:
            self._flush()

    def _flush(self) -> None:
        queued, self._queued, self._queued_bytes = self._queued, [], 0
        if self.is_open:
            for message in queued:
                self._websocket.send_text(message)
            self._write()

    def _write(self) -> None:
        chunks = self._websocket.data_to_send()
        transport = self._transport
        if not chunks or transport is None or transport.is_closing():
            return
        ends = not chunks[-1]
        if ends:
            chunks.pop()
        if len(chunks) == 1:
            transport.write(chunks[0])
        elif chunks:
            transport.writelines(chunks)
        if ends:
            transport.close()

    # -- pings and the end ------------------------------------------------------------------------

    def _check_alive(self) -> None:
        """Check for reads since the last check; send a ping if there were none, and give up the next time."""
        reads, pinged = self._last_check
        if self._reads != reads or self._paused:
            self._last_check = (self._reads, False)
        elif pinged:
            self._loss = WebSocketLoss(f"the server did not respond for {2 * self._timeouts.ping:g} s")
            self.abort()
            return
        elif self.is_open:
            self._last_check = (reads, True)
            self._websocket.send_ping(b"")
            self._write()
        self._timer = self._clock.call_later(self._timeouts.ping, self._check_alive)

    def _abort_unless_closed(self) -> None:
        self._stop_timer()
        self._timer = self._clock.call_later(self._timeouts.close, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
