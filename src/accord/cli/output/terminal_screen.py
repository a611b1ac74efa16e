"""The terminal: permanent text with live lines below it, its size, colors and symbols.

Permanent text is never changed. Live lines are redrawn until they are removed; on a pipe there are none.
"""

import os
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TextIO, TypeAlias

from accord.cli.output.output_sink import OutputStream
from accord.clock import Clock, Timer
from accord.errors import AccordError

Attributes: TypeAlias = tuple[int, ...]
"""The SGR numbers (ECMA-48) of a text: bold, dim, colors. Empty for plain text."""

PLAIN: Final[Attributes] = ()
BOLD: Final[Attributes] = (1,)
DIM: Final[Attributes] = (2,)
ITALIC: Final[Attributes] = (3,)
UNDERLINE: Final[Attributes] = (4,)
STRUCK: Final[Attributes] = (9,)
RED: Final[Attributes] = (31,)
GREEN: Final[Attributes] = (32,)
YELLOW: Final[Attributes] = (33,)
CYAN: Final[Attributes] = (36,)


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbols that the lines use."""

    pending: str = "○"
    running: str = "●"
    done: str = "✓"
    failed: str = "✗"
    cancelled: str = "⊘"
    unknown: str = "?"
    bullet: str = "•"
    unticked: str = "☐"
    ticked: str = "☑"
    bar: str = "│"
    rule: str = "─"
    dot: str = "·"
    notice: str = "!"
    child: str = "◇"
    more: str = "…"
    spinner: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


UNICODE: Final = Symbols()
ASCII: Final = Symbols(
    "o", "*", "+", "x", "-", "?", "-", "[ ]", "[x]", "|", "-", "-", "!", ">", "...", "|/-\\"
)


@dataclass(frozen=True, slots=True)
class Style:
    """Whether to use colors, and which symbols."""

    color: bool = False
    symbols: Symbols = UNICODE

    def paint(self, text: str, attributes: Attributes) -> str:
        """Return the text with escape sequences for the attributes, followed by a reset."""
        if not self.color or not attributes or not text:
            return text
        return f"\x1b[{';'.join(map(str, attributes))}m{text}\x1b[0m"


def wants_color(terminal: bool, environment: Mapping[str, str] | None = None) -> bool:
    """Tell whether to use colors: on a terminal, unless `NO_COLOR` or `FORCE_COLOR` say otherwise."""
    variables = os.environ if environment is None else environment
    if variables.get("NO_COLOR"):
        return False
    forced = variables.get("FORCE_COLOR")
    if forced:
        return forced not in ("0", "false")
    return terminal and variables.get("TERM") != "dumb"


def symbols_for(encoding: str | None) -> Symbols:
    """Return the symbols that an encoding can represent."""
    try:
        "✓⠋☑".encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


_MIN_COLUMNS: Final = 20
_FALLBACK: Final = (80, 24)


TICK: Final = 0.25
"""The shortest time between two drawings of the live lines, in seconds."""


class OutputSize:
    """The size of a stream's terminal, queried each time because it may change.

    A fixed width overrides it.
    """

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        self._stream = stream
        self._width = width

    @property
    def columns(self) -> int:
        """The cells of a line, at least 20."""
        return max(self._width if self._width is not None else self._query().columns, _MIN_COLUMNS)

    @property
    def lines(self) -> int:
        """The lines of the screen, at least 2."""
        return max(self._query().lines, 2)

    def _query(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError, AttributeError):
            return shutil.get_terminal_size(_FALLBACK)
        return size if size.columns > 0 and size.lines > 0 else shutil.get_terminal_size(_FALLBACK)


class TerminalScreen:
    """Writes permanent text and draws live lines below it. `live` returns the live lines for a width."""

    def __init__(
        self, stream: OutputStream, clock: Clock, size: OutputSize | None, live: Callable[[int], list[str]]
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._size = size
        self._live = live
        self._column = 0
        self._last_block: str | None = None
        self._pending: list[str] = []
        self._drawn: list[str] = []
        self._timer: Timer | None = None
        self._drawn_at = float("-inf")
        self._open_questions = 0  # how many questions currently use the terminal

    def width(self) -> int | None:
        """Return the usable cells of a line, or None without a terminal.

        The last cell stays free for the cursor.
        """
        return None if self._size is None else self._size.columns - 1

    def write(self, text: str, column: int) -> None:
        """Add permanent text, written by the next `flush`. `column` is where the cursor is after it."""
        if text:
            self._pending += (self._clear_sequence(), text) if self._drawn else (text,)
            self._column = column

    def flush(self) -> None:
        """Write the pending text. During a question only its whole lines, because the prompt follows."""
        if self._pending:
            text, rest = "".join(self._pending), ""
            if self._open_questions:
                lines, newline, rest = text.rpartition("\n")
                if not lines.strip():
                    return
                text = lines + newline
            self._pending = [rest] if rest else []
            self._stream.write(text)

    def write_lines(self, texts: Iterable[str]) -> None:
        """Add permanent lines."""
        text = "".join([f"{text}\n" for text in texts])
        if text:
            self.write(("\n" if self._column else "") + text, 0)

    def begin_block(self, kind: str, *, apart: bool = False) -> None:
        """Start a block of this kind.

        An empty line separates different kinds, and blocks that are `apart`.
        """
        gap = "\n" if self._column else ""
        if self._last_block is not None and (apart or self._last_block != kind):
            gap += "\n"
        self._last_block = kind
        self.write(gap, 0)

    def end_line(self) -> None:
        """End an unfinished line."""
        if self._column:
            self.write("\n", 0)

    # -- live lines ------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Draw the live lines soon, because they have changed."""
        if self._size is not None and self._timer is None and not self._open_questions:
            delay = max(self._drawn_at + TICK - self._clock.now(), 0.0)
            self._set_timer(delay)

    def remove_live(self) -> None:
        """Remove the live lines and write the pending text."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        out = "".join(self._pending) + self._clear_sequence()
        self._pending = []
        self._stream.try_write(out)

    @contextmanager
    def suspended(self) -> Generator[None]:
        """Draw nothing while the block runs, because a question uses the terminal."""
        self.end_line()
        self.remove_live()
        self._open_questions += 1
        try:
            yield
        finally:
            self._open_questions -= 1
            self.refresh()

    def _set_timer(self, seconds: float) -> None:
        try:
            self._timer = self._clock.call_later(seconds, self._tick)
        except RuntimeError:  # without an event loop there are no live lines
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        self._drawn_at = self._clock.now()
        try:
            self._draw()
        except (BrokenPipeError, AccordError):
            return  # the next `write` raises the error
        self._set_timer(TICK)

    def _draw(self) -> None:
        assert self._size is not None
        lines = self._live(self._size.columns - 1)[: max(self._size.lines - 1, 1)]
        if lines == self._drawn:
            return
        line_break = "\n" if lines and self._column else ""
        self._pending += (self._clear_sequence(), line_break, "\n".join(lines))
        self.flush()  # one write, so that the terminal shows no half-drawn lines
        self._drawn = lines

    def _clear_sequence(self) -> str:
        """Return the escape sequence that removes the live lines and moves the cursor behind the text."""
        count = len(self._drawn)
        if not count:
            return ""
        self._drawn = []
        up = count - 1 + (1 if self._column else 0)
        if not self._column:
            return (f"\x1b[{up}A" if up else "") + "\r\x1b[J"
        return f"\x1b[{up}A\r\x1b[{self._column}C\x1b[J"
