"""How things look: colours where they are wanted, signs that the stream can encode."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

Look: TypeAlias = tuple[int, ...]
"""What a terminal is told before a piece of text: the numbers of its rendition, none for plain."""

PLAIN: Final[Look] = ()
BOLD: Final[Look] = (1,)
DIM: Final[Look] = (2,)
ITALIC: Final[Look] = (3,)
UNDERLINE: Final[Look] = (4,)
STRUCK: Final[Look] = (9,)
RED: Final[Look] = (31,)
GREEN: Final[Look] = (32,)
YELLOW: Final[Look] = (33,)
CYAN: Final[Look] = (36,)


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of a stream."""

    pending: str = "○"
    running: str = "●"
    done: str = "✓"
    failed: str = "✗"
    cancelled: str = "⊘"
    unknown: str = "?"
    bullet: str = "•"
    unticked: str = "☐"
    ticked: str = "☑"
    bar: str = "│"
    rule: str = "─"
    dot: str = "·"
    notice: str = "!"
    child: str = "◇"
    more: str = "…"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


UNICODE: Final = Signs()
ASCII: Final = Signs("o", "*", "+", "x", "-", "?", "-", "[ ]", "[x]", "|", "-", "-", "!", ">", "...", "|/-\\")


@dataclass(frozen=True, slots=True)
class Style:
    """Paints, or leaves the text as it is."""

    colour: bool = False
    signs: Signs = UNICODE

    def paint(self, text: str, look: Look) -> str:
        """The text in that look; it ends with the plain one, so that nothing behind it is touched."""
        if not self.colour or not look or not text:
            return text
        return f"\x1b[{';'.join(map(str, look))}m{text}\x1b[0m"


def wants_colour(terminal: bool, environment: Mapping[str, str] | None = None) -> bool:
    """Whether to colour: on a terminal, unless the user's environment says otherwise. `NO_COLOR` wins."""
    given = os.environ if environment is None else environment
    if given.get("NO_COLOR"):
        return False
    forced = given.get("FORCE_COLOR")
    if forced:
        return forced not in ("0", "false")
    return terminal and given.get("TERM") != "dumb"


def signs_for(encoding: str | None) -> Signs:
    """The signs that such a stream can hold."""
    try:
        "✓⠋☑".encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
