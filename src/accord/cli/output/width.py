"""How wide text is on a terminal, in cells: wide characters take two, combining ones none."""

import unicodedata
from functools import lru_cache
from typing import Final

EMOJI_LOOK: Final = "\ufe0f"
"""After a character of one cell: as a picture, which may take two."""


def cells(text: str) -> int:
    """The cells that the text takes. Text of one line, without escape sequences."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def cut(text: str, width: int) -> str:
    """The text, shortened to so many cells with a mark at the end where it is longer."""
    if cells(text) <= width:
        return text
    return text[: fitting(text, max(width - 1, 0))] + "…" if width > 0 else ""


def fitting(text: str, width: int) -> int:
    """How many characters from the beginning fit into so many cells."""
    if text.isascii():
        return min(len(text), max(width, 0))
    used = 0
    for number, char in enumerate(text):
        used += _cell(char)
        if used > width:
            return number
    return len(text)


def is_wide(char: str) -> bool:
    """Whether the character takes two cells; a line may be broken on either side of it."""
    return _cell(char) == 2


def joins(char: str) -> bool:
    """Whether the character belongs to the one before it."""
    return char == EMOJI_LOOK or _cell(char) == 0


@lru_cache(maxsize=4096)
def _cell(char: str) -> int:
    """Where terminals differ, the most that one of them takes."""
    category = unicodedata.category(char)
    if char == EMOJI_LOOK:
        return 1
    if category in ("Mn", "Me", "Cf"):
        return 0
    if "\U0001f1e6" <= char <= "\U0001f1ff" or (category == "Cn" and "\U0001f000" <= char <= "\U0001faff"):
        return 2  # flags, and pictures that are newer than the tables of this Python
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
