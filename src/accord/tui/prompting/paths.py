"""Text that is pasted or dropped and is nothing but paths: those files are meant."""

import os
import shlex
from typing import Final
from urllib.parse import unquote, urlsplit

_LONGEST: Final = 4_000
_MOST: Final = 20


def dropped_paths(text: str) -> list[str]:
    """The absolute paths of existing files, if the text holds nothing else; terminals drop them quoted, escaped or as addresses."""
    text = text.strip()
    if not text or len(text) > _LONGEST or "\0" in text:
        return []
    if _is_file(text):
        return [_path(text)]
    lines = text.splitlines()
    words = [line.strip() for line in lines if line.strip()] if len(lines) > 1 else _words(text)
    if not 0 < len(words) <= _MOST or not all(map(_is_file, words)):
        return []
    return list(dict.fromkeys(map(_path, words)))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _path(word: str) -> str:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    return os.path.expanduser(word)


def _is_file(word: str) -> bool:
    path = _path(word)
    try:
        return os.path.isabs(path) and os.path.isfile(path)
    except (OSError, ValueError):
        return False
