"""The files of the session's folder. What git ignores is left out."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MOST: Final = 50_000
"""Files that are looked at; in larger trees some are not found by letters, and have to be written."""
_SKIPPED: Final = frozenset(
    (".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache")
)


def list_files(folder: str) -> list[str]:
    """Relative paths of files and folders, folders with a slash at their end. Blocking: for a thread."""
    found: list[str] = []
    for path in _walk(folder):
        found.append(path)
        if len(found) >= MOST:
            break
    found.sort(key=lambda path: (path.count("/"), path))
    return found


def _walk(folder: str) -> Iterator[str]:
    try:
        import rignore
    except ImportError:
        yield from _plain_walk(folder)
        return
    entries = iter(
        rignore.walk(
            Path(folder), ignore_hidden=False, require_git=False, follow_links=False, overrides=["!.git"]
        )
    )
    while True:
        try:
            path = str(next(entries))
        except StopIteration:
            return
        except (ValueError, OSError):
            continue  # a name that is no text, or a folder that may not be entered
        relative = os.path.relpath(path, folder)
        if relative != os.curdir:
            yield relative + "/" if os.path.isdir(path) else relative


def _plain_walk(folder: str) -> Iterator[str]:
    """Without the library that reads what git ignores: what nobody wants to see is left out by name."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in (*(f"{name}/" for name in folders), *files):
            yield os.path.relpath(os.path.join(place, name), folder) + ("/" if name.endswith("/") else "")
