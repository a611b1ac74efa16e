"""Live lines below text that stays; size, colors, character widths."""

import os
import shutil
import unicodedata
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TextIO, TypeAlias

from accord.cli.output.output_sink import OutputStream
from accord.clock import Clock, Timer
from accord.errors import AccordError

# MERGED cli.output.style: How things look: colours where they are wanted, signs that the stream can encode.

Look: TypeAlias = tuple[int, ...]
"""What a terminal is told before a piece of text: the numbers of its rendition, none for plain."""

PLAIN: Final[Look] = ()
BOLD: Final[Look] = (1,)
DIM: Final[Look] = (2,)
ITALIC: Final[Look] = (3,)
UNDERLINE: Final[Look] = (4,)
STRUCK: Final[Look] = (9,)
RED: Final[Look] = (31,)
GREEN: Final[Look] = (32,)
YELLOW: Final[Look] = (33,)
CYAN: Final[Look] = (36,)


@dataclass(frozen=True, slots=True)
class Symbols:
    """The signs of a stream."""

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
    """Paints, or leaves the text as it is."""

    colour: bool = False
    signs: Symbols = UNICODE

    def paint(self, text: str, look: Look) -> str:
        """The text in that look; it ends with the plain one, so that nothing behind it is touched."""
        if not self.colour or not look or not text:
            return text
        return f"\x1b[{';'.join(map(str, look))}m{text}\x1b[0m"


def wants_colour(terminal: bool, environment: Mapping[str, str] | None = None) -> bool:
    """Whether to colour: on a terminal, unless the user's environment says otherwise. `NO_COLOR` wins."""
    given = os.environ if environment is None else environment
    if given.get("NO_COLOR"):
        return False
    forced = given.get("FORCE_COLOR")
    if forced:
        return forced not in ("0", "false")
    return terminal and given.get("TERM") != "dumb"


def signs_for(encoding: str | None) -> Symbols:
    """The signs that such a stream can hold."""
    try:
        "✓⠋☑".encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


# MERGED cli.output.terminalsize: How large the terminal is, asked again each time: it may be resized while we write.

_NARROWEST: Final = 20
_FALLBACK: Final = (80, 24)


class TerminalSize:
    """The size of the terminal behind a stream; a given width stays."""

    def __init__(self, stream: TextIO, width: int | None = None) -> None:
        self._stream = stream
        self._width = width

    @property
    def columns(self) -> int:
        """Cells of a line; never fewer than one can write on."""
        return max(self._width if self._width is not None else self._ask().columns, _NARROWEST)

    @property
    def lines(self) -> int:
        """Lines of the screen."""
        return max(self._ask().lines, 2)

    def _ask(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError, AttributeError):
            return shutil.get_terminal_size(_FALLBACK)
        return size if size.columns > 0 and size.lines > 0 else shutil.get_terminal_size(_FALLBACK)


# MERGED cli.output.screen: The screen: text that stays, and below it live lines that are drawn again and again until they are put away.
#
# On a pipe there are no live lines. What stays is never touched again.

TICK: Final = 0.25
"""Live lines are drawn so often at most."""


