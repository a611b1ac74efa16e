"""Finds files that a command created or changed and that steer other programs, and distrusts them.

Existing ones are read-only in bubblewrap, but new ones can only be noticed afterwards. Accord does not use
them until the user trusts them. What git would use at once is moved aside.

Imported on first use.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from accord.policy.sandbox.filesystem_view import steering_files
from accord.policy.trust_store import TrustStore

SteeringState: TypeAlias = dict[str, tuple[int, int, int]]
"""The steering files by path, with what changes when they are written: inode, time and size.

A command can set the time of the content, but not that of the last change.
"""

_MAX_FILES: Final = 1000
_ASIDE: Final = ".untrusted"


class SteeringWatch:
    """Watches the roots of a session. Its methods read the disk and block."""

    def __init__(self, roots: Sequence[str], trust_store: TrustStore | None = None) -> None:
        self._roots = tuple(os.path.realpath(root) for root in roots)
        self._trust_store = trust_store or TrustStore()
        self.unreported: list[str] = []
        """Notes for the model on commands that ended unnoticed: background jobs and cancelled ones."""

    def state(self) -> SteeringState:
        """Return the steering files as they are now."""
        paths, _ = steering_files(self._roots, watched=True)
        return dict(_signatures(paths))

    def changes(self, before: SteeringState) -> list[str]:
        """Return what is new or changed since then. None of it is trusted any more."""
        changed = [path for path, signature in self.state().items() if before.get(path) != signature]
        for path in changed:
            self._trust_store.distrust(path)
        return [_moved_aside(path, before) for path in changed]


def _signatures(paths: Iterable[str]) -> Iterator[tuple[str, tuple[int, int, int]]]:
    for path in paths:
        for file in _files_in(path) if os.path.isdir(path) and not os.path.islink(path) else (path,):
            try:
                found = os.lstat(file)
            except OSError:
                continue  # it was removed meanwhile
            yield file, (found.st_ino, found.st_ctime_ns, found.st_size)


def _files_in(folder: str) -> list[str]:
    files: list[str] = []
    for parent, _, names in os.walk(folder):
        files += (os.path.join(parent, name) for name in names if not name.endswith((".sample", _ASIDE)))
        if len(files) > _MAX_FILES:
            break
    return files[:_MAX_FILES]


def _moved_aside(path: str, before: SteeringState) -> str:
    """Rename what git would use at once in a repository that existed before. Return the path it has now."""
    folder, name = os.path.split(path)
    in_hooks = os.path.basename(folder) == "hooks"
    git_dir = os.path.dirname(folder) if in_hooks else folder
    is_used_by_git = in_hooks or name in ("hooks", "commondir", "config.worktree")
    if not is_used_by_git or path in before or os.path.join(git_dir, "config") not in before:
        return path
    try:
        os.rename(path, path + _ASIDE)
    except OSError:
        return path
    return path + _ASIDE
