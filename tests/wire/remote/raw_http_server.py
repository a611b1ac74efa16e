"""A small HTTP/1.1 server for tests: hands over each request as received and answers as the test says."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager


class Exchange:
    """One HTTP request and its response."""

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
        """Read the body."""
        self.body = await self._reader.readexactly(int(self.headers.get("content-length", "0")))
        return self.body

    async def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send a complete response."""
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self._writer.drain()
        self.answered.set()

    async def begin_stream(self, kind: str = "text/event-stream") -> None:
        """Send the head of a response with no fixed length."""
        self._writer.write(
            f"HTTP/1.1 200 X\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        await self._writer.drain()

    async def chunk(self, data: bytes) -> None:
        """Send one chunk of the response; an empty one ends it."""
        self._writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self._writer.drain()
        if not data:
            self.answered.set()

    def cut(self) -> None:
        """Abort the connection."""
        self._writer.transport.abort()
        self.answered.set()

    async def wait_disconnected(self) -> None:
        """Wait until the client has disconnected."""
        await self._reader.read(1)


Handler = Callable[[Exchange], Awaitable[None]]


@asynccontextmanager
async def run_http_server(handler: Handler) -> AsyncGenerator[str]:
    """Run a server on a free local port; gives its address as `127.0.0.1:PORT`."""
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
