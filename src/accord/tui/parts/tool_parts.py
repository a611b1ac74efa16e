"""The headline of a tool call, and command output with its colors."""

import re
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from accord.safe_text import clean_text, one_line
from accord.tui.parts.part import DrawnPart, folded, strip_of, wrapped

if TYPE_CHECKING:
    from accord.tui.theme import Palette


# MERGED tui.parts.toolcall: The line of a tool call: how far it is, what sort, what, where, how long.

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


class CallPart(DrawnPart):
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


# MERGED tui.parts.ansi: What a command printed, with its colours: of all escape sequences only those for colours and weights count.
#
# Everything else is cleaned away, and nothing can be hidden: what a sequence would conceal is shown.

_SGR: Final = re.compile(r"\x1b\[([0-9;:]{0,60})m")
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Around the number of a colour sequence while the text is cleaned; private characters that a text has itself are taken out first."""
_MARK: Final = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_ON: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF: Final = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}


def painted(text: str) -> list[Text]:
    """The lines as a terminal shows them in the end: what was written over on a line is gone."""
    codes: list[str] = []

    def mark(found: re.Match[str]) -> str:
        codes.append(found[1])
        return f"{_OPEN}{len(codes) - 1}{_CLOSE}"

    text = text.replace(_OPEN, "\ufffd").replace(_CLOSE, "\ufffd")
    marked = _SGR.sub(mark, text)
    cleaned = clean_text("\n".join(map(_settled, marked.split("\n")))).expandtabs(8)
    pen = _Pen()
    lines: list[Text] = []
    for line in cleaned.split("\n"):
        out = Text()
        for number, piece in enumerate(_MARK.split(line)):
            if number % 2:
                pen.take(codes[int(piece)] if int(piece) < len(codes) else "")
            elif piece:
                out.append(piece, pen.style)
        lines.append(out)
    return lines


def _settled(line: str) -> str:
    """What is left of a line that was written over; the colours before stay in force."""
    before, returned, last = line.rstrip("\r").rpartition("\r")
    if not returned:
        return line
    return "".join([found[0] for found in _MARK.finditer(before)]) + last


class _Pen:
    """The style in force."""

    def __init__(self) -> None:
        self._attributes: dict[str, bool] = {}
        self._colour: Color | None = None
        self._ground: Color | None = None
        self.style = Style()

    def take(self, codes: str) -> None:
        """One sequence."""
        numbers = [int(code) if code else 0 for code in codes.replace(":", ";").split(";") if len(code) <= 4]
        while numbers:
            number = numbers.pop(0)
            if number == 0:
                self._attributes, self._colour, self._ground = {}, None, None
            elif number in _ON:
                self._attributes[_ON[number]] = True
            elif number in _OFF:
                for name in _OFF[number]:
                    self._attributes.pop(name, None)
            elif number in (38, 48):
                colour = _extended(numbers)
                if number == 38:
                    self._colour = colour
                else:
                    self._ground = colour
            elif 30 <= number <= 37 or 90 <= number <= 97:
                self._colour = Color.from_ansi(number - 30 if number < 90 else number - 82)
            elif 40 <= number <= 47 or 100 <= number <= 107:
                self._ground = Color.from_ansi(number - 40 if number < 100 else number - 92)
            elif number == 39:
                self._colour = None
            elif number == 49:
                self._ground = None
        self.style = Style(color=self._colour, bgcolor=self._ground, **self._attributes)  # pyright: ignore[reportArgumentType]


def _extended(numbers: list[int]) -> Color | None:
    kind = numbers.pop(0) if numbers else 0
    if kind == 5 and numbers:
        return Color.from_ansi(min(numbers.pop(0), 255))
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = (min(numbers.pop(0), 255) for _ in range(3))
        return Color.from_rgb(red, green, blue)
    return None


# MERGED tui.parts.output: What a command printed: its colours, live, the last lines of it while it is folded.

FOLDED_LINES: Final = 8
MOST_LINES: Final = 2_000
_CHARACTERS: Final = 16 * 1024
_LONGEST_LINE: Final = 4_000


class OutputPart(DrawnPart):
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
