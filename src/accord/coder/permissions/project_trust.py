"""Project files that change the agent's behavior, and asking the user to trust them."""

import asyncio
import glob
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from accord.agent.tool_call_scope import PermissionAnswer
from accord.agent.turn import Turn
from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.coder.tools.tool import listing
from accord.errors import AccordError, UsageError
from accord.policy.rules import Rules, read_permissions
from accord.policy.trust_store import TrustStore
from accord.policy.user_answer import read_answer
from accord.schema.client_requests import PermissionOption
from accord.schema.content import Content, TextContent, ToolCallContent

# MERGED coder.permissions.projectfiles: Files of a project that change what the agent does: rules, commands, settings, MCP servers. They count once trusted.
#
# Each is read once. What the user is shown, agrees to and has kept as a hash is exactly what is used; a file that is
# changed afterwards is another file. A project's rules can only tighten.

STEERING: Final[Mapping[str, str]] = {
    ".accord/permissions.toml": "rules",
    ".accord/permissions.json": "rules",
    ".accord/config.toml": "settings",
    ".accord/config.json": "settings",
    ".accord/mcp.json": "MCP servers",
    ".mcp.json": "MCP servers",
    ".accord/commands/*.md": "command",
}
"""What is looked for, and what it is."""
PURPOSES: Final = tuple(dict.fromkeys(STEERING.values()))

_RULES: Final = (".accord/permissions.toml", ".accord/permissions.json")
_LARGEST: Final = 64 * 1024
_MOST: Final = 100


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """One such file, as it was when it was read."""

    name: str
    """As seen from the project's folder."""
    path: str
    """Absolute, links resolved."""
    content: bytes
    purpose: str

    @property
    def text(self) -> str:
        """What it says; what is no text shows as escapes."""
        return self.content.decode(errors="backslashreplace")


class ProjectFiles:
    """Those of one project. Made by `project_files`."""

    def __init__(self, found: Iterable[ProjectFile], left_out: Mapping[str, str], trust: TrustStore) -> None:
        self.trusted: dict[str, ProjectFile] = {}
        """What counts, by name."""
        self.untrusted: dict[str, ProjectFile] = {}
        """What does not, by name."""
        self.left_out = dict(left_out)
        """What cannot count, and why."""
        self._trust = trust
        for file in found:
            home = self.trusted if trust.is_trusted(file.path, file.content) else self.untrusted
            home[file.name] = file

    def trust(self) -> None:
        """The user has looked at everything that is not trusted, and agreed. Looks at the disk. Raises OSError."""
        for name, file in list(self.untrusted.items()):
            self._trust.trust(file.path, file.content)
            self.trusted[name] = self.untrusted.pop(name)

    def rules(self) -> Rules | None:
        """The project's rules, if there are any that count. Rules that cannot be read ask for everything."""
        return self._rules()[0]

    def lines(self) -> list[str]:
        """What does not count and why, in one line each; empty if everything does."""
        said: list[str] = []
        if self.untrusted:
            said.append(f"not trusted, so not used: {', '.join(self.untrusted)}")
        said += [f"not used: {name}: {why}" for name, why in self.left_out.items()]
        return said + self._rules()[1]

    def _rules(self) -> tuple[Rules | None, list[str]]:
        files = [file for name in _RULES if (file := self.trusted.get(name))]
        if not files:
            return None, []
        try:
            if len(files) > 1:
                raise UsageError(f"{files[1].name}: stands beside {files[0].name}: keep one of them")
            return read_permissions(_parsed(files[0]), file=files[0].name), []
        except UsageError as error:
            return Rules(default="ask", source=files[0].name), [
                f"{error}; until then everything is asked for"
            ]


