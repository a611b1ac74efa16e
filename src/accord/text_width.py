"""How many cells of a terminal a text takes, how much of it fits, and how a number of things is written."""

import unicodedata
from functools import lru_cache
from typing import Final

EMOJI_SELECTOR: Final = "\ufe0f"
"""Follows a character of one cell and shows it as an emoji, which may take two cells."""


def count_text(number: int, noun: str) -> str:
    """Format a count: `1 line`, `2,000 lines`."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def cell_width(text: str) -> int:
    """Return the cells of a text of one line without escape sequences."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def cut_to_width(text: str, width: int) -> str:
    """Shorten a text to a number of cells; an ellipsis marks the cut."""
    if cell_width(text) <= width:
        return text
    return text[: fitting_length(text, max(width - 1, 0))] + "…" if width > 0 else ""


def fitting_length(text: str, width: int) -> int:
    """Return how many characters from the start of a text fit into a number of cells."""
    if text.isascii():
        return min(len(text), max(width, 0))
    used = 0
    for number, char in enumerate(text):
        used += _char_width(char)
        if used > width:
            return number
    return len(text)


def is_wide(char: str) -> bool:
    """Tell whether a character takes two cells. A line may be broken on either side of it."""
    return _char_width(char) == 2


def is_combining(char: str) -> bool:
    """Tell whether a character combines with the one before it."""
    return char == EMOJI_SELECTOR or _char_width(char) == 0


@lru_cache(maxsize=4096)
def _char_width(char: str) -> int:
    """Return the cells of a character; where terminals differ, the largest number."""
    category = unicodedata.category(char)
    if char == EMOJI_SELECTOR:
        return 1
    if category in ("Mn", "Me", "Cf"):
        return 0
    if "\U0001f1e6" <= char <= "\U0001f1ff" or (category == "Cn" and "\U0001f000" <= char <= "\U0001faff"):
        return 2  # flags, and emoji that are newer than the tables of this Python
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
