"""The sandbox of one session, for local commands and for the client's terminals."""

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from accord.clock import Clock, within
from accord.coder.permissions.permission_settings import SandboxSettings
from accord.coder.tools.tool_context import OpenTerminal, SandboxedCommand, ToolContext
from accord.errors import AccordError
from accord.policy.sandbox.backend import ConfinedCommand, SandboxReport
from accord.policy.sandbox.command_environment import without_credentials
from accord.policy.sandbox.sandbox import Sandbox

# MERGED coder.permissions.terminals: The sandbox in the client's terminals: only where it was tried, because a client may well run on another machine.

_PATIENCE: Final = 10.0


@dataclass(frozen=True, slots=True)
class TerminalSandbox:
    """A sandbox for commands that the client starts: from the session's folder, since clients may open no other."""

    sandbox: Sandbox
    folder: str

    def wrap(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> SandboxedCommand:
        """As the sandbox does; where the command itself starts is the sandbox's business."""
        confined = self.sandbox.wrap(argv, env=env, cwd=cwd)
        return ConfinedCommand(
            confined.argv, confined.env, self.folder if confined.cwd == "/" else confined.cwd
        )

    async def runs(self, open_terminal: OpenTerminal, clock: Clock) -> bool:
        """Whether commands in the client's terminals run in it: one has to print a word that lies only in its own folder."""
        word, name = secrets.token_hex(16), f"probe-{secrets.token_hex(8)}"
        place = os.path.join(self.sandbox.private.temp, name)
        try:
            await asyncio.to_thread(_leave, place, word)
        except OSError:
            return False
        trying = asyncio.ensure_future(self._try(word, name, open_terminal))
        try:
            return await within(clock, _PATIENCE, trying) and trying.result()
        finally:
            trying.cancel()
            await asyncio.gather(trying, return_exceptions=True)
            await asyncio.to_thread(_take_away, place)

    async def _try(self, word: str, name: str, open_terminal: OpenTerminal) -> bool:
        confined = self.wrap(["cat", os.path.join(self.sandbox.temp, name)])
        program, *args = confined.argv
        try:
            terminal = open_terminal(
                program, args, env=confined.env, cwd=confined.cwd, output_byte_limit=1024
            )
            async with terminal:
                result = await terminal.finish(None)
        except AccordError:
            return False
        return result.exit_code == 0 and result.output.strip() == word


def _leave(place: str, word: str) -> None:
    # Commands write to that folder, too; a name that must be new leads nowhere else.
    with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(word)


def _take_away(place: str) -> None:
    if os.path.lexists(place):
        os.unlink(place)


# MERGED coder.permissions.confinement: The sandbox of one session: made when the first command needs it, looked through again every turn, gone with the session.
#
# It says what is in force, and claims nothing that is not. Where commands run in the client's terminals, it is used there
# only after a command in it has shown that those are on this machine.

_SWITCHED_OFF: Final = "none: switched off in your config; commands run with all your rights"
_NOT_TRIED: Final = "not tried yet: it is made before the first command"
_ELSEWHERE: Final = "not used in the client's terminals: a command that was tried there did not run in it"


class SessionSandbox:
    """What confines the commands of a session. `ready` before it is asked anything about the next command."""

    def __init__(self, roots: Sequence[str], settings: SandboxSettings | None = None) -> None:
        """`roots` are the session's folders. Nothing is looked at or tried yet."""
        self._roots = tuple(roots)
        self._settings = settings or SandboxSettings()
        self._sandbox: Sandbox | None = None
        self._boundary: SandboxReport | None = None
        """Of a backend that confines nothing: what there is instead of a sandbox."""
        self._why = ""
        self._due = self._settings.enabled
        self._work: asyncio.Task[None] | None = None
        self._in_terminals: bool | None = None
        self._closed = False

    # -- what is in force ------------------------------------------------------------------------------------

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox, as far as it is made and up to date; None where there is none."""
        return None if self._due or self._work is not None or self._closed else self._sandbox

    @property
    def holds(self) -> bool:
        """Whether a command in it may run unasked."""
        return (sandbox := self.sandbox) is not None and sandbox.report.is_effective

    @property
    def missing(self) -> str:
        """Why no command may run: the user insists on a sandbox that is not there. Else empty."""
        if not self._settings.enabled or self._settings.backend is None or self.sandbox is not None:
            return ""
        return f"your config insists on a sandbox that is not there: {self._why or 'it is not ready'}"

    def summary(self) -> str:
        """What is in force, in one line."""
        if not self._settings.enabled:
            return _SWITCHED_OFF
        if self._sandbox is not None:
            return self._sandbox.report.summary()
        if self._boundary is not None:
            return self._boundary.summary()
        if not self._why:
            return _NOT_TRIED
        if self.missing:
            return f"none: no command is run ({self._why})"
        return f"none: commands run with all your rights ({self._why})"

    def lines(self) -> list[str]:
        """What is in force, all of it."""
        boundary = self._sandbox.report if self._sandbox is not None else self._boundary
        facts = [] if boundary is None else [*map(str, boundary.facts), *boundary.reasons]
        elsewhere = [_ELSEWHERE] if self._in_terminals is False else []
        return [f"sandbox: {self.summary()}", *elsewhere, *facts]

    def outside(self, path: str) -> str:
        """Where a path that a command used is for everybody else: its /tmp is a folder of its own. What no command has left
        there is the path that everybody knows."""
        if self._sandbox is None:
            return path
        place = self._sandbox.outside_path(path)
        return place if os.path.lexists(place) else path

    @property
    def private_temp(self) -> Path | None:
        """The temporary folder of the commands in the sandbox; None where there is no such folder."""
        return None if self._sandbox is None else Path(os.path.realpath(self._sandbox.private.temp))

    # -- its life --------------------------------------------------------------------------------------------

    def turn_started(self) -> None:
        """Secrets may have come into the roots: they are looked for before the next command."""
        self._due = self._settings.enabled and not self._closed

    async def ready(self) -> None:
        """Make the sandbox, or bring it up to date. Whoever stops waiting leaves it to the others."""
        while (self._due or self._work is not None) and not self._closed:
            if self._work is None:
                self._work = asyncio.get_running_loop().create_task(self._bring_up())
            await asyncio.shield(self._work)

    async def equip(self, context: ToolContext) -> ToolContext:
        """The context with which a command is prepared: with the sandbox where it can be used, and a clean environment."""
        await self.ready()
        keep = self._settings.keep_env
        environment = without_credentials(os.environ, keep=keep)
        withheld = [name for name in os.environ if name not in environment]
        sandbox = self.sandbox
        fitting = None if sandbox is None else await self._fitting(sandbox, context)
        return replace(context, sandbox=fitting, environment=environment, withheld=withheld)

    async def aclose(self) -> None:
        """Remove its private folders. The session's commands should have ended."""
        self._closed = True
        if self._work is not None:
            await asyncio.wait((self._work,))
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await asyncio.to_thread(sandbox.close)

    async def _bring_up(self) -> None:
        self._due = False
        try:
            await asyncio.to_thread(self._make if self._sandbox is None else self._sandbox.scan)
        except (AccordError, OSError) as error:
            # Half a boundary is none: what it can still do is not worth the doubt.
            self._why = str(error)
            sandbox, self._sandbox = self._sandbox, None
            if sandbox is not None:
                await asyncio.to_thread(sandbox.close)
        finally:
            self._work = None

    def _make(self) -> None:
        settings = self._settings
        made = Sandbox(
            self._roots,
            network=settings.network,
            readable=settings.readable,
            writable=[path for path in settings.writable if os.path.exists(path)],
            hidden=settings.hidden,
            keep_env=settings.keep_env,
            backend=settings.backend,
        )
        if made.report.backend == "none":
            self._boundary = made.report
            made.close()
        else:
            self._sandbox = made

    # -- in the client's terminals ---------------------------------------------------------------------------

    async def _fitting(self, sandbox: Sandbox, context: ToolContext) -> Sandbox | TerminalSandbox | None:
        if context.terminal is None:
            return sandbox
        inside = TerminalSandbox(sandbox, context.cwd)
        if self._in_terminals is None:
            self._in_terminals = await inside.runs(context.terminal, context.clock)
        return inside if self._in_terminals else None
