"""Runs commands in the client's terminals, only if the client passes their arguments on unchanged.

Some clients join the arguments of `terminal/create` without quoting them and give the line to a shell:
everything after `;` or `&&` would then run outside the sandbox, in another folder. So a terminal never
receives the command that starts the sandbox, but a launcher: a file of this session, named like the shell,
that compares its arguments with those it was made for. If one character differs, it runs nothing.

Until a client has passed the check, it gets no line that a shell could split: the first command carries a
comment with all critical characters, or a separate command that does nothing carries it. A client that fails
gets no further commands; they run on the agent's side.
"""

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from accord.agent.client_services import ClientTerminal, CommandResult
from accord.clock import Clock, within
from accord.errors import AccordError, RpcError

if TYPE_CHECKING:
    from accord.coder.tools.tool_context import OpenTerminal
    from accord.policy.sandbox.backend import PrivateFolder

CHECK: Final = (
    "# checks that this terminal changes nothing: 'one' \"two\" "
    "; true && true $HOME || true `true` | true \\ * ~ {a,b}\t!\n# and nothing else"
)
"""An argument with all characters that shells treat specially. For a shell, it is a comment.

A shell that knows no comments, or that splits it at a quote, runs only `true`.
"""

_PLAIN_LINE: Final = re.compile(r"[A-Za-z0-9_./:@%+,= -]+")
"""Lines that stay a list of words, however a client quotes them."""
_OUTPUT_BYTES: Final = 1024 * 1024
_CHECK_SECONDS: Final = 30.0

ShowTerminal: TypeAlias = Callable[[ClientTerminal], Awaitable[None]]
"""Called when the client has opened the terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalLaunch:
    """A shell line for a terminal, and what is started for it."""

    shell: str
    line: str
    argv: Sequence[str]
    """The program that runs the line, such as a sandbox."""
    env: Mapping[str, str]
    """The whole environment of a confined command; else variables that are added to the client's."""
    cwd: str
    confined: bool
    hidden_variables: Sequence[str] = ()
    """Variables of the client that an unconfined command must not see."""


class ClientTerminals:
    """The terminals of the client in one session, and whether they pass arguments on unchanged."""

    def __init__(
        self, writable: Sequence[str] = (), on_unusable: Callable[[str], Awaitable[None]] | None = None
    ) -> None:
        """`writable` are the folders that commands may change; launchers are never in one of them.

        `on_unusable` is called once, with the reason, when commands no longer run in the client's terminals.
        """
        self.problem: str = ""
        """Why commands no longer run in the client's terminals."""
        self._writable = writable
        self._on_unusable = on_unusable
        self._folder: PrivateFolder | None = None
        self._checked: bool | None = None
        self._refused = False
        self._count = 0

    @property
    def usable(self) -> bool:
        """Whether the next command may run in a terminal, or may be used to find out."""
        return self._checked is not False

    async def run(
        self,
        open_terminal: "OpenTerminal",
        launch: TerminalLaunch,
        folder: str,
        clock: Clock,
        seconds: float,
        show: ShowTerminal,
    ) -> CommandResult | None:
        """Run a line in a terminal that is opened in `folder`.

        Returns None if the line was not run and the client's terminals cannot be used: run it elsewhere.
        Raises RpcError if the client refuses to open the terminal.
        """
        if self._checked is None and (self._refused or _PLAIN_LINE.fullmatch(launch.line) is None):
            await self._check(open_terminal, launch, folder, clock)
        if not self.usable:
            return None
        launcher = await self._write_launcher(launch, with_check=self._checked is None)
        if launcher is None:
            return None
        started = False
        try:
            result = await launcher.run(open_terminal, folder, clock, seconds, show)
        except RpcError:
            self._refused = True  # by the user, or because this client cannot find launchers: check that next
            raise
        finally:
            if started := await asyncio.to_thread(launcher.close):
                self._checked = True
        if result is None:
            await self._give_up("the client opened no terminal")
            return _no_terminal(seconds)
        if not started and not result.timed_out:
            await self._give_up("they did not run a command as it was sent")
            return None
        return result

    async def aclose(self) -> None:
        """Remove the launchers."""
        folder, self._folder = self._folder, None
        if folder is not None:
            await asyncio.to_thread(folder.remove)

    async def _check(
        self, open_terminal: "OpenTerminal", launch: TerminalLaunch, folder: str, clock: Clock
    ) -> None:
        """Run a command that does nothing, with the check as an argument."""
        shell = launch.shell
        nothing = TerminalLaunch(
            shell=shell, line=":", argv=[shell, "-c", ":"], env={}, cwd=launch.cwd, confined=False
        )
        launcher = await self._write_launcher(nothing, with_check=True)
        if launcher is None:
            return
        try:
            await launcher.run(open_terminal, folder, clock, _CHECK_SECONDS, _show_nothing)
        except AccordError:
            pass  # a client that opens no terminal at all fails the check as well
        finally:
            passed = await asyncio.to_thread(launcher.close)
        if passed:
            self._checked = True
        else:
            await self._give_up("they did not run a test command as it was sent")

    async def _write_launcher(self, launch: TerminalLaunch, *, with_check: bool) -> "_Launcher | None":
        self._count += 1
        try:
            if sys.platform == "win32":
                raise OSError("launchers are scripts for a POSIX shell")
            return await asyncio.to_thread(self._write, launch, self._count, with_check)
        except (AccordError, OSError) as error:
            await self._give_up(f"no launcher can be written ({error})")
            return None

    def _write(self, launch: TerminalLaunch, number: int, with_check: bool) -> "_Launcher":
        from accord.policy.sandbox.backend import PrivateFolder

        if self._folder is None:
            self._folder = PrivateFolder(tuple(map(os.path.realpath, self._writable)))
        return _Launcher(os.path.join(self._folder.path, str(number)), launch, with_check)

    async def _give_up(self, reason: str) -> None:
        if self._checked is not False:
            self._checked = False
            self.problem = reason
            if self._on_unusable is not None:
                await self._on_unusable(reason)


