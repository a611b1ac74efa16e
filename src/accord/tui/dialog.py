"""The base of dialogs, and dialogs with numbered answers.

A dialog accepts keys only after it was visible and the user has not typed for a moment. Until then, keys go
to the prompt.

Imported on first use: it loads Textual.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual import on
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import TextArea

from accord.clock import SYSTEM_CLOCK, Clock, Timer
from accord.safe_text import one_line
from accord.tui.parts.part import wrap_words
from accord.tui.theme import palette_of, set_border
from accord.tui.transcript.transcript_layout import Item
from accord.tui.transcript.transcript_view import TranscriptView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from accord.tui.key_footer import KeyHint
    from accord.tui.theme import Palette

PAUSE_SECONDS: Final = 0.5
"""Seconds without a key press, while the dialog is visible, until it accepts keys."""
_CHECK_INTERVAL: Final = 0.1
UNARMED: Final = "one moment: keys go to the prompt"
TOO_SMALL: Final = "make the window larger: "
"""Prefix of the title if the answers do not fit on the screen."""


class Dialog(Vertical, can_focus=True):
    """One question. `answer` is done when it is answered, with None if the user canceled it."""

    DEFAULT_CSS: ClassVar[str] = """
    Dialog {
        height: auto; max-height: 100%; margin: 0; padding: 0 1; background: $surface;
        border: round $warning; border-title-color: $warning; border-title-style: bold;
        border-subtitle-color: $text-muted;
    }
    Dialog.unarmed { border: round $foreground 25%; border-title-color: $text-muted; }
    """

    class ArmedChanged(Message):
        """The dialog accepts keys now, or no longer."""

    def __init__(self, title: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(classes="unarmed")
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.clock: Clock = clock
        self.armed: bool = False
        """Whether keys are accepted."""
        self.title: str = title
        set_border(self, title=title)
        self._visible_since: float | None = None
        self._typed_at = float("-inf")
        self._armed_at = float("inf")
        self._timer: Timer | None = None
        self._polling = False

    # -- visibility --

    def on_mount(self) -> None:
        set_border(self, subtitle=UNARMED)
        self.call_after_refresh(self._check_visible)

    def _check_visible(self) -> None:
        """Start the pause when the dialog is visible; otherwise check again later."""
        self._polling = False
        if self._visible_since is not None or not self.is_attached:
            return
        self._update_title()
        if self._in_view:
            self._visible_since = self.clock.now()
            self._arm_after_pause()
        else:
            self._polling = True
            self.set_timer(_CHECK_INTERVAL, self._check_visible)

    @property
    def _in_view(self) -> bool:
        """Whether the dialog and all its answers are visible, with no other screen on top."""
        return self.is_attached and self.is_on_screen and self.screen.is_current and self._fits

    @property
    def _fits(self) -> bool:
        """Whether every line of the answers is on the screen."""
        if self.answers is None or not self.answers.is_on_screen:
            return self.answers is None
        position = self.screen.find_widget(self.answers)
        return position.region in position.clip

    def _update_title(self) -> None:
        small = self.is_on_screen and not self._fits
        set_border(self, title=TOO_SMALL + self.title if small else self.title)

    def resume(self) -> None:
        """Check the visibility again. Called when the session is shown again."""
        if not self._polling:
            self.call_after_refresh(self._check_visible)

    def suspend(self) -> None:
        """Stop accepting keys. Called when another session or screen is shown."""
        if self._timer is not None:
            self._timer.cancel()
        self._visible_since, self.armed = None, False
        self.add_class("unarmed")
        self.post_message(self.ArmedChanged())
        set_border(self, subtitle=UNARMED)

    def user_typed(self) -> None:
        """Restart the pause: the user is typing in the prompt."""
        self._typed_at = self.clock.now()

    def _arm_after_pause(self) -> None:
        if self._visible_since is None or not self.is_attached:
            return
        remaining = max(self._visible_since, self._typed_at) + PAUSE_SECONDS - self.clock.now()
        if remaining > 0:
            self._timer = self.clock.call_later(remaining, self._pause_elapsed)
        elif self._in_view:
            self._arm()
        else:
            self.suspend()
            self.resume()

    def _pause_elapsed(self) -> None:
        self.call_later(self._arm_after_pause)  # after the keys that are already queued

    def _arm(self) -> None:
        self.armed = True
        self._armed_at = Message().time  # the clock of key events
        self.remove_class("unarmed")
        self.post_message(self.ArmedChanged())
        if isinstance(self.screen.focused, TextArea) and self.screen.focused.text:
            # The user is writing a prompt: letters must not become an answer.
            set_border(self, subtitle=f"Tab: answer here · {self.hint}")
            return
        self.take_focus()

    def take_focus(self) -> None:
        """Let the keys go to the question."""
        set_border(self, subtitle=self.hint)
        self.screen.set_focus(self.focus_target or self)  # at once: the next key may be there already

    def on_unmount(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.set_answer(None)

    def update_size(self) -> None:
        """Adapt to the size of the screen."""
        self.call_after_refresh(self._check_size)

    def _check_size(self) -> None:
        if self.is_attached and self._visible_since is not None and not self._fits:
            self.suspend()
            self.resume()

    # -- answers --

    def check_drawable(self, width: int, palette: "Palette") -> None:
        """Draw the question once, off the screen. Raises what drawing raises."""

    @property
    def hint(self) -> str:
        """The keys, for the border."""
        return ""

    @property
    def key_hints(self) -> "Sequence[KeyHint]":
        """The keys, for the footer."""
        return [("Esc", "stop the turn")]

    @property
    def body(self) -> "TranscriptView | None":
        """The text above the answers, if it scrolls."""
        return None

    @property
    def answers(self) -> "Widget | None":
        """The widget that must be completely visible before keys are accepted."""
        return None

    @property
    def focus_target(self) -> "Widget | None":
        """The widget that gets the focus."""
        return None

    def accepts(self, event: "events.Key | events.Click") -> bool:
        """Whether an event happened after the dialog was armed."""
        return self.armed and event.time > self._armed_at

    def set_answer(self, answer: Any) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


_REST_HEIGHT: Final = 7
"""Lines that the rest of the screen needs: title, prompt, status, footer."""
MAX_ROWS: Final = 9
"""Number of answers that are shown at a time."""
_INDENT: Final = 5


class AnswerList(Widget):
    """Numbered answers. The dialog handles the keys; no answer is selected at first."""

    DEFAULT_CSS: ClassVar[str] = "AnswerList { height: auto; margin: 1 0 0 0; }"

    class Clicked(Message):
        """An answer was clicked."""

        def __init__(self, index: int, event: "events.Click") -> None:
            super().__init__()
            self.index = index
            self.event = event

    def __init__(self, names: Sequence[str], tones: Sequence[str] = ()) -> None:
        super().__init__()
        self.names: list[str] = [one_line(name) for name in names]
        self.letters: Mapping[int, str] = {}
        """Further keys of answers, by index."""
        self._tones = list(tones)
        self.selected: int | None = None

    def move(self, by: int) -> None:
        """Move the selection."""
        if not self.names:
            return
        if self.selected is None:
            self.selected = 0 if by > 0 else len(self.names) - 1
        else:
            self.selected = (self.selected + by) % len(self.names)
        self.refresh(layout=True)

    @property
    def _first(self) -> int:
        return max(min((self.selected or 0) - MAX_ROWS + 1, len(self.names) - MAX_ROWS), 0)

    def _rows(self, width: int) -> list[tuple[int, str]]:
        """Return the visible lines: the index of the answer and a piece of its name."""
        first, rows = self._first, list[tuple[int, str]]()
        for number, name in enumerate(self.names[first : first + MAX_ROWS], first):
            indent = _INDENT + (2 if self.letters else 0)
            pieces = wrap_words(Text(name), max(width - indent, 8))
            rows += [(number, piece.plain.rstrip()) for piece in pieces]
        return rows

    def shows(self, index: int) -> bool:
        """Whether this answer is visible."""
        return self._first <= index < min(self._first + MAX_ROWS, len(self.names))

    @property
    def _more_hint(self) -> str:
        hidden = len(self.names) - MAX_ROWS
        return f"{hidden} more: use the arrow keys" if hidden > 0 else ""

    def render(self) -> Text:
        palette = palette_of(self)
        tones = {"allow": palette.good, "reject": palette.bad}
        lines: list[Text] = []
        before: int | None = None
        for number, text in self._rows(self.size.width):
            is_selected, is_first_line = number == self.selected, number != before
            tone = self._tones[number].partition("_")[0] if number < len(self._tones) else ""
            line = Text("▸ " if is_selected and is_first_line else "  ", palette.accent)
            line.append(
                f"{number + 1} " if number < 9 and is_first_line else "  ", tones.get(tone, palette.accent)
            )
            if self.letters:
                letter = self.letters.get(number, " ") if is_first_line else " "
                line.append(f"{letter:<2}", tones.get(tone, palette.accent))
            line.append(f" {text}", palette.strong if is_selected else palette.text)
            lines.append(line)
            before = number
        if self._more_hint:
            lines.append(Text(f"     {self._more_hint}", palette.muted))
        return Text("\n").join(lines)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return self.height_for(width)

    def height_for(self, width: int) -> int:
        """Return the number of lines at this width."""
        return len(self._rows(width)) + (1 if self._more_hint else 0)

    def on_click(self, event: "events.Click") -> None:
        rows = self._rows(self.size.width)
        if 0 <= event.y < len(rows):
            self.post_message(self.Clicked(rows[event.y][0], event))


def answer_index(key: str) -> int | None:
    """Return the index of the answer for a number key."""
    return int(key) - 1 if len(key) == 1 and key in "123456789" else None


class DialogText(TranscriptView, can_focus=False):
    """The text above the answers."""

    DEFAULT_CSS: ClassVar[str] = """
    DialogText {
        height: auto; min-height: 1; background: $surface; scrollbar-size-horizontal: 0;
        scrollbar-background: $surface; scrollbar-background-hover: $surface;
        scrollbar-background-active: $surface;
    }
    """

    def __init__(self, items: "Sequence[Item]") -> None:
        super().__init__()
        self.following = False
        self.initial_items: list[Item] = list(items)

    def on_mount(self) -> None:
        self.show(self.initial_items)
        self.frame()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return self.height_for(width - self.scrollbar_gutter.width)


class ChoiceDialog(Dialog):
    """A text and numbered answers. Number keys choose, arrows and Enter too; page keys scroll the text."""

    def __init__(
        self, title: str, items: "Sequence[Item]", names: Sequence[str], tones: Sequence[str] = ()
    ) -> None:
        super().__init__(title)
        self.tall: bool = False
        """Whether it may use the height of the transcript, too."""
        self.text: DialogText = DialogText(items)
        self.options: AnswerList = AnswerList(names, tones)

    def compose(self) -> "ComposeResult":
        yield self.text
        yield self.options

    def on_mount(self) -> None:
        super().on_mount()
        self.update_size()

    def update_size(self) -> None:
        """Limit the height of the text so that all answers fit."""
        # 3: the border, and the line above the answers.
        used = self.options.height_for(self.screen.size.width - 4) + 3
        height = self.screen.size.height
        max_height = max(height - _REST_HEIGHT, height * 3 // 5) if self.tall else height * 3 // 5
        self.text.styles.max_height = max(max_height - used, 3)
        super().update_size()

    def check_drawable(self, width: int, palette: "Palette") -> None:
        for item in self.text.initial_items:
            for part in item.parts:
                part.draw(width, palette)
        self.options.height_for(width)

    @property
    def key_hints(self) -> "Sequence[KeyHint]":
        count = min(len(self.options.names), 9)
        keys = [(f"1-{count}", "choose")] if count > 1 else [("1", "choose")] if count else []
        return [*keys, ("PgUp PgDn", "scroll"), ("Esc", "stop the turn")]

    def letter_pressed(self, letter: str) -> bool:
        """Act on another key; return whether it means something here."""
        return False

    @property
    def hint(self) -> str:
        count = min(len(self.options.names), 9)
        keys = f"1-{count} choose" if count > 1 else "1 chooses" if count else ""
        return " · ".join(filter(None, (keys, "PgUp PgDn scroll", "Esc stops the turn")))

    @property
    def answers(self) -> AnswerList:
        return self.options

    @property
    def body(self) -> DialogText:
        return self.text

    def choose(self, index: int) -> None:
        """Answer with the choice at an index."""
        self.set_answer(index)

    def on_key(self, event: "events.Key") -> None:
        if event.key == "escape":
            return  # handled by the app: stops the turn
        event.stop()
        if not self.accepts(event):
            return
        number = answer_index(event.key)
        if number is not None and self.options.shows(number):
            self.choose(number)
        elif event.character is not None and self.letter_pressed(event.character):
            return
        elif event.key in ("up", "down"):
            self.options.move(-1 if event.key == "up" else 1)
        elif event.key == "enter" and self.options.selected is not None:
            self.choose(self.options.selected)
        elif event.key in ("home", "end"):
            self.text.scroll_home(animate=False) if event.key == "home" else self.text.scroll_end(
                animate=False
            )

    @on(AnswerList.Clicked)
    def _clicked(self, event: AnswerList.Clicked) -> None:
        event.stop()
        if self.accepts(event.event):
            self.choose(event.index)
