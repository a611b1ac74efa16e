"""A program that helps the agent, such as a hook, a formatter or a language server.

It runs without the agent's credentials in a process tree of its own. Leaving `async with` ends the tree.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.policy.sandbox.command_environment import without_credentials
from accord.wire.process import PipeReader, PipeWriter
from accord.wire.process_tree import ProcessExit, ProcessTree, StopTimeouts, start_process

_STOP: Final = StopTimeouts(leave=0, terminate=1.0, kill=1.0)
_SETTLE_SECONDS: Final = 0.5
"""How long the output of a program that has exited is still read: another process may hold its pipes."""


class HelperProcess:
    """`async with HelperProcess(...) as process:`. Entering raises NeverStarted."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str] | None = None,
        on_output: Callable[[bytes], None],
        on_error_output: Callable[[bytes], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`env` is added to the environment. The callbacks get stdout and stderr piece by piece."""
        self._command = command
        self._cwd = cwd
        self._env = env or {}
        self._on_output = on_output
        self._on_error_output = on_error_output
        self._clock = clock
        self._tree: ProcessTree | None = None
        self._readers: list[PipeReader] = []
        self._writer: PipeWriter | None = None
        self._open_outputs = 2
        self._outputs_ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.broken: asyncio.Event = asyncio.Event()
        """Set when the program no longer reads its input or has ended."""

    async def __aenter__(self) -> Self:
        pipes = [os.pipe() for _ in range(3)]
        (child_in, our_in), (our_out, child_out), (our_err, child_err) = pipes
        allowed = without_credentials(os.environ)
        removed: dict[str, str | None] = dict.fromkeys(os.environ.keys() - allowed.keys())
        try:
            self._tree = start_process(
                self._command,
                cwd=self._cwd,
                env={**removed, **self._env},
                stdin=child_in,
                stdout=child_out,
                stderr=child_err,
            )
        except BaseException:
            for fd in (our_in, our_out, our_err):
                os.close(fd)
            raise
        finally:
            for fd in (child_in, child_out, child_err):
                os.close(fd)
        self._tree.on_exit(lambda _: self.broken.set())
        self._writer = PipeWriter(our_in)
        self._writer.start(lambda _: self.broken.set())
        for fd, on_data in ((our_out, self._on_output), (our_err, self._on_error_output)):
            reader = PipeReader(fd)
            reader.start(on_data, self._output_ended)
            self._readers.append(reader)
        return self

    def write(self, data: bytes) -> None:
        """Queue bytes for its stdin; a line end is added."""
        if self._writer is not None:
            self._writer.write(data)

    async def close_input(self) -> None:
        """Close its stdin once everything is written."""
        if self._writer is not None:
            await self._writer.wait_below(1)
            self._writer.close()

    async def wait(self) -> ProcessExit:
        """Wait until it has exited and its output was read, as far as the output ends soon after."""
        assert self._tree is not None
        status = await self._tree.wait()
        await within(self._clock, _SETTLE_SECONDS, self._outputs_ended)
        return status

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._tree is None:
            return
        if self._writer is not None:
            self._writer.close()
        ending = asyncio.ensure_future(self._tree.end(_STOP, self._clock))
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError as again:
                cancelled = again  # a second cancellation must not leave processes; ending is bounded
        for reader in self._readers:
            reader.close()
        if cancelled is not None:
            raise cancelled

    def _output_ended(self) -> None:
        self._open_outputs -= 1
        if not self._open_outputs and not self._outputs_ended.done():
            self._outputs_ended.set_result(None)


class BoundedBytes:
    """The first bytes of an output. The rest is read and dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.truncated: bool = False

    def add(self, data: bytes) -> None:
        free = self._limit - len(self._data)
        self._data += data[:free]
        self.truncated = self.truncated or len(data) > free

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class HelperResult:
    """How a helper ended. Without an exit it took too long and was ended."""

    exit: ProcessExit | None
    output: BoundedBytes
    errors: BoundedBytes


async def run_helper(
    command: Sequence[str],
    data: bytes,
    *,
    cwd: str,
    env: Mapping[str, str],
    seconds: float,
    limit: int,
    clock: Clock = SYSTEM_CLOCK,
    on_output: Callable[[BoundedBytes], None] | None = None,
    new_seconds: "asyncio.Future[float] | None" = None,
) -> HelperResult:
    """Run a program to its end, with `data` and a line end on stdin. Raises NeverStarted.

    `limit` bounds the bytes of stdout that are kept; `on_output` gets them whenever there are more. Once
    `new_seconds` has a result, the program may run for that time from then on. Canceling it ends everything
    the program started.
    """
    output, errors = BoundedBytes(limit), BoundedBytes(min(limit, 64 * 1024))

    def add(data: bytes) -> None:
        output.add(data)
        if on_output is not None:
            on_output(output)

    process = HelperProcess(command, cwd=cwd, env=env, on_output=add, on_error_output=errors.add, clock=clock)
    async with process:
        process.write(data)
        closing = asyncio.ensure_future(process.close_input())
        waiting = asyncio.ensure_future(process.wait())
        first = asyncio.ensure_future(_first_of(waiting, new_seconds))
        try:
            await within(clock, seconds, first)
            if new_seconds is not None and new_seconds.done():
                await within(clock, new_seconds.result(), waiting)
            return HelperResult(waiting.result() if waiting.done() else None, output, errors)
        finally:
            for task in (closing, waiting, first):
                task.cancel()
            await asyncio.gather(closing, waiting, first, return_exceptions=True)


async def _first_of(one: "asyncio.Future[Any]", other: "asyncio.Future[Any] | None") -> None:
    await asyncio.wait((one,) if other is None else (one, other), return_when=asyncio.FIRST_COMPLETED)
