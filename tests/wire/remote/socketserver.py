"""A WebSocket server that a test speaks for, and the client's end of it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.wire.transport_contract import Inbox
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from accord.clock import SYSTEM_CLOCK, Clock
from accord.wire.remote.address import read_address
from accord.wire.remote.times import Times
from accord.wire.remote.websocket import WebSocketTransport, open_websocket

QUICK = Times(leave=0.3, pause=0.01, longest_pause=0.02)
HELLO = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
PLAIN = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'
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


class Desk:
    """Where the sockets of clients arrive; the test takes them one after the other."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.refuse: list[int] = []
        """Statuses for the next handshakes."""
        self.cookie: str | None = None
        self._arrived: asyncio.Queue[ServerConnection] = asyncio.Queue()
        self._leave = asyncio.Event()
        self.address = ""

    async def next(self) -> ServerConnection:
        """The next socket."""
        async with asyncio.timeout(30):
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
        leaving = asyncio.ensure_future(self._leave.wait())
        await asyncio.wait([closed, leaving], return_when=asyncio.FIRST_COMPLETED)
        closed.cancel()
        leaving.cancel()

    def leave(self) -> None:
        self._leave.set()


@asynccontextmanager
async def desk() -> AsyncGenerator[Desk]:
    found = Desk()
    server: Server
    async with serve(
        found.handle,
        "127.0.0.1",
        0,
        process_request=found.check,
        process_response=found.decorate,
        compression=None,
        max_size=None,
        ping_interval=None,
        close_timeout=10,
    ) as server:
        found.address = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"
        yield found
        found.leave()


class Caller:
    """A client on the transport under test."""

    def __init__(self, transport: WebSocketTransport) -> None:
        self.transport = transport
        self.inbox = Inbox()
        transport.start(self.inbox)

    def send(self, *frames: bytes) -> None:
        for frame in frames:
            self.transport.send(frame)


@asynccontextmanager
async def calling(
    desk: Desk,
    *,
    times: Times = QUICK,
    limit: int = 1 << 20,
    clock: Clock = SYSTEM_CLOCK,
    token: str | None = None,
) -> AsyncGenerator[tuple[Caller, ServerConnection]]:
    """A client and the server's end of its first socket."""
    address = read_address(desk.address, token=token)
    caller = Caller(await open_websocket(address, times=times, limit=limit, clock=clock))
    try:
        yield caller, await desk.next()
    finally:
        desk.leave()
        await caller.transport.aclose()


async def heard(socket: ServerConnection, *frames: bytes) -> None:
    """The server hears exactly these frames next."""
    async with asyncio.timeout(30):
        for frame in frames:
            assert await socket.recv(decode=False) == frame


async def message(socket: ServerConnection) -> Any:
    """The next message that the server hears."""
    async with asyncio.timeout(30):
        return json.loads(await socket.recv())


async def tell(socket: ServerConnection, *frames: bytes) -> None:
    """The server sends these frames."""
    for frame in frames:
        await socket.send(frame, text=True)


async def greet(caller: Caller, socket: ServerConnection, welcome: bytes = RESUMABLE) -> None:
    """The first exchange."""
    caller.send(HELLO)
    await heard(socket, HELLO)
    await tell(socket, welcome)
    await caller.inbox.count(1)
