"""The headline of a tool call, and the output of commands with their colors."""

import re
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from accord.frontend.display_text import kind_to_show
from accord.safe_text import clean_text, one_line
from accord.text_width import count_text
from accord.tui.parts.part import DrawnPart, strip_of, wrap_cells, wrap_words

if TYPE_CHECKING:
    from accord.tui.theme import Palette


KIND_LABELS: Final = {
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
"""The names of tool kinds on the screen."""

# The keys are the texts of `tool_status`.
_SIGNS: Final = {
    "pending": "○",
    "in_progress": "●",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "⊘",
    "ended without a result": "?",
}


class CallPart(DrawnPart):
    """The headline: status, kind, title, locations and duration."""

    def __init__(self) -> None:
        super().__init__()
        self.status: str = "pending"
        self.kind: str = ""
        self.title: str = ""
        self.locations: str = ""
        self.duration: str = ""
        self.fold_mark: str = ""
        """▸ if details are folded, ▾ if they are shown."""

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        styles = {
            "pending": palette.muted,
            "in_progress": palette.accent,
            "completed": palette.good,
            "failed": palette.bad,
        }
        style = styles.get(self.status, palette.warn)
        head = Text("  ").append(_SIGNS.get(self.status, "·"), style).append(" ")
        kind = kind_to_show(self.kind, self.title)
        kind = KIND_LABELS.get(kind, one_line(kind, 12))
        if kind:
            head.append(f"{kind} ", palette.muted)
        tail = Text()
        if self.status not in ("completed", "in_progress", "pending"):
            tail.append(f"  {self.status}", style)
        if self.duration:
            tail.append(f"  {self.duration}", palette.faint)
        if self.fold_mark:
            tail.append(f" {self.fold_mark}", palette.faint)
        title = Text(self.title, palette.text)
        if self.locations:
            title.append(f"  {self.locations}", palette.muted)
        head_width = cell_len(head.plain)
        pieces = wrap_words(title, max(width - head_width - cell_len(tail.plain), 20))
        lines = [head.append_text(pieces[0])]
        lines += [Text(" " * head_width).append_text(piece) for piece in pieces[1:4]]
        lines[0].append_text(tail)
        return [strip_of(line) for line in lines]


_SGR: Final = re.compile(r"\x1b\[([0-9;:]{0,60})m")
_OPEN, _CLOSE = "\ue000", "\ue001"
"""`clean_text` removes escapes, so each color sequence is replaced by its index between these private
characters.
"""
_PLACEHOLDER: Final = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_ON: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF: Final = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}


def parse_ansi(text: str) -> list[Text]:
    """Return the lines as a terminal shows them finally, with colors and weights.

    Other escape sequences are removed; hidden text (SGR 8) stays visible.
    """
    codes: list[str] = []

    def replace_code(match: re.Match[str]) -> str:
        codes.append(match[1])
        return f"{_OPEN}{len(codes) - 1}{_CLOSE}"

    text = text.replace(_OPEN, "\ufffd").replace(_CLOSE, "\ufffd")
    with_placeholders = _SGR.sub(replace_code, text)
    cleaned = clean_text("\n".join(map(_after_returns, with_placeholders.split("\n")))).expandtabs(8)
    ansi = _AnsiStyle()
    lines: list[Text] = []
    for line in cleaned.split("\n"):
        out = Text()
        for number, piece in enumerate(_PLACEHOLDER.split(line)):
            if number % 2:
                ansi.apply(codes[int(piece)] if int(piece) < len(codes) else "")
            elif piece:
                out.append(piece, ansi.style)
        lines.append(out)
    return lines


def _after_returns(line: str) -> str:
    """Return the text after the last carriage return; keeps the colors set before it."""
    before, returned, last = line.rstrip("\r").rpartition("\r")
    if not returned:
        return line
    return "".join([match[0] for match in _PLACEHOLDER.finditer(before)]) + last


