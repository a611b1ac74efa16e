"""Builds the system prompt once, with the instruction files (`AGENTS.md`) of user and project, and later
notes on what changed.
"""

import asyncio
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from accord.coder.bounded_text import fenced
from accord.coder.model_history import UserMessage, note
from accord.coder.permissions.session_sandbox import SessionSandbox
from accord.coder.tool_runner import ToolRunner
from accord.paths import config_dir
from accord.policy.request import DESCRIPTIONS, Mode
from accord.safe_text import one_line
from accord.schema.content import TextContent
from accord.schema.session_requests import SystemPrompt
from accord.workspace.roots import Folder

if TYPE_CHECKING:
    from accord.coder.coder_session import CoderSession


# MERGED coder.context.instructions: The instruction files that a model is given: the user's own, and those of the project, nearest first.
#
# They are found by name alone, so nothing here may lead out of what the session works in: links are followed only within
# it, secrets are never read, and of everything only so much.

NAMES: Final = (
    "AGENTS.md",
    "AGENT.md",
    "CLAUDE.md",
    "GEMINI.md",
    "AGENTAO.md",
    ".rules",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".github/copilot-instructions.md",
)
"""What instruction files are called. Of one folder only the first that is there is read."""

FILE_BYTES: Final = 32 * 1024
TOTAL_CHARS: Final = 64 * 1024
_DEEPEST: Final = 40
"""Folders above the working folder that are looked at."""


class Instructions(Struct, frozen=True):
    """What one file tells the agent to do."""

    path: str
    text: str
    own: bool = False
    """Whether it is the user's own file, for all projects."""

    def __str__(self) -> str:
        """As the model reads it."""
        return fenced("instructions", self.text, path=self.path, of="the user" if self.own else None)


async def find_instructions(
    cwd: str, roots: Sequence[str] = (), *, home: str | None = None
) -> list[Instructions]:
    """The user's own instructions, then those for `cwd` and each further root: nearest first, each file once.

    From a folder the way goes up to the root of its repository, never above it and never above `home`; a folder that
    is in no repository stands for itself. What cannot be read is passed over.
    """
    return await asyncio.to_thread(_find, cwd, roots, home)


class InstructionsSeen:
    """Which instructions the model of a session has been given, so that those of subfolders are given once each."""

    def __init__(self, cwd: str, roots: Sequence[str] = (), given: Iterable[Instructions] = ()) -> None:
        self._roots = [os.path.realpath(root) for root in (cwd, *roots)]
        self._first = frozenset(os.path.realpath(item.path) for item in given)
        self._given: set[str] = set(self._first)
        self._folders: set[str] = set()

    async def nested(self, path: str) -> list[Instructions]:
        """What holds for the file or folder at this path and was not given yet, nearest first."""
        return await asyncio.to_thread(self._nested, path)

    def forget(self) -> None:
        """The model's context was compacted: what it was given on the way is to be given again when it matters."""
        self._given = set(self._first)
        self._folders.clear()

    def _nested(self, path: str) -> list[Instructions]:
        real = os.path.realpath(path)
        within = [root for root in self._roots if _is_within(real, root)]
        if not within:
            return []
        root = max(within, key=len)
        found: list[Instructions] = []
        for folder in _upwards(real, root):
            if folder in self._folders:
                break  # and so were all above it
            self._folders.add(folder)
            if (item := _of_folder(folder, self._roots)) and os.path.realpath(item.path) not in self._given:
                self._given.add(os.path.realpath(item.path))
                found.append(item)
        return _bounded(found)


def told(found: Sequence[Instructions]) -> str:
    """Instructions that hold from now on, as a word to the model."""
    return "\n\n".join(
        (
            "This part of the project has instructions of its own. They hold for what is below their folder.",
            *map(str, found),
        )
    )


def _find(cwd: str, roots: Sequence[str], home: str | None) -> list[Instructions]:
    user_home = os.path.realpath(home or Path.home())
    folders = [_chain(os.path.realpath(folder), user_home) for folder in (cwd, *roots)]
    bounds = [chain[-1] for chain in folders]
    found: list[Instructions] = []
    if own := _own():
        found.append(own)
    seen = {os.path.realpath(item.path) for item in found}
    for folder in dict.fromkeys(folder for chain in folders for folder in chain):
        item = _of_folder(folder, bounds)
        if item is not None and (real := os.path.realpath(item.path)) not in seen:
            seen.add(real)
            found.append(item)
    return _bounded(found)


def _own() -> Instructions | None:
    """The user's own file. It may well be a link: it lies where only the user writes."""
    path = os.path.realpath(config_dir() / NAMES[0])
    text = _text(path)
    return Instructions(path, text, own=True) if text else None


