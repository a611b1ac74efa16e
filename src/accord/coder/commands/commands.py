"""All commands of a session: which there are, and which name means which.

Whoever comes first has the name: the agent's own, then the user's, then the project's, then those of servers. What stands
in files is read anew before every turn.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from accord.agent.session import Command as Offered
from accord.coder.commands.command import BuiltIn, Command
from accord.coder.commands.compact import COMPACT
from accord.coder.commands.files import FileCommand, own_commands, project_commands
from accord.coder.commands.help import HELP
from accord.coder.commands.init import INIT
from accord.coder.commands.mcp import MCP, PromptCommand
from accord.coder.commands.mode import MODE, PLAN
from accord.coder.commands.model import MODEL
from accord.coder.commands.tools import TOOLS
from accord.coder.commands.usage import USAGE
from accord.paths import config_dir

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench

BUILT_IN: Final[tuple[BuiltIn, ...]] = (HELP, MODEL, MODE, PLAN, COMPACT, USAGE, INIT, TOOLS, MCP)


class Commands:
    """The commands of one session. `load` before they are asked for."""

    def __init__(self, bench: "Workbench") -> None:
        self._bench = bench
        self._own: list[FileCommand] = []
        self._projects: list[FileCommand] = []
        self.problems: list[str] = []
        """A line for each file that is no command, or whose name is taken."""

    async def load(self) -> None:
        """Read what stands in files."""
        cwd = self._bench.conversation.session.cwd
        own, projects = await asyncio.to_thread(_look, cwd)
        self.problems = [found for found in (*own, *projects) if isinstance(found, str)]
        taken = {command.name: "the agent's own" for command in BUILT_IN}
        self._own = list(self._free(own, taken, "yours"))
        self._projects = list(self._free(projects, taken, "the project's"))

    def offered(self) -> list[Offered]:
        """The commands as the client is told of them."""
        return [
            (command.name, command.description)
            if command.hint is None
            else (command.name, command.description, command.hint)
            for _, listed in self.groups()
            for command in listed
        ]

    def find(self, name: str) -> Command | None:
        """The command of this name."""
        return next((c for _, listed in self.groups() for c in listed if c.name == name), None)

    def groups(self) -> list[tuple[str, Sequence[Command]]]:
        """The commands by where they come from; places without any are left out."""
        taken = {c.name.casefold() for c in (*BUILT_IN, *self._own, *self._projects)}
        servers = self._bench.conversation.mcp
        prompts = [PromptCommand(prompt) for prompt in servers.prompts] if servers is not None else []
        groups: list[tuple[str, Sequence[Command]]] = [
            ("Commands", BUILT_IN),
            ("Your own", self._own),
            ("This project's", self._projects),
            ("Prompts of MCP servers", [prompt for prompt in prompts if prompt.name.casefold() not in taken]),
        ]
        return [(head, listed) for head, listed in groups if listed]

    def _free(
        self, found: Sequence[FileCommand | str], taken: dict[str, str], whose: str
    ) -> Iterator[FileCommand]:
        for command in found:
            if isinstance(command, str):
                continue
            name = command.name.casefold()  # /Help beside /help would only be mistaken for it
            if name in taken:
                self.problems.append(f"`{command.shown}`: `/{name}` is {taken[name]}; rename the file")
            else:
                taken[name] = whose
                yield command


def _look(cwd: str) -> tuple[list[FileCommand | str], list[FileCommand | str]]:
    return list(own_commands(config_dir() / "commands")), list(project_commands(cwd))