class _AnsiStyle:
    """Tracks the style set by SGR codes."""

    def __init__(self) -> None:
        self._attributes: dict[str, bool] = {}
        self._color: Color | None = None
        self._background: Color | None = None
        self.style = Style()

    def apply(self, codes: str) -> None:
        """Apply the codes of one sequence."""
        numbers = [int(code) if code else 0 for code in codes.replace(":", ";").split(";") if len(code) <= 4]
        while numbers:
            number = numbers.pop(0)
            if number == 0:
                self._attributes, self._color, self._background = {}, None, None
            elif number in _ON:
                self._attributes[_ON[number]] = True
            elif number in _OFF:
                for name in _OFF[number]:
                    self._attributes.pop(name, None)
            elif number in (38, 48):
                color = _extended_color(numbers)
                if number == 38:
                    self._color = color
                else:
                    self._background = color
            elif 30 <= number <= 37 or 90 <= number <= 97:
                self._color = Color.from_ansi(number - 30 if number < 90 else number - 82)
            elif 40 <= number <= 47 or 100 <= number <= 107:
                self._background = Color.from_ansi(number - 40 if number < 100 else number - 92)
            elif number == 39:
                self._color = None
            elif number == 49:
                self._background = None
        self.style = Style(
            color=self._color,
            bgcolor=self._background,
            **self._attributes,  # pyright: ignore[reportArgumentType]
        )


def _extended_color(numbers: list[int]) -> Color | None:
    kind = numbers.pop(0) if numbers else 0
    if kind == 5 and numbers:
        return Color.from_ansi(min(numbers.pop(0), 255))
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = (min(numbers.pop(0), 255) for _ in range(3))
        return Color.from_rgb(red, green, blue)
    return None


FOLDED_LINES: Final = 8
MAX_LINES: Final = 2_000
_FOLDED_CHARACTERS: Final = 16 * 1024
_MAX_LINE: Final = 4_000
_CLOSING_FENCE: Final = re.compile("`{3,}")


class OutputPart(DrawnPart):
    """The output of a command. Folded, only its last lines."""

    gap: int = 0

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text: str = text
        self.folded: bool = True
        self.exit_text: str = ""
        """Shown as the last line, if not empty."""

    def draw(self, width: int, palette: "Palette") -> list[Strip]:
        max_lines = FOLDED_LINES if self.folded else MAX_LINES
        text = self.text[-_FOLDED_CHARACTERS:] if self.folded else self.text
        lines = parse_ansi(without_fence(text)) if text.strip() else []
        while lines and not lines[-1].plain.strip():
            lines.pop()
        is_cut = len(text) < len(self.text)
        shown_lines: list[Text] = []
        for line in lines[-max_lines:]:
            line.truncate(_MAX_LINE)
            shown_lines += wrap_cells(line, max(width - 7, 1))
        # Wrapping can exceed `max_lines`. Unfolded, the wrapped lines are all shown.
        shown_lines = shown_lines[-max_lines:] if self.folded else shown_lines
        hidden_count = len(lines) - min(len(lines), max_lines)
        out: list[Text] = []
        if is_cut:
            out.append(Text("… earlier output", palette.faint))
        elif hidden_count:
            out.append(Text(f"… {count_text(hidden_count, 'earlier line')}", palette.faint))
        out += shown_lines
        if self.exit_text:
            out.append(Text(self.exit_text, palette.bad))
        return [strip_of(Text("    │ ", palette.faint).append_text(line)) for line in out]

    def estimate(self, width: int) -> int:
        lines = self.text.count("\n", 0, _FOLDED_CHARACTERS) + 1
        return min(lines, FOLDED_LINES + 1) if self.folded else min(lines, MAX_LINES)


def without_fence(text: str) -> str:
    """Remove the Markdown fence that agents put around output."""
    lines = text.strip("\n").split("\n")
    if lines[0].startswith("```"):
        lines = lines[1:]
    if lines and _CLOSING_FENCE.fullmatch(lines[-1].strip()):
        lines = lines[:-1]
    return "\n".join(lines)
