"""Commands in terminals: start, read bounded output, wait, kill, release.

Imported on first use.
"""

import asyncio
import codecs
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import InternalError, InvalidParams, NeverStarted, NotFound, RequestCancelled
from accord.wire.pipes import LoopReader, PipeReader
from accord.wire.process_tree import ProcessTree, StopTimeouts, start_process
from accord.workspace.roots import Roots, shown
from accord.workspace.terminal_command import PreparedCommand, TerminalCommand, prepare

# MERGED workspace.channel: Where a command's output comes out: a pseudo-terminal, so that programs show live and coloured output, or a pipe.
#
# Standard output and error share it and so keep their order. Nobody types: standard input is empty in both cases, and
# the pseudo-terminal is nobody's controlling terminal, so a program that wants to ask something finds out instead of
# waiting for ever.


@dataclass(frozen=True, slots=True)
class PtySize:
    """Of a pseudo-terminal, in characters."""

    columns: int = 80
    rows: int = 24


def open_channel(pty: PtySize | None) -> tuple[int, int]:
    """The end to read and the end for the command: of a pseudo-terminal of that size, or of a pipe."""
    if pty is None:
        return os.pipe()
    if sys.platform == "win32":
        raise NotImplementedError("there are no pseudo-terminals on this platform")
    import termios

    reader, writer = os.openpty()
    termios.tcsetwinsize(writer, (pty.rows, pty.columns))
    # Line ends stay as the program wrote them: what an agent reads is text, not a screen.
    modes = termios.tcgetattr(writer)
    modes[1] &= ~termios.ONLCR
    termios.tcsetattr(writer, termios.TCSANOW, modes)
    return reader, writer


def fitting_env(env: Mapping[str, str], pty: PtySize | None) -> dict[str, str]:
    """The environment for a command on such a channel."""
    if pty is None:
        return {**env, "TERM": "dumb"}
    # A pager would wait for a key that nobody presses.
    fitted = {**env, "PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat"}
    if fitted.get("TERM", "dumb") == "dumb":
        fitted["TERM"] = "xterm-256color"
    return fitted


# MERGED workspace.output: What a terminal keeps of its command's output: valid text, bounded in bytes, the oldest dropped first.
#
# Bytes become text as they arrive, so a character split over two reads comes out whole, bytes that are no UTF-8 become
# U+FFFD, and the bound holds for what is sent, not for what was read. The cut never splits a character.


class OutputBuffer:
    """The last `limit` bytes of a stream of text, as UTF-8."""

    def __init__(self, limit: int) -> None:
        self.truncated = False
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept = bytearray()

    def feed(self, data: bytes) -> str:
        """Take in what was read; returns the text that it completed."""
        return self._keep(self._decoder.decode(data))

    def finish(self) -> str:
        """The stream is over: half a character that still waited becomes U+FFFD."""
        return self._keep(self._decoder.decode(b"", final=True))

    @property
    def text(self) -> str:
        """What is kept."""
        return self._kept.decode()

    def _keep(self, text: str) -> str:
        kept = self._kept
        kept += text.encode()
        excess = len(kept) - self._limit
        if excess > 0:
            while excess < len(kept) and kept[excess] & 0xC0 == 0x80:
                excess += 1
            del kept[:excess]
            self.truncated = True
        return text


# MERGED workspace.terminal: One command in its terminal: the output so far, and how it ended.
#
# A command has ended when its process has exited and its output was read to the end. A process left in the background
# may hold the output open for ever, so after the exit that end is waited for only for a moment; what comes later is still
# taken in.

_LINGER: Final = (
    0.25  # seconds that the output may stay open after the exit before the exit is reported all the same
)
_DEATH: Final = (
    5.0  # seconds for killed processes to be gone; only one stuck in the kernel takes more than an instant
)
_AT_ONCE: Final = StopTimeouts(leave=0, terminate=0, kill=_DEATH)
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