class TerminalScreen:
    """One stdout. `live` gives the lines to draw below the text, for a width; none when there is nothing to tell."""

    def __init__(
        self, sink: OutputStream, clock: Clock, size: TerminalSize | None, live: Callable[[int], list[str]]
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._size = size
        self._live = live
        self._column = 0
        self._block: str | None = None
        self._out: list[str] = []
        self._drawn: list[str] = []
        self._timer: Timer | None = None
        self._drawn_at = float("-inf")
        self._away = 0  # questions that have the terminal

    def width(self) -> int | None:
        """The cells to use of a line, now; None where there is no bound. The last one stays free: a cursor behind it
        would stand nowhere.
        """
        return None if self._size is None else self._size.columns - 1

    def write(self, text: str, column: int) -> None:
        """Text that stays, out with the next `flush`; the cursor is then in that column."""
        if text:
            self._out += (self._cleared(), text) if self._drawn else (text,)
            self._column = column

    def flush(self) -> None:
        """Out with what was written."""
        if self._out:
            text = "".join(self._out)
            self._out = []
            self._sink.write(text)

    def lines(self, texts: Iterable[str]) -> None:
        """Lines that stay."""
        text = "".join([f"{text}\n" for text in texts])
        if text:
            self.write(("\n" if self._column else "") + text, 0)

    def begin(self, block: str, *, apart: bool = False) -> None:
        """What follows is of this sort; between two sorts there is an empty line, and around each that stands apart."""
        gap = "\n" if self._column else ""
        if self._block is not None and (apart or self._block != block):
            gap += "\n"
        self._block = block
        self.write(gap, 0)

    def fresh(self) -> None:
        """End a line that has begun."""
        if self._column:
            self.write("\n", 0)

    # -- live lines ---------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """The live lines have changed: draw them soon."""
        if self._size is not None and self._timer is None and not self._away:
            due = max(self._drawn_at + TICK - self._clock.now(), 0.0)
            self._set_timer(due)

    def put_away(self) -> None:
        """No live lines for now; what was written is out."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        out = "".join(self._out) + self._cleared()
        self._out = []
        self._sink.say(out)

    @contextmanager
    def lent(self) -> Generator[None]:
        """The terminal belongs to somebody else meanwhile."""
        self.fresh()
        self.put_away()
        self._away += 1
        try:
            yield
        finally:
            self._away -= 1
            self.refresh()

    def _set_timer(self, seconds: float) -> None:
        try:
            self._timer = self._clock.call_later(seconds, self._tick)
        except RuntimeError:  # no event loop: nothing can be live
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        self._drawn_at = self._clock.now()
        try:
            self._draw()
        except (BrokenPipeError, AccordError):
            return  # whoever writes next is told
        self._set_timer(TICK)

    def _draw(self) -> None:
        assert self._size is not None
        lines = self._live(self._size.columns - 1)[: max(self._size.lines - 1, 1)]
        if lines == self._drawn:
            return
        below = "\n" if lines and self._column else ""
        self._out += (self._cleared(), below, "\n".join(lines))
        self.flush()  # in one go, so that no half-drawn picture is seen
        self._drawn = lines

    def _cleared(self) -> str:
        """What takes the live lines away and puts the cursor back to where the text ends."""
        count = len(self._drawn)
        if not count:
            return ""
        self._drawn = []
        up = count - 1 + (1 if self._column else 0)
        if not self._column:
            return (f"\x1b[{up}A" if up else "") + "\r\x1b[J"
        return f"\x1b[{up}A\r\x1b[{self._column}C\x1b[J"


# MERGED cli.output.width: How wide text is on a terminal, in cells: wide characters take two, combining ones none.

EMOJI_LOOK: Final = "\ufe0f"
"""After a character of one cell: as a picture, which may take two."""


def cells(text: str) -> int:
    """The cells that the text takes. Text of one line, without escape sequences."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def cut(text: str, width: int) -> str:
    """The text, shortened to so many cells with a mark at the end where it is longer."""
    if cells(text) <= width:
        return text
    return text[: fitting(text, max(width - 1, 0))] + "…" if width > 0 else ""


def fitting(text: str, width: int) -> int:
    """How many characters from the beginning fit into so many cells."""
    if text.isascii():
        return min(len(text), max(width, 0))
    used = 0
    for number, char in enumerate(text):
        used += _cell(char)
        if used > width:
            return number
    return len(text)


def is_wide(char: str) -> bool:
    """Whether the character takes two cells; a line may be broken on either side of it."""
    return _cell(char) == 2


def joins(char: str) -> bool:
    """Whether the character belongs to the one before it."""
    return char == EMOJI_LOOK or _cell(char) == 0


@lru_cache(maxsize=4096)
def _cell(char: str) -> int:
    """Where terminals differ, the most that one of them takes."""
    category = unicodedata.category(char)
    if char == EMOJI_LOOK:
        return 1
    if category in ("Mn", "Me", "Cf"):
        return 0
    if "\U0001f1e6" <= char <= "\U0001f1ff" or (category == "Cn" and "\U0001f000" <= char <= "\U0001faff"):
        return 2  # flags, and pictures that are newer than the tables of this Python
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
