"""Links for the transport contract: the network transports, each with a server that echoes, on real sockets."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.wire.remote.webserver import Exchange, serving
from tests.wire.transport_contract import Link
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from accord.wire.remote.address import read_address
from accord.wire.remote.http import StreamableHttpTransport
from accord.wire.remote.times import Times
from accord.wire.remote.websocket import open_websocket
from accord.wire.transport import End, Frame, Receiver, Transport

QUICK = Times(leave=0.3)
HELLO = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
WELCOME = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'


class Echo:
    """What a far end does, whatever carries it."""

    def __init__(self, near: Transport | None = None) -> None:
        self.transport = near
        self.many = 3000
        self.reading = asyncio.Event()
        self.reading.set()
        self.going = asyncio.Event()
        self._echoed = 0
        self._news = asyncio.Condition()

    @property
    def near(self) -> Transport:
        assert self.transport is not None
        return self.transport

    async def echoed(self, count: int = 1) -> None:
        async with self._news:
            self._echoed += count
            self._news.notify_all()

    async def far_has_echoed(self, number: int) -> None:
        async with asyncio.timeout(30), self._news:
            await self._news.wait_for(lambda: self._echoed >= number)

    async def far_stops_reading(self) -> None:
        self.reading.clear()

    async def far_reads_on(self) -> None:
        self.reading.set()

    async def far_goes(self) -> None:
        self.going.set()


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

        pumping = asyncio.ensure_future(pump())
        going = asyncio.ensure_future(link.going.wait())
        await asyncio.wait([pumping, going], return_when=asyncio.FIRST_COMPLETED)
        pumping.cancel()
        going.cancel()
        await peer.close(1001, "the test is over")

    # A slow reader is felt only where the system does not take everything for it.
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
    port = listener.getsockname()[1]
    async with serve(echo, sock=listener, max_size=None, max_queue=(4, 1), compression=None, close_timeout=1):
        near = link.transport = await open_websocket(read_address(f"ws://127.0.0.1:{port}/"), times=QUICK)
        assert near._socket is not None
        assert near._socket._transport is not None
        ours = near._socket._transport.get_extra_info("socket")
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32 * 1024)
        try:
            yield link
        finally:
            link.reading.set()
            link.going.set()
            await link.transport.aclose()


class Initialized:
    """A transport of streamable HTTP that has said hello, so that it can be handed anything."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        inner.send(HELLO)

    def start(self, receiver: Receiver) -> None:
        self._inner.start(WithoutWelcome(receiver))

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


class WithoutWelcome:
    """A receiver that does not get the answer to the hello."""

    def __init__(self, inner: Receiver) -> None:
        self._inner = inner

    def frames(self, frames: list[Frame]) -> None:
        rest = [frame for frame in frames if frame != WELCOME]
        if rest:
            self._inner.frames(rest)

    def ended(self, end: End) -> None:
        self._inner.ended(end)


@asynccontextmanager
async def http_link() -> AsyncGenerator[Link]:
    link = Echo()
    link.many = 300  # each is a request of its own
    events: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(request: Exchange) -> None:
        if request.method == "POST" and "acp-connection-id" not in request.headers:
            assert await request.read() == HELLO
            await request.answer(200, WELCOME, Acp_Connection_Id="c1", Content_Type="application/json")
        elif request.method == "POST":
            await link.reading.wait()
            body = await request.read()
            await request.answer(202)
            events.put_nowait(body)
            await link.echoed()
        elif request.method == "GET":
            await request.begin_stream()
            going = asyncio.ensure_future(link.going.wait())
            while True:
                coming = asyncio.ensure_future(events.get())
                await asyncio.wait([coming, going], return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    await request.chunk(b"data: " + coming.result() + b"\n\n")
                    continue
                coming.cancel()
                await request.chunk(b"")
                return
        else:
            await request.answer(202)

    async with serving(handle) as place:
        link.transport = Initialized(StreamableHttpTransport(read_address(f"http://{place}/"), times=QUICK))
        try:
            yield link
        finally:
            link.reading.set()
            link.going.set()
            await link.transport.aclose()
