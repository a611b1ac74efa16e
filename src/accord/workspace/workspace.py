"""Files and processes as one thing: what an agent works on, be it this machine or, by `fs/*` and `terminal/*`, the client's."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from accord.workspace.roots import AnyPath, Roots
from accord.workspace.terminal_command import TerminalCommand
from accord.workspace.terminals import ExitStatus, TerminalOutput, Terminals
from accord.workspace.text_files import TextFiles


class Workspace(Protocol):
    """What an agent may ask for. Failures are answers of the error tree: InvalidParams, NotFound and the like."""

    async def read_text_file(self, path: AnyPath, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file, or `limit` lines of it from `line` on; the first line is 1."""
        ...

    async def write_text_file(self, path: AnyPath, content: str) -> None:
        """Make `content` the whole text of a file, which may be new."""
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
        """Start a command and return the id of its terminal, which has to be released some day."""
        ...

    async def terminal_output(self, id: str) -> TerminalOutput:
        """The output so far; waits for nothing."""
        ...

    async def wait_for_exit(self, id: str) -> ExitStatus:
        """How the command ended, once it has."""
        ...

    async def kill_terminal(self, id: str) -> None:
        """End the command; output and status stay until the release."""
        ...

    async def release_terminal(self, id: str) -> None:
        """End the command if it runs, and forget the terminal."""
        ...

    async def aclose(self) -> None:
        """End everything that was started here."""
        ...


class LocalWorkspace:
    """The roots of one session on this machine. Give `files` or `terminals` where the defaults do not fit."""

    def __init__(
        self, roots: Roots, *, files: TextFiles | None = None, terminals: Terminals | None = None
    ) -> None:
        self.roots = roots
        self.files = TextFiles(roots) if files is None else files
        self.terminals = Terminals(roots) if terminals is None else terminals

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
