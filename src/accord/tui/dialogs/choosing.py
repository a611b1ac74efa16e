"""A question that is answered by choosing: something to read, which scrolls, and the answers below it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on

from accord.tui.dialogs.dialog import Dialog
from accord.tui.dialogs.options import Options, digit
from accord.tui.transcript.item import Item
from accord.tui.transcript.view import Transcript

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult


class Reading(Transcript, can_focus=False):
    """What is to be read before one answers: from its beginning, as high as it needs to be."""

    DEFAULT_CSS = """
    Reading { height: auto; min-height: 1; background: $surface; scrollbar-gutter: auto; }
    """

    def __init__(self, items: "Sequence[Item]") -> None:
        super().__init__()
        self.following = False
        self._given = list(items)

    def on_mount(self) -> None:
        self.show(self._given)
        self.frame()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return self.height_for(width)


class ChoosingDialog(Dialog):
    """Numbers choose; the arrows mark, and Enter takes what they marked. The page keys scroll what is to be read."""

    def __init__(
        self, title: str, items: "Sequence[Item]", names: Sequence[str], tones: Sequence[str] = ()
    ) -> None:
        super().__init__(title)
        self.reading = Reading(items)
        self.options = Options(names, tones)

    def compose(self) -> "ComposeResult":
        yield self.reading
        yield self.options

    def on_mount(self) -> None:
        super().on_mount()
        self.fit()

    def fit(self) -> None:
        """Leave room for every answer: what is to be read scrolls in the rest."""
        taken = (
            self.options.height_for(self.screen.size.width - 4) + 3
        )  # the frame, and the line above the answers
        most = self.screen.size.height * 3 // 5
        self.reading.styles.max_height = max(most - taken, 3)
        super().fit()

    @property
    def hint(self) -> str:
        count = min(len(self.options.names), 9)
        keys = f"1-{count} choose" if count > 1 else "1 chooses" if count else ""
        return " · ".join(filter(None, (keys, "PgUp PgDn scroll", "Esc stops the turn")))

    @property
    def answers(self) -> Options:
        return self.options

    @property
    def about(self) -> Reading:
        return self.reading

    def choose(self, index: int) -> None:
        """This one it is."""
        self.settle(index)

    def on_key(self, event: "events.Key") -> None:
        if event.key == "escape":
            return  # stopping is always understood
        event.stop()
        if not self.counts(event):
            return
        number = digit(event.key)
        if number is not None and self.options.shows(number):
            self.choose(number)
        elif event.key in ("up", "down"):
            self.options.move(-1 if event.key == "up" else 1)
        elif event.key == "enter" and self.options.at is not None:
            self.choose(self.options.at)
        elif event.key in ("home", "end"):
            self.reading.scroll_home(animate=False) if event.key == "home" else self.reading.scroll_end(
                animate=False
            )

    @on(Options.Clicked)
    def _clicked(self, event: Options.Clicked) -> None:
        event.stop()
        if self.counts(event.event):
            self.choose(event.index)
