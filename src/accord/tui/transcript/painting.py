"""What lies over a drawn line: the mark of an item, and what the mouse has selected."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.selection import Selection

_MOST_COPIED: Final = 20_000
"""Lines of a selection that are copied."""


def marked(strip: Strip, style: Style) -> Strip:
    """With the mark at its left edge."""
    return Strip.join([Strip([Segment("▎", style)], 1), strip.crop(1)])


def selected(strip: Strip, span: tuple[int, int] | None, style: Style) -> Strip:
    """With the selected cells, up to -1 for its end, in the style of the selection."""
    if span is None:
        return strip
    start, end = span
    end = strip.cell_length if end == -1 else end
    before, chosen, after = strip.crop(0, start), strip.crop(start, end), strip.crop(end)
    return Strip.join([before, chosen.apply_style(style), after])


def selected_text(selection: "Selection", height: int, text_at: Callable[[int], str]) -> str:
    """What is selected of so many lines."""
    first = 0 if selection.start is None else selection.start.y
    last = height - 1 if selection.end is None else selection.end.y
    lines: list[str] = []
    for line in range(first, min(last, first + _MOST_COPIED) + 1):
        span = selection.get_span(line)
        if span is not None:
            start, end = span
            text = text_at(line)
            lines.append(text[start:] if end == -1 else text[start:end])
    return "\n".join(lines)
