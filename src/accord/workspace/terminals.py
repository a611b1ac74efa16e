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
from typing import Final, TypeAlias

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import InternalError, InvalidParams, NeverStarted, NotFound, RequestCancelled
from accord.wire.pipes import LoopReader, PipeReader
from accord.wire.process_tree import ProcessTree, StopTimeouts, start_process
from accord.workspace.roots import CURRENT_STOP, Roots, quote_value
from accord.workspace.terminal_command import PreparedCommand, TerminalCommand, prepare


@dataclass(frozen=True, slots=True)
class PtySize:
    """The size of a pseudo-terminal, in characters."""

    columns: int = 80
    rows: int = 24


def open_channel(pty: PtySize | None) -> tuple[int, int]:
    """Return the read end and the command's end of a pseudo-terminal of that size, or of a pipe.

    On a pseudo-terminal, programs print live and colored output. Standard output and error share it and keep
    their order. Standard input is empty, and the pseudo-terminal controls no session, so a program that
    prompts for input fails instead of waiting forever.
    """
    if pty is None:
        return os.pipe()
    if sys.platform == "win32":
        raise NotImplementedError("there are no pseudo-terminals on this platform")
    import termios

    reader, writer = os.openpty()
    termios.tcsetwinsize(writer, (pty.rows, pty.columns))
    # Keep line ends as the program wrote them: agents read text, not a screen.
    modes = termios.tcgetattr(writer)
    modes[1] &= ~termios.ONLCR
    termios.tcsetattr(writer, termios.TCSANOW, modes)
    return reader, writer


def channel_env(env: Mapping[str, str], pty: PtySize | None) -> dict[str, str]:
    """Return the environment for a command on such a channel."""
    if pty is None:
        return {**env, "TERM": "dumb"}
    # Without standard input, a pager would wait forever.
    adapted = {**env, "PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat"}
    if adapted.get("TERM", "dumb") == "dumb":
        adapted["TERM"] = "xterm-256color"
    return adapted


class OutputBuffer:
    """The last `limit` bytes of a command's output, as valid UTF-8.

    Bytes that are not UTF-8 become U+FFFD. The limit counts the bytes after decoding and never splits a
    character.
    """

    def __init__(self, limit: int) -> None:
        self.truncated: bool = False
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._output = bytearray()

    def feed(self, data: bytes) -> str:
        """Add output and return the text that it completes."""
        return self._append(self._decoder.decode(data))

    def finish(self) -> str:
        """End the stream. An incomplete last character becomes U+FFFD."""
        return self._append(self._decoder.decode(b"", final=True))

    @property
    def text(self) -> str:
        return self._output.decode()

    def _append(self, text: str) -> str:
        output = self._output
        output += text.encode()
        excess = len(output) - self._limit
        if excess > 0:
            while excess < len(output) and output[excess] & 0xC0 == 0x80:
                excess += 1
            del output[:excess]
            self.truncated = True
        return text


