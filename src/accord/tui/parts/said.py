"""What the user said, and what the agent thought."""

from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual.strip import Strip

from accord.cleaning import clean_text
from accord.tui.parts.markdown import WIDEST
from accord.tui.parts.part import Part, lines_of, strip_of, wrapped

if TYPE_CHECKING:
    from accord.tui.palette import Palette

_LONGEST: Final = 40
"""Lines of a prompt that are shown while it is folded."""


class PromptPart(Part):
    """A prompt, on a ground of its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.folded = True

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        lines: list[Text] = []
        for line in clean_text(self.text).expandtabs(4).split("\n"):
            lines += wrapped(Text(line, palette.text), min(width - 3, WIDEST))
        if self.folded and len(lines) > _LONGEST:
            left = len(lines) - _LONGEST
            lines = [*lines[:_LONGEST], Text(f"… {left} more lines", palette.muted)]
        return [
            strip_of(Text("▌ ", palette.bar).append_text(line), ground=palette.user, width=width)
            for line in lines
        ]

    def estimate(self, width: int) -> int:
        return lines_of(self.text, min(width, WIDEST))


class ThoughtPart(Part):
    """A thought: one line that tells of it while it is folded."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.folded = True
        self.took: str = ""
        """How long it took, once it is over and that is known."""
        self.going_on = False

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        cleaned = clean_text(self.text).strip()
        head = "Thinking…" if self.going_on else f"Thought for {self.took}" if self.took else "Thought"
        line = Text("  ").append("▸ " if self.folded else "▾ ", palette.faint).append(head, palette.muted)
        if self.folded:
            glimpse = (cleaned[-400:] if self.going_on else cleaned[:400]).split("\n")
            words = next(
                (text for text in (reversed(glimpse) if self.going_on else glimpse) if text.strip()), ""
            )
            line.append(f"  {words.strip()}", palette.faint)
            line.truncate(width, overflow="ellipsis")
            return [strip_of(line)]
        lines = [line]
        for text in cleaned.split("\n"):
            pieces = wrapped(Text(text, palette.muted), min(width - 6, WIDEST))
            lines += [Text("  │ ", palette.faint).append_text(piece) for piece in pieces]
        return [strip_of(line) for line in lines]

    def estimate(self, width: int) -> int:
        return 1 if self.folded else lines_of(self.text, width)
