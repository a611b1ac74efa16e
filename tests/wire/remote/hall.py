"""A server of streamable HTTP that a test speaks for, and the client's end of it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.wire.remote.webserver import Exchange, serving
from tests.wire.transport_contract import Inbox

from accord.clock import SYSTEM_CLOCK, Clock
from accord.wire.remote.address import read_address
from accord.wire.remote.http import StreamableHttpTransport
from accord.wire.remote.times import Times

QUICK = Times(leave=0.3, pause=0.01, longest_pause=0.02)
HELLO = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}'
WELCOME = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'


class Hall:
    """Where requests arrive; the test takes and answers them."""

    def __init__(self) -> None:
        self.address = ""
        self.log: list[str] = []
        """What arrived, in order: the method and the session."""
        self.requests: list[Exchange] = []
        self.goodbyes: asyncio.Queue[Exchange] = asyncio.Queue()
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
                self.goodbyes.put_nowait(request)

    async def post(self, status: int | None = 202, body: bytes = b"") -> Exchange:
        """The next post, answered with the status; None leaves it unanswered."""
        async with asyncio.timeout(30):
            request = await self._posts.get()
        if status is not None:
            await request.answer(status, body)
        return request

    async def stream(self, status: int = 200) -> Exchange:
        """The next stream, begun or refused."""
        async with asyncio.timeout(30):
            request = await self._streams.get()
        if status == 200:
            await request.begin_stream()
        else:
            await request.answer(status)
        return request


class Guest:
    """A client on the transport under test."""

    def __init__(self, hall: Hall, times: Times, clock: Clock, limit: int, token: str | None) -> None:
        address = read_address(hall.address, token=token)
        self.transport = StreamableHttpTransport(address, times=times, clock=clock, limit=limit)
        self.inbox = Inbox()
        self.transport.start(self.inbox)

    def send(self, *messages: Any) -> None:
        for message in messages:
            self.transport.send(encoded(message))

    async def message(self, number: int) -> Any:
        """What arrived as this one, counted from 0."""
        frame = (await self.inbox.count(number + 1))[number]
        assert isinstance(frame, bytes)
        return json.loads(frame)


def encoded(message: Any) -> bytes:
    """A message on one line."""
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()


def event(message: Any, id: str | None = None) -> bytes:
    """A message as an event."""
    head = b"" if id is None else f"id: {id}\n".encode()
    return head + b"data: " + encoded(message) + b"\n\n"


def prompt(id: int, session: str) -> dict[str, Any]:
    """A request of a session."""
    return {"id": id, "method": "session/prompt", "params": {"sessionId": session}}


@asynccontextmanager
async def hall() -> AsyncGenerator[Hall]:
    found = Hall()
    async with serving(found.handle) as place:
        found.address = f"http://{place}/acp"
        yield found


@asynccontextmanager
async def visiting(
    hall: Hall,
    *,
    times: Times = QUICK,
    clock: Clock = SYSTEM_CLOCK,
    limit: int = 1 << 20,
    token: str | None = None,
    welcome: bytes = WELCOME,
) -> AsyncGenerator[tuple[Guest, Exchange]]:
    """A client that has been welcomed, and its connection's stream."""
    guest = Guest(hall, times, clock, limit, token)
    try:
        guest.transport.send(HELLO)
        asked = await hall.post(None)
        assert asked.body == HELLO
        await asked.answer(200, welcome, Acp_Connection_Id="c1", Content_Type="application/json")
        stream = await hall.stream()
        assert await guest.inbox.count(1) == [welcome]
        yield guest, stream
    finally:
        await guest.transport.aclose()
