"""A small HTTP/1.1 server that a test speaks for: every request is handed over as it came, and answered as the test says."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager


class Exchange:
    """One request on a connection, and the way back."""

    def __init__(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = b""
        self.answered = asyncio.Event()
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        """The body."""
        self.body = await self._reader.readexactly(int(self.headers.get("content-length", "0")))
        return self.body

    async def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole answer."""
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self._writer.drain()
        self.answered.set()

    async def begin_stream(self, kind: str = "text/event-stream") -> None:
        """The head of an answer without an end."""
        self._writer.write(
            f"HTTP/1.1 200 X\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        await self._writer.drain()

    async def chunk(self, data: bytes) -> None:
        """A piece of it; an empty one is its end."""
        self._writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self._writer.drain()
        if not data:
            self.answered.set()

    def cut(self) -> None:
        """Break off."""
        self._writer.transport.abort()
        self.answered.set()

    async def left(self) -> None:
        """Wait until the other side is gone."""
        await self._reader.read(1)


Handler = Callable[[Exchange], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncGenerator[str]:
    """A server on a free port of this machine; gives its address, as `127.0.0.1:PORT`."""
    writers: set[asyncio.StreamWriter] = set()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, path, _ = head[0].split(" ")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in head[1:-2])
                }
                await handler(Exchange(method, path, headers, reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writers.discard(writer)
            writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 20)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        for task in list(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(list(tasks))
