"""Lines that this client itself puts into the conversation: how a turn ended, what went wrong, what can be done about it."""

from typing import TYPE_CHECKING, Literal, TypeAlias

from rich.text import Text
from textual.strip import Strip

from accord.cleaning import clean_text
from accord.tui.parts.markdown import WIDEST
from accord.tui.parts.part import Part, indented, strip_of, wrapped

if TYPE_CHECKING:
    from accord.tui.palette import Palette

Tone: TypeAlias = Literal["quiet", "good", "warn", "bad"]

_SIGNS = {"quiet": "·", "good": "✓", "warn": "!", "bad": "✗"}


class NotePart(Part):
    """A note, and below it, indented, what belongs to it."""

    def __init__(self, text: str, tone: Tone = "quiet", details: str = "") -> None:
        super().__init__()
        self.text = text
        self.tone: Tone = tone
        self.details = details

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        styles = {"quiet": palette.muted, "good": palette.good, "warn": palette.warn, "bad": palette.bad}
        style = styles[self.tone]
        room = min(width - 4, WIDEST)
        lines: list[Text] = []
        for number, line in enumerate(clean_text(self.text).strip().split("\n")):
            sign = f"  {_SIGNS[self.tone]} " if number == 0 else "    "
            lines += indented(wrapped(Text(line, style), room), Text(sign, style), "    ")
        for line in clean_text(self.details).strip("\n").split("\n") if self.details.strip() else ():
            lines += indented(
                wrapped(Text(line, palette.muted), room - 2), Text("    │ ", palette.faint), "    │ "
            )
        return [strip_of(line) for line in lines]

    def estimate(self, width: int) -> int:
        return 1 + self.details.count("\n")
