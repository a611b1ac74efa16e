"""All commands of a session by name, including those defined in files of the user and the project."""

import asyncio
import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from accord.agent.agent_session import Command as Offered
from accord.agent.turn import Turn
from accord.coder.mcp.server_interface import clean_line
from accord.coder.permissions.project_trust import (
    ProjectFile,
    ProjectFiles,
    ask_trust,
    asking_in,
    project_files,
)
from accord.coder.slash_commands import (
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
    ModelPrompt,
    PromptCommand,
    SlashCommand,
    asked_with,
)
from accord.paths import config_dir
from accord.policy.trust_store import TrustStore
from accord.safe_text import one_line

if TYPE_CHECKING:
    from accord.coder.session_runtime import SessionRuntime

__all__ = ["CommandRegistry", "CommandReply", "ModelPrompt", "SlashCommand"]


# MERGED coder.commands.filling: What was typed behind a command, put into its prompt where that says so. Text is put in, and nothing is ever run.

_PLACE: Final = re.compile(r"(?P<escaped>\\)?\$(?:(?P<all>ARGUMENTS\b)|(?P<number>[1-9])(?!\d))")


def takes_text(prompt: str) -> bool:
    """Whether the prompt says where what is typed belongs."""
    return any(not match["escaped"] for match in _PLACE.finditer(prompt))


def fill(prompt: str, text: str) -> str:
    """`$ARGUMENTS` is all of it, `$1` to `$9` its words; where neither stands it follows the prompt. A backslash before the
    dollar keeps it."""
    words = _words(text)
    used = False

    def put(match: re.Match[str]) -> str:
        nonlocal used
        if match["escaped"]:
            return match[0][1:]
        used = True
        if match["all"]:
            return text
        number = int(match["number"])
        return words[number - 1] if number <= len(words) else ""

    filled = _PLACE.sub(put, prompt)
    return filled if used or not text else f"{filled}\n\n{text}"


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()  # a lone quote is an apostrophe


# MERGED coder.commands.frontmatter: A command's file taken apart: what stands between its first lines of dashes, and the prompt below.

