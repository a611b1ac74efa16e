"""The files of the session's folder, found by a few letters of their path. What git ignores is left out."""

import os
from collections.abc import Iterable, Iterator
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


def ranked(paths: Iterable[str], letters: str, most: int = 50) -> list[str]:
    """The paths that have these letters in this order, the best first."""
    wanted = letters.casefold()
    if not wanted:
        return [path for _, path in zip(range(most), paths, strict=False)]
    scored = [(score, path) for path in paths if (score := _score(path, wanted)) is not None]
    scored.sort(key=lambda found: (-found[0], len(found[1]), found[1]))
    return [path for _, path in scored[:most]]


def _score(path: str, wanted: str) -> float | None:
    """How well it fits: letters side by side, at the beginning of words and in the name itself count more."""
    folded = path.casefold()
    name = folded.rstrip("/").rpartition("/")[2]
    if wanted in name:
        return 200.0 + (60 if name.startswith(wanted) else 0) - len(path) / 10
    if wanted in folded:
        return 150.0 - len(path) / 10
    score, at, before = 0.0, 0, -2
    for letter in wanted:
        at = folded.find(letter, at)
        if at < 0:
            return None
        score += 3 if at == before + 1 else 2 if at == 0 or folded[at - 1] in "/_-. " else 0
        before, at = at, at + 1
    return score - len(path) / 50
