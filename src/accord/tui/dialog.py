"""The base of dialogs: nothing counts before it could be seen; numbered choices.

Imported on first use: it loads Textual.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text
from textual import on
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from accord.clock import SYSTEM_CLOCK, Clock, Timer
from accord.safe_text import one_line
from accord.tui.parts.part import wrapped
from accord.tui.theme import palette_of
from accord.tui.transcript.transcript_layout import Item
from accord.tui.transcript.transcript_view import TranscriptView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult


# MERGED tui.dialogs.dialog: A question on the screen. Nothing counts as an answer before the question could be seen.
#
# It takes the keys only after it was painted and the user has paused: whoever is typing goes on typing where they were.

PAUSE: Final = 0.5
"""Seconds without a key, from the moment it was painted, until it takes keys."""
_GLANCE: Final = 0.1
UNARMED: Final = "one moment: keys go to the prompt"
TOO_SMALL: Final = "a larger window, please: "
"""Before the title, where the answers do not fit on the screen."""


class Dialog(Vertical, can_focus=True):
    """One question. `answer` is done once it was answered; None: the user went away."""

    DEFAULT_CSS = """
    Dialog {
        height: auto; max-height: 100%; margin: 0; padding: 0 1; background: $surface;
        border: round $warning; border-title-color: $warning; border-title-style: bold;
        border-subtitle-color: $text-muted;
    }
    Dialog.unarmed { border: round $foreground 25%; border-title-color: $text-muted; }
    """

    class Answered(Message):
        """It has been."""

    def __init__(self, title: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(classes="unarmed")
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.clock = clock
        self.armed = False
        self.border_title = self._title = title
        self._seen: float | None = None
        self._typed = float("-inf")
        self._armed_at = float("inf")
        self._timer: Timer | None = None
        self._waiting = False  # to be looked for on the screen

    # -- being seen ---------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.border_subtitle = UNARMED
        self.call_after_refresh(self._painted)

    def _painted(self) -> None:
        """It is on the screen by now, or will be: behind another tab or screen it waits to be seen."""
        self._waiting = False
        if self._seen is not None or not self.is_attached:
            return
        self._say_whether_too_small()
        if self._in_view:
            self._seen = self.clock.now()
            self._wait()
        else:
            self._waiting = True
            self.set_timer(_GLANCE, self._painted)

    @property
    def _in_view(self) -> bool:
        """Whether it is on the screen with all its answers, and no other screen on top of it."""
        return self.is_attached and self.is_on_screen and self.screen.is_current and self._fits

    @property
    def _fits(self) -> bool:
        """Whether every line of the answers is on the screen: nobody agrees to what they cannot see."""
        if self.answers is None or not self.answers.is_on_screen:
            return self.answers is None
        place = self.screen.find_widget(self.answers)
        return place.region in place.clip

    def _say_whether_too_small(self) -> None:
        small = self.is_on_screen and not self._fits
        self.border_title = TOO_SMALL + self._title if small else self._title

    def look_again(self) -> None:
        """Its session is shown again: it begins anew to be seen."""
        if not self._waiting:
            self.call_after_refresh(self._painted)

    def put_away(self) -> None:
        """Another session is shown, or another screen is on top: keys are not for this."""
        if self._timer is not None:
            self._timer.cancel()
        self._seen, self.armed = None, False
        self.add_class("unarmed")
        self.border_subtitle = UNARMED

    def typed(self) -> None:
        """The user is typing elsewhere: they have not turned to this yet."""
        self._typed = self.clock.now()

    def _wait(self) -> None:
        """Take the keys once the user has paused."""
        if self._seen is None or not self.is_attached:
            return
        left = max(self._seen, self._typed) + PAUSE - self.clock.now()
        if left > 0:
            self._timer = self.clock.call_later(left, self._paused)
        elif self._in_view:
            self._arm()
        else:
            self.put_away()
            self.look_again()

    def _paused(self) -> None:
        self.call_later(self._wait)  # behind the keys that have come in by now

    def _arm(self) -> None:
        self.armed = True
        self._armed_at = Message().time  # by the clock that keys are stamped with
        self.remove_class("unarmed")
        self.border_subtitle = self.hint
        (self.first or self).focus()

    def on_unmount(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.settle(None)

    def fit(self) -> None:
        """The screen has another size."""
        self.call_after_refresh(self._fit_again)

    def _fit_again(self) -> None:
        if self.is_attached and self._seen is not None and not self._fits:
            self.put_away()
            self.look_again()

    # -- answering ----------------------------------------------------------------------------------------------

    @property
    def hint(self) -> str:
        """What the keys do."""
        return ""

    @property
    def about(self) -> "TranscriptView | None":
        """What is to be read, where that scrolls."""
        return None

    @property
    def answers(self) -> "Widget | None":
        """What has to be on the screen before a key counts."""
        return None

    @property
    def first(self) -> "Widget | None":
        """What gets the keys."""
        return None

    def counts(self, event: "events.Key | events.Click") -> bool:
        """Whether an event was made by somebody who could see the question."""
        return self.armed and event.time > self._armed_at

    def settle(self, answer: Any) -> None:
        """That is the answer."""
        if not self.answer.done():
            self.answer.set_result(answer)


# MERGED tui.dialogs.options: Answers to choose from, by number, arrows or the mouse. None is chosen to begin with.

ROWS: Final = 9
"""Answers that are shown at a time."""
_INDENT: Final = 5


class AnswerList(Widget):
    """A list of answers; the dialog keeps the keys."""

    DEFAULT_CSS = "AnswerList { height: auto; margin: 1 0 0 0; }"

    class Clicked(Message):
        """One was clicked."""

        def __init__(self, index: int, event: "events.Click") -> None:
            super().__init__()
            self.index = index
            self.event = event

    def __init__(self, names: Sequence[str], tones: Sequence[str] = ()) -> None:
        super().__init__()
        self.names = [one_line(name) for name in names]
        self._tones = list(tones)
        self.at: int | None = None

    def move(self, by: int) -> None:
        """Mark another."""
        if not self.names:
            return
        if self.at is None:
            self.at = 0 if by > 0 else len(self.names) - 1
        else:
            self.at = (self.at + by) % len(self.names)
        self.refresh(layout=True)

    @property
    def _first(self) -> int:
        return max(min((self.at or 0) - ROWS + 1, len(self.names) - ROWS), 0)

    def _rows(self, width: int) -> list[tuple[int, str]]:
        """What is shown, line by line: the number of the answer, and a piece of its name. A long name takes several lines."""
        first, rows = self._first, list[tuple[int, str]]()
        for number, name in enumerate(self.names[first : first + ROWS], first):
            pieces = wrapped(Text(name), max(width - _INDENT, 8))
            rows += [(number, piece.plain.rstrip()) for piece in pieces]
        return rows

    def shows(self, index: int) -> bool:
        """Whether this answer is among those that can be seen."""
        return self._first <= index < min(self._first + ROWS, len(self.names))

    @property
    def _others(self) -> str:
        """That there are more than can be seen."""
        hidden = len(self.names) - ROWS
        return f"{hidden} more: the arrows bring them" if hidden > 0 else ""

    def render(self) -> Text:
        palette = palette_of(self)
        tones = {"allow": palette.good, "reject": palette.bad}
        lines: list[Text] = []
        before: int | None = None
        for number, words in self._rows(self.size.width):
            chosen, begins = number == self.at, number != before
            tone = self._tones[number].partition("_")[0] if number < len(self._tones) else ""
            line = Text("▸ " if chosen and begins else "  ", palette.accent)
            line.append(f"{number + 1} " if number < 9 and begins else "  ", tones.get(tone, palette.accent))
            line.append(f" {words}", palette.strong if chosen else palette.text)
            lines.append(line)
            before = number
        if self._others:
            lines.append(Text(f"     {self._others}", palette.muted))
        return Text("\n").join(lines)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return self.height_for(width)

    def height_for(self, width: int) -> int:
        """The lines that it needs."""
        return len(self._rows(width)) + (1 if self._others else 0)

    def on_click(self, event: "events.Click") -> None:
        rows = self._rows(self.size.width)
        if 0 <= event.y < len(rows):
            self.post_message(self.Clicked(rows[event.y][0], event))


def digit(key: str) -> int | None:
    """The number of the answer that a key stands for, from zero."""
    return int(key) - 1 if len(key) == 1 and key in "123456789" else None


# MERGED tui.dialogs.choosing: A question that is answered by choosing: something to read, which scrolls, and the answers below it.


class DialogText(TranscriptView, can_focus=False):
    """What is to be read before one answers: from its beginning, as high as it needs to be."""

    DEFAULT_CSS = """
    DialogText { height: auto; min-height: 1; background: $surface; scrollbar-gutter: auto; }
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


class ChoiceDialog(Dialog):
    """Numbers choose; the arrows mark, and Enter takes what they marked. The page keys scroll what is to be read."""

    def __init__(
        self, title: str, items: "Sequence[Item]", names: Sequence[str], tones: Sequence[str] = ()
    ) -> None:
        super().__init__(title)
        self.reading = DialogText(items)
        self.options = AnswerList(names, tones)

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
    def answers(self) -> AnswerList:
        return self.options

    @property
    def about(self) -> DialogText:
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

    @on(AnswerList.Clicked)
    def _clicked(self, event: AnswerList.Clicked) -> None:
        event.stop()
        if self.counts(event.event):
            self.choose(event.index)
