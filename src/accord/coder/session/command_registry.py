"""The slash commands of a session by name, including those defined in files of the user and the project.

Built-in commands have priority, then the user's, then the project's, then skills, then the prompts of MCP
servers. A prompt that starts with a slash but names no command is an ordinary prompt.
"""

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from accord.agent.agent_session import Command as OfferedCommand
from accord.agent.turn import Turn
from accord.coder.definitions.front_matter import read_markdown
from accord.coder.definitions.skills import fill_prompt, has_placeholder
from accord.coder.mcp.server_interface import clean_line
from accord.coder.permissions.project_files import (
    ProjectFile,
    ProjectFiles,
    ask_trust,
    project_files,
    read_bounded,
    trust_asker,
)
from accord.coder.session.definition_commands import AGENTS, HOOKS, SKILLS, SkillCommand, skill_commands
from accord.coder.session.memory_command import MEMORY
from accord.coder.session.slash_commands import (
    COMPACT,
    HELP,
    INIT,
    MCP,
    MODE,
    MODEL,
    PLAN,
    REDO,
    REWIND,
    TOOLS,
    UNDO,
    USAGE,
    BuiltInCommand,
    CommandReply,
    McpPromptCommand,
    ModelPrompt,
    SlashCommand,
    prompt_with_attachments,
)
from accord.paths import config_dir
from accord.policy.trust_store import TrustStore
from accord.safe_text import one_line

if TYPE_CHECKING:
    from accord.coder.turn.session_runtime import SessionRuntime

_LINE_LIMIT: Final = 200


class ParsedCommandFile(NamedTuple):
    """The parsed content of a command file."""

    description: str
    hint: str | None
    prompt: str


def parse_command_file(text: str) -> ParsedCommandFile:
    """Parse a command file. The front matter may set `description` and `argument-hint`.

    Without a description the first line of the prompt is used.
    """
    file = read_markdown(text)
    first_line = next((line.strip(" #*\t") for line in file.body.splitlines() if line.strip(" #*\t")), "")
    return ParsedCommandFile(
        clean_line(file.text("description"), _LINE_LIMIT) or clean_line(first_line, _LINE_LIMIT),
        clean_line(file.text("argument-hint"), _LINE_LIMIT) or None,
        file.body,
    )


_SUFFIX: Final = ".md"
_MAX_FILES: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_UNTRUSTED: Final = "A command of this project that you have not trusted yet: you are asked before it is used"

_DEFAULT_HINT: Final = "arguments"
"""The hint of a command whose file gives none: some clients accept text only after commands with a hint."""


class UnusableCommandFile(Exception):
    """Why a file cannot be used as a command."""


@dataclass(frozen=True, slots=True)
class FileCommand:
    """A command whose prompt is in a file."""

    name: str
    display_path: str
    """The path, for display."""
    file: ParsedCommandFile
    untrusted: ProjectFile | None = None
    """The file, if the user has to trust it first."""

    @property
    def description(self) -> str:
        """The description. Menus show nothing from an untrusted file."""
        return self.file.description if self.untrusted is None else _UNTRUSTED

    @property
    def hint(self) -> str | None:
        if self.untrusted is not None:
            return _DEFAULT_HINT
        return self.file.hint or (_DEFAULT_HINT if has_placeholder(self.file.prompt) else None)

    async def run(self, text: str, turn: Turn, runtime: "SessionRuntime", /) -> CommandReply | ModelPrompt:
        """Ask the model with the prompt of the file; first ask the user to trust the file if needed."""
        if self.untrusted is not None:
            files = ProjectFiles([self.untrusted], {}, TrustStore())
            if not await ask_trust(files, trust_asker(turn), clock=runtime.session.clock):
                return CommandReply(
                    f"`/{self.name}` was not used: it is a file of the project, `{self.display_path}`, "
                    "and you have not trusted it. Type it again to be asked again."
                )
        return await prompt_with_attachments(fill_prompt(self.file.prompt, text), turn, runtime)


def user_commands(folder: Path) -> Iterator[FileCommand | str]:
    """The user's commands, and a message for each unusable file. Reads the disk: not on the event loop."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield f"`{folder}`: {error.strerror or error}"
        return
    names = [name for name in names if name.endswith(_SUFFIX) and not name.startswith(".")]
    for name in names[:_MAX_FILES]:
        display_path = one_line(str(folder / name))
        try:
            yield _parse_command(name, display_path, read_bounded(str(folder / name)))
        except OSError as error:
            yield f"`{display_path}`: {error.strerror or error}"
        except UnusableCommandFile as problem:
            yield f"`{display_path}`: {problem}"
    if len(names) > _MAX_FILES:
        yield f"`{folder}`: only the first {_MAX_FILES} files are read"


def project_commands(cwd: str) -> Iterator[FileCommand | str]:
    """The project's commands, and a message for each unusable file. Untrusted ones ask the user first."""
    files = project_files(cwd, purposes=["command"])
    for name, file in sorted((*files.trusted.items(), *files.untrusted.items())):
        display_path = one_line(name)
        untrusted = file if name in files.untrusted else None
        try:
            yield _parse_command(os.path.basename(name), display_path, file.content, untrusted)
        except UnusableCommandFile as problem:
            yield f"`{display_path}`: {problem}"
    for name, reason in files.unusable.items():
        yield f"`{one_line(name)}`: {reason}"


