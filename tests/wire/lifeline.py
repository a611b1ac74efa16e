"""Knowing without polling that processes are gone: each holds the write end of a pipe, whose end comes with the last."""

import asyncio
import os
from pathlib import Path


class Lifeline:
    """A named pipe for processes to hold on to. A holder opens it for writing and says a line when it is up."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "lifeline"
        os.mkfifo(self.path)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    async def holders(self, number: int) -> list[int]:
        """Wait for so many holders; the numbers they said, theirs."""
        said = b""
        while said.count(b"\n") < number:
            data = await self._read()
            assert data, f"gone too early, after {said!r}"
            said += data
        return [int(line) for line in said.split()]

    async def gone(self) -> None:
        """Wait until nobody holds it any more."""
        while await self._read():
            pass
        os.close(self._fd)

    async def _read(self) -> bytes:
        loop = asyncio.get_running_loop()
        readable = loop.create_future()
        loop.add_reader(self._fd, readable.set_result, None)
        try:
            async with asyncio.timeout(30):
                await readable
        finally:
            loop.remove_reader(self._fd)
        return os.read(self._fd, 4096)
