"""How a text that comes in pieces is put out: rendered where there is something to render with, else as it was written."""

from typing import Final, Protocol

from accord.cleaning import Cleaner
from accord.cli.output.markdown import Markdown
from accord.cli.output.screen import Screen
from accord.cli.output.style import PLAIN, Look, Style

_COLUMN: Final = 1  # on a pipe it only matters whether a line has begun


class Flow(Protocol):
    """One message or thought."""

    def feed(self, text: str) -> None:
        """The next piece, as the agent sent it."""
        ...

    def settle(self) -> None:
        """Nothing more comes for a while: show what can be shown."""
        ...

    def rest(self) -> None:
        """Somebody else writes before the next piece: end the line."""
        ...

    def end(self) -> None:
        """It is over; the last line is ended."""
        ...


class RenderedFlow:
    """Markdown for eyes."""

    def __init__(self, screen: Screen, style: Style, look: Look = PLAIN, mark: str = "") -> None:
        self._cleaner = Cleaner()
        self._markdown = Markdown(screen.write, screen.width, style, look=look, mark=mark)

    def feed(self, text: str) -> None:
        self._markdown.feed(self._cleaner.feed(text))

    def settle(self) -> None:
        self._markdown.settle()

    def rest(self) -> None:
        self._markdown.rest()

    def end(self) -> None:
        self._markdown.end()


class PlainFlow:
    """The text as it was written, without empty lines around it; each line may begin with a mark."""

    def __init__(self, screen: Screen, mark: str = "") -> None:
        self._cleaner = Cleaner()
        self._screen = screen
        self._mark = mark
        self._empty = 0  # lines that are owed: they count only when more text comes
        self._begun = False
        self._in_line = False

    def feed(self, text: str) -> None:
        text = self._cleaner.feed(text)
        if not self._begun:
            text = text.lstrip("\n")
        bare = text.rstrip("\n")
        breaks = len(text) - len(bare)
        if bare:
            self._begun = True
            bare = "\n" * self._empty + bare
            if self._mark:
                start = "" if self._in_line else self._mark
                bare = start + bare.replace("\n", f"\n{self._mark}")
            self._screen.write(bare, _COLUMN)
            self._empty, self._in_line = 0, True
        if breaks and self._in_line:  # whoever reads line by line has this one now
            self.rest()
            breaks -= 1
        self._empty += breaks

    def settle(self) -> None:
        pass  # nothing but empty lines is ever held back

    def rest(self) -> None:
        self._in_line = False
        self._screen.fresh()

    def end(self) -> None:
        self.rest()
