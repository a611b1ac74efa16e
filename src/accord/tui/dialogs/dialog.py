"""A question on the screen. Nothing counts as an answer before the question could be seen.

It takes the keys only after it was painted and the user has paused: whoever is typing goes on typing where they were.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from textual.containers import Vertical
from textual.message import Message

from accord.clock import SYSTEM_CLOCK, Clock, Timer

if TYPE_CHECKING:
    from textual import events
    from textual.widget import Widget

    from accord.tui.transcript.view import Transcript

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
    def about(self) -> "Transcript | None":
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
