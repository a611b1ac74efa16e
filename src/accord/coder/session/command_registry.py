"""The slash commands of a session by name, including those defined in files of the user and the project.

Built-in commands have priority, then the user's, then the project's, then the prompts of MCP servers. A
prompt that starts with a slash but names no command is an ordinary prompt.
"""

import asyncio
import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from accord.agent.agent_session import Command as OfferedCommand
from accord.agent.turn import Turn
from accord.coder.mcp.server_interface import clean_line
from accord.coder.permissions.project_files import (
    ProjectFile,
    ProjectFiles,
    ask_trust,
    project_files,
    trust_asker,
)
from accord.coder.session.rewind_commands import REDO, REWIND, UNDO
from accord.coder.session.slash_commands import (
    COMPACT,
    HELP,
    INIT,
    MCP,
    MODE,
    MODEL,
    PLAN,
    TOOLS,
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

_PLACEHOLDER: Final = re.compile(r"(?P<escaped>\\)?\$(?:(?P<all>ARGUMENTS\b)|(?P<number>[1-9])(?!\d))")


def has_placeholder(prompt: str) -> bool:
    """Whether the prompt has a place for the typed text."""
    return any(not match["escaped"] for match in _PLACEHOLDER.finditer(prompt))


def fill_prompt(prompt: str, text: str) -> str:
    """Insert the typed text into a command's prompt. Nothing is ever executed.

    `$ARGUMENTS` is the whole text, `$1` to `$9` are its words; without any of them the text follows the
    prompt. A backslash before the dollar sign keeps it.
    """
    words = _split_arguments(text)

    def replacement(match: re.Match[str]) -> str:
        if match["escaped"]:
            return match[0][1:]
        if match["all"]:
            return text
        number = int(match["number"])
        return words[number - 1] if number <= len(words) else ""

    filled = _PLACEHOLDER.sub(replacement, prompt)
    return filled if has_placeholder(prompt) or not text else f"{filled}\n\n{text}"


def _split_arguments(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()  # an unmatched quote, such as an apostrophe


_FRONT_MATTER: Final = re.compile(
    r"---[ \t]*\n(?P<values>.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_FRONT_MATTER_LINE: Final = re.compile(r"(?P<key>[A-Za-z][\w-]*)[ \t]*:[ \t]*(?P<value>.*)")
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
    text = text.replace("\r\n", "\n")
    front_matter = _FRONT_MATTER.match(text)
    values = _front_matter_values(front_matter["values"]) if front_matter else {}
    prompt = text[front_matter.end() :] if front_matter else text
    prompt = prompt.strip()
    first_line = next((line.strip(" #*\t") for line in prompt.splitlines() if line.strip(" #*\t")), "")
    return ParsedCommandFile(
        clean_line(values.get("description", ""), _LINE_LIMIT) or clean_line(first_line, _LINE_LIMIT),
        clean_line(values.get("argument-hint", ""), _LINE_LIMIT) or None,
        prompt,
    )


def _front_matter_values(front_matter: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in front_matter.splitlines():
        if match := _FRONT_MATTER_LINE.fullmatch(line.rstrip()):
            value = match["value"].strip()
            if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            values[match["key"].casefold().replace("_", "-")] = value
    return values


_SUFFIX: Final = ".md"
_MAX_FILE_BYTES: Final = 64 * 1024
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
            yield _parse_command(name, display_path, _read_content(folder / name))
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


def _read_content(path: Path) -> bytes:
    try:
        # Non-blocking: the path may be a named pipe.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnusableCommandFile("it is not a regular file")
            content = os.read(descriptor, _MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UnusableCommandFile(error.strerror or str(error)) from None
    if len(content) > _MAX_FILE_BYTES:
        raise UnusableCommandFile(f"it has more than {_MAX_FILE_BYTES:,} bytes")
    return content


BUILT_IN: Final[tuple[BuiltInCommand, ...]] = (
    HELP, MODEL, MODE, PLAN, COMPACT, UNDO, REDO, REWIND, USAGE, INIT, TOOLS, MCP,
)  # fmt: skip


class CommandRegistry:
    """The commands of one session. Call `load` before each turn: it reads the command files."""

    def __init__(self, runtime: "SessionRuntime") -> None:
        self._runtime = runtime
        self._user_commands: list[FileCommand] = []
        self._project_commands: list[FileCommand] = []
        self.problems: list[str] = []
        """A message for each file that cannot be used or whose name is taken."""

    async def load(self) -> None:
        """Read the command files."""
        cwd = self._runtime.session.agent_session.cwd
        user, project = await asyncio.to_thread(_read_commands, cwd)
        self.problems = [item for item in (*user, *project) if isinstance(item, str)]
        owners = {command.name: "the agent's own" for command in BUILT_IN}
        self._user_commands = list(self._with_free_names(_commands_in(user), owners, "yours"))
        self._project_commands = list(self._with_free_names(_commands_in(project), owners, "the project's"))

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
            command.name.casefold() for command in (*BUILT_IN, *self._user_commands, *self._project_commands)
        }
        servers = self._runtime.session.mcp
        prompts = [McpPromptCommand(prompt) for prompt in servers.prompts] if servers is not None else []
        groups: list[tuple[str, Sequence[SlashCommand]]] = [
            ("Commands", BUILT_IN),
            ("Your own", self._user_commands),
            ("This project's", self._project_commands),
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
