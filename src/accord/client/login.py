"""Signing in by the agent's own program: started a second time, in a terminal the user sits at."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from accord.errors import NeverStarted
from accord.schema import AuthMethodTerminal
from accord.wire.process import ProcessTransport, spawn


@dataclass(frozen=True, slots=True)
class Launch:
    """How the agent's program is started."""

    command: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str | None] | None = None
    """Laid over this process's environment; None takes a name out."""

    def __str__(self) -> str:
        return " ".join(self.command)

    def for_login(self, method: AuthMethodTerminal) -> "Launch":
        """The same program with the method's arguments appended and its variables on top."""
        env = {**(self.env or {}), **(method.env or {})}
        return Launch((*self.command, *(method.args or ())), self.cwd, env)

    async def start(self, on_stderr: Callable[[str], None] | None, limit: int) -> ProcessTransport:
        """Start it as an agent: speak with it over its pipes, in messages up to the limit. Raises `NeverStarted`."""
        return await spawn(self.command, cwd=self.cwd, env=self.env, on_stderr=on_stderr, limit=limit)


LoginRunner: TypeAlias = Callable[[Launch], Awaitable[int]]
"""Runs a program in an interactive terminal and gives its exit code; only 0 is success."""


async def run_in_terminal(launch: Launch) -> int:
    """Run it in the terminal this process was started from: it takes over stdin, stdout and stderr until it exits."""
    env: dict[str, str] = {
        name: value for name, value in {**os.environ, **(launch.env or {})}.items() if value is not None
    }
    try:
        process = await asyncio.create_subprocess_exec(*launch.command, cwd=launch.cwd, env=env)
    except OSError as error:
        raise NeverStarted(f"cannot start {launch} to sign in: {error.strerror or error}") from None
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
