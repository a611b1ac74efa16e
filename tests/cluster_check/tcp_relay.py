"""A TCP relay on the loopback address: a network that can be cut, held, slowed and healed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

_CHUNK = 65_536


class TcpRelay:
    """Forwards connections to a port of this machine."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.delay = 0.0
        """Seconds by which everything comes later."""
        self._target = target
        self._refuses = False
        self._ways = (asyncio.Event(), asyncio.Event())
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.heal()

    def cut(self) -> None:
        """Reset all connections and refuse new ones."""
        self._refuses = True
        self.reset()

    def hold(self, *, there: bool = True, back: bool = True) -> None:
        """Let nothing through, in one direction or both. The connections stay open, and nothing is lost."""
        for way, held in zip(self._ways, (there, back), strict=True):
            if held:
                way.clear()

    def heal(self) -> None:
        """Work again: what was held goes on, late."""
        self._refuses, self.delay = False, 0.0
        for way in self._ways:
            way.set()

    def reset(self) -> None:
        """Reset all connections."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        back: asyncio.StreamWriter | None = None
        try:
            if not self._refuses:
                there, back = await asyncio.open_connection("127.0.0.1", self._target)
                self._writers |= {writer, back}
                pumps = (
                    asyncio.ensure_future(self._pump(reader, back, self._ways[0])),
                    asyncio.ensure_future(self._pump(there, writer, self._ways[1])),
                )
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()
                    await asyncio.wait(pumps)
        except (OSError, asyncio.CancelledError):
            pass  # the server does not run, or the relay ends
        finally:
            for one in (writer, back):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()
            self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self.delay:
                    await asyncio.sleep(self.delay)
                await way.wait()
                writer.write(data)
                await writer.drain()

    async def end(self) -> None:
        """End all connections."""
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))


@asynccontextmanager
async def tcp_relay(target: int) -> AsyncGenerator[TcpRelay]:
    """Run a relay to this port."""
    relay = TcpRelay(target)
    server = await asyncio.start_server(relay.accept, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        await relay.end()
