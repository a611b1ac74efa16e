"""The instruction files that a model is given: the user's own, and those of the project, nearest first.

They are found by name alone, so nothing here may lead out of what the session works in: links are followed only within
it, secrets are never read, and of everything only so much.
"""

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from accord.coder.context.fence import fenced
from accord.paths import config_dir
from accord.workspace.folder import Folder

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
    from accord.policy.secretfiles import is_secret

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
