"""The files and terminals that an agent works with: on this machine, or the client's by `fs/*` and
`terminal/*`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from accord.workspace.roots import AnyPath, Roots
from accord.workspace.terminal_command import TerminalCommand
from accord.workspace.terminals import ExitStatus, TerminalOutput, Terminals
from accord.workspace.text_files import TextFiles


class Workspace(Protocol):
    """The file and terminal operations of an agent. They raise errors such as InvalidParams and NotFound."""

    async def read_text_file(self, path: AnyPath, line: int | None = None, limit: int | None = None) -> str:
        """Return the text of a file, or `limit` lines from `line` on. The first line is 1."""
        ...

    async def write_text_file(self, path: AnyPath, content: str) -> None:
        """Replace the whole text of a file, or create it."""
        ...

    async def create_terminal(
        self,
        command: str,
        args: Sequence[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        cwd: AnyPath | None = None,
        output_byte_limit: int | None = None,
    ) -> str:
        """Start a command and return the id of its terminal. The caller must release it."""
        ...

    async def terminal_output(self, id: str) -> TerminalOutput:
        """Return the output so far."""
        ...

    async def wait_for_exit(self, id: str) -> ExitStatus:
        """Wait for the end of the command and return its status."""
        ...

    async def kill_terminal(self, id: str) -> None:
        """Kill the command. Its output and status stay available until the release."""
        ...

    async def release_terminal(self, id: str) -> None:
        """Kill the command if it runs, and forget the terminal."""
        ...

    async def aclose(self) -> None:
        """Kill all commands that run."""
        ...


class LocalWorkspace:
    """A workspace on this machine, within the roots of one session.

    `files` and `terminals` replace the defaults.
    """

    def __init__(
        self, roots: Roots, *, files: TextFiles | None = None, terminals: Terminals | None = None
    ) -> None:
        self.roots: Roots = roots
        self.files: TextFiles = TextFiles(roots) if files is None else files
        self.terminals: Terminals = Terminals(roots) if terminals is None else terminals

    async def read_text_file(self, path: AnyPath, line: int | None = None, limit: int | None = None) -> str:
        return await self.files.read_text(path, line, limit)

    async def write_text_file(self, path: AnyPath, content: str) -> None:
        await self.files.write_text(path, content)

    async def create_terminal(
        self,
        command: str,
        args: Sequence[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        cwd: AnyPath | None = None,
        output_byte_limit: int | None = None,
    ) -> str:
        return await self.terminals.create(
            TerminalCommand(command, args=args, env=env, cwd=cwd, output_byte_limit=output_byte_limit)
        )

    async def terminal_output(self, id: str) -> TerminalOutput:
        return self.terminals.output(id)

    async def wait_for_exit(self, id: str) -> ExitStatus:
        return await self.terminals.wait(id)

    async def kill_terminal(self, id: str) -> None:
        await self.terminals.kill(id)

    async def release_terminal(self, id: str) -> None:
        await self.terminals.release(id)

    async def aclose(self) -> None:
        await self.terminals.aclose()
