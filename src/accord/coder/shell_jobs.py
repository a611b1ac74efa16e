"""Commands that run on this machine: one that is waited for, and those that go on in the background of a session.

Each runs in a process group of its own, with empty standard input and an environment of its own, and ends whole.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.coder.bounded_text import CommandOutput
from accord.errors import UsageError
from accord.workspace.roots import Roots
from accord.workspace.terminal_command import TerminalCommand
from accord.workspace.terminals import ExitStatus, Terminals

MOST_JOBS: Final = 16
"""Background commands that run at the same time in one session, and of those that have ended, how many are kept."""


@dataclass(frozen=True, slots=True)
class CommandLaunch:
    """What is started; `env` is the whole environment."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    confined: bool = False
    """Whether a sandbox made it."""


class LocalCommand:
    """`async with LocalCommand(...) as command:`. The end of the block ends the command and all it started."""

    def __init__(
        self, launch: CommandLaunch, on_output: Callable[[str], None], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """`on_output` sees the output as it comes, standard error included, on the event loop."""
        self._launch = launch
        self._terminals = Terminals(
            Roots(launch.cwd),
            pty=None,
            base_env=launch.env,
            on_output=lambda _, text: on_output(text),
            clock=clock,
        )
        self._id = ""

    async def __aenter__(self) -> Self:
        program, *args = self._launch.argv
        self._id = await self._terminals.create(
            TerminalCommand(program, args=args, cwd=self._launch.cwd, output_byte_limit=0)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        closing = asyncio.ensure_future(self._terminals.aclose())
        cancelled: asyncio.CancelledError | None = None
        while not closing.done():
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError as again:
                cancelled = again  # a second one must not leave anything running; the end itself is bounded
        if cancelled is not None:
            raise cancelled

    @property
    def status(self) -> ExitStatus | None:
        """How it ended, if it has."""
        return self._terminals.output(self._id).exit_status

    async def wait(self) -> ExitStatus:
        """How it ended, once it has."""
        return await self._terminals.wait(self._id)

    async def kill(self) -> None:
        """End it and everything it started."""
        await self._terminals.kill(self._id)


class BackgroundJob:
    """A command in the background, and what it printed since somebody last looked."""

    def __init__(self, id: str, line: str, launch: CommandLaunch, most: int, clock: Clock) -> None:
        """`line` is what people call it; `most` bounds what is kept of its unread output."""
        self.id = id
        self.line = line
        self._most = most
        self._unread = CommandOutput(most)
        self._command = LocalCommand(launch, lambda text: self._unread.add(text), clock)
        self._clock = clock

    async def start(self) -> None:
        """Start it; raises InvalidParams if it cannot be."""
        await self._command.__aenter__()

    @property
    def status(self) -> ExitStatus | None:
        """How it ended, if it has."""
        return self._command.status

    def news(self, advice: str = "") -> str:
        """What it printed since the last call of this."""
        text = self._unread.text(advice)
        self._unread = CommandOutput(self._most)
        return text

    async def wait(self, seconds: float) -> None:
        """Wait for its end, so long at most."""
        waiting = asyncio.ensure_future(self._command.wait())
        try:
            await within(self._clock, seconds, waiting)
        finally:
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()  # the session closed meanwhile; nobody asks how it ended

    async def stop(self) -> None:
        """End it."""
        await self._command.kill()

    async def close(self) -> None:
        """End it, if it runs, and let go of it."""
        await self._command.__aexit__(None, None, None)


class BackgroundJobs:
    """The background commands of one session."""

    def __init__(self) -> None:
        self._jobs: dict[str, BackgroundJob] = {}
        self._made = 0

    async def start(
        self, line: str, launch: CommandLaunch, most: int, clock: Clock = SYSTEM_CLOCK
    ) -> BackgroundJob:
        """Start a command and leave it running. Raises UsageError, or InvalidParams if it cannot be started."""
        if sum(job.status is None for job in self._jobs.values()) >= MOST_JOBS:
            raise UsageError(f"{MOST_JOBS} commands run in the background already; stop one first")
        await self._forget_old()
        self._made += 1
        job = BackgroundJob(f"job_{self._made}", line, launch, most, clock)
        await job.start()
        self._jobs[job.id] = job
        return job

    def get(self, id: str) -> BackgroundJob | None:
        """The job of that id."""
        return self._jobs.get(id)

    async def _forget_old(self) -> None:
        """Of those that have ended only the last are kept."""
        ended = [job for job in self._jobs.values() if job.status is not None]
        for job in ended[:-MOST_JOBS]:
            del self._jobs[job.id]
            await job.close()

    def ids(self) -> list[str]:
        """All there are, in the order of their start."""
        return list(self._jobs)

    async def aclose(self) -> None:
        """End them all, as the session ends."""
        jobs = list(self._jobs.values())
        self._jobs.clear()
        await asyncio.gather(*(job.close() for job in jobs))
