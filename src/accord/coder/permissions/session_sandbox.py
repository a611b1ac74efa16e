"""The sandbox of one session.

It is created when the first command needs it, scanned for new secrets in every turn and removed with the
session.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from accord.coder.permissions.permission_settings import SandboxSettings
from accord.coder.tools.tool_context import ToolContext
from accord.errors import AccordError
from accord.policy.sandbox.backend import SandboxReport
from accord.policy.sandbox.command_environment import without_credentials
from accord.policy.sandbox.sandbox import Sandbox
from accord.policy.sandbox.steering_watch import SteeringWatch

_DISABLED: Final = "none: switched off in your config; commands run with all your rights"
_NOT_TRIED: Final = "not tried yet: it is created before the first command"


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
        self._closed = False
        self._steering = SteeringWatch(self._roots)

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
        return [f"sandbox: {self.summary()}", *facts]

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
        return replace(
            context,
            sandbox=self.sandbox,
            environment=environment,
            hidden_variables=hidden_variables,
            steering=self._steering if self.sandbox is not None else None,
        )

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