def _parse_command(
    file_name: str, display_path: str, content: bytes, untrusted: ProjectFile | None = None
) -> FileCommand:
    name = file_name.removesuffix(_SUFFIX)
    if not _NAME.fullmatch(name):
        raise UnusableCommandFile("its name may only have letters, digits, `-` and `_`, 64 at most")
    try:
        parsed = parse_command_file(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnusableCommandFile("it is not UTF-8") from None
    if not parsed.prompt:
        raise UnusableCommandFile("it is empty")
    return FileCommand(name, display_path, parsed, untrusted)


BUILT_IN: Final[tuple[BuiltInCommand, ...]] = (
    HELP, MODEL, MODE, PLAN, COMPACT, UNDO, REDO, REWIND, USAGE, INIT, MEMORY, TOOLS, SKILLS,
    AGENTS, HOOKS, MCP,
)  # fmt: skip


class CommandRegistry:
    """The commands of one session. Call `load` before each turn: it reads the command files."""

    def __init__(self, runtime: "SessionRuntime") -> None:
        self._runtime = runtime
        self._user_commands: list[FileCommand] = []
        self._project_commands: list[FileCommand] = []
        self._skill_commands: list[SkillCommand] = []
        self.problems: list[str] = []
        """A message for each file that cannot be used or whose name is taken."""

    async def load(self) -> None:
        """Read the command files."""
        cwd = self._runtime.session.agent_session.cwd
        user, project = await asyncio.to_thread(_read_commands, cwd)
        definitions = self._runtime.definitions
        await definitions.load()
        skills = definitions.skills
        self.problems = [item for item in (*user, *project) if isinstance(item, str)] + definitions.problems
        owners = {command.name: "the agent's own" for command in BUILT_IN}
        self._user_commands = list(self._with_free_names(_commands_in(user), owners, "yours"))
        self._project_commands = list(self._with_free_names(_commands_in(project), owners, "the project's"))
        self._skill_commands = skill_commands([*skills.usable.values(), *skills.waiting], owners)

    def offered(self) -> list[OfferedCommand]:
        """The commands as the client is told about them."""
        return [
            (command.name, command.description)
            if command.hint is None
            else (command.name, command.description, command.hint)
            for _, commands in self.groups()
            for command in commands
        ]

    def find(self, name: str) -> SlashCommand | None:
        return next(
            (command for _, commands in self.groups() for command in commands if command.name == name), None
        )

    def groups(self) -> list[tuple[str, Sequence[SlashCommand]]]:
        """The commands by origin, without empty groups."""
        used_names = {
            command.name.casefold()
            for command in (*BUILT_IN, *self._user_commands, *self._project_commands, *self._skill_commands)
        }
        servers = self._runtime.session.mcp
        prompts = [McpPromptCommand(prompt) for prompt in servers.prompts] if servers is not None else []
        groups: list[tuple[str, Sequence[SlashCommand]]] = [
            ("Commands", BUILT_IN),
            ("Your own", self._user_commands),
            ("This project's", self._project_commands),
            ("Skills", self._skill_commands),
            (
                "Prompts of MCP servers",
                [prompt for prompt in prompts if prompt.name.casefold() not in used_names],
            ),
        ]
        return [(title, commands) for title, commands in groups if commands]

    def _with_free_names(
        self, commands: Sequence[FileCommand], owners: dict[str, str], owner: str
    ) -> Iterator[FileCommand]:
        for command in commands:
            name = command.name.casefold()  # /Help beside /help would be confusing
            if name in owners:
                self.problems.append(
                    f"`{command.display_path}`: `/{name}` is {owners[name]}; rename the file"
                )
            else:
                owners[name] = owner
                yield command


def _read_commands(cwd: str) -> tuple[list[FileCommand | str], list[FileCommand | str]]:
    return list(user_commands(config_dir() / "commands")), list(project_commands(cwd))


def _commands_in(items: Sequence[FileCommand | str]) -> list[FileCommand]:
    return [item for item in items if not isinstance(item, str)]