class _Launcher:
    """The launcher of one command: it runs the command at most once, and only for exactly its arguments."""

    def __init__(self, folder: str, launch: TerminalLaunch, with_check: bool) -> None:
        os.mkdir(folder, 0o700)
        self._folder = folder
        self._taken = os.path.join(folder, "taken")
        self.program: str = os.path.join(folder, os.path.basename(launch.shell))
        self.args: list[str] = ["-c", launch.line, *([CHECK] if with_check else [])]
        descriptor = os.open(self.program, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(_script(launch, self.args, self._taken))

    async def run(
        self, open_terminal: "OpenTerminal", folder: str, clock: Clock, seconds: float, show: ShowTerminal
    ) -> CommandResult | None:
        """Run it in a terminal. None if the client does not open one in time."""
        terminal = open_terminal(self.program, self.args, cwd=folder, output_byte_limit=_OUTPUT_BYTES)
        opening = asyncio.ensure_future(terminal.__aenter__())
        try:
            if not await within(clock, seconds, opening):
                return None
            opening.result()
            await show(terminal)
            return await terminal.finish(seconds)
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.wait((opening,))
            error = sys.exception()
            await terminal.__aexit__(type(error) if error else None, error, None)

    def close(self) -> bool:
        """Return whether the command was started. If not, it will never be.

        A launcher that was not started stays until the session ends: a client that opens its terminal late
        gets a message instead of a missing program, which ends some clients.
        """
        try:
            os.close(os.open(self._taken, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            started = False
        except FileExistsError:
            started = True
        except OSError:
            return False  # the folder is gone, and the launcher with it
        if started:
            for path in (self.program, self._taken):
                os.unlink(path)
            os.rmdir(self._folder)
        return started


def _script(launch: TerminalLaunch, args: Sequence[str], taken: str) -> str:
    """The launcher. The file `taken` is created by the launcher, or by us to forbid the start."""
    expected = " && ".join(
        f'[ "${{{number}}}" = {shlex.quote(arg)} ]' for number, arg in enumerate(args, start=1)
    )
    if launch.confined:
        environment = ["-i"]
    else:
        environment = [word for name in launch.hidden_variables for word in ("-u", name)]
    environment += [f"{name}={value}" for name, value in launch.env.items()]
    return f"""#!/bin/sh
# Runs one command of `accord agent`, if the terminal passes on exactly these arguments.
if ! {{ [ "$#" -eq {len(args)} ] && {expected}; }}; then
    echo "accord: not run: this terminal changed the arguments of the command" >&2
    exit 125
fi
if ! (set -C && : > {shlex.quote(taken)}) 2>/dev/null; then
    echo "accord: not run: the command was withdrawn, or has run already" >&2
    exit 125
fi
cd {shlex.quote(launch.cwd)} || exit 125
exec /usr/bin/env {shlex.join([*environment, *launch.argv])}
"""


def _no_terminal(seconds: float) -> CommandResult:
    text = f"The client opened no terminal within {seconds:g} s; the command was not run."
    return CommandResult(text, False, None, None, timed_out=True)


async def _show_nothing(terminal: ClientTerminal) -> None:
    pass
