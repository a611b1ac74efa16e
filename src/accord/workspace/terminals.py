"""The terminals of one session, by id: create, output, wait, kill, release.

The roots bound where a command starts, not what it then does; whether it may run at all is the policy's business. A
command gets this process's environment unless `base_env` gives another one, with the request's own entries on top.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import InternalError, InvalidParams, NeverStarted, NotFound, RequestCancelled
from accord.wire.children import start
from accord.wire.pipes import LoopReader, Reader
from accord.workspace.channel import Size, fitting_env, open_channel
from accord.workspace.command import Command, Launch, prepare
from accord.workspace.output import OutputBuffer
from accord.workspace.roots import Roots, shown
from accord.workspace.terminal import ExitStatus, Terminal, TerminalOutput

DEFAULT_PTY: Final = Size() if hasattr(os, "openpty") else None
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
        pty: Size | None = DEFAULT_PTY,
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
        self._terminals: dict[str, Terminal] = {}
        self._closed = False

    async def create(self, command: Command) -> str:
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

    def _terminal(self, id: str) -> Terminal:
        terminal = self._terminals.get(id)
        if terminal is None:
            raise _unknown(id)
        return terminal

    def _start(self, id: str, launch: Launch, buffer: OutputBuffer) -> Terminal:
        try:
            ours, theirs = open_channel(self._pty)
        except OSError as error:
            raise InternalError(f"cannot open a terminal: {error.strerror}") from None
        try:
            # The seam lays an environment over ours; what is not in this one has to go.
            env: dict[str, str | None] = {**dict.fromkeys(os.environ), **launch.env}
            processes = start(launch.argv, cwd=launch.cwd, env=env, stdout=theirs, stderr=theirs)
        except NeverStarted as error:
            os.close(ours)
            raise InvalidParams(str(error)) from None
        finally:
            os.close(theirs)
        return Terminal(processes, _reader(ours), buffer, partial(self._on_output, id), self._clock)


def _reader(descriptor: int) -> Reader:
    if sys.platform == "win32":
        from accord.wire.threads import ThreadReader

        return ThreadReader(descriptor)
    os.set_blocking(descriptor, False)
    return LoopReader(descriptor)


def _unknown(id: str) -> NotFound:
    return NotFound(f"there is no terminal {shown(id)}, or it was released", {"terminalId": id})
