"""The transport over a WebSocket: one message per text frame.

If the server announces it, a dropped connection is resumed over a new socket: both sides send the messages
that the other missed, once and in order, and the layers above do not notice. With any other server a dropped
connection has ended.

Imported on first use: it loads websockets.
"""

import asyncio

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import NeverStarted, UsageError
from accord.wire.pipes import HIGH_WATER
from accord.wire.remote.address import AgentAddress, LinkObserver, NetworkTimeouts
from accord.wire.remote.resume_buffer import ResumeBuffer, ResumeFailed
from accord.wire.remote.websocket_connection import (
    WebSocketConnection,
    WebSocketLoss,
    WebSocketRefused,
    open_socket,
)
from accord.wire.transport import DEFAULT_LIMIT, Frame, Receiver, TransportEnd


async def open_websocket(
    address: AgentAddress,
    *,
    limit: int = DEFAULT_LIMIT,
    timeouts: NetworkTimeouts | None = None,
    clock: Clock = SYSTEM_CLOCK,
    on_link: LinkObserver | None = None,
) -> "WebSocketTransport":
    """Connect to a server. Raises NeverStarted if no WebSocket can be opened."""
    transport = WebSocketTransport(address, limit, timeouts or NetworkTimeouts(), clock, on_link)
    try:
        await transport.open()
    except WebSocketRefused as refused:
        raise NeverStarted(f"{address}: cannot connect: {refused}") from None
    return transport


