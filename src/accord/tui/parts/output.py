"""What a command printed: its colours, live, the last lines of it while it is folded."""

from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual.strip import Strip

from accord.tui.parts.ansi import painted
from accord.tui.parts.part import Part, folded, strip_of

if TYPE_CHECKING:
    from accord.tui.palette import Palette

FOLDED_LINES: Final = 8
MOST_LINES: Final = 2_000
_CHARACTERS: Final = 16 * 1024
_LONGEST_LINE: Final = 4_000


class OutputPart(Part):
    """Output, below the line of what printed it."""

    gap = 0

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = text
        self.folded = True
        self.ended = ""
        """How it ended, where that is worth a line."""

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        most = FOLDED_LINES if self.folded else MOST_LINES
        text = self.text[-_CHARACTERS:] if self.folded else self.text
        lines = painted(unfenced(text)) if text.strip() else []
        while lines and not lines[-1].plain.strip():
            lines.pop()
        cut = len(text) < len(self.text)
        shown: list[Text] = []
        for line in lines[-most:]:
            line.truncate(_LONGEST_LINE)
            shown += folded(line, max(width - 7, 1))
        shown = shown[-most:] if self.folded else shown
        left = len(lines) - min(len(lines), most)
        out = (
            [Text(f"… {left} lines before" if not cut else "… more before", palette.faint)]
            if left or cut
            else []
        )
        out += shown
        if self.ended:
            out.append(Text(self.ended, palette.bad))
        return [strip_of(Text("    │ ", palette.faint).append_text(line)) for line in out]

    def estimate(self, width: int) -> int:
        lines = self.text.count("\n", 0, _CHARACTERS) + 1
        return min(lines, FOLDED_LINES + 1) if self.folded else min(lines, MOST_LINES)


def unfenced(text: str) -> str:
    """Without the fence that agents put around output."""
    lines = text.strip("\n").split("\n")
    if lines and lines[0].startswith("```"):
        lines = lines[1:]
    if lines and lines[-1].strip() == "```":
        lines = lines[:-1]
    return "\n".join(lines)