def project_files(
    cwd: str, trust: TrustStore | None = None, *, purposes: Iterable[str] = PURPOSES
) -> ProjectFiles:
    """Look for them in the folder of a session, and which of them the user trusts. Looks at the disk.

    Only files of these purposes: nobody is to be asked about what is not used, or is asked about elsewhere.
    """
    root = os.path.realpath(cwd)
    found: list[ProjectFile] = []
    left_out: dict[str, str] = {}
    for name, purpose in _names(root, frozenset(purposes)):
        if len(found) == _MOST:
            left_out[name] = f"there are more than {_MOST} such files"
            continue
        path = os.path.realpath(os.path.join(root, name))
        if os.path.commonpath((root, path)) != root:
            left_out[name] = "it is a link that leads out of the project"
            continue
        try:
            found.append(ProjectFile(name, path, _read(path), purpose))
        except OSError as error:
            left_out[name] = error.strerror or str(error)
    return ProjectFiles(found, left_out, trust or TrustStore())


def _names(root: str, purposes: frozenset[str]) -> Iterator[tuple[str, str]]:
    for pattern, purpose in STEERING.items():
        names = glob.glob(pattern, root_dir=root) if purpose in purposes else []
        yield from ((name, purpose) for name in sorted(names))


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "it is no file")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(_LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(content) > _LARGEST:
        raise OSError(0, f"it is larger than {_LARGEST:,} bytes, more than anybody reads before trusting it")
    return content


def _parsed(file: ProjectFile) -> Any:
    decode = msgspec.toml.decode if file.name.endswith(".toml") else msgspec.json.decode
    try:
        return decode(file.content)
    except (ValueError, msgspec.MsgspecError) as error:
        raise UsageError(f"{file.name}: cannot be read: {error}") from None


# MERGED coder.permissions.trusting: Asking the user whether the files of a project may change what the agent does: once a session, with all they say shown.

AskTrust: TypeAlias = Callable[
    [str, Sequence[ToolCallContent], Sequence[PermissionOption]], Awaitable[PermissionAnswer]
]
"""Shows a title and contents, and asks. It may be cancelled, and then takes the question back."""

TITLE: Final = "Trust the files of this project that change what the agent does?"
PATIENCE: Final = 120.0
"""Seconds; the prompt waits as long, so it is less than for a permission."""

# No `allow_once`: a client that answers by itself to go on must not be able to agree to this.
OPTIONS: Final = (
    PermissionOption("trust", "Trust them, as long as they do not change", "allow_always"),
    PermissionOption("ignore", "Go on without them", "reject_once"),
)


def asking_in(turn: Turn) -> AskTrust:
    """Asks in a turn, as a call of its own that does nothing."""

    async def ask(
        title: str, content: Sequence[ToolCallContent], options: Sequence[PermissionOption]
    ) -> PermissionAnswer:
        async with turn.tool_call(title, kind="other") as call:
            await call.replace(content)
            return await call.ask_permission(options)

    return ask


async def ask_trust(
    files: ProjectFiles, ask: AskTrust, *, seconds: float | None = PATIENCE, clock: Clock = SYSTEM_CLOCK
) -> bool:
    """Ask about what is not trusted, and keep a yes. Whether all is trusted now; anything but a yes leaves it as it was.

    Nobody is asked where there is nothing to ask about. Never raises for what an answer is.
    """
    if not files.untrusted:
        return True
    shown = [block for file in files.untrusted.values() for block in _shown(file)]
    asking = asyncio.ensure_future(ask(TITLE, shown, OPTIONS))
    try:
        if seconds is None:
            await asyncio.wait((asking,))
        elif not await within(clock, seconds, asking):
            return False
        answer = asking.result()
    except AccordError:
        return False
    finally:
        if not asking.done():
            asking.cancel()
            await asyncio.wait((asking,))
    if not read_answer(OPTIONS, answer.option).allowed:
        return False
    try:
        await asyncio.to_thread(files.trust)
    except OSError:
        return False  # what cannot be kept was not agreed to; the next session asks again
    return not files.untrusted


def _shown(file: ProjectFile) -> Sequence[ToolCallContent]:
    """All of it, with what hides from the eye made visible."""
    visible = "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in file.text
    )
    head = Content(TextContent(f"**{file.name}** ({file.purpose}):"))
    return (head, listing(visible)) if visible else (head, Content(TextContent("(empty)")))
