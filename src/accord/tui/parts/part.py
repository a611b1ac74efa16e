"""One part of the conversation: a piece that is drawn, measured and forgotten on its own.

A part knows how to make its lines for a width. Whether they are kept is the layout's business, so what is far from the screen costs
only its text.
"""

from collections.abc import Iterable
from functools import lru_cache
from io import StringIO
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

if TYPE_CHECKING:
    from accord.tui.palette import Palette


class Part:
    """Something that is drawn. `height` and `kept` belong to the layout."""

    gap = 1
    """Empty lines above it."""

    def __init__(self) -> None:
        self.height: int | None = None
        self.kept: list[Strip] | None = None

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        """Its lines, none wider than the width."""
        raise NotImplementedError

    def estimate(self, width: int) -> int:
        """About how many lines that will be, without drawing them."""
        return 1

    def forget(self) -> None:
        """It has changed: it is drawn and measured anew."""
        self.height = self.kept = None


@lru_cache(maxsize=1)
def console() -> Console:
    """What rich's texts are rendered with; it writes nowhere."""
    return Console(
        width=1000, color_system="truecolor", force_terminal=True, file=StringIO(), legacy_windows=False
    )


def strip_of(text: Text, *, ground: Style | None = None, width: int = 0) -> Strip:
    """A text of one line as a strip; with a ground it is filled up to the width."""
    if text.spans:
        segments = list(text.render(console()))
    else:  # rich leaves the style of the whole to whoever prints it
        segments = [Segment(text.plain, console().get_style(text.style))]
    strip = Strip(segments, cell_len(text.plain))
    if ground is None:
        return strip
    if strip.cell_length < width:
        strip = strip.extend_cell_length(width)
    return strip.apply_style(ground)


def wrapped(text: Text, width: int) -> list[Text]:
    """The text on lines of at most so many cells, broken between words where that goes."""
    if "\n" not in text.plain and cell_len(text.plain) <= width:
        return [text]
    return list(text.wrap(console(), max(width, 1), overflow="fold", tab_size=4)) or [text]


def folded(text: Text, width: int) -> list[Text]:
    """One line of code or output on as many lines as it needs, broken anywhere: its spaces stay as they are."""
    if cell_len(text.plain) <= width:
        return [text]
    cuts: list[int] = []
    used = 0
    for at, char in enumerate(text.plain):
        cells = 1 if char.isascii() else cell_len(char)
        if used + cells > width:
            cuts.append(at)
            used = 0
        used += cells
    return list(text.divide(cuts))


def indented(lines: Iterable[Text], first: Text, rest: str | Text) -> list[Text]:
    """The lines with something in front of the first, and of the others."""
    out: list[Text] = []
    for number, line in enumerate(lines):
        lead = first.copy() if number == 0 else Text(rest) if isinstance(rest, str) else rest.copy()
        out.append(lead.append_text(line))
    return out or [first]


def lines_of(text: str, width: int) -> int:
    """About how many lines a text takes."""
    return text.count("\n") + 1 + len(text) // max(width, 1)
