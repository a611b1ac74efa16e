"""Just enough HTTP/1.1 for a model server: requests with a length, answers whole or in chunks, one after the other."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from accord.testing.models.script import Gate

_MOST: Final = 256 * 1024 * 1024


class Gone(Exception):
    """The client closed the connection."""


@dataclass(frozen=True)
class Head:
    """A request without its meaning."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Wire(asyncio.StreamReaderProtocol):
    """One connection of a client. Knows when the client is gone, also while nothing is sent or read."""

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader(limit=_MOST)
        super().__init__(self._reader)
        self._gone = asyncio.Event()
        self._up: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self._up = transport

    def eof_received(self) -> bool | None:
        self._gone.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        super().connection_lost(exc)

    async def next_request(self) -> Head | None:
        """The next request; None when there are no more."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            method, target, _ = first.split(" ", 2)
            pairs = [line.partition(":") for line in lines]
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return None
        return Head(method, target, headers, body)

    async def answer(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer. Bytes go out as they are, anything else as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
        self._write(_head(status, fields) + data)

    def begin(self) -> None:
        """Begin to stream."""
        fields = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        self._write(_head(200, fields))

    async def stream(self, data: bytes) -> None:
        """One piece of a stream. Every piece is sent for itself."""
        self._write(b"%x\r\n%s\r\n" % (len(data), data))
        await asyncio.sleep(0)

    def end(self) -> None:
        """The end of the stream."""
        self._write(b"0\r\n\r\n")

    async def wait(self, gate: Gate) -> None:
        """Wait at the gate. Raises Gone if the client leaves meanwhile."""
        passing = asyncio.ensure_future(gate.passed())
        leaving = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait((passing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            passing.cancel()
            leaving.cancel()
        if not passing.done() or passing.cancelled():
            raise Gone

    async def left(self) -> None:
        """Return when the client has closed the connection."""
        await self._gone.wait()

    def drop(self) -> None:
        """Break the connection."""
        if self._up is not None:
            self._up.abort()

    def _write(self, data: bytes) -> None:
        if self._gone.is_set() or self._up is None or self._up.is_closing():
            raise Gone
        self._up.write(data)


def _head(status: int, fields: Mapping[str, str]) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Scripted"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")
