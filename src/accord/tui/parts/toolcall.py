"""The line of a tool call: how far it is, what sort, what, where, how long."""

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text
from textual.strip import Strip

from accord.cleaning import one_line
from accord.tui.parts.part import Part, strip_of, wrapped

if TYPE_CHECKING:
    from accord.tui.palette import Palette

KINDS: Final = {
    "read": "read",
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "search": "search",
    "execute": "run",
    "think": "think",
    "fetch": "fetch",
    "switch_mode": "mode",
}
"""How a kind is called on the screen."""

_SIGNS: Final = {
    "pending": "○",
    "in_progress": "●",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "⊘",
    "ended without a result": "?",
}


class CallPart(Part):
    """The headline of a call."""

    def __init__(self) -> None:
        super().__init__()
        self.how = "pending"
        self.kind = ""
        self.title = ""
        self.where = ""
        self.took = ""
        self.more = ""
        """▸ where there is more to see, ▾ where it is shown."""

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        styles = {
            "pending": palette.muted,
            "in_progress": palette.accent,
            "completed": palette.good,
            "failed": palette.bad,
        }
        style = styles.get(self.how, palette.warn)
        head = Text("  ").append(_SIGNS.get(self.how, "·"), style).append(" ")
        kind = KINDS.get(self.kind, one_line(self.kind, 12) if self.kind not in ("", "other") else "")
        if kind:
            head.append(f"{kind} ", palette.muted)
        tail = Text()
        if self.how not in ("completed", "in_progress", "pending"):
            tail.append(f"  {self.how}", style)
        if self.took:
            tail.append(f"  {self.took}", palette.faint)
        if self.more:
            tail.append(f" {self.more}", palette.faint)
        words = Text(self.title, palette.text)
        if self.where:
            words.append(f"  {self.where}", palette.muted)
        lead = cell_len(head.plain)
        pieces = wrapped(words, max(width - lead - cell_len(tail.plain), 20))
        lines = [head.append_text(pieces[0])]
        lines += [Text(" " * lead).append_text(piece) for piece in pieces[1:4]]
        lines[0].append_text(tail)
        return [strip_of(line) for line in lines]