class RunningTerminal:
    """A command, running or ended. Made on the event loop."""

    def __init__(
        self,
        processes: ProcessTree,
        reader: PipeReader,
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
            self._arrived(self._reader.read_available(_UNREAD))


# MERGED workspace.terminals: The terminals of one session, by id: create, output, wait, kill, release.
#
# The roots bound where a command starts, not what it then does; whether it may run at all is the policy's business. A
# command gets this process's environment unless `base_env` gives another one, with the request's own entries on top.

DEFAULT_PTY: Final = PtySize() if hasattr(os, "openpty") else None
DEFAULT_OUTPUT_BYTES: Final = 1024 * 1024
MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024
MAX_RUNNING: Final = 100
"""Commands that may run at once in one session: more than any agent needs, and fewer than a machine can take."""


def _nobody(_id: str, _text: str) -> None:
    """Looks at no output."""


class Terminals:
    """The commands that run for one session. An id is good from `create` to `release`; then every call on it fails."""

    def __init__(
        self,
        roots: Roots,
        *,
        pty: PtySize | None = DEFAULT_PTY,
        base_env: Mapping[str, str] | None = None,
        on_output: Callable[[str, str], None] = _nobody,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`pty=None` runs commands on a pipe. `on_output(id, text)` sees output as it comes, on the event loop; the first
        of it may come before `create` has returned to its caller."""
        self.roots = roots
        self._pty = pty
        self._base_env = base_env
        self._on_output = on_output
        self._clock = clock
        self._terminals: dict[str, RunningTerminal] = {}
        self._closed = False

    async def create(self, command: TerminalCommand) -> str:
        """Start a command and return the id of its terminal at once; raises InvalidParams if it cannot be started, and
        InternalError while MAX_RUNNING others run.

        Without a limit of its own a terminal keeps DEFAULT_OUTPUT_BYTES of output, with one at most MAX_OUTPUT_BYTES.
        """
        command.check()
        base = os.environ if self._base_env is None else self._base_env
        launch = await asyncio.to_thread(prepare, command, self.roots, fitting_env(base, self._pty))
        if self._closed:
            raise RequestCancelled(f"{shown(command.command)} was not started: the session is closed")
        if sum(terminal.running for terminal in self._terminals.values()) >= MAX_RUNNING:
            raise InternalError(
                f"{shown(command.command)} was not started: {MAX_RUNNING} commands run in this session; end one first"
            )
        limit = DEFAULT_OUTPUT_BYTES if command.output_byte_limit is None else command.output_byte_limit
        id = f"term_{os.urandom(8).hex()}"
        self._terminals[id] = self._start(id, launch, OutputBuffer(min(limit, MAX_OUTPUT_BYTES)))
        return id

    def output(self, id: str) -> TerminalOutput:
        """What is kept of the output so far, and how the command ended if it has."""
        return self._terminal(id).output

    async def wait(self, id: str) -> ExitStatus:
        """How the command ended, once it has. A release meanwhile ends it, and the wait."""
        status = await self._terminal(id).wait()
        if status is None:
            raise _unknown(id)
        return status

    async def kill(self, id: str) -> None:
        """End the command and everything it started; its output and status stay."""
        await self._terminal(id).kill()

    async def release(self, id: str) -> TerminalOutput:
        """Forget the terminal and end what runs in it; returns what it had to show, for those who go on showing it."""
        terminal = self._terminal(id)
        del self._terminals[id]
        await terminal.close()
        return terminal.output

    async def release_all(self) -> None:
        """Release every terminal there is."""
        terminals = list(self._terminals.values())
        self._terminals.clear()
        await asyncio.gather(*(terminal.close() for terminal in terminals))

    async def aclose(self) -> None:
        """Release every terminal and start none any more."""
        self._closed = True
        await self.release_all()

    def _terminal(self, id: str) -> RunningTerminal:
        terminal = self._terminals.get(id)
        if terminal is None:
            raise _unknown(id)
        return terminal

    def _start(self, id: str, launch: PreparedCommand, buffer: OutputBuffer) -> RunningTerminal:
        try:
            ours, theirs = open_channel(self._pty)
        except OSError as error:
            raise InternalError(f"cannot open a terminal: {error.strerror}") from None
        try:
            # The seam lays an environment over ours; what is not in this one has to go.
            env: dict[str, str | None] = {**dict.fromkeys(os.environ), **launch.env}
            processes = start_process(launch.argv, cwd=launch.cwd, env=env, stdout=theirs, stderr=theirs)
        except NeverStarted as error:
            os.close(ours)
            raise InvalidParams(str(error)) from None
        finally:
            os.close(theirs)
        return RunningTerminal(processes, _reader(ours), buffer, partial(self._on_output, id), self._clock)


def _reader(descriptor: int) -> PipeReader:
    if sys.platform == "win32":
        from accord.wire.pipe_threads import ThreadReader

        return ThreadReader(descriptor)
    os.set_blocking(descriptor, False)
    return LoopReader(descriptor)


def _unknown(id: str) -> NotFound:
    return NotFound(f"there is no terminal {shown(id)}, or it was released", {"terminalId": id})