def _chain(folder: str, home: str) -> list[str]:
    """The folder and those above it, up to the root of its repository; not past folders of somebody else."""
    owner = _owner(folder)
    chain: list[str] = []
    for above in _upwards(folder, "/"):
        if _owner(above) != owner:
            break  # whoever may write into a common folder could tell this user's agent what to do
        chain.append(above)
        if os.path.lexists(os.path.join(above, ".git")):
            return chain
        if above == home or len(chain) > _DEEPEST:
            break
    return [folder]


def _owner(folder: str) -> int | None:
    try:
        return os.stat(folder).st_uid
    except OSError:
        return None


def _upwards(path: str, last: str) -> Iterator[str]:
    """The folder itself, or that of the file, and those above it to the last."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    while _is_within(folder, last):
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _of_folder(folder: str, bounds: Sequence[str]) -> Instructions | None:
    """The first instruction file of a folder; none if that is empty."""
    for name in NAMES:
        path = os.path.join(folder, name)
        real = os.path.realpath(path)
        if not os.path.isfile(real) or not any(_is_within(real, bound) for bound in bounds):
            continue
        text = _text(real)
        if text is not None:
            return Instructions(path, text) if text else None
    return None


def _text(real: str) -> str | None:
    """What the file says; empty if that is nothing, None if it cannot be read or must not be."""
    from accord.policy.secret_files import is_secret

    if is_secret(Path(real)):
        return None  # a link to it would hand it to the model unasked
    try:
        data, size = _bytes(real)
    except OSError:
        return None
    if b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    decoded = data.decode(encoding, "replace").replace("\r\n", "\n")
    text = "".join(c for c in decoded if c.isprintable() or c in "\n\t").strip()
    if size > len(data):
        text += f"\n[cut here: the file has {size:,} bytes; read {real} for the rest]"
    return text


def _bytes(real: str) -> tuple[bytes, int]:
    """The beginning of a plain file, and its size. Every folder is entered by name, so that no link put there leads away."""
    path = Path(real)
    folder = Folder(Path(path.anchor))
    for name in path.parts[1:-1]:
        with folder:
            folder = folder.enter(name)
    with folder:
        descriptor = folder.open_file(path.name)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(FILE_BYTES), os.fstat(file.fileno()).st_size


def _bounded(found: Sequence[Instructions]) -> list[Instructions]:
    """As much as fits; what stands first counts most, and of the rest the names are told."""
    kept: list[Instructions] = []
    room = TOTAL_CHARS
    for item in found:
        if len(item.text) > room:
            text = f"{item.text[:room]}\n[cut here: too many instructions; read {item.path} for the rest]"
            item = Instructions(item.path, text.strip(), item.own)
        kept.append(item)
        room -= min(len(item.text), room)
    return kept


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


# MERGED coder.context.system: The system prompt: who the agent is, how it works, what it was told by files and by the client, and where it is.
#
# What never changes stands first and what may change stands last, so that the providers' prompt caches hold as long as
# possible. Make it once for a session and keep it; a mode that changes on the way is told by `mode_note`.


class PromptContext(Struct, frozen=True, kw_only=True):
    """Where the agent works and what holds there."""

    cwd: str
    roots: Sequence[str] = ()
    """Further folders of the session."""
    platform: str
    """As people call it: `Linux 6.8 (x86_64)`."""
    shell: str
    """What runs the lines of the bash tool."""
    day: date
    """The day on which the session began."""
    repository: bool
    """Whether `cwd` is in a Git repository."""
    mode: Mode
    boundary: str
    """What confines commands, in one line: `Boundary.summary()`."""
    instructions: Sequence[Instructions] = ()
    client_prompt: SystemPrompt | None = None
    """What the client says beside, or instead of, the agent's own text."""


def system_prompt(surroundings: PromptContext) -> str:
    """Everything the model is told before the first prompt."""
    client = _client_text(surroundings.client_prompt)
    override = surroundings.client_prompt is not None and surroundings.client_prompt.mode == "override"
    return "\n\n".join(
        section
        for section in (
            client if override else _own_text(),
            _instructions(surroundings.instructions),
            "" if override or not client else f"# From the client\n{client}",
            _where(surroundings),
            f"{_mode(surroundings.mode)}\nSandbox of commands: {_one(surroundings.boundary)}.",
        )
        if section
    )


def mode_note(mode: Mode) -> str:
    """What the model is told when the mode changes on the way."""
    return f"From now on another mode is in force. {_mode(mode)}"


