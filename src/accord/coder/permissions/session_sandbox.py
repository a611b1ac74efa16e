"""The sandbox of one session, for local commands and for the client's terminals.

It is created when the first command needs it, scanned for new secrets in every turn and removed with the
session. A client may run on another machine, so its terminals use the sandbox only after a test command has
run in it there.
"""

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

_PROBE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class TerminalSandbox:
    """The sandbox for commands in the client's terminals.

    They start in the session's folder, as clients require.
    """

    sandbox: Sandbox
    folder: str

    def wrap(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> SandboxedCommand:
        """Wrap a command; the sandbox itself changes to the working folder of the command."""
        confined = self.sandbox.wrap(argv, env=env, cwd=cwd)
        return ConfinedCommand(
            confined.argv, confined.env, self.folder if confined.cwd == "/" else confined.cwd
        )

    async def works(self, open_terminal: OpenTerminal, clock: Clock) -> bool:
        """Whether commands in the client's terminals run in the sandbox. Tests it with a file inside."""
        secret, name = secrets.token_hex(16), f"probe-{secrets.token_hex(8)}"
        path = os.path.join(self.sandbox.private.temp, name)
        try:
            await asyncio.to_thread(_write_probe, path, secret)
        except OSError:
            return False
        probe = asyncio.ensure_future(self._run_probe(secret, name, open_terminal))
        try:
            return await within(clock, _PROBE_SECONDS, probe) and probe.result()
        finally:
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)
            await asyncio.to_thread(_remove_probe, path)

    async def _run_probe(self, secret: str, name: str, open_terminal: OpenTerminal) -> bool:
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
        return result.exit_code == 0 and result.output.strip() == secret


def _write_probe(path: str, secret: str) -> None:
    # Commands can write to that folder, too: O_EXCL does not follow a link they put there.
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret)


def _remove_probe(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


_DISABLED: Final = "none: switched off in your config; commands run with all your rights"
_NOT_TRIED: Final = "not tried yet: it is created before the first command"
_NOT_IN_TERMINALS: Final = (
    "not used in the client's terminals: a test command did not run in the sandbox there"
)


class SessionSandbox:
    """The sandbox of a session's commands. Await `ensure_ready` before the decision on a command."""

    def __init__(self, roots: Sequence[str], settings: SandboxSettings | None = None) -> None:
        """`roots` are the session's folders. Nothing is created yet."""
        self._roots = tuple(roots)
        self._settings = settings or SandboxSettings()
        self._sandbox: Sandbox | None = None
        self._report: SandboxReport | None = None
        """The report of a backend that confines nothing."""
        self._failure = ""
        self._outdated = self._settings.enabled
        self._update_task: asyncio.Task[None] | None = None
        self._works_in_terminals: bool | None = None
        self._closed = False

    # -- state -----------------------------------------------------------------------------------------------

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox if it is ready and up to date, else None."""
        return None if self._outdated or self._update_task is not None or self._closed else self._sandbox

    @property
    def is_effective(self) -> bool:
        """Whether sandboxed commands may run without asking."""
        return (sandbox := self.sandbox) is not None and sandbox.report.is_effective

    @property
    def unavailable_reason(self) -> str:
        """Why no command may run: the user requires a sandbox that is unavailable. Else empty."""
        if not self._settings.enabled or self._settings.backend is None or self.sandbox is not None:
            return ""
        return f"your config requires a sandbox that is not available: {self._failure or 'it is not ready'}"

    def summary(self) -> str:
        """The sandbox in one line."""
        if not self._settings.enabled:
            return _DISABLED
        if self._sandbox is not None:
            return self._sandbox.report.summary()
        if self._report is not None:
            return self._report.summary()
        if not self._failure:
            return _NOT_TRIED
        if self.unavailable_reason:
            return f"none: no command is run ({self._failure})"
        return f"none: commands run with all your rights ({self._failure})"

    def details(self) -> list[str]:
        """The sandbox in detail."""
        report = self._sandbox.report if self._sandbox is not None else self._report
        facts = [] if report is None else [*map(str, report.facts), *report.reasons]
        terminal_lines = [_NOT_IN_TERMINALS] if self._works_in_terminals is False else []
        return [f"sandbox: {self.summary()}", *terminal_lines, *facts]

    def host_path(self, path: str) -> str:
        """Return the path on this machine of a path that a command used: the sandbox has its own /tmp.

        A path that does not exist in the sandbox's private folders is returned unchanged.
        """
        if self._sandbox is None:
            return path
        translated = self._sandbox.outside_path(path)
        return translated if os.path.lexists(translated) else path

    @property
    def private_temp(self) -> Path | None:
        """The temporary folder of sandboxed commands; None without a sandbox."""
        return None if self._sandbox is None else Path(os.path.realpath(self._sandbox.private.temp))

    # -- life cycle ------------------------------------------------------------------------------------------

    def turn_started(self) -> None:
        """Scan for new secret files before the next command."""
        self._outdated = self._settings.enabled and not self._closed

    async def ensure_ready(self) -> None:
        """Create or update the sandbox. Several callers may wait; cancelling one does not stop the others."""
        while (self._outdated or self._update_task is not None) and not self._closed:
            if self._update_task is None:
                self._update_task = asyncio.get_running_loop().create_task(self._update())
            await asyncio.shield(self._update_task)

    async def add_to_context(self, context: ToolContext) -> ToolContext:
        """Return the context of a command: with the sandbox if it is usable, and without credentials."""
        await self.ensure_ready()
        keep_env = self._settings.keep_env
        environment = without_credentials(os.environ, keep=keep_env)
        hidden_variables = [name for name in os.environ if name not in environment]
        sandbox = self.sandbox
        usable = None if sandbox is None else await self._sandbox_for(sandbox, context)
        return replace(context, sandbox=usable, environment=environment, hidden_variables=hidden_variables)

    async def aclose(self) -> None:
        """Remove the sandbox's private folders. The commands of the session should have ended."""
        self._closed = True
        if self._update_task is not None:
            await asyncio.wait((self._update_task,))
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            await asyncio.to_thread(sandbox.close)

    async def _update(self) -> None:
        self._outdated = False
        try:
            await asyncio.to_thread(self._create if self._sandbox is None else self._sandbox.scan)
        except (AccordError, OSError) as error:
            # A sandbox that failed to update is not used at all.
            self._failure = str(error)
            sandbox, self._sandbox = self._sandbox, None
            if sandbox is not None:
                await asyncio.to_thread(sandbox.close)
        finally:
            self._update_task = None

    def _create(self) -> None:
        settings = self._settings
        sandbox = Sandbox(
            self._roots,
            network=settings.network,
            readable=settings.readable,
            writable=[path for path in settings.writable if os.path.exists(path)],
            hidden=settings.hidden,
            keep_env=settings.keep_env,
            backend=settings.backend,
        )
        if sandbox.report.backend == "none":
            self._report = sandbox.report
            sandbox.close()
        else:
            self._sandbox = sandbox

    # -- terminals of the client -----------------------------------------------------------------------------

    async def _sandbox_for(self, sandbox: Sandbox, context: ToolContext) -> Sandbox | TerminalSandbox | None:
        if context.terminal is None:
            return sandbox
        terminal_sandbox = TerminalSandbox(sandbox, context.cwd)
        if self._works_in_terminals is None:
            self._works_in_terminals = await terminal_sandbox.works(context.terminal, context.clock)
        return terminal_sandbox if self._works_in_terminals else None
