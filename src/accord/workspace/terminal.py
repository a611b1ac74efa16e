"""One command in its terminal: the output so far, and how it ended.

A command has ended when its process has exited and its output was read to the end. A process left in the background
may hold the output open for ever, so after the exit that end is waited for only for a moment; what comes later is still
taken in.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from accord.clock import Clock, within
from accord.wire.children import Patience, ProcessTree
from accord.wire.pipes import LoopReader, Reader
from accord.workspace.output import OutputBuffer

_LINGER: Final = (
    0.25  # seconds that the output may stay open after the exit before the exit is reported all the same
)
_DEATH: Final = (
    5.0  # seconds for killed processes to be gone; only one stuck in the kernel takes more than an instant
)
_AT_ONCE: Final = Patience(leave=0, terminate=0, kill=_DEATH)
_UNREAD: Final = 1024 * 1024  # more bytes than a pipe or pseudo-terminal holds unread


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a command ended: its exit code, or the name of the signal that ended it."""

    exit_code: int | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class TerminalOutput:
    """What is kept of the output; `exit_status` only once the command has ended."""

    output: str
    truncated: bool
    exit_status: ExitStatus | None = None


class Terminal:
    """A command, running or ended. Made on the event loop."""

    def __init__(
        self,
        processes: ProcessTree,
        reader: Reader,
        buffer: OutputBuffer,
        on_output: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._processes = processes
        self._reader = reader
        self._buffer = buffer
        self._on_output = on_output
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._silent: asyncio.Future[None] = self._loop.create_future()  # the output was read to its end
        self._ended: asyncio.Future[None] = self._loop.create_future()  # silent too, or no longer waited for
        reader.start(self._arrived, self._output_over)
        self._watching = asyncio.create_task(self._watch())

    @property
    def output(self) -> TerminalOutput:
        """The present state; waits for nothing."""
        status = self._status if self._ended.done() else None
        return TerminalOutput(self._buffer.text, self._buffer.truncated, status)

    @property
    def running(self) -> bool:
        """Whether the command has not ended yet."""
        return not self._ended.done()

    async def wait(self) -> ExitStatus | None:
        """How the command ended, once it has; None if it was given up before anybody knew."""
        await asyncio.shield(self._ended)
        return self._status

    async def kill(self) -> None:
        """End the command and everything it started; returns once it has ended, or is stuck beyond reach."""
        self._processes.kill()
        await within(self._clock, _DEATH, self._ended)

    async def close(self) -> None:
        """Kill what still runs, stop reading, and let every waiter go."""
        if self._processes.exit is None:
            self._processes.kill()
        try:
            await self._processes.end(_AT_ONCE)
        finally:
            self._watching.cancel()
            self._read_what_is_there()
            self._reader.close()
            self._end()

    @property
    def _status(self) -> ExitStatus | None:
        exit = self._processes.exit
        return exit and ExitStatus(exit.code, exit.signal)

    async def _watch(self) -> None:
        await self._processes.wait()
        if not await within(self._clock, _LINGER, self._silent):
            self._read_what_is_there()
        self._end()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _arrived(self, data: bytes) -> None:
        self._show(self._buffer.feed(data))

    def _output_over(self) -> None:
        self._show(self._buffer.finish())
        self._silent.set_result(None)

    def _show(self, text: str) -> None:
        if text:
            # By way of the loop: a fault in whoever looks on is reported there and stops nothing here.
            self._loop.call_soon(self._on_output, text)

    def _read_what_is_there(self) -> None:
        if isinstance(self._reader, LoopReader) and not self._silent.done():
            self._arrived(self._reader.read_on(_UNREAD))
