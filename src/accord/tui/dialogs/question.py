"""A plain question of the agent: one of the answers it suggests, or words of the user's own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on
from textual.widgets import Input, Static

from accord.cleaning import clean_text
from accord.tui.dialogs.dialog import Dialog
from accord.tui.dialogs.options import Options, digit

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult


class QuestionDialog(Dialog):
    """The answer is a text."""

    def __init__(self, text: str, options: Sequence[str]) -> None:
        super().__init__("The agent asks")
        self._text = text
        self._answers = list(options)
        self.options = Options(self._answers)
        self.input = Input(
            placeholder="a number, or your own words" if options else "your answer", compact=True
        )

    def compose(self) -> "ComposeResult":
        yield Static(clean_text(self._text), markup=False)
        if self._answers:
            yield self.options
        yield self.input

    @property
    def hint(self) -> str:
        return "Enter answers · Esc stops the turn"

    @property
    def first(self) -> Input:
        return self.input

    def on_key(self, event: "events.Key") -> None:
        if event.key in ("up", "down") and self.counts(event):
            event.stop()
            self.options.move(-1 if event.key == "up" else 1)
            if self.options.at is not None:
                self.input.value = self._answers[self.options.at]

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        typed = event.value.strip()
        number = digit(typed)
        if number is not None and number < len(self._answers):
            typed = self._answers[number]
        if typed and self.armed:
            self.settle(typed)

    @on(Options.Clicked)
    def _clicked(self, event: Options.Clicked) -> None:
        event.stop()
        if self.counts(event.event):
            self.settle(self._answers[event.index])
