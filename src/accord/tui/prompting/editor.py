"""The editor of the prompt: Enter sends, other Enters make a line, the arrows walk through what was said before."""

from typing import TYPE_CHECKING, Any, Final, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys
from textual.message import Message
from textual.widgets import TextArea

from accord.tui.prompting.history import PromptHistory
from accord.tui.prompting.paths import dropped_paths
from accord.tui.prompting.popup import Popup

if TYPE_CHECKING:
    from textual import events

NEWLINE_KEYS: Final = frozenset(("shift+enter", "alt+enter", "ctrl+j", "ctrl+enter"))


def know_alt_enter() -> None:
    """Terminals without the newer key protocol send Escape and Return for Alt+Enter, which would be taken for Enter alone."""
    known = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    known.setdefault("\x1b\r", (Keys.ControlJ,))


class Editor(TextArea):
    """Where the prompt is written."""

    DEFAULT_CSS = """
    Editor {
        height: auto; max-height: 12; min-height: 1; padding: 0; border: none; background: transparent;
        scrollbar-size-vertical: 1;
    }
    Editor:focus { border: none; background: transparent; }
    """

    class Sent(Message):
        """Enter was pressed on this text. The editor is empty by then: what is typed next belongs to the next prompt."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Dropped(Message):
        """Files were pasted or dropped."""

        def __init__(self, paths: list[str]) -> None:
            super().__init__()
            self.paths = paths

    class Completed(Message):
        """The marked completion is wanted; by Enter, what is complete already is sent."""

        def __init__(self, *, send: bool) -> None:
            super().__init__()
            self.send = send

    class Emptied(Message):
        """Backspace was pressed where there is nothing before the cursor."""

    class Asked(Message):
        """A question mark where nothing is written: the keys are wanted."""

    class Typed(Message):
        """A key was pressed."""

    def __init__(self, history: PromptHistory, popup: Popup) -> None:
        super().__init__(
            compact=True,
            show_line_numbers=False,
            soft_wrap=True,
            tab_behavior="focus",
            highlight_cursor_line=False,
        )
        self._history_of_prompts = history
        self._popup = popup

    async def _on_key(self, event: "events.Key") -> None:
        self.post_message(self.Typed())
        key = event.key
        if key in NEWLINE_KEYS:
            self._taken(event)
            self.insert("\n")
        elif self._popup.open and key in ("up", "down", "tab", "enter", "escape"):
            self._taken(event)
            self._complete(key)
        elif key == "question_mark" and not self.text:
            self._taken(event)
            self.post_message(self.Asked())
        elif key == "enter":
            self._taken(event)
            if self._continues():
                self.action_delete_left()
                self.insert("\n")
            else:
                self.send()
        elif key == "up" and self.cursor_at_first_line and not event.is_printable:
            self._walk(event, self._history_of_prompts.older(self.text))
        elif key == "down" and self.cursor_at_last_line:
            self._walk(event, self._history_of_prompts.newer())
        elif key == "backspace" and self.cursor_at_start_of_text and not self.selected_text:
            self._taken(event)
            self.post_message(self.Emptied())
        else:
            await super()._on_key(event)

    async def _on_paste(self, event: "events.Paste") -> None:
        paths = dropped_paths(event.text)
        if paths:
            self._taken(event)
            self.post_message(self.Dropped(paths))
            return
        event.text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        await super()._on_paste(event)
        self._taken(event)

    def send(self) -> None:
        """Give away the text, at once: keys that are already behind this one are no part of it."""
        text = self.text
        self.write("")
        self.post_message(self.Sent(text))

    def write(self, text: str) -> None:
        """Let this be the text, the cursor at its end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def _taken(self, event: "events.Key | events.Paste") -> None:
        event.stop()
        event.prevent_default()

    def _complete(self, key: str) -> None:
        if key in ("up", "down"):
            self._popup.move(-1 if key == "up" else 1)
        elif key == "escape":
            self._popup.show([])
        else:
            self.post_message(self.Completed(send=key == "enter"))

    def _continues(self) -> bool:
        """Whether the line ends with a backslash, which asks for another line in terminals that know no Shift+Enter."""
        row, column = self.cursor_location
        return self.selection.is_empty and column > 0 and self.document[row][:column].endswith("\\")

    def _walk(self, event: "events.Key", text: str | None) -> None:
        if text is None:
            return
        self._taken(event)
        self.write(text)
