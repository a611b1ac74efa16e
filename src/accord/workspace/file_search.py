"""Fuzzy file search for pickers: lists the files of a folder without those that git ignores, and ranks names.

Blocking: run it in a thread. The number of files is bounded.
"""

import os
import re
from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import Final

MAX_FILES: Final = 50_000
"""The maximum number of names that a picker knows."""

_MAX_SCORED: Final = 5_000
_SKIPPED_FOLDERS: Final = frozenset((
    ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache",
    ".ruff_cache",
))  # fmt: skip


class NameIndex:
    """Names that are searched often, for example at every key: 50,000 in a few milliseconds."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(names, key=lambda name: (name.count("/"), name))
        entries = ((name.casefold(), name) for name in self._names)
        # The order of the results: short last parts first.
        self._entries = sorted(
            ((text, _base(text), _letter_bits(text), name) for text, name in entries),
            key=lambda entry: (len(entry[1]), len(entry[0])),
        )

    def best(self, query: str, max_results: int = 20) -> list[str]:
        """Return the names that match best.

        Names whose last part starts with the query come first, then those whose last part contains it, then
        those that contain it, then those with its letters in this order. Without a query, the names in the
        outermost folders come first.
        """
        letters = query.casefold()
        if not letters:
            return self._names[:max_results]
        containing = [entry for entry in self._entries if letters in entry[0]]
        found: dict[str, None] = {}
        for matches in (
            (name for _, base, _, name in containing if base.startswith(letters)),
            (name for _, base, _, name in containing if letters in base),
            (name for _, _, _, name in containing),
            self._in_order(letters, max_results),
        ):
            for name in matches:
                found[name] = None
                if len(found) == max_results:
                    return list(found)
        return list(found)

    def _in_order(self, letters: str, max_results: int) -> Iterator[str]:
        wanted = _letter_bits(letters)
        in_order = re.compile(".*?".join(map(re.escape, letters)), re.DOTALL).search
        candidates = ((text, name) for text, _, bits, name in self._entries if bits & wanted == wanted)
        names = islice((name for text, name in candidates if in_order(text)), _MAX_SCORED)
        yield from nlargest(max_results, names, key=lambda name: match_score(letters, name) or 0)


def _letter_bits(text: str) -> int:
    """Which letters a text contains, as bits; several letters may share one."""
    bits = 0
    for letter in set(text):
        bits |= 1 << (ord(letter) & 63)
    return bits


def best_matches(query: str, names: Iterable[str], max_results: int = 20) -> list[str]:
    """Return the names that match a query best, as `NameIndex.best` does."""
    return NameIndex(names).best(query, max_results)


def _base(folded: str) -> str:
    """The last part of a path."""
    return folded[folded.rstrip("/").rfind("/") + 1 :]


def match_score(letters: str, name: str) -> int | None:
    """Return how well a name matches the case-folded letters; None if it does not contain them in order."""
    folded = name.casefold()
    base = _base(folded)
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
    start = len(str(Path(folder) / "x")) - 1  # `os.path.relpath` would take most of the time
    while True:
        try:
            path = str(next(entries))
        except StopIteration:
            return
        except (ValueError, OSError):
            continue  # a name that is not valid text, or a folder without access
        if len(path) > start:
            yield path[start:]


def _plain_walk(folder: str) -> Iterator[str]:
    """Walk without `rignore`: skip common generated folders by name."""
    for current, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for name in (*(f"{name}/" for name in folders), *sorted(files)):
            path = os.path.relpath(os.path.join(current, name), folder) + ("/" if name.endswith("/") else "")
            if path.isprintable():
                yield path