_OUTPUT_GRACE: Final = 0.25
"""Seconds that the output may stay open after the exit before the exit is reported."""
_KILL_SECONDS: Final = 5.0
"""The longest wait for killed processes. Only one stuck in the kernel needs that long."""
_STOP_NOW: Final = StopTimeouts(leave=0, terminate=0, kill=_KILL_SECONDS)
_MAX_UNREAD: Final = 1024 * 1024
"""More bytes than a pipe or pseudo-terminal can hold unread."""


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a command ended: its exit code, or the name of the signal that ended it."""

    exit_code: int | None = None
    signal: str | None = None


@dataclass(frozen=True, slots=True)
class TerminalOutput:
    """The kept output. `exit_status` is set once the command has ended."""

    output: str
    truncated: bool
    exit_status: ExitStatus | None = None


class RunningTerminal:
    """A command, running or ended. Create it on the event loop.

    A command has ended when its process has exited and its output was read to the end. A background process
    may hold the output open, so after the exit the end of the output is awaited only briefly. Later output is
    still added.
    """

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
        self._output_closed: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        reader.start(self._add_output, self._end_output)
        self._exit_task = asyncio.create_task(self._wait_for_exit())

    @property
    def output(self) -> TerminalOutput:
        """The current output and exit status."""
        status = self._status if self._ended.done() else None
        return TerminalOutput(self._buffer.text, self._buffer.truncated, status)

    @property
    def running(self) -> bool:
        return not self._ended.done()

    async def wait(self) -> ExitStatus | None:
        """Wait for the end of the command and return its status; None if it was abandoned before its exit."""
        await asyncio.shield(self._ended)
        return self._status

    async def kill(self) -> None:
        """Kill the command and everything it started. Waits for its end, in bounded time."""
        self._processes.kill()
        await within(self._clock, _KILL_SECONDS, self._ended)

    async def close(self) -> None:
        """Kill what still runs, stop reading, and release all waiters."""
        if self._processes.exit is None:
            self._processes.kill()
        try:
            await self._processes.end(_STOP_NOW)
        finally:
            self._exit_task.cancel()
            self._read_available()
            self._reader.close()
            self._end()

    @property
    def _status(self) -> ExitStatus | None:
        exit = self._processes.exit
        return exit and ExitStatus(exit.code, exit.signal)

    async def _wait_for_exit(self) -> None:
        await self._processes.wait()
        if not await within(self._clock, _OUTPUT_GRACE, self._output_closed):
            self._read_available()
        self._end()

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def _add_output(self, data: bytes) -> None:
        self._notify(self._buffer.feed(data))

    def _end_output(self) -> None:
        self._notify(self._buffer.finish())
        self._output_closed.set_result(None)

    def _notify(self, text: str) -> None:
        if text:
            # Through the loop: it reports an error in the callback, and reading goes on.
            self._loop.call_soon(self._on_output, text)

    def _read_available(self) -> None:
        if isinstance(self._reader, LoopReader) and not self._output_closed.done():
            self._add_output(self._reader.read_available(_MAX_UNREAD))


DEFAULT_PTY: Final[PtySize | None] = PtySize() if hasattr(os, "openpty") else None
DEFAULT_OUTPUT_BYTES: Final = 1024 * 1024
MAX_OUTPUT_BYTES: Final = 16 * 1024 * 1024
MAX_RUNNING: Final = 100
"""The maximum number of commands that run at once in one session."""


def _ignore_output(_id: str, _text: str) -> None:
    pass


ConfineCommand: TypeAlias = Callable[[PreparedCommand, Mapping[str, str]], PreparedCommand]
"""Returns what to start instead of a command, so that it runs confined. Gets the variables of the request."""


class Terminals:
    """The terminals of one session, by id. An id is valid from `create` to `release`.

    The roots bound where a command starts, not what it does; the policy decides whether it may run. A command
    gets the environment of this process, or `base_env`, with its own entries on top. `confine` can replace
    the command and its environment; it is called in a thread.
    """

    def __init__(
        self,
        roots: Roots,
        *,
        pty: PtySize | None = DEFAULT_PTY,
        base_env: Mapping[str, str] | None = None,
        on_output: Callable[[str, str], None] = _ignore_output,
        confine: ConfineCommand | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Use a pipe if `pty` is None.

        `on_output(id, text)` gets the output as it arrives, on the event loop.

        The first call of `on_output` can come before `create` returns.
        """
        self.roots: Roots = roots
        self._pty = pty
        self._base_env = base_env
        self._on_output = on_output
        self._confine = confine
        self._clock = clock
        self._terminals: dict[str, RunningTerminal] = {}
        self._closed = False

    async def create(self, command: TerminalCommand) -> str:
        """Start a command and return the id of its terminal without waiting for its end.

        Raises InvalidParams if it cannot be started, and InternalError while MAX_RUNNING others run. A
        terminal keeps the requested bytes of output, at most MAX_OUTPUT_BYTES; by default
        DEFAULT_OUTPUT_BYTES.
        """
        command.check()
        launch = await asyncio.to_thread(self._prepare, command)
        stop = CURRENT_STOP.get()
        if stop is not None and stop.is_set():
            raise RequestCancelled(f"{quote_value(command.command)} was not started: the turn was stopped")
        if self._closed:
            raise RequestCancelled(f"{quote_value(command.command)} was not started: the session is closed")
        if sum(terminal.running for terminal in self._terminals.values()) >= MAX_RUNNING:
            raise InternalError(
                f"{quote_value(command.command)} was not started: "
                f"{MAX_RUNNING} commands run in this session; end one first"
            )
        limit = DEFAULT_OUTPUT_BYTES if command.output_byte_limit is None else command.output_byte_limit
        id = f"term_{os.urandom(8).hex()}"
        self._terminals[id] = self._start(id, launch, OutputBuffer(min(limit, MAX_OUTPUT_BYTES)))
        return id

    def output(self, id: str) -> TerminalOutput:
        """Return the kept output, and the exit status of a command that has ended."""
        return self._terminal(id).output

    async def wait(self, id: str) -> ExitStatus:
        """Wait for the end of the command and return its status. A release also ends the wait."""
        status = await self._terminal(id).wait()
        if status is None:
            raise _unknown_terminal(id)
        return status

    async def kill(self, id: str) -> None:
        """Kill the command and everything it started. Its output and status stay available."""
        await self._terminal(id).kill()

    async def release(self, id: str) -> TerminalOutput:
        """Kill the command if it runs, forget the terminal, and return its last output."""
        terminal = self._terminal(id)
        del self._terminals[id]
        await terminal.close()
        return terminal.output

    async def release_all(self) -> None:
        terminals = list(self._terminals.values())
        self._terminals.clear()
        await asyncio.gather(*(terminal.close() for terminal in terminals))

    async def aclose(self) -> None:
        """Release all terminals and refuse new ones."""
        self._closed = True
        await self.release_all()

    def _terminal(self, id: str) -> RunningTerminal:
        terminal = self._terminals.get(id)
        if terminal is None:
            raise _unknown_terminal(id)
        return terminal

    def _prepare(self, command: TerminalCommand) -> PreparedCommand:
        base = os.environ if self._base_env is None else self._base_env
        launch = prepare(command, self.roots, channel_env(base, self._pty))
        if self._confine is None:
            return launch
        return self._confine(launch, {**channel_env({}, self._pty), **(command.env or {})})

    def _start(self, id: str, launch: PreparedCommand, buffer: OutputBuffer) -> RunningTerminal:
        try:
            read_end, command_end = open_channel(self._pty)
        except OSError as error:
            raise InternalError(f"cannot open a terminal: {error.strerror}") from None
        try:
            # `start_process` merges `env` into our environment. None removes a variable.
            env: dict[str, str | None] = {**dict.fromkeys(os.environ), **launch.env}
            processes = start_process(
                launch.argv, cwd=launch.cwd, env=env, stdout=command_end, stderr=command_end
            )
        except NeverStarted as error:
            os.close(read_end)
            raise InvalidParams(str(error)) from None
        finally:
            os.close(command_end)
        return RunningTerminal(
            processes, _reader(read_end), buffer, partial(self._on_output, id), self._clock
        )


def _reader(descriptor: int) -> PipeReader:
    if sys.platform == "win32":
        from accord.wire.pipe_threads import ThreadReader

        return ThreadReader(descriptor)
    os.set_blocking(descriptor, False)
    return LoopReader(descriptor)


def _unknown_terminal(id: str) -> NotFound:
    return NotFound(f"there is no terminal {quote_value(id)}, or it was released", {"terminalId": id})
