"""Fuzzy file search for pickers: lists the files of a folder without those that git ignores, and ranks names.

Blocking: run it in a thread. The number of files is bounded.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

MAX_FILES: Final = 50_000
"""The maximum number of files that a search lists."""

_SKIPPED_FOLDERS: Final = frozenset((
    ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache",
    ".ruff_cache",
))  # fmt: skip


def files_of(folder: str, max_files: int = MAX_FILES) -> list[str]:
    """Return the files below a folder as relative paths.

    Leaves out ignored files if `rignore` is installed.
    """
    return list(islice((path for path in paths_of(folder) if not path.endswith("/")), max_files))


def best_matches(query: str, names: Iterable[str], max_results: int = 20) -> list[str]:
    """Return the names that contain the letters of the query in order, best match first.

    Without a query, the names in the outermost folders come first.
    """
    letters = query.casefold()
    if not letters:
        return sorted(names, key=lambda name: (name.count("/"), name))[:max_results]
    ranked: list[tuple[int, int, str]] = []
    for name in names:
        score = match_score(letters, name)
        if score is not None:
            ranked.append((-score, len(name), name))
    ranked.sort()
    return [name for _, _, name in ranked[:max_results]]


def match_score(letters: str, name: str) -> int | None:
    """Return how well a name matches the case-folded letters; None if it does not contain them in order."""
    folded = name.casefold()
    base = folded[folded.rstrip("/").rfind("/") + 1 :]
    if letters in base:
        return 1000 + (500 if base.startswith(letters) else 0) + (500 if base == letters else 0) - len(base)
    if letters in folded:
        return 600 - len(folded)
    score, position = 0, 0
    for letter in letters:
        found = folded.find(letter, position)
        if found < 0:
            return None
        starts_word = found == 0 or folded[found - 1] in "/_-. "
        score += 8 if starts_word else 4 if found == position else 0
        position = found + 1
    return score


def paths_of(folder: str) -> Iterator[str]:
    """Yield the relative paths of files and folders below a folder. Folders end with a slash. Blocking."""
    try:
        for path in git_paths(folder):
            yield path + "/" if os.path.isdir(os.path.join(folder, path)) else path
    except ImportError:
        yield from _plain_walk(folder)


def git_paths(folder: str, depth: int | None = None) -> Iterator[str]:
    """Yield the relative paths below a folder that git does not ignore, hidden files included. Blocking.

    Does not follow links. Leaves out names that are not valid text. Raises ImportError first if `rignore` is
    missing.
    """
    import rignore

    entries = iter(
        rignore.walk(
            Path(folder),
            ignore_hidden=False,
            require_git=False,
            follow_links=False,
            overrides=["!.git"],
            max_depth=depth,
        )
    )
    while True:
        try:
            path = os.path.relpath(str(next(entries)), folder)
        except StopIteration:
            return
        except (ValueError, OSError):
            continue  # a name that is not valid text, or a folder without access
        if path != os.curdir:
            yield path


def _plain_walk(folder: str) -> Iterator[str]:
    """Walk without `rignore`: skip common generated folders by name."""
    for current, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for name in (*(f"{name}/" for name in folders), *sorted(files)):
            path = os.path.relpath(os.path.join(current, name), folder) + ("/" if name.endswith("/") else "")
            if path.isprintable():
                yield path
