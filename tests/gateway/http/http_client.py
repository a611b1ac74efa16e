"""An HTTP client of the server, for either HTTP version, and a reader of its event streams."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import httpx2
import msgspec
from tests.gateway.http.http_harness import INITIALIZE, HttpHarness


@asynccontextmanager
async def http_client(
    harness: HttpHarness, version: int, **headers: str
) -> AsyncGenerator[httpx2.AsyncClient]:
    """An HTTP client with the token that speaks only this version. Empty headers are left out."""
    async with httpx2.AsyncClient(
        base_url=harness.url,
        http1=version == 1,
        http2=version == 2,
        headers={name: value for name, value in (harness.headers | headers).items() if value},
        timeout=None,
    ) as client:
        yield client


async def open_connection(client: httpx2.AsyncClient) -> dict[str, str]:
    """Open a connection and return the header that names it."""
    answer = await client.post("/acp", json=INITIALIZE)
    assert answer.status_code == 200
    return {"Acp-Connection-Id": answer.headers["acp-connection-id"]}


class Event(msgspec.Struct):
    """One block of an event stream: an event with its id, or a comment."""

    id: str | None = None
    data: Any = None
    comment: str | None = None


class EventReader:
    """An open GET: `async with EventReader(...) as events`, then `await events.next()`."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        headers: dict[str, str],
        session: str | None = None,
        last: str | None = None,
    ) -> None:
        own = {"Accept": "text/event-stream"} | headers
        if session is not None:
            own["Acp-Session-Id"] = session
        if last is not None:
            own["Last-Event-ID"] = last
        self._opening = client.stream("GET", "/acp", headers=own)
        self._lines: AsyncIterator[str] | None = None

    async def __aenter__(self) -> "EventReader":
        self.response = await self._opening.__aenter__()
        self.status = self.response.status_code
        self._lines = self.response.aiter_lines()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._opening.__aexit__(kind, error, trace)

    async def next(self) -> Event | None:
        """The next block, or None at the end of the stream."""
        assert self._lines is not None
        event, begun = Event(), False
        async for line in self._lines:
            if not line:
                if begun:
                    return event
                continue
            begun = True
            name, _, value = line.partition(":")
            if not name:
                event.comment = value.removeprefix(" ")
            elif name == "id":
                event.id = value.strip()
            else:
                assert name == "data"
                event.data = msgspec.json.decode(value.encode())
        return None
