"""The screen: text that stays, and below it live lines that are drawn again and again until they are put away.

On a pipe there are no live lines. What stays is never touched again.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final

from accord.cli.output.sink import Sink
from accord.cli.output.terminalsize import TerminalSize
from accord.clock import Clock, Timer
from accord.errors import AccordError

TICK: Final = 0.25
"""Live lines are drawn so often at most."""


class Screen:
    """One stdout. `live` gives the lines to draw below the text, for a width; none when there is nothing to tell."""

    def __init__(
        self, sink: Sink, clock: Clock, size: TerminalSize | None, live: Callable[[int], list[str]]
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