@cache
def _own_text() -> str:
    return Path(__file__).with_name("system_prompt.md").read_text("utf-8").strip()


def _client_text(prompt: SystemPrompt | None) -> str:
    if prompt is None:
        return ""
    return "\n\n".join(block.text for block in prompt.content if isinstance(block, TextContent)).strip()


def _instructions(found: Sequence[Instructions]) -> str:
    if not found:
        return ""
    return "\n\n".join(
        (
            "# Instructions\n"
            "The user's own come first, then those of the project, the nearest to the working folder first. Each holds for "
            "what is below its folder. Where two disagree the nearer one counts, and what the user says in the "
            "conversation counts more than any file. No file can widen what you are permitted to do.",
            *map(str, found),
        )
    )


def _where(surroundings: PromptContext) -> str:
    lines = [
        "# Where you are",
        f"Working folder: {_one(surroundings.cwd)} ({'in a' if surroundings.repository else 'not in a'} Git repository)",
        *(f"Further folder: {_one(root)}" for root in surroundings.roots),
        f"System: {_one(surroundings.platform)}; shell: {_one(surroundings.shell)}",
        f"The session began on {surroundings.day.isoformat()}.",
    ]
    return "\n".join(lines)


def _mode(mode: Mode) -> str:
    return f'Mode: {mode}. The user was told: "{DESCRIPTIONS[mode]}"{_ADVICE.get(mode, "")}'


_ADVICE: dict[Mode, str] = {
    "plan": " Find out what is needed, then propose the plan with leave_plan_mode; do not try to change anything before.",
    "read-only": " Do not try to change anything; say what you would change.",
}


def _one(value: str) -> str:
    """On one line: a folder may have any name, also one that looks like the next line of this text."""
    return one_line(value, 4096)


# MERGED coder.briefing: What the model of a session is told besides the prompts: the system prompt, made once, and notes on what changes later.


class SystemPromptBuilder:
    """What the model knows of where it is, and what it still has to be told."""

    def __init__(self, conversation: "CoderSession", confinement: SessionSandbox) -> None:
        self._conversation = conversation
        self._confinement = confinement
        self._system: str | None = None
        self._mode_in_system: Mode = conversation.mode
        self._told_mode: Mode = conversation.mode
        self._heard: set[str] = set()
        """The MCP servers whose words the model has."""
        self._seen = InstructionsSeen(conversation.session.cwd, conversation.session.additional_directories)

    @property
    def made(self) -> str:
        """The system prompt, if it has been made."""
        return self._system or ""

    async def system(self) -> str:
        """The system prompt: made once, so that providers can keep it; what changes later is told by notes."""
        if self._system is None:
            conversation = self._conversation
            session = conversation.session
            await self._confinement.ready()
            found = await find_instructions(session.cwd, session.additional_directories)
            self._seen = InstructionsSeen(session.cwd, session.additional_directories, found)
            self._told_mode = self._mode_in_system = conversation.mode
            self._system = system_prompt(
                PromptContext(
                    cwd=session.cwd,
                    roots=session.additional_directories,
                    platform=f"{platform.system()} {platform.release()} ({platform.machine()})",
                    shell=os.path.basename(shutil.which("bash") or "sh"),
                    day=datetime.now().astimezone().date(),
                    repository=_in_repository(session.cwd),
                    mode=self._told_mode,
                    boundary=self._confinement.summary(),
                    instructions=found,
                    client_prompt=session.system_prompt,
                )
            )
        return self._system

    def forget(self) -> None:
        """Make the system prompt anew for the next turn: the files with instructions have changed."""
        self._system = None

    def context_lost(self) -> None:
        """The model has forgotten what it was told on the way: it is told again when it matters."""
        self._seen.forget()
        self._heard.clear()
        self._told_mode = self._mode_in_system

    async def notes(self, toolbox: ToolRunner) -> list[UserMessage]:
        """What is to be told before the next request: another mode, instructions on the way, servers' words."""
        notes: list[UserMessage] = []
        mode = self._conversation.mode
        if mode != self._told_mode:
            self._told_mode = mode
            notes.append(note(mode_note(mode)))
        touched, toolbox.touched = dict.fromkeys(toolbox.touched), []
        nested = [await self._seen.nested(path) for path in touched]
        notes += [note(told(found)) for found in nested if found]
        if (servers := self._conversation.mcp) is not None:
            for name, words in servers.instructions.items():
                if name not in self._heard:
                    self._heard.add(name)
                    notes.append(note(fenced("server", words, name=name)))
        return notes


def _in_repository(folder: str) -> bool:
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
