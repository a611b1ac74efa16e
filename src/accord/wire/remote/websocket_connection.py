"""One WebSocket on one TCP connection: handshake, cookies, messages, pings, loss.

Imported on first use.
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
from accord.wire.remote.network_errors import FINAL_CODES, close_sentence, error_sentence, status_sentence

# MERGED wire.remote.cookies: Cookies of a WebSocket handshake, in the jar that the HTTP requests to the same server use, too.


def cookie_header(address: AgentAddress) -> str | None:
    """What to show to the server."""
    request = Request(address.http_url)
    address.cookies.add_cookie_header(request)
    return request.get_header("Cookie")


def keep_cookies(address: AgentAddress, headers: Iterable[tuple[str, str]]) -> None:
    """Keep what the server set in its answer."""
    found = Message()
    for name, value in headers:
        if name.lower() == "set-cookie":
            found[name] = value
    address.cookies.extract_cookies(cast(HTTPResponse, _Answer(found)), Request(address.http_url))


class _Answer:
    """Headers in the only form that the standard library's jar takes them."""

    def __init__(self, headers: Message) -> None:
        self._headers = headers

    def info(self) -> Message:
        return self._headers


# MERGED wire.remote.losses: How WebSockets are refused and lost, and whether another one may take the place of one that was.


class WebSocketLoss(Struct, frozen=True):
    """How a socket ended, and whether another one may take its place."""

    reason: str
    final: bool = False


class WebSocketRefused(Exception):
    """The handshake did not lead to a WebSocket."""

    def __init__(self, reason: str, *, final: bool) -> None:
        super().__init__(reason)
        self.final = final


def refusal_of(websocket: ClientProtocol, error: Exception | None) -> WebSocketRefused:
    """Why there is no WebSocket."""
    found = websocket.handshake_exc
    if isinstance(found, InvalidStatus):
        status = found.response.status_code
        final = status < 500 and status != 429
        return WebSocketRefused(status_sentence(status, bytes(found.response.body or b"")), final=final)
    if isinstance(found, InvalidHandshake) and not isinstance(found.__cause__, EOFError):
        return WebSocketRefused(
            f"what is there is no ACP server over WebSocket: {error_sentence(found)}", final=True
        )
    if error is not None:
        return WebSocketRefused(error_sentence(error), final=False)
    return WebSocketRefused("it hung up before a WebSocket was opened", final=False)


def loss_of(websocket: ClientProtocol, error: Exception | None) -> WebSocketLoss:
    """Why there is one no longer."""
    found = websocket.parser_exc
    if isinstance(found, PayloadTooBig):
        return WebSocketLoss(
            f"the server sent a message over the limit of {websocket.max_message_size} bytes", final=True
        )
    if found is not None and not isinstance(found, EOFError):
        return WebSocketLoss(f"the server broke the WebSocket protocol: {error_sentence(found)}", final=True)
    said = websocket.close_rcvd
    if said is not None:
        return WebSocketLoss(close_sentence(said.code, said.reason), final=said.code in FINAL_CODES)
    how = f": {error_sentence(error)}" if error is not None else ""
    return WebSocketLoss(f"the connection broke off{how}")


# MERGED wire.remote.sockets: One WebSocket on one TCP connection: its handshake, whole text messages in and out, signs of life, its end.
#
# The protocol itself is the `websockets` package's, without its I/O: what one read brings is handed over in one call, and
# what one turn of the event loop sends leaves in one write.

_JOINED: Final = 64 * 1024  # a turn's messages leave early once they are this many bytes
_SILENT: Final = logging.Logger("accord.websocket", logging.CRITICAL + 1)
"""Outside the tree of loggers: what it would write at the lowest level has the token in it."""


class WebSocketListener(Protocol):
    """Who is told what happens on a socket."""

    def messages(self, socket: "WebSocketConnection", messages: list[bytes]) -> None:
        """Everything that one read completed, in order."""
        ...

    def lost(self, socket: "WebSocketConnection", loss: WebSocketLoss) -> None:
        """The socket is closed; called once, after the last message."""
        ...

    def writable(self, socket: "WebSocketConnection", writable: bool) -> None:
        """More waits to be written than should, or no longer does."""
        ...


async def open_socket(
    address: AgentAddress, listener: WebSocketListener, *, limit: int, times: NetworkTimeouts, clock: Clock
) -> "WebSocketConnection":
    """Connect, and shake hands. Nothing is read beyond that until `resume`. Raises Refused, UsageError."""
    socket = WebSocketConnection(address, listener, limit, times, clock)
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
        if not await within(clock, times.connect, connecting):
            raise WebSocketRefused(f"it does not answer within {times.connect:g} s", final=False)
        await connecting
        if not await within(clock, times.connect, socket.opened):
            raise WebSocketRefused(f"no WebSocket was opened within {times.connect:g} s", final=False)
        await socket.opened
    except OSError as error:
        raise WebSocketRefused(error_sentence(error), final=False) from None
    finally:
        connecting.cancel()
        if not socket.is_open:
            socket.abort()
    return socket


