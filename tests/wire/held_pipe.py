"""Waits for processes to end without polling: each process holds the write end of a named pipe."""

import asyncio
import os
from pathlib import Path

from tests.patience import PATIENCE


class HeldPipe:
    """A named pipe that processes hold open. Each opens it for writing and writes its pid as one line."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "held_pipe"
        os.mkfifo(self.path)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    async def wait_for_holders(self, number: int) -> list[int]:
        """Wait until this many processes hold the pipe; return their pids."""
        received = b""
        while received.count(b"\n") < number:
            data = await self._read()
            assert data, f"all holders ended too early, after {received!r}"
            received += data
        return [int(line) for line in received.split()]

    async def wait_for_release(self) -> None:
        """Wait until no process holds the pipe."""
        while await self._read():
            pass
        os.close(self._fd)

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(self._fd, readable.set_result, None)
        try:
            async with asyncio.timeout(PATIENCE):
                await readable
        finally:
            loop.remove_reader(self._fd)
        return os.read(self._fd, 4096)
