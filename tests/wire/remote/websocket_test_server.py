"""A WebSocket server that the test controls, and a client connected to it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.patience import PATIENCE
from tests.wire.transport_contract import Inbox
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from accord.clock import SYSTEM_CLOCK, Clock
from accord.wire.remote.address import NetworkTimeouts, read_address
from accord.wire.remote.websocket import WebSocketTransport, open_websocket

QUICK = NetworkTimeouts(close=0.3, retry_pause=0.01, max_retry_pause=0.02)
INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
NOT_RESUMABLE = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
RESUMABLE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 0,
        "result": {
            "protocolVersion": 1,
            "agentCapabilities": {"_meta": {"accord": {"resume": {"version": 1}}}},
        },
    }
).encode()


class WebSocketTestServer:
    """Collects the sockets of clients. The test takes them one after the other."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.refuse: list[int] = []
        """HTTP statuses that refuse the next handshakes."""
        self.cookie: str | None = None
        self._arrived: asyncio.Queue[ServerConnection] = asyncio.Queue()
        self._stopped = asyncio.Event()
        self.address = ""

    async def next(self) -> ServerConnection:
        """Wait for the next socket."""
        async with asyncio.timeout(PATIENCE):
            return await self._arrived.get()

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        self.requests.append(request)
        if self.refuse:
            return connection.respond(self.refuse.pop(0), "not today\n")
        return None

    def decorate(self, connection: ServerConnection, request: Request, response: Response) -> None:
        response.headers["Acp-Connection-Id"] = f"c{len(self.requests)}"
        if self.cookie is not None:
            response.headers["Set-Cookie"] = self.cookie

    async def handle(self, socket: ServerConnection) -> None:
        self._arrived.put_nowait(socket)
        closed = asyncio.ensure_future(socket.wait_closed())
        stopping = asyncio.ensure_future(self._stopped.wait())
        await asyncio.wait([closed, stopping], return_when=asyncio.FIRST_COMPLETED)
        closed.cancel()
        stopping.cancel()

    def stop(self) -> None:
        self._stopped.set()


@asynccontextmanager
async def websocket_test_server() -> AsyncGenerator[WebSocketTestServer]:
    test_server = WebSocketTestServer()
    server: Server
    async with serve(
        test_server.handle,
        "127.0.0.1",
        0,
        process_request=test_server.check,
        process_response=test_server.decorate,
        compression=None,
        max_size=None,
        ping_interval=None,
        close_timeout=10,
    ) as server:
        test_server.address = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"
        yield test_server
        test_server.stop()


class WebSocketTestClient:
    """A client with the transport under test."""

    def __init__(self, transport: WebSocketTransport) -> None:
        self.transport = transport
        self.inbox = Inbox()
        transport.start(self.inbox)

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.transport.send(frame)


@asynccontextmanager
async def connected_client(
    server: WebSocketTestServer,
    *,
    timeouts: NetworkTimeouts = QUICK,
    limit: int = 1 << 20,
    clock: Clock = SYSTEM_CLOCK,
    token: str | None = None,
) -> AsyncGenerator[tuple[WebSocketTestClient, ServerConnection]]:
    """A client, and the server's end of its first socket."""
    address = read_address(server.address, token=token)
    client = WebSocketTestClient(await open_websocket(address, timeouts=timeouts, limit=limit, clock=clock))
    try:
        yield client, await server.next()
    finally:
        server.stop()
        await client.transport.aclose()


async def expect_frames(socket: ServerConnection, *frames: bytes) -> None:
    """Assert that the server receives exactly these frames next."""
    async with asyncio.timeout(PATIENCE):
        for frame in frames:
            assert await socket.recv(decode=False) == frame


async def next_message(socket: ServerConnection) -> Any:
    """The next message that the server receives."""
    async with asyncio.timeout(PATIENCE):
        return json.loads(await socket.recv())


async def send_frames(socket: ServerConnection, *frames: bytes) -> None:
    """Send these frames from the server."""
    for frame in frames:
        await socket.send(frame, text=True)


async def initialize(
    client: WebSocketTestClient, socket: ServerConnection, response: bytes = RESUMABLE
) -> None:
    """Exchange the `initialize` request and its response."""
    client.send(INITIALIZE)
    await expect_frames(socket, INITIALIZE)
    await send_frames(socket, response)
    await client.inbox.count(1)
