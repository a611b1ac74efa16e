"""Finds the Markdown files of users and projects that define skills and agents. Reads the disk.

Files of a project are found from the working folder up to the root of its repository. They count once the
user trusts their content. Links are followed only within the repository; the user's own files may be links.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from accord.coder.definitions.definition_folders import DefinitionFolders, project_chain
from accord.coder.permissions.project_files import ProjectFile, read_bounded
from accord.policy.trust_store import TrustStore
from accord.safe_text import one_line

MAX_FILES: Final = 200
"""The maximum number of files of one kind, each of the project and of the user."""
_MAX_ENTRIES: Final = 2000
"""The maximum number of folder entries that are looked at below one folder."""
_SKIPPED_FOLDERS: Final = (".git", "node_modules")


@dataclass(frozen=True, slots=True)
class DefinitionFile:
    """One file, as it was when it was read."""

    name: str
    """The name that its place gives: of the file without suffix, or of the folder that holds it."""
    path: str
    """The absolute path, with links resolved."""
    folder: str
    """The absolute path of the folder that it was found in, with links resolved."""
    display_path: str
    text: str
    project: bool
    """Whether it belongs to the project; else it is the user's."""
    untrusted: ProjectFile | None = None
    """The file, if the user has to trust it first."""


class UnusableDefinition(Exception):
    """Why a file cannot be used. `line` is the first line of its header that cannot be read."""

    def __init__(self, reason: str, line: str = "") -> None:
        super().__init__(f"{reason}; {unreadable_header(line)}" if line else reason)


def unreadable_header(line: str) -> str:
    """A remark about the first line of a header that cannot be read."""
    return f"its header cannot be read at: {one_line(line, 100)}"


class _FileSearch:
    """One search in the folders of one kind."""

    def __init__(self, folders: DefinitionFolders, cwd: str) -> None:
        self._folders = folders
        self._cwd = os.path.realpath(cwd)
        self._seen: set[str] = set()
        self._read = [0, 0]
        """The number of files of the project, and of the user: the project must not displace those."""
        self._trust_store = TrustStore()

    def find(self) -> Iterator[DefinitionFile | str]:
        """The files in order of importance, nearest first; and a line for each that cannot be used."""
        chain = project_chain(self._cwd)
        users = {os.path.realpath(folder) for folder in self._folders.user}
        for folder in (os.path.join(parent, name) for parent in chain for name in self._folders.project):
            if os.path.realpath(folder) not in users:
                yield from self._in_folder(folder, chain[-1])
        for folder in self._folders.user:
            yield from self._in_folder(folder, None)

    def _in_folder(self, folder: str, top: str | None) -> Iterator[DefinitionFile | str]:
        """The files of one folder. Files of a project lie below `top`."""
        for path in self._paths(folder):
            real = os.path.realpath(path)
            display = one_line(path if top is None else os.path.relpath(path, self._cwd), 300)
            if real in self._seen:
                continue
            if self._read[top is None] >= MAX_FILES:
                yield f"`{display}`: only the first {MAX_FILES} files are read"
                return
            parent = os.path.realpath(os.path.dirname(path))
            if top is not None and {os.path.commonpath((top, one)) for one in (real, parent)} != {top}:
                yield f"`{display}`: it is a link that leads out of the project"
                continue
            self._seen.add(real)
            self._read[top is None] += 1
            try:
                content = read_bounded(real)
                text = content.decode("utf-8-sig")
            except OSError as error:
                yield f"`{display}`: {error.strerror or error}"
                continue
            except UnicodeDecodeError:
                yield f"`{display}`: it is not UTF-8"
                continue
            untrusted = None
            if top is not None and not self._trust_store.is_trusted(real, content):
                untrusted = ProjectFile(display, real, content, self._folders.purpose)
            place = os.path.dirname(path) if self._folders.file_name else os.path.splitext(path)[0]
            yield DefinitionFile(
                os.path.basename(place), real, parent, display, text, top is not None, untrusted
            )

    def _paths(self, folder: str) -> list[str]:
        """The files below a folder, sorted by name, at most two levels deep."""
        found: list[str] = []
        folders, entries = [(folder, 0)], 0
        while folders:
            parent, depth = folders.pop(0)
            try:
                names = sorted(os.listdir(parent))[: _MAX_ENTRIES - entries]
            except OSError:
                continue
            entries += len(names)
            if self._folders.file_name and self._folders.file_name in names:
                found.append(os.path.join(parent, self._folders.file_name))
                if depth:
                    continue  # a file of the same name below it belongs to it
            for name in names:
                path = os.path.join(parent, name)
                if name.startswith(".") or name in _SKIPPED_FOLDERS:
                    continue
                if depth < 2 and os.path.isdir(path):
                    folders.append((path, depth + 1))
                elif not self._folders.file_name and name.endswith(".md") and not os.path.isdir(path):
                    found.append(path)
        return found


class Definition(Protocol):
    """A skill or an agent."""

    @property
    def name(self) -> str: ...
    @property
    def display_path(self) -> str: ...
    @property
    def remarks(self) -> tuple[str, ...]:
        """What is wrong with the file, although it is used."""
        ...

    @property
    def untrusted(self) -> ProjectFile | None:
        """The file, if the user has to trust it first."""
        ...


D = TypeVar("D", bound=Definition)


class DefinitionSet(Generic[D]):
    """The definitions of one kind that count in a folder."""

    def __init__(self, folders: DefinitionFolders, parse: Callable[[DefinitionFile], D]) -> None:
        """`parse` raises UnusableDefinition."""
        self._folders = folders
        self._parse = parse
        self.usable: dict[str, D] = {}
        """The trusted definitions by name. Of several with one name, the nearest."""
        self.waiting: list[D] = []
        """Those of the project that the user has not trusted."""
        self.problems: list[str] = []
        """One line for each file that is not used, or used in another way than it says."""

    def load(self, cwd: str) -> None:
        """Read the files again. Blocks: call it in a thread."""
        usable: dict[str, D] = {}
        waiting: list[D] = []
        problems: list[str] = []
        for item in _FileSearch(self._folders, cwd).find():
            if isinstance(item, str):
                problems.append(item)
                continue
            try:
                found = self._parse(item)
            except UnusableDefinition as reason:
                problems.append(f"`{item.display_path}`: {reason}")
                continue
            problems += [f"`{item.display_path}`: {remark}" for remark in found.remarks]
            if found.untrusted is not None:
                waiting.append(found)
            elif found.name in usable:
                used = usable[found.name].display_path
                problems.append(f"`{item.display_path}`: `{used}` has the same name and is nearer")
            else:
                usable[found.name] = found
        self.usable, self.waiting, self.problems = usable, waiting, problems


def files_in(folder: str, limit: int, *, besides: str) -> list[str]:
    """The paths of files below a folder, relative to it, at most `limit`, without the file of one name."""
    found: list[str] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            file = os.path.relpath(os.path.join(parent, name), folder)
            if file != besides and not name.startswith("."):
                found.append(one_line(file, 200))
            if len(found) == limit:
                return found
    return found
