"""Mentions in a prompt: `@path` names a file or folder that goes with it.

The text of a prompt may come from anywhere, an issue tracker say. So a mention reaches only what lies in the session's
folders, and no file that holds secrets; everything else has to be attached, which only the user can do.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from accord.policy.secretfiles import is_secret

_MENTION: Final = re.compile(
    r"""(?:(?<=[\s(\[{<"'`,;])|^)@(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"'`<>]+))""", re.MULTILINE
)
_BEHIND: Final = ".,;:!?)]}>"


class Mentions(NamedTuple):
    """What a text mentions."""

    paths: tuple[str, ...]
    """Absolute, in the order of the text, each once."""
    notes: tuple[str, ...]
    """What looks like a mention and is sent as text alone."""


def mentions_in(text: str, folders: Sequence[str], instead: str = "--attach takes it along") -> Mentions:
    """The mentions of a text; relative paths count from the first folder. `instead` says how else a file goes with it."""
    roots = [os.path.realpath(folder) for folder in folders]
    paths: dict[str, None] = {}
    notes: dict[str, None] = {}
    for found in _MENTION.finditer(text.replace("\0", " ")):  # no path has that in it
        quoted = found[1] or found[2]
        for word in (quoted,) if quoted else _spellings(found[3]):
            path = os.path.normpath(os.path.join(folders[0], os.path.expanduser(word)))
            if not _exists(path):
                continue
            problem = _problem(path, roots)
            if problem is None:
                paths[path] = None
            else:
                notes[f"@{word} {problem}: it is sent as text; {instead}"] = None
            break
        else:
            word = quoted or found[3]
            if "/" in word.rstrip("/"):
                notes[f"@{word}: there is no such file; it is sent as text"] = None
    return Mentions(tuple(paths), tuple(notes))


def _spellings(word: str) -> Iterable[str]:
    """The word, then without the punctuation behind it."""
    yield word
    while word and word[-1] in _BEHIND:
        word = word[:-1]
        if word:
            yield word


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:
        return False


def _problem(path: str, roots: Sequence[str]) -> str | None:
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(root) for root in roots):
        return "lies outside the session's folders"
    if is_secret(Path(path)) or is_secret(real):
        return "may hold secrets"
    return None
