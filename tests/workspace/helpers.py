"""Shared helpers of the workspace tests."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from tests.patience import PATIENCE

SECRET = "secret outside the project"

Write = Callable[[str, str | bytes], Path]


def names(folder: Path) -> set[str]:
    """Return the names of the entries of a folder."""
    return {entry.name for entry in folder.iterdir()}


class Screen:
    """Collects terminal output and lets a test wait for a text in it."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self._changed = asyncio.Event()

    def __call__(self, id: str, text: str) -> None:
        self.seen[id] = self.seen.get(id, "") + text
        self._changed.set()

    async def wait_for(self, id: str, text: str) -> str:
        """Wait until `text` is in the output, then return all of it."""
        while text not in self.seen.get(id, ""):
            self._changed.clear()
            await self._changed.wait()
        return self.seen[id]


class Lifeline:
    """A named pipe that processes hold open for writing. It shows when the last of them has ended."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    async def wait_closed(self) -> None:
        """Wait until no process holds the pipe any more. At least one must have held it before."""
        loop = asyncio.get_running_loop()
        closed = loop.create_future()
        loop.add_reader(self._fd, lambda: closed.done() or closed.set_result(None))
        try:
            async with asyncio.timeout(PATIENCE):
                await closed
        finally:
            loop.remove_reader(self._fd)
        assert os.read(self._fd, 1) == b""

    def close(self) -> None:
        os.close(self._fd)