class WebSocketConnection(asyncio.Protocol):
    """Made by `open_socket`."""

    def __init__(
        self,
        address: AgentAddress,
        listener: WebSocketListener,
        limit: int,
        times: NetworkTimeouts,
        clock: Clock,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.connection_id: str | None = None
        self._address = address
        self._listener = listener
        self._times = times
        self._clock = clock
        self._loop = loop
        self._websocket = ClientProtocol(parse_uri(address.url), max_size=limit, logger=_SILENT)
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._parts: list[bytes] = []  # of a message that comes in several frames
        self._text = False  # whether those are text
        self._early: list[bytes] = []  # came with the handshake
        self._started = False
        self._held: list[bytes] = []  # messages of this turn
        self._held_bytes = 0
        self._turn = False
        self._heard = 0
        self._pulse: tuple[int, bool] = (0, False)  # what was heard at the last look; whether a ping is out
        self._timer: Timer | None = None
        self._fault: WebSocketLoss | None = None

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._websocket.state is OPEN

    @property
    def unsent(self) -> int:
        """Bytes that have not left this process."""
        waiting = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return waiting + self._held_bytes

    def send(self, message: bytes) -> None:
        """Queue a text message; dropped when the socket is no longer open."""
        if not self.is_open:
            return
        self._held.append(message)
        self._held_bytes += len(message)
        if not self._turn:
            self._turn = True
            self._loop.call_soon(self._turn_over)
            self._flush()
        elif self._held_bytes >= _JOINED:
            self._flush()

    def pause(self) -> None:
        """Read nothing more for now."""
        self._paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on; the first time, begin with what came with the handshake."""
        self._paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        if not self._started:
            self._started = True
            self._beat()
        if self._early:
            early, self._early = self._early, []
            self._listener.messages(self, early)

    def close(self) -> None:
        """Say goodbye; `closed` is done when the server has, or was given up."""
        self._flush()
        if self.is_open:
            self._websocket.send_close(1000)
            self._write()
            self._expect_the_end()

    def abort(self) -> None:
        """End at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- what the event loop calls ------------------------------------------------------------------------------

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
        self._heard += 1
        self._websocket.receive_data(data)
        messages: list[bytes] = []
        for event in self._websocket.events_received():
            if isinstance(event, Frame):
                self._take(event, messages)
            elif isinstance(event, Response):
                self._answered(event)
        self._write()
        if self._websocket.close_expected():
            self._expect_the_end()
        if messages:
            if self._started:
                self._listener.messages(self, messages)
            else:
                self._early += messages

    def eof_received(self) -> None:
        self._websocket.receive_eof()
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        self._websocket.receive_eof()
        self._stop_timer()
        self._held.clear()
        self._held_bytes = 0
        if not self.opened.done():
            self.opened.set_exception(refusal_of(self._websocket, exc))
            self.opened.exception()  # whoever waits for it has it
            self.closed.set_result(None)
            return
        self._listener.lost(self, self._fault or loss_of(self._websocket, exc))
        self.closed.set_result(None)

    def pause_writing(self) -> None:
        self._listener.writable(self, False)

    def resume_writing(self) -> None:
        self._listener.writable(self, True)

    # -- the handshake ------------------------------------------------------------------------------------------

    def _answered(self, response: Response) -> None:
        keep_cookies(self._address, response.headers.raw_items())
        if self._websocket.handshake_exc is not None:
            return  # `connection_lost` tells
        self.connection_id = response.headers.get("Acp-Connection-Id")
        if self._transport is not None and not self._started:
            self._transport.pause_reading()
        if not self.opened.done():
            self.opened.set_result(None)

    # -- messages -----------------------------------------------------------------------------------------------

    def _take(self, frame: Frame, messages: list[bytes]) -> None:
        if frame.opcode is Opcode.TEXT or frame.opcode is Opcode.BINARY:
            self._text = frame.opcode is Opcode.TEXT
        elif frame.opcode is not Opcode.CONT:
            return
        if not self._text:
            return  # binary messages mean nothing here
        if not frame.fin:
            self._parts.append(bytes(frame.data))
        elif self._parts:
            parts, self._parts = self._parts, []
            messages.append(b"".join((*parts, frame.data)))
        else:
            messages.append(bytes(frame.data))

    def _turn_over(self) -> None:
        self._turn = False
        if self._held:
            self._flush()

    def _flush(self) -> None:
        held, self._held, self._held_bytes = self._held, [], 0
        if self.is_open:
            for message in held:
                self._websocket.send_text(message)
            self._write()

    def _write(self) -> None:
        pieces = self._websocket.data_to_send()
        transport = self._transport
        if not pieces or transport is None or transport.is_closing():
            return
        over = not pieces[-1]
        if over:
            pieces.pop()
        if len(pieces) == 1:
            transport.write(pieces[0])
        elif pieces:
            transport.writelines(pieces)
        if over:
            transport.close()

    # -- signs of life and the end ------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Look whether anything was heard since the last look; if not, ask, and the next time give up."""
        heard, asked = self._pulse
        if self._heard != heard or self._paused:
            self._pulse = (self._heard, False)
        elif asked:
            self._fault = WebSocketLoss(f"the server gave no sign of life for {2 * self._times.ping:g} s")
            self.abort()
            return
        elif self.is_open:
            self._pulse = (heard, True)
            self._websocket.send_ping(b"")
            self._write()
        self._timer = self._clock.call_later(self._times.ping, self._beat)

    def _expect_the_end(self) -> None:
        self._stop_timer()
        self._timer = self._clock.call_later(self._times.leave, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
