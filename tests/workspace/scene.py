"""Names that the tests of this room share."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

SECRET = "secret of somebody else"

Write = Callable[[str, str | bytes], Path]


def names(folder: Path) -> set[str]:
    """What stands in a folder."""
    return {entry.name for entry in folder.iterdir()}


class Screen:
    """Somebody who watches terminals live and can wait for a text to show."""

    def __init__(self) -> None:
        self.seen: dict[str, str] = {}
        self._changed = asyncio.Event()

    def __call__(self, id: str, text: str) -> None:
        self.seen[id] = self.seen.get(id, "") + text
        self._changed.set()

    async def shows(self, id: str, text: str) -> str:
        """Everything that was shown, once `text` is in it."""
        while text not in self.seen.get(id, ""):
            self._changed.clear()
            await self._changed.wait()
        return self.seen[id]


class Lifeline:
    """A named pipe that processes hold open for writing, to see when the last of them is gone."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    async def cut(self) -> None:
        """Return once nobody holds it any more; somebody must have held it before."""
        loop = asyncio.get_running_loop()
        gone = loop.create_future()
        loop.add_reader(self._fd, lambda: gone.done() or gone.set_result(None))
        try:
            await gone
        finally:
            loop.remove_reader(self._fd)
        assert os.read(self._fd, 1) == b""

    def close(self) -> None:
        os.close(self._fd)
