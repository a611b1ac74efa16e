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
        self._breaks = 0  # newlines that are owed: they count only when more text comes
        self._begun = False
        self._at_start = True

    def feed(self, text: str) -> None:
        text = self._cleaner.feed(text)
        bare = text.rstrip("\n")
        owed = len(text) - len(bare)
        if not bare:
            self._breaks += owed
            return
        bare = "\n" * self._breaks + bare if self._begun else bare.lstrip("\n")
        if self._mark:
            bare = bare.replace("\n", f"\n{self._mark}")
            if self._at_start:
                bare = self._mark + bare
        self._begun, self._breaks, self._at_start = True, owed, False
        self._screen.write(bare, _COLUMN)

    def settle(self) -> None:
        pass  # nothing but newlines is ever held back

    def rest(self) -> None:
        if not self._at_start:
            self._breaks = max(self._breaks - 1, 0)
            self._at_start = True
            self._screen.fresh()

    def end(self) -> None:
        self._screen.fresh()
