"""What somebody is to judge: whole, with everything spelled out that could hide or rewrite something."""

from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual.strip import Strip

from accord.cleaning import visible
from accord.tui.parts.code import highlighted
from accord.tui.parts.part import Part, folded, lines_of, strip_of

if TYPE_CHECKING:
    from accord.tui.palette import Palette

_MOST_LINES: Final = 5_000


class JudgedPart(Part):
    """Some lines of that."""

    gap = 0

    def __init__(self, text: str, *, strong: bool = False, code: bool = False, quoted: bool = False) -> None:
        super().__init__()
        self.text = text
        self._strong = strong
        self._code = code
        self._quoted = quoted  # the agent's own words: nothing in them can pass for ours

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        source = self.text.split("\n")
        lines = [visible(line.expandtabs(4)) for line in source[:_MOST_LINES]]
        if len(source) > _MOST_LINES:
            lines.append(f"… and {len(source) - _MOST_LINES} lines more")
        style = palette.strong if self._strong else palette.text
        texts = (
            highlighted("\n".join(lines), "bash", palette)
            if self._code
            else [Text(line, style) for line in lines]
        )
        lead = Text("│ ", palette.faint) if self._quoted else Text()
        out: list[Strip] = []
        for text in texts:
            out += [strip_of(lead.copy().append_text(piece)) for piece in folded(text, max(width - 2, 1))]
        return out

    def estimate(self, width: int) -> int:
        return lines_of(self.text, width)
