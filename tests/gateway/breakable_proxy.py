"""A TCP proxy whose connections can be cut without a close, held in one direction, delayed or refused."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

_MAX_DELAYED = 64
"""Pieces of data that wait in one direction; then nothing more is read."""


class BreakableProxy:
    """Forwards bytes. `cut` resets every connection at once."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.cuts = 0
        self.passed = 0
        """Bytes sent to the client."""
        self._target = port
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut_after: int | None = None
        self._refuses = False
        self.delay: float = 0.0
        """Seconds that everything waits, in both directions."""
        self._flows = {"up": asyncio.Event(), "down": asyncio.Event()}
        for flow in self._flows.values():
            flow.set()

    @contextmanager
    def broken(self) -> Generator[None]:
        """Cut all connections and refuse new ones."""
        self._refuses = True
        self.cut()
        try:
            yield
        finally:
            self._refuses = False

    @contextmanager
    def holding(self, *directions: str) -> Generator[None]:
        """Pass nothing on to the server (`up`) or to the client (`down`), as if all packets were lost."""
        for direction in directions:
            self._flows[direction].clear()
        try:
            yield
        finally:
            for direction in directions:
                self._flows[direction].set()

    def cut(self) -> None:
        """Reset all open connections."""
        self.cuts += 1
        for writer in tuple(self._writers):
            writer.transport.abort()
        self._writers.clear()

    def cut_every(self, size: int) -> None:
        """Reset all connections whenever this many more bytes have gone to the client."""
        self._cut_after = size

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self._refuses:
                raise ConnectionRefusedError
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers |= {writer, back}
            up = asyncio.ensure_future(self._pass(reader, back, counted=False))
            try:
                await self._pass(there, writer, counted=True)
            finally:
                up.cancel()
                await asyncio.wait([up])
                for one in (writer, back):
                    self._writers.discard(one)
                    one.transport.abort()
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool
    ) -> None:
        flow = self._flows["down" if counted else "up"]
        loop = asyncio.get_running_loop()
        arrived: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MAX_DELAYED)

        async def read() -> None:
            while True:
                try:
                    data = await reader.read(4096)
                except OSError:
                    data = b""
                await arrived.put((loop.time() + self.delay, data))
                if not data:
                    return

        reading = asyncio.ensure_future(read())
        try:
            while True:
                due, data = await arrived.get()
                if not data:
                    return
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                await flow.wait()
                writer.write(data)
                await writer.drain()
                if counted:
                    before, self.passed = self.passed, self.passed + len(data)
                    every = self._cut_after
                    if every is not None and before // every != self.passed // every:
                        self.cut()
                        return
        except OSError:
            return
        finally:
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled():
                reading.exception()

    async def aclose(self) -> None:
        """Cut all connections and wait until no task runs."""
        self._cut_after = None
        self.cut()
        for task in self._tasks:
            task.cancel()  # one that has just connected has no writer yet that could be cut
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))


@asynccontextmanager
async def breakable_proxy(port: int) -> AsyncGenerator[BreakableProxy]:
    """Run a proxy to this port."""
    proxy = BreakableProxy(port)
    server = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.aclose()
        await server.wait_closed()
