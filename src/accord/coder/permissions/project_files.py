"""Project files that change the agent's behavior, and the question whether the user trusts them.

Rules, commands, settings, hooks and MCP servers of a project apply only if the user trusts their content.
Each file is read once, so that the shown, the trusted and the used content are the same. A changed file must
be trusted again. Rules of a project can only restrict.
"""

import asyncio
import glob
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, Final, TypeAlias, cast

import msgspec

from accord.agent.tool_call_scope import PermissionAnswer
from accord.agent.turn import Turn
from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import AccordError, UsageError
from accord.file_format import FileFormat, NewerFormat
from accord.policy.rules import Rules, read_permissions
from accord.policy.trust_store import TrustStore
from accord.policy.user_answer import read_answer
from accord.private_files import StrPath
from accord.schema.client_requests import PermissionOption
from accord.schema.content import Content, TextContent, ToolCallContent, code_block

FILE_PURPOSES: Final[Mapping[str, str]] = {
    ".accord/permissions.toml": "rules",
    ".accord/permissions.json": "rules",
    ".accord/config.toml": "settings",
    ".accord/config.json": "settings",
    ".accord/mcp.json": "MCP servers",
    ".mcp.json": "MCP servers",
    ".accord/commands/*.md": "command",
    ".accord/hooks.json": "hooks",
    ".claude/settings.json": "hooks",
    ".claude/settings.local.json": "hooks",
}
"""The file patterns and their purposes."""
INSTRUCTIONS: Final = "instructions"
"""The purpose of instruction files, such as AGENTS.md, that a command wrote."""
HOOKS: Final = "hooks"
MCP_SERVERS: Final = "MCP servers"
PURPOSES: Final = tuple(dict.fromkeys(FILE_PURPOSES.values()))

_RULE_FILES: Final = (".accord/permissions.toml", ".accord/permissions.json")
_MAX_FILE_BYTES: Final = 64 * 1024
_MAX_FILES: Final = 100


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """One project file, as it was when it was read."""

    name: str
    """The path relative to the project folder."""
    path: str
    """The absolute path, with links resolved."""
    content: bytes
    purpose: str

    @property
    def text(self) -> str:
        """The content as text; invalid bytes become escapes."""
        return self.content.decode(errors="backslashreplace")


class ProjectFiles:
    """The files of one project. Created by `project_files`."""

    def __init__(
        self, found: Iterable[ProjectFile], unusable: Mapping[str, str], trust_store: TrustStore
    ) -> None:
        self.trusted: dict[str, ProjectFile] = {}
        """The files in use, by name."""
        self.untrusted: dict[str, ProjectFile] = {}
        """The files that are not trusted, by name."""
        self.unusable: dict[str, str] = dict(unusable)
        """The files that cannot be used, with the reason."""
        self._trust_store = trust_store
        for file in found:
            files = self.trusted if trust_store.is_trusted(file.path, file.content) else self.untrusted
            files[file.name] = file

    def trust(self) -> None:
        """Trust all untrusted files, because the user has seen them and agreed. Writes to the disk.

        Raises OSError.
        """
        for name, file in list(self.untrusted.items()):
            try:
                self._trust_store.trust(file.path, file.content)
                self.trusted[name] = file
            except NewerFormat as error:
                self.unusable[name] = str(error)
            del self.untrusted[name]

    def rules(self) -> Rules | None:
        """The project's trusted rules, if there are any. Rules that cannot be read ask for everything."""
        return self._read_rules()[0]

    def warnings(self) -> list[str]:
        """The files that are not used and why, one line each."""
        warnings: list[str] = []
        if self.untrusted:
            warnings.append(f"not trusted, so not used: {', '.join(self.untrusted)}")
        warnings += [f"not used: {name}: {reason}" for name, reason in self.unusable.items()]
        return warnings + self._read_rules()[1]

    def _read_rules(self) -> tuple[Rules | None, list[str]]:
        files = [file for name in _RULE_FILES if (file := self.trusted.get(name))]
        if not files:
            return None, []
        try:
            if len(files) > 1:
                raise UsageError(f"{files[1].name}: there is also {files[0].name}; keep one of them")
            content = _parse_content(files[0])
            if isinstance(content, dict):
                content = FileFormat().upgrade(cast("dict[str, Any]", content), files[0].name)
            return read_permissions(content, file=files[0].name), []
        except UsageError as error:
            return Rules(default="ask", source=files[0].name), [
                f"{error}; until it is corrected, every action needs a permission"
            ]


