"""The line that shows that somebody is at work while nothing is said."""

from typing import Final

from accord.cli.output.screen import TICK
from accord.cli.output.style import CYAN, DIM, Style
from accord.cli.output.width import cut
from accord.clock import Clock

SILENCE: Final = 0.5
"""After so many seconds without a word the line appears."""


class Progress:
    """Whether the turn runs, and since when nothing was heard."""

    def __init__(self, style: Style, clock: Clock) -> None:
        self._style = style
        self._clock = clock
        self._heard = clock.now()
        self._what: str | None = None

    def start(self) -> None:
        """The turn has begun."""
        self._what = "working"
        self.heard()

    def say(self, what: str) -> None:
        """From now on this is what goes on."""
        self._what = what

    def stop(self) -> None:
        """Nothing goes on any more."""
        self._what = None

    def heard(self) -> None:
        """A sign of life."""
        self._heard = self._clock.now()

    @property
    def frame(self) -> str:
        """The picture of the moment."""
        spinner = self._style.signs.spinner
        return spinner[int(self._clock.now() / TICK) % len(spinner)]

    @property
    def silent(self) -> bool:
        """Whether nothing was heard for a while."""
        return self._clock.now() - self._heard >= SILENCE

    def line(self, width: int, *, busy: bool) -> list[str]:
        """The line, if there is something to say: not while text comes, nor while a call shows its own."""
        if self._what is None or not self.silent or (busy and self._what == "working"):
            return []
        text = cut(f" {self._what} {int(self._clock.now() - self._heard)} s", width - 1)
        return [self._style.paint(self.frame, CYAN) + self._style.paint(text, DIM)]
