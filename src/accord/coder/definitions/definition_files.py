"""Finds the Markdown files of users and projects that define skills and agents. Reads the disk.

Files of a project are found from the working folder up to the root of its repository. They count once the
user trusts their content. Links are followed only within the repository; the user's own files may be links.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from accord.coder.context.system_prompt import searched_folders
from accord.coder.permissions.project_files import ProjectFile, read_bounded
from accord.policy.trust_store import TrustStore
from accord.safe_text import one_line

MAX_FILES: Final = 200
"""The maximum number of files of one kind."""
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


@dataclass(frozen=True, slots=True)
class DefinitionFolders:
    """Where files of one kind are."""

    purpose: str
    """What one file defines, such as `skill`."""
    user: Sequence[str]
    """The user's folders, absolute, the most important first."""
    project: Sequence[str]
    """The folders in each folder of the project."""
    file_name: str = ""
    """The name of a file that has a folder of its own. Without, every Markdown file counts."""

    def find(self, cwd: str) -> Iterator[DefinitionFile | str]:
        """The files in order of importance, nearest first; and a line for each that cannot be used."""
        chain = searched_folders(os.path.realpath(cwd), os.path.realpath(os.path.expanduser("~")))
        users = {os.path.realpath(folder) for folder in self.user}
        seen: set[str] = set()
        trust_store = TrustStore()
        for folder in (os.path.join(parent, name) for parent in chain for name in self.project):
            if os.path.realpath(folder) not in users:
                yield from self._in_folder(folder, seen, chain[-1], trust_store, cwd)
        for folder in self.user:
            yield from self._in_folder(folder, seen, None, trust_store, cwd)

    def _in_folder(
        self, folder: str, seen: set[str], top: str | None, trust_store: TrustStore, cwd: str
    ) -> Iterator[DefinitionFile | str]:
        """The files of one folder. Files of a project lie below `top`."""
        for path in self._paths(folder):
            real = os.path.realpath(path)
            display = one_line(path if top is None else os.path.relpath(path, os.path.realpath(cwd)), 300)
            if real in seen:
                continue
            if len(seen) >= MAX_FILES:
                yield f"`{display}`: only the first {MAX_FILES} files are read"
                return
            parent = os.path.realpath(os.path.dirname(path))
            if top is not None and {os.path.commonpath((top, one)) for one in (real, parent)} != {top}:
                yield f"`{display}`: it is a link that leads out of the project"
                continue
            seen.add(real)
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
            if top is not None and not trust_store.is_trusted(real, content):
                untrusted = ProjectFile(display, real, content, self.purpose)
            place = os.path.dirname(path) if self.file_name else os.path.splitext(path)[0]
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
            if self.file_name and self.file_name in names:
                found.append(os.path.join(parent, self.file_name))
                continue
            for name in names:
                path = os.path.join(parent, name)
                if name.startswith(".") or name in _SKIPPED_FOLDERS:
                    continue
                if depth < 2 and os.path.isdir(path):
                    folders.append((path, depth + 1))
                elif not self.file_name and name.endswith(".md") and not os.path.isdir(path):
                    found.append(path)
        return found


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