_HEAD: Final = re.compile(r"---[ \t]*\n(?P<head>.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_LINE: Final = re.compile(r"(?P<key>[A-Za-z][\w-]*)[ \t]*:[ \t]*(?P<value>.*)")
_LONGEST: Final = 200


class CommandFile(NamedTuple):
    """What a file says."""

    description: str
    hint: str | None
    prompt: str


def read(text: str) -> CommandFile:
    """Of the head only `description` and `argument-hint` count; without a description the first line stands in."""
    text = text.replace("\r\n", "\n")
    head = _HEAD.match(text)
    values = _values(head["head"]) if head else {}
    prompt = text[head.end() :] if head else text
    prompt = prompt.strip()
    first = next((line.strip(" #*\t") for line in prompt.splitlines() if line.strip(" #*\t")), "")
    return CommandFile(
        clean_line(values.get("description", ""), _LONGEST) or clean_line(first, _LONGEST),
        clean_line(values.get("argument-hint", ""), _LONGEST) or None,
        prompt,
    )


def _values(head: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for line in head.splitlines():
        if match := _LINE.fullmatch(line.rstrip()):
            value = match["value"].strip()
            if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            values[match["key"].casefold().replace("_", "-")] = value
    return values


# MERGED coder.commands.files: Commands that stand in files: the user's own, and the project's, which count once the user has agreed to their content.

ENDING: Final = ".md"
MOST_BYTES: Final = 64 * 1024
MOST_FILES: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_UNTRUSTED: Final = "A command of this project that you have not trusted yet: you are asked before it is used"

_SOMETHING: Final = "arguments"
"""What may be typed behind a command whose file says nothing about it: without a hint some clients let nobody type."""


class UnusableCommandFile(Exception):
    """Why a file is no command."""


@dataclass(frozen=True, slots=True)
class FileCommand:
    """A prompt in a file."""

    name: str
    shown: str
    """The path, for people."""
    written: CommandFile
    untrusted: ProjectFile | None = None
    """The file, if the user must agree to it first."""

    @property
    def description(self) -> str:
        """Nothing of a file that nobody has agreed to is shown in a menu."""
        return self.written.description if self.untrusted is None else _UNTRUSTED

    @property
    def hint(self) -> str | None:
        if self.untrusted is not None:
            return _SOMETHING
        return self.written.hint or (_SOMETHING if takes_text(self.written.prompt) else None)

    async def run(self, text: str, turn: Turn, bench: "SessionRuntime", /) -> CommandReply | ModelPrompt:
        """Ask the model what the file says."""
        if self.untrusted is not None:
            asked_about = ProjectFiles([self.untrusted], {}, TrustStore())
            if not await ask_trust(asked_about, asking_in(turn), clock=bench.conversation.clock):
                return CommandReply(
                    f"`/{self.name}` was not used: it comes with the project, from `{self.shown}`, and you have not "
                    "trusted what it says. Type it again to be asked again."
                )
        return await asked_with(fill(self.written.prompt, text), turn, bench)


def own_commands(folder: Path) -> Iterator[FileCommand | str]:
    """The user's commands by name, and a line for each file that is none. Reads the disk: not on the event loop."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield f"`{folder}`: {error.strerror or error}"
        return
    names = [name for name in names if name.endswith(ENDING) and not name.startswith(".")]
    for name in names[:MOST_FILES]:
        shown = one_line(str(folder / name))
        try:
            yield _command(name, shown, _content(folder / name))
        except UnusableCommandFile as problem:
            yield f"`{shown}`: {problem}"
    if len(names) > MOST_FILES:
        yield f"`{folder}`: only the first {MOST_FILES} files are read"


def project_commands(cwd: str) -> Iterator[FileCommand | str]:
    """The same for those of a project, of which the untrusted ones ask first."""
    files = project_files(cwd, purposes=["command"])
    for name, file in sorted((*files.trusted.items(), *files.untrusted.items())):
        shown = one_line(name)
        untrusted = file if name in files.untrusted else None
        try:
            yield _command(os.path.basename(name), shown, file.content, untrusted)
        except UnusableCommandFile as problem:
            yield f"`{shown}`: {problem}"
    for name, why in files.left_out.items():
        yield f"`{one_line(name)}`: {why}"


def _command(file: str, shown: str, content: bytes, untrusted: ProjectFile | None = None) -> FileCommand:
    name = file.removesuffix(ENDING)
    if not _NAME.fullmatch(name):
        raise UnusableCommandFile("its name is not made of letters, digits, `-` and `_` alone, 64 at most")
    try:
        written = read(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnusableCommandFile("it is not UTF-8") from None
    if not written.prompt:
        raise UnusableCommandFile("it says nothing")
    return FileCommand(name, shown, written, untrusted)


def _content(path: Path) -> bytes:
    try:
        # Without blocking: somebody may have put a pipe there.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnusableCommandFile("it is no file")
            content = os.read(descriptor, MOST_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UnusableCommandFile(error.strerror or str(error)) from None
    if len(content) > MOST_BYTES:
        raise UnusableCommandFile(f"it has more than {MOST_BYTES:,} bytes")
    return content


# MERGED coder.commands.commands: All commands of a session: which there are, and which name means which.
#
# Whoever comes first has the name: the agent's own, then the user's, then the project's, then those of servers. What stands
# in files is read anew before every turn.

BUILT_IN: Final[tuple[BuiltInCommand, ...]] = (HELP, MODEL, MODE, PLAN, COMPACT, USAGE, INIT, TOOLS, MCP)


class CommandRegistry:
    """The commands of one session. `load` before they are asked for."""

    def __init__(self, bench: "SessionRuntime") -> None:
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

    def find(self, name: str) -> SlashCommand | None:
        """The command of this name."""
        return next((c for _, listed in self.groups() for c in listed if c.name == name), None)

    def groups(self) -> list[tuple[str, Sequence[SlashCommand]]]:
        """The commands by where they come from; places without any are left out."""
        taken = {c.name.casefold() for c in (*BUILT_IN, *self._own, *self._projects)}
        servers = self._bench.conversation.mcp
        prompts = [PromptCommand(prompt) for prompt in servers.prompts] if servers is not None else []
        groups: list[tuple[str, Sequence[SlashCommand]]] = [
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


# MERGED coder.commands: Slash commands: those of the agent, the user's own from files, the project's once trusted, and the prompts of MCP servers.
#
# A prompt that begins with a slash but names none of them is a prompt. What a command says to the user is in the session's
# log, but not in the model's memory: the model has not said it.
