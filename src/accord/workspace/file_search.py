"""Finding a file by a few letters of its name: the files of a folder as git sees them, and how well each fits.

For pickers: blocking, for a thread; bounded in how much it looks at.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

LOOKED_AT: Final = 50_000
"""Files that are looked at, at most."""

_NEVER: Final = frozenset(
    (
        ".git",
        ".hg",
        ".svn",
        "node_modules",
        "__pycache__",
        ".venv",
        "venv",
        ".tox",
        ".mypy_cache",
        ".ruff_cache",
    )
)


def files_of(folder: str, most: int = LOOKED_AT) -> list[str]:
    """The files below a folder, as paths relative to it; what git ignores is left out where `rignore` is installed."""
    return list(islice((path for path in paths_of(folder) if not path.endswith("/")), most))


def best_matches(query: str, names: Iterable[str], most: int = 20) -> list[str]:
    """The names that hold the letters of the query in that order, the best first; without a query, the shallowest."""
    wanted = query.casefold()
    if not wanted:
        return sorted(names, key=lambda name: (name.count("/"), name))[:most]
    ranked: list[tuple[int, int, str]] = []
    for name in names:
        score = fit(wanted, name)
        if score is not None:
            ranked.append((-score, len(name), name))
    ranked.sort()
    return [name for _, _, name in ranked[:most]]


def fit(wanted: str, name: str) -> int | None:
    """How well a name fits the letters, which are case-folded; None where it does not hold them in that order."""
    folded = name.casefold()
    place = folded.rstrip("/").rfind("/") + 1
    base = folded[place:]
    if wanted in base:
        return 1000 + (500 if base.startswith(wanted) else 0) + (500 if base == wanted else 0) - len(base)
    if wanted in folded:
        return 600 - len(folded)
    score, at = 0, 0
    for letter in wanted:
        found = folded.find(letter, at)
        if found < 0:
            return None
        starts = found == 0 or folded[found - 1] in "/_-. "
        score += 8 if starts else 4 if found == at else 0
        at = found + 1
    return score


def paths_of(folder: str) -> Iterator[str]:
    """Files and folders below a folder, relative to it, folders with a slash at their end; as `files_of` sees them. Blocking."""
    try:
        for path in git_paths(folder):
            yield path + "/" if os.path.isdir(os.path.join(folder, path)) else path
    except ImportError:
        yield from _plain_walk(folder)


def git_paths(folder: str, depth: int | None = None) -> Iterator[str]:
    """Everything below a folder that git would look at, relative to it, hidden files included; links are not followed, and names
    that are no valid text are left out. Blocking. Raises ImportError, before anything else, where `rignore` is not installed.
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
            continue  # a name that is no text, or a folder that may not be entered
        if path != os.curdir:
            yield path


def _plain_walk(folder: str) -> Iterator[str]:
    """Without the library that reads what git ignores: what nobody wants to see is left out by name."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NEVER)
        for name in (*(f"{name}/" for name in folders), *sorted(files)):
            path = os.path.relpath(os.path.join(here, name), folder) + ("/" if name.endswith("/") else "")
            if path.isprintable():
                yield path
