"""A streamable HTTP server that the test controls, and a client connected to it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.patience import PATIENCE
from tests.wire.remote.raw_http_server import Exchange, run_http_server
from tests.wire.transport_contract import Inbox

from accord.clock import SYSTEM_CLOCK, Clock
from accord.wire.remote.address import NetworkTimeouts, read_address
from accord.wire.remote.streamable_http import StreamableHttpTransport

QUICK = NetworkTimeouts(close=0.3, retry_pause=0.01, max_retry_pause=0.02)
INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
INITIALIZE_RESPONSE = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'


class HttpTestServer:
    """Collects the requests of the client. The test takes and answers them."""

    def __init__(self) -> None:
        self.address = ""
        self.log: list[str] = []
        """The requests in order of arrival: method and session id."""
        self.requests: list[Exchange] = []
        self.deletes: asyncio.Queue[Exchange] = asyncio.Queue()
        self._posts: asyncio.Queue[Exchange] = asyncio.Queue()
        self._streams: asyncio.Queue[Exchange] = asyncio.Queue()

    async def handle(self, request: Exchange) -> None:
        await request.read()
        self.requests.append(request)
        session = request.headers.get("acp-session-id", "-")
        self.log.append(f"{request.method} {session}")
        match request.method:
            case "POST":
                self._posts.put_nowait(request)
                await request.answered.wait()
            case "GET":
                self._streams.put_nowait(request)
                await request.answered.wait()
            case _:
                await request.answer(202)
                self.deletes.put_nowait(request)

    async def post(self, status: int | None = 202, body: bytes = b"") -> Exchange:
        """Take the next POST and answer it with this status; None leaves it unanswered."""
        async with asyncio.timeout(PATIENCE):
            request = await self._posts.get()
        if status is not None:
            await request.answer(status, body)
        return request

    async def stream(self, status: int = 200) -> Exchange:
        """Take the next event stream and start it, or refuse it with this status."""
        async with asyncio.timeout(PATIENCE):
            request = await self._streams.get()
        if status == 200:
            await request.begin_stream()
        else:
            await request.answer(status)
        return request


class HttpTestClient:
    """A client with the transport under test."""

    def __init__(
        self, server: HttpTestServer, timeouts: NetworkTimeouts, clock: Clock, limit: int, token: str | None
    ) -> None:
        address = read_address(server.address, token=token)
        self.transport = StreamableHttpTransport(address, timeouts=timeouts, clock=clock, limit=limit)
        self.inbox = Inbox()
        self.transport.start(self.inbox)

    def send(self, *messages: Any) -> None:
        for message in messages:
            self.transport.send(encoded(message))

    async def message(self, number: int) -> Any:
        """The received message with this index."""
        frame = (await self.inbox.count(number + 1))[number]
        assert isinstance(frame, bytes)
        return json.loads(frame)


def encoded(message: Any) -> bytes:
    """Encode a message as one line."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()


def event(message: Any, id: str | None = None) -> bytes:
    """Encode a message as a server-sent event."""
    head = b"" if id is None else f"id: {id}\n".encode()
    return head + b"data: " + encoded(message) + b"\n\n"


def prompt(id: int, session: str) -> dict[str, Any]:
    """A prompt request of a session."""
    return {"id": id, "method": "session/prompt", "params": {"sessionId": session}}


@asynccontextmanager
async def http_test_server() -> AsyncGenerator[HttpTestServer]:
    server = HttpTestServer()
    async with run_http_server(server.handle) as address:
        server.address = f"http://{address}/acp"
        yield server


@asynccontextmanager
async def initialized_client(
    server: HttpTestServer,
    *,
    timeouts: NetworkTimeouts = QUICK,
    clock: Clock = SYSTEM_CLOCK,
    limit: int = 1 << 20,
    token: str | None = None,
    response: bytes = INITIALIZE_RESPONSE,
) -> AsyncGenerator[tuple[HttpTestClient, Exchange]]:
    """An initialized client, and the event stream of its connection."""
    client = HttpTestClient(server, timeouts, clock, limit, token)
    try:
        client.transport.send(INITIALIZE)
        request = await server.post(None)
        assert request.body == INITIALIZE
        await request.answer(200, response, Acp_Connection_Id="c1", Content_Type="application/json")
        stream = await server.stream()
        assert await client.inbox.count(1) == [response]
        yield client, stream
    finally:
        await client.transport.aclose()
