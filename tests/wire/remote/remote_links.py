"""Links for the transport contract: the network transports on real sockets, each with an echo server."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.patience import PATIENCE
from tests.wire.remote.raw_http_server import Exchange, run_http_server
from tests.wire.transport_contract import Link
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from accord.wire.remote.address import NetworkTimeouts, read_address
from accord.wire.remote.streamable_http import StreamableHttpTransport
from accord.wire.remote.websocket import open_websocket
from accord.wire.transport import Frame, Receiver, Transport, TransportEnd

QUICK = NetworkTimeouts(close=0.3)
INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
INITIALIZE_RESPONSE = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'


class Echo:
    """The far end of a link: counts the echoed frames and follows the commands of the check."""

    def __init__(self, near: Transport | None = None) -> None:
        self.transport = near
        self.many = 3000
        self.reading = asyncio.Event()
        self.reading.set()
        self.closing = asyncio.Event()
        self._echoed = 0
        self._changed = asyncio.Condition()

    @property
    def near(self) -> Transport:
        assert self.transport is not None
        return self.transport

    async def echoed(self, count: int = 1) -> None:
        async with self._changed:
            self._echoed += count
            self._changed.notify_all()

    async def far_has_echoed(self, number: int) -> None:
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: self._echoed >= number)

    async def far_stops_reading(self) -> None:
        self.reading.clear()

    async def far_resumes_reading(self) -> None:
        self.reading.set()

    async def far_closes(self) -> None:
        self.closing.set()


@asynccontextmanager
async def websocket_link() -> AsyncGenerator[Link]:
    link = Echo()

    async def echo(peer: ServerConnection) -> None:
        async def pump() -> None:
            try:
                while True:
                    await link.reading.wait()
                    message = await peer.recv(decode=False)
                    await peer.send(message, text=True)
                    await link.echoed()
            except ConnectionClosed:
                pass

        pump_task = asyncio.ensure_future(pump())
        closing = asyncio.ensure_future(link.closing.wait())
        await asyncio.wait([pump_task, closing], return_when=asyncio.FIRST_COMPLETED)
        pump_task.cancel()
        closing.cancel()
        await peer.close(1001, "the test is over")

    # Small socket buffers, so that the sender notices a slow reader.
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    port = listener.getsockname()[1]
    async with serve(echo, sock=listener, max_size=None, max_queue=(4, 1), compression=None, close_timeout=1):
        near = link.transport = await open_websocket(read_address(f"ws://127.0.0.1:{port}/"), timeouts=QUICK)
        assert near._socket is not None
        assert near._socket._transport is not None
        ours = near._socket._transport.get_extra_info("socket")
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 * 1024)
        try:
            yield link
        finally:
            link.reading.set()
            link.closing.set()
            await link.transport.aclose()


class InitializedTransport:
    """A streamable HTTP transport that has already sent `initialize`, so that it can carry any frame."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        inner.send(INITIALIZE)

    def start(self, receiver: Receiver) -> None:
        self._inner.start(SkipInitializeResponse(receiver))

    def send(self, frame: bytes) -> None:
        self._inner.send(frame)

    @property
    def unsent(self) -> int:
        return self._inner.unsent

    async def drain(self) -> None:
        await self._inner.drain()

    def pause(self) -> None:
        self._inner.pause()

    def resume(self) -> None:
        self._inner.resume()

    async def aclose(self) -> None:
        await self._inner.aclose()


class SkipInitializeResponse:
    """A receiver that skips the response to `initialize`."""

    def __init__(self, inner: Receiver) -> None:
        self._inner = inner

    def frames(self, frames: list[Frame]) -> None:
        rest = [frame for frame in frames if frame != INITIALIZE_RESPONSE]
        if rest:
            self._inner.frames(rest)

    def ended(self, end: TransportEnd) -> None:
        self._inner.ended(end)


@asynccontextmanager
async def http_link() -> AsyncGenerator[Link]:
    link = Echo()
    link.many = 300  # each frame is a separate HTTP request
    events: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(request: Exchange) -> None:
        if request.method == "POST" and "acp-connection-id" not in request.headers:
            assert await request.read() == INITIALIZE
            await request.answer(
                200, INITIALIZE_RESPONSE, Acp_Connection_Id="c1", Content_Type="application/json"
            )
        elif request.method == "POST":
            await link.reading.wait()
            body = await request.read()
            await request.answer(202)
            events.put_nowait(body)
            await link.echoed()
        elif request.method == "GET":
            await request.begin_stream()
            closing = asyncio.ensure_future(link.closing.wait())
            while True:
                next_event = asyncio.ensure_future(events.get())
                await asyncio.wait([next_event, closing], return_when=asyncio.FIRST_COMPLETED)
                if next_event.done():
                    await request.chunk(b"data: " + next_event.result() + b"\n\n")
                    continue
                next_event.cancel()
                await request.chunk(b"")
                return
        else:
            await request.answer(202)

    async with run_http_server(handle) as address:
        link.transport = InitializedTransport(
            StreamableHttpTransport(read_address(f"http://{address}/"), timeouts=QUICK)
        )
        try:
            yield link
        finally:
            link.reading.set()
            link.closing.set()
            await link.transport.aclose()
