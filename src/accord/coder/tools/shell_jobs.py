"""Commands on this machine, in the foreground and as background jobs of a session.

Each command runs in its own process group, with empty standard input and its own environment. Ending it ends
the whole group.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.coder.bounded_text import CommandOutput, TruncatedText
from accord.errors import AccordError, UsageError
from accord.workspace.roots import Roots
from accord.workspace.terminal_command import TerminalCommand
from accord.workspace.terminals import ExitStatus, Terminals

if TYPE_CHECKING:
    from accord.agent.shown_work import AgentTerminal
    from accord.coder.tools.tool_context import CommandDisplay

JOB_LIMIT: Final = 16
"""The maximum number of running background commands in a session, and of ended ones that are kept."""

_STEP_SECONDS: Final = 0.2
"""The interval between two pieces of output in a terminal that the agent shows."""

OnEnd: TypeAlias = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CommandLaunch:
    """A command to start; `env` is the complete environment."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    confined: bool = False
    """Whether it is wrapped in a sandbox."""
    line: str = ""
    """The shell line, for display."""
    folder: str = ""
    """The folder of the line, for display: the sandbox may start it elsewhere."""


class LocalCommand:
    """`async with LocalCommand(...) as command:`.

    Leaving the block ends the command and everything it started.
    """

    def __init__(
        self, launch: CommandLaunch, on_output: Callable[[str], None], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        """`on_output` gets the output piece by piece, standard error included, on the event loop."""
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
                cancelled = again  # a second cancellation must not leave processes; closing is bounded
        if cancelled is not None:
            raise cancelled

    @property
    def status(self) -> ExitStatus | None:
        """The exit status; None while it runs."""
        return self._terminals.output(self._id).exit_status

    async def wait(self) -> ExitStatus:
        return await self._terminals.wait(self._id)

    async def kill(self) -> None:
        """End it and everything it started."""
        await self._terminals.kill(self._id)


class ShownCommand:
    """A terminal of the agent that shows a command: `async with ShownCommand(...) as shown:`.

    Sends the output in steps. Of more output than a step may have, it sends the beginning and the end.
    """

    def __init__(
        self,
        display: "CommandDisplay",
        launch: CommandLaunch,
        stop: Callable[[], Awaitable[None]],
        step_chars: int,
        clock: Clock,
    ) -> None:
        """`stop` ends the command when the user asks for that."""
        self.terminal: AgentTerminal = display.show_terminal(
            launch.line, cwd=launch.folder, cancel=self._cancel
        )
        self.cancelled: bool = False
        """Whether the user has stopped the command."""
        self._stop = stop
        self._step_chars = step_chars
        self._clock = clock
        self._unsent = TruncatedText(step_chars)
        self._changed = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.terminal.__aenter__()
        self._sender = asyncio.ensure_future(self._send_steps())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop_sender()
        await self.terminal.__aexit__(kind, error, trace)

    def add(self, text: str) -> None:
        """Show more output, with the next step."""
        self._unsent.add(text)
        self._changed.set()

    async def end(self, status: ExitStatus) -> None:
        """Show the rest of the output and how the command has ended."""
        await self._stop_sender()
        await self._send()
        await self.terminal.exit(status.exit_code, status.signal)

    async def _cancel(self) -> None:
        self.cancelled = True
        await self._stop()

    async def _stop_sender(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)

    async def _send_steps(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._send()
            await self._clock.sleep(_STEP_SECONDS)

    async def _send(self) -> None:
        text, self._unsent = self._unsent.text(), TruncatedText(self._step_chars)
        if text:
            await self.terminal.print(text)


class BackgroundJob:
    """A command in the background, and its output since the last read."""

    def __init__(
        self, id: str, command_line: str, launch: CommandLaunch, output_limit: int, clock: Clock
    ) -> None:
        """`command_line` is for display; `output_limit` bounds the unread output that is kept."""
        self.id = id
        self.command_line = command_line
        self.shown: ShownCommand | None = None
        """Shows it to the user, if the client shows terminals of the agent."""
        self._output_limit = output_limit
        self._unread = CommandOutput(output_limit)
        self._command = LocalCommand(launch, self._add, clock)
        self._clock = clock
        self._end_task: asyncio.Task[None] | None = None

    def _add(self, text: str) -> None:
        self._unread.add(text)
        if self.shown is not None:
            self.shown.add(text)

    async def start(self, on_end: OnEnd | None = None) -> None:
        """Start it; `on_end` is called when it has ended. Raises InvalidParams if it cannot be started."""
        await self._command.__aenter__()
        if self.shown is not None:
            await self.shown.__aenter__()
        if on_end is not None:
            self._end_task = asyncio.ensure_future(self._call_at_end(on_end))

    async def _call_at_end(self, on_end: OnEnd) -> None:
        status = ExitStatus(signal="SIGKILL")
        with contextlib.suppress(AccordError):  # the session was closed meanwhile
            status = await self._command.wait()
        if self.shown is not None:
            with contextlib.suppress(AccordError):  # the client may be gone
                await self.shown.end(status)
        await on_end()

    @property
    def status(self) -> ExitStatus | None:
        """The exit status; None while it runs."""
        return self._command.status

    def new_output(self, advice: str = "") -> str:
        """The output since the last call."""
        text = self._unread.text(advice)
        self._unread = CommandOutput(self._output_limit)
        return text

    async def wait(self, seconds: float) -> None:
        """Wait for its end, at most `seconds`."""
        waiting = asyncio.ensure_future(self._command.wait())
        try:
            await within(self._clock, seconds, waiting)
        finally:
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()  # the session was closed meanwhile; the exit status is not needed

    async def stop(self) -> None:
        """End it."""
        await self._command.kill()

    async def handled(self) -> None:
        """Wait until everything that its end causes is done."""
        if self._end_task is not None:
            await asyncio.wait((self._end_task,))

    async def close(self) -> None:
        """End it if it runs, and release its resources."""
        await self._command.__aexit__(None, None, None)
        await self.handled()


class BackgroundJobs:
    """The background commands of one session."""

    def __init__(self) -> None:
        self._jobs: dict[str, BackgroundJob] = {}
        self._count = 0

    async def start(
        self,
        command_line: str,
        launch: CommandLaunch,
        output_limit: int,
        clock: Clock = SYSTEM_CLOCK,
        on_end: OnEnd | None = None,
        display: "CommandDisplay | None" = None,
    ) -> BackgroundJob:
        """Start a command in the background; `on_end` is called when it has ended.

        `display` shows it to the user meanwhile.

        Raises UsageError, or InvalidParams if it cannot be started.
        """
        self.require_slot()
        await self._drop_ended()
        self._count += 1
        job = BackgroundJob(f"job_{self._count}", command_line, launch, output_limit, clock)
        if display is None:
            await job.start(on_end)
            self._jobs[job.id] = job
            return job

        async def ended() -> None:
            with contextlib.suppress(AccordError):  # the client may be gone
                await display.show_background(self._shown_terminals())
            if on_end is not None:
                await on_end()

        job.shown = ShownCommand(display, launch, job.stop, output_limit, clock)
        await job.start(ended)
        self._jobs[job.id] = job
        await display.show_background(self._shown_terminals())
        return job

    def _shown_terminals(self) -> "list[AgentTerminal]":
        """The terminals of the running commands."""
        shown = [job.shown.terminal for job in self._jobs.values() if job.shown is not None]
        return [terminal for terminal in shown if not terminal.released]

    def require_slot(self) -> None:
        """Raise UsageError if no more commands may run in the background."""
        if sum(job.status is None for job in self._jobs.values()) >= JOB_LIMIT:
            raise UsageError(f"{JOB_LIMIT} commands run in the background already; stop one first")

    def get(self, id: str) -> BackgroundJob | None:
        return self._jobs.get(id)

    async def _drop_ended(self) -> None:
        """Drop the oldest ended jobs."""
        ended = [job for job in self._jobs.values() if job.status is not None]
        for job in ended[:-JOB_LIMIT]:
            del self._jobs[job.id]
            await job.close()

    def ids(self) -> list[str]:
        """All jobs, in the order of their start."""
        return list(self._jobs)

    async def aclose(self) -> None:
        """End all jobs."""
        jobs = list(self._jobs.values())
        await asyncio.gather(*(job.close() for job in jobs))
        self._jobs.clear()
