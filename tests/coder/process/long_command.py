"""A command that runs until it is killed, with a way to see that it runs and that no process of it is left.

The command holds a named pipe in the project open, also from inside a sandbox. The pipe ends with the last
of its processes.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path


class LongCommand:
    """The reading end of the pipe."""

    NAME = "alive"
    COMMAND = f"run (echo up; sleep 600 & sleep 600) > {NAME}"
    """A prompt that runs a shell, a child and a background grandchild."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def started(self) -> None:
        """Wait until the command runs."""
        assert await self._reader.readline() == b"up\n"

    async def ended(self) -> None:
        """Wait until none of its processes runs any more."""
        assert await self._reader.read() == b""


@asynccontextmanager
async def watch_command(folder: Path) -> AsyncGenerator[LongCommand]:
    """Create the pipe in this folder."""
    os.mkfifo(folder / LongCommand.NAME)
    pipe = os.fdopen(os.open(folder / LongCommand.NAME, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        yield LongCommand(reader)
    finally:
        transport.close()
