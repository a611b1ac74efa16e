"""The transport over a WebSocket: one message a text frame.

Where the server announces that it can, a dropped connection goes on over a new socket, and nobody above notices: what
was missed on either side is sent again, once and in order. With any other server a drop is the end.
"""

import asyncio

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import NeverStarted, UsageError
from accord.wire.pipes import HIGH_WATER
from accord.wire.remote.address import AgentAddress, NetworkTimeouts
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
    times: NetworkTimeouts | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> "WebSocketTransport":
    """Connect to a server. Raises NeverStarted where that leads to no WebSocket."""
    transport = WebSocketTransport(address, limit, times or NetworkTimeouts(), clock)
    try:
        await transport.open()
    except WebSocketRefused as refused:
        raise NeverStarted(f"{address}: cannot connect: {refused}") from None
    return transport


class WebSocketTransport:
    """One connection, over one socket or several after each other; made by `open_websocket`."""

    def __init__(self, address: AgentAddress, limit: int, times: NetworkTimeouts, clock: Clock) -> None:
        self._address = address
        self._limit = limit
        self._times = times
        self._clock = clock
        self._ledger = ResumeBuffer()
        self._connection_id: str | None = None
        self._receiver: Receiver | None = None
        self._socket: WebSocketConnection | None = None
        self._candidate: WebSocketConnection | None = None  # a new socket on which nothing is agreed yet
        self._agreeing: asyncio.Future[None] | None = None
        self._coming_back: asyncio.Task[None] | None = None
        self._waiting = 0  # bytes sent while there is no socket
        self._paused = False
        self._deaf = False  # what still comes is for nobody
        self._end: TransportEnd | None = None
        self._closing: asyncio.Task[None] | None = None
        self._relieved = asyncio.Event()
        self._relieved.set()

    async def open(self) -> None:
        """Get the first socket. Raises Refused."""
        self._socket = await self._new_socket()
        if self._socket.closed.done():
            raise WebSocketRefused("it hung up as soon as the WebSocket was open", final=False)
        self._connection_id = self._socket.connection_id

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        asyncio.get_running_loop().call_soon(self._begin)

    def send(self, frame: bytes) -> None:
        if self._end is not None or self._closing is not None:
            return
        self._ledger.sent(frame)
        if self._socket is not None:
            self._socket.send(frame)
        else:
            self._waiting += len(frame)
            if self._waiting >= HIGH_WATER:
                self._relieved.clear()

    @property
    def unsent(self) -> int:
        return self._waiting + (self._socket.unsent if self._socket is not None else 0)

    async def drain(self) -> None:
        await self._relieved.wait()

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
        if self._coming_back is not None:
            self._coming_back.cancel()
            await asyncio.wait([self._coming_back])
        socket = self._socket
        if socket is not None:
            # The server's goodbye has to be read, whoever does not want what comes before it.
            self._deaf = self._paused or self._receiver is None
            socket.close()
            socket.resume()
            try:
                await within(self._clock, self._times.leave, socket.closed)
            finally:
                socket.abort()
        self._finish(f"this side closed the connection to {self._address}")

    # -- what a socket tells ------------------------------------------------------------------------------------

    def messages(self, socket: WebSocketConnection, messages: list[bytes]) -> None:
        if socket is self._candidate and self._agreeing is not None:
            messages = self._agreed(socket, self._agreeing, messages)
        elif socket is not self._socket:
            return
        theirs = self._ledger.heard(messages)
        if self._socket is not None and (confirmation := self._ledger.confirmation()) is not None:
            self._socket.send(confirmation)
        if theirs and self._receiver is not None and not self._deaf and self._end is None:
            frames: list[Frame] = list(theirs)
            self._receiver.frames(frames)

    def lost(self, socket: WebSocketConnection, loss: WebSocketLoss) -> None:
        if socket is self._candidate and self._agreeing is not None and not self._agreeing.done():
            self._agreeing.set_exception(WebSocketRefused(loss.reason, final=loss.final))
        if socket is not self._socket:
            return
        self._socket = None
        self._relieved.set()
        if self._closing is not None:
            return
        if loss.final or not self._ledger.resumable or self._connection_id is None:
            self._finish(f"{self._address}: {loss.reason}")
        else:
            self._coming_back = asyncio.ensure_future(self._come_back(loss.reason))

    def writable(self, socket: WebSocketConnection, writable: bool) -> None:
        if socket is not self._socket and socket is not self._candidate:
            return
        if writable:
            self._relieved.set()
        else:
            self._relieved.clear()

    # -- coming back --------------------------------------------------------------------------------------------

    async def _come_back(self, why: str) -> None:
        until = self._clock.now() + self._times.back
        number = 0
        while True:
            try:
                await self._take_up()
            except (ResumeFailed, UsageError) as gone:
                self._finish(f"{self._address}: {why}; {gone}")
                return
            except WebSocketRefused as refused:
                number += 1
                pause = self._times.pause_before(number)
                if refused.final or self._clock.now() + pause > until:
                    self._finish(f"{self._address}: {why}; the way back failed: {refused}")
                    return
                await self._clock.sleep(pause)
            else:
                return

    async def _take_up(self) -> None:
        """Get a new socket and agree with the server on what is missing. Raises Gone, Refused."""
        assert self._connection_id is not None, "without an id there is no way back"
        socket = await self._new_socket()
        self._agreeing = agreeing = asyncio.get_running_loop().create_future()
        self._candidate = socket
        try:
            socket.send(self._ledger.request(self._connection_id))
            socket.resume()
            if not await within(self._clock, self._times.connect, agreeing):
                raise WebSocketRefused("the request to go on was not answered", final=False)
            await agreeing
        finally:
            self._candidate = self._agreeing = None
            if self._socket is not socket:
                socket.abort()

    def _agreed(
        self, socket: WebSocketConnection, agreeing: "asyncio.Future[None]", messages: list[bytes]
    ) -> list[bytes]:
        """The first message on a new socket is the server's answer; what follows it is what we missed."""
        if agreeing.done():
            return []
        try:
            missed = self._ledger.missed(messages[0])
        except ResumeFailed as gone:
            agreeing.set_exception(gone)
            return []
        self._candidate = self._agreeing = None
        self._socket = socket
        self._waiting = 0
        self._relieved.set()
        for frame in missed:
            socket.send(frame)
        if self._paused:
            socket.pause()
        agreeing.set_result(None)
        return messages[1:]

    async def _new_socket(self) -> WebSocketConnection:
        return await open_socket(self._address, self, limit=self._limit, times=self._times, clock=self._clock)

    # -- begin and end ------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._end is not None:
            self._tell_end()
        elif self._socket is not None and not self._paused:
            self._socket.resume()

    def _finish(self, reason: str) -> None:
        if self._end is None:
            self._end = TransportEnd(reason)
            self._waiting = 0
            self._relieved.set()
            if self._receiver is not None:
                self._tell_end()

    def _tell_end(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None and self._end is not None:
            receiver.ended(self._end)
