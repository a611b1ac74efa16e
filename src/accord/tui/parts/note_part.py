"""Notes of the client as parts of the transcript."""

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from rich.text import Text
from textual.strip import Strip

from accord.safe_text import clean_text
from accord.tui.parts.markdown_part import MAX_WIDTH
from accord.tui.parts.part import DrawnPart, prefix_lines, strip_of, wrap_words

if TYPE_CHECKING:
    from accord.tui.theme import Palette


Tone: TypeAlias = Literal["quiet", "good", "warn", "bad"]

_SIGNS: Final[dict[Tone, str]] = {"quiet": "·", "good": "✓", "warn": "!", "bad": "✗"}


class NotePart(DrawnPart):
    """A note of the client, with indented details below it."""

    def __init__(self, text: str, tone: Tone = "quiet", details: str = "") -> None:
        super().__init__()
        self.text: str = text
        self.tone: Tone = tone
        self.details: str = details

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        styles = {"quiet": palette.muted, "good": palette.good, "warn": palette.warn, "bad": palette.bad}
        style = styles[self.tone]
        available = min(width - 4, MAX_WIDTH)
        lines: list[Text] = []
        for number, line in enumerate(clean_text(self.text).strip().split("\n")):
            sign = f"  {_SIGNS[self.tone]} " if number == 0 else "    "
            lines += prefix_lines(wrap_words(Text(line, style), available), Text(sign, style), "    ")
        for line in clean_text(self.details).strip("\n").split("\n") if self.details.strip() else ():
            lines += prefix_lines(
                wrap_words(Text(line, palette.muted), available - 2), Text("    │ ", palette.faint), "    │ "
            )
        return [strip_of(line) for line in lines]

    def estimate(self, width: int) -> int:
        lines = 1 + self.text.strip().count("\n")
        return lines + 1 + self.details.strip("\n").count("\n") if self.details.strip() else lines
