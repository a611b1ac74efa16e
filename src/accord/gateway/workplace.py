"""Files and terminals of a session, on the gateway's machine: what an agent asks of its client, `fs/*` and `terminal/*`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from accord.client import workspaces
from accord.client.terminals import TerminalPrinted, TerminalViews
from accord.workspace.roots import Roots
from accord.workspace.terminals import Terminals
from accord.workspace.workspace import LocalWorkspace

Serve: TypeAlias = Callable[["Workplace", Any], Awaitable[Any]]

SERVED: Final[dict[str, Serve]] = {
    "fs/read_text_file": workspaces.read_text_file,
    "fs/write_text_file": workspaces.write_text_file,
    "terminal/create": workspaces.create_terminal,
    "terminal/output": workspaces.terminal_output,
    "terminal/wait_for_exit": workspaces.wait_for_exit,
    "terminal/kill": workspaces.kill_terminal,
    "terminal/release": workspaces.release_terminal,
}
"""What the gateway does itself, by method."""


class Workplace:
    """The folders of one session; what was started in it ends with it."""

    def __init__(self, folders: tuple[str, ...], printed: Callable[[TerminalPrinted], None]) -> None:
        self.folders = folders
        self.terminals = TerminalViews(printed)
        self._roots = Roots(folders[0], folders[1:])
        self._made: LocalWorkspace | None = None
        self._jobs: set[asyncio.Task[Any]] = set()

    @property
    def workspace(self) -> "Workplace":
        """Itself: it lends what it makes."""
        return self

    def use(self) -> LocalWorkspace:
        """Files and terminals, made when they are first needed."""
        if self._made is None:
            self._made = LocalWorkspace(
                self._roots, terminals=Terminals(self._roots, on_output=self.terminals.printed)
            )
        return self._made

    def run(self, work: Awaitable[None]) -> None:
        """Serve a request; it ends, at the latest, with this workplace."""
        job = asyncio.ensure_future(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def aclose(self) -> None:
        """End everything that was started here."""
        for job in tuple(self._jobs):
            job.cancel()
        if self._jobs:
            await asyncio.wait(self._jobs)
        made, self._made = self._made, None
        if made is not None:
            await made.aclose()
