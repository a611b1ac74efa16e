"""What a command printed, with its colours: of all escape sequences only those for colours and weights count.

Everything else is cleaned away, and nothing can be hidden: what a sequence would conceal is shown.
"""

import re
from typing import Final

from rich.color import Color
from rich.style import Style
from rich.text import Text

from accord.cleaning import clean_text

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
