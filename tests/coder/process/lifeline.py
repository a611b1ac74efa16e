"""A command that runs until somebody ends it, and how a test knows that it runs and that nothing of it is left.

Both ends are a named pipe in the project: whoever runs holds it open, in whatever sandbox; its end is the end of the last one.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path


class Lifeline:
    """The reading end."""

    NAME = "alive"
    COMMAND = f"run (echo up; sleep 600 & sleep 600) > {NAME}"
    """As a prompt: a shell, a child and a grandchild in the background."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def up(self) -> None:
        """Return when the command runs."""
        assert await self._reader.readline() == b"up\n"

    async def gone(self) -> None:
        """Return when nothing of it runs any more."""
        assert await self._reader.read() == b""


@asynccontextmanager
async def lifeline(folder: Path) -> AsyncGenerator[Lifeline]:
    """The pipe in this folder."""
    os.mkfifo(folder / Lifeline.NAME)
    pipe = os.fdopen(os.open(folder / Lifeline.NAME, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        yield Lifeline(reader)
    finally:
        transport.close()