def project_files(
    cwd: str, trust_store: TrustStore | None = None, *, purposes: Iterable[str] = PURPOSES
) -> ProjectFiles:
    """Find the project files of these purposes, and which of them the user trusts. Reads the disk.

    Give only the purposes that are used now, so that the user is not asked about other files.
    """
    root = os.path.realpath(cwd)
    found: list[ProjectFile] = []
    unusable: dict[str, str] = {}
    trust_store = trust_store or TrustStore()
    names = [*_find_names(root, frozenset(purposes))]
    if INSTRUCTIONS in purposes:
        names += [(os.path.relpath(path, root), INSTRUCTIONS) for path in _distrusted(root, trust_store)]
    for name, purpose in names:
        if len(found) == _MAX_FILES:
            unusable[name] = f"there are more than {_MAX_FILES} such files"
            continue
        path = os.path.realpath(os.path.join(root, name))
        if os.path.commonpath((root, path)) != root:
            unusable[name] = "it is a link that leads out of the project"
            continue
        try:
            content = read_bounded(path)
            if purpose == HOOKS and b'"hooks"' not in content:
                continue  # other settings of these files are not used
            found.append(ProjectFile(name, path, content, purpose))
        except OSError as error:
            unusable[name] = error.strerror or str(error)
    return ProjectFiles(found, unusable, trust_store)


def _distrusted(root: str, trust_store: TrustStore) -> list[str]:
    """The instruction files that commands wrote. Others are used without a question."""
    from accord.coder.context.system_prompt import INSTRUCTION_FILES

    return [path for path in trust_store.distrusted_in(root) if path.endswith(tuple(INSTRUCTION_FILES))]


def _find_names(root: str, purposes: frozenset[str]) -> Iterator[tuple[str, str]]:
    for pattern, purpose in FILE_PURPOSES.items():
        names = glob.glob(pattern, root_dir=root) if purpose in purposes else []
        yield from ((name, purpose) for name in sorted(names))


def open_regular(path: StrPath) -> BufferedReader:
    """Open a regular file to read. Raises OSError, also for a pipe, which could block for ever."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is not a regular file")
    return open(descriptor, "rb")


def read_bounded(path: StrPath) -> bytes:
    """The content of a small regular file. Raises OSError, also for a large one."""
    with open_regular(path) as file:
        content = file.read(_MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise OSError(0, f"it has more than {_MAX_FILE_BYTES:,} bytes")
    return content


def _parse_content(file: ProjectFile) -> Any:
    decode = msgspec.toml.decode if file.name.endswith(".toml") else msgspec.json.decode
    try:
        return decode(file.content)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"{file.name}: cannot be read: {error}") from None


AskTrust: TypeAlias = Callable[
    [str, Sequence[ToolCallContent], Sequence[PermissionOption]], Awaitable[PermissionAnswer]
]
"""Shows a title and content, and asks. Cancelling it withdraws the question."""

TRUST_QUESTION: Final = "Trust the files of this project that change what the agent does?"
TRUST_SECONDS: Final = 120.0
"""The timeout of the question. Shorter than that of a permission request, because the prompt waits."""

# No `allow_once`: a client that allows everything automatically must not be able to agree to this.
TRUST_OPTIONS: Final = (
    PermissionOption("trust", "Trust them, as long as they do not change", "allow_always"),
    PermissionOption("ignore", "Go on without them", "reject_once"),
)


def trust_asker(turn: Turn) -> AskTrust:
    """Return a function that asks in this turn, with a tool call that does nothing else."""

    async def ask(
        title: str, content: Sequence[ToolCallContent], options: Sequence[PermissionOption]
    ) -> PermissionAnswer:
        async with turn.tool_call(title, kind="other") as call:
            await call.replace(content)
            return await call.ask_permission(options)

    return ask


async def ask_trust(
    files: ProjectFiles, ask: AskTrust, *, seconds: float | None = TRUST_SECONDS, clock: Clock = SYSTEM_CLOCK
) -> bool:
    """Ask the user to trust the untrusted files, and store a yes. Returns whether all files are trusted now.

    Does not ask if there is nothing to trust. Every answer but a yes changes nothing.
    """
    if not files.untrusted:
        return True
    content = [block for file in files.untrusted.values() for block in _file_content(file)]
    question = asyncio.ensure_future(ask(TRUST_QUESTION, content, TRUST_OPTIONS))
    try:
        if seconds is None:
            await asyncio.wait((question,))
        elif not await within(clock, seconds, question):
            return False
        answer = question.result()
    except AccordError:
        return False
    finally:
        if not question.done():
            question.cancel()
            await asyncio.wait((question,))
    if not read_answer(TRUST_OPTIONS, answer.option).allowed:
        return False
    try:
        await asyncio.to_thread(files.trust)
    except OSError:
        return False  # trust that cannot be stored does not count; the next session asks again
    return not files.untrusted and not files.unusable


def _file_content(file: ProjectFile) -> Sequence[ToolCallContent]:
    """The whole file, with invisible characters made visible."""
    text = "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in file.text
    )
    heading = Content(TextContent(f"**{file.name}** ({file.purpose}):"))
    return (heading, code_block(text)) if text else (heading, Content(TextContent("(empty)")))