class WebSocketTransport:
    """One connection over one or more sockets, one after the other; created by `open_websocket`."""

    def __init__(
        self,
        address: AgentAddress,
        limit: int,
        timeouts: NetworkTimeouts,
        clock: Clock,
        on_link: LinkObserver | None = None,
    ) -> None:
        self._on_link = on_link
        self._address = address
        self._limit = limit
        self._timeouts = timeouts
        self._clock = clock
        self._resume_buffer = ResumeBuffer()
        self._connection_id: str | None = None
        self._receiver: Receiver | None = None
        self._socket: WebSocketConnection | None = None
        # A new socket whose resume request is not answered yet.
        self._candidate: WebSocketConnection | None = None
        self._resume_response: asyncio.Future[None] | None = None
        self._resume_task: asyncio.Task[None] | None = None
        self._waiting_bytes = 0  # bytes to send while there is no socket
        self._paused = False
        self._discard_received = False  # drop further messages
        self._end: TransportEnd | None = None
        self._closing: asyncio.Task[None] | None = None
        self._below_high_water = asyncio.Event()
        self._below_high_water.set()

    async def open(self) -> None:
        """Open the first socket. Raises WebSocketRefused."""
        self._socket = await self._new_socket()
        if self._socket.closed.done():
            raise WebSocketRefused("the server closed the WebSocket as soon as it was open", final=False)
        self._connection_id = self._socket.connection_id

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        asyncio.get_running_loop().call_soon(self._start_reading)

    def send(self, frame: bytes) -> None:
        if self._end is not None or self._closing is not None:
            return
        self._resume_buffer.keep(frame)
        if self._socket is not None:
            self._socket.send(frame)
        else:
            self._waiting_bytes += len(frame)
            if self._waiting_bytes >= HIGH_WATER:
                self._below_high_water.clear()

    @property
    def unsent(self) -> int:
        return self._waiting_bytes + (self._socket.unsent if self._socket is not None else 0)

    async def drain(self) -> None:
        await self._below_high_water.wait()

    def pause(self) -> None:
        self._paused = True
        if self._socket is not None:
            self._socket.pause()

    def resume(self) -> None:
        self._paused = False
        if self._socket is not None and self._receiver is not None:
            self._socket.resume()

    async def aclose(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._resume_task is not None:
            self._resume_task.cancel()
            await asyncio.wait([self._resume_task])
        socket = self._socket
        if socket is not None:
            # The server's close frame has to be read, even if the messages before it are dropped.
            self._discard_received = self._paused or self._receiver is None
            socket.close()
            socket.resume()
            try:
                await within(self._clock, self._timeouts.close, socket.closed)
            finally:
                socket.abort()
        self._finish(f"this side closed the connection to {self._address}")

    # -- events of the socket ---------------------------------------------------------------------

    def messages(self, socket: WebSocketConnection, messages: list[bytes]) -> None:
        if socket is self._candidate and self._resume_response is not None:
            messages = self._handle_resume_response(socket, self._resume_response, messages)
        elif socket is not self._socket:
            return
        received = self._resume_buffer.receive(messages)
        if self._socket is not None and (confirmation := self._resume_buffer.take_confirmation()) is not None:
            self._socket.send(confirmation)
        if received and self._receiver is not None and not self._discard_received and self._end is None:
            frames: list[Frame] = list(received)
            self._receiver.frames(frames)

    def lost(self, socket: WebSocketConnection, loss: WebSocketLoss) -> None:
        if (
            socket is self._candidate
            and self._resume_response is not None
            and not self._resume_response.done()
        ):
            self._resume_response.set_exception(WebSocketRefused(loss.reason, final=loss.final))
        if socket is not self._socket:
            return
        self._socket = None
        self._below_high_water.set()
        if self._closing is not None:
            return
        if loss.final or not self._resume_buffer.resumable or self._connection_id is None:
            self._finish(f"{self._address}: {loss.reason}")
        else:
            self._resume_task = asyncio.ensure_future(self._resume_connection(loss))

    def writable(self, socket: WebSocketConnection, writable: bool) -> None:
        if socket is not self._socket and socket is not self._candidate:
            return
        if writable:
            self._below_high_water.set()
        else:
            self._below_high_water.clear()

    # -- resuming ---------------------------------------------------------------------------------

    async def _resume_connection(self, loss: WebSocketLoss) -> None:
        reason = loss.reason
        deadline = self._clock.now() + self._timeouts.resume
        attempt = 0
        while True:
            try:
                await self._try_to_resume()
            except (ResumeFailed, UsageError) as error:
                self._finish(f"{self._address}: {reason}; {error}")
                return
            except WebSocketRefused as refused:
                attempt += 1
                pause = self._timeouts.pause_before(attempt)
                if refused.final or self._clock.now() + pause > deadline:
                    detail = "" if loss.explained and refused.final else f"; resuming failed: {refused}"
                    self._finish(f"{self._address}: {reason}{detail}")
                    return
                if attempt == 1 and self._on_link is not None:
                    self._on_link(reason)
                await self._clock.sleep(pause)
            else:
                if attempt and self._on_link is not None:
                    self._on_link("")
                return

    async def _try_to_resume(self) -> None:
        """Open a new socket and send the resume request. Raises ResumeFailed, WebSocketRefused."""
        assert self._connection_id is not None, "a connection without an id cannot be resumed"
        socket = await self._new_socket()
        self._resume_response = response = asyncio.get_running_loop().create_future()
        self._candidate = socket
        try:
            socket.send(self._resume_buffer.resume_request(self._connection_id))
            socket.resume()
            if not await within(self._clock, self._timeouts.connect, response):
                raise WebSocketRefused("the resume request was not answered", final=False)
            await response
        finally:
            self._candidate = self._resume_response = None
            if self._socket is not socket:
                socket.abort()

    def _handle_resume_response(
        self, socket: WebSocketConnection, response: "asyncio.Future[None]", messages: list[bytes]
    ) -> list[bytes]:
        """Handle the response to the resume request, the first message on a new socket; return the rest."""
        if response.done():
            return []
        try:
            frames_to_resend = self._resume_buffer.frames_to_resend(messages[0])
        except ResumeFailed as error:
            response.set_exception(error)
            return []
        self._candidate = self._resume_response = None
        self._socket = socket
        self._waiting_bytes = 0
        self._below_high_water.set()
        for frame in frames_to_resend:
            socket.send(frame)
        if self._paused:
            socket.pause()
        response.set_result(None)
        return messages[1:]

    async def _new_socket(self) -> WebSocketConnection:
        return await open_socket(
            self._address, self, limit=self._limit, timeouts=self._timeouts, clock=self._clock
        )

    # -- begin and end ----------------------------------------------------------------------------

    def _start_reading(self) -> None:
        if self._end is not None:
            self._report_end()
        elif self._socket is not None and not self._paused:
            self._socket.resume()

    def _finish(self, reason: str) -> None:
        if self._end is None:
            self._end = TransportEnd(reason)
            self._waiting_bytes = 0
            self._below_high_water.set()
            if self._receiver is not None:
                self._report_end()

    def _report_end(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None and self._end is not None:
            receiver.ended(self._end)
