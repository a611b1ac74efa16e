"""The prompt editor, the history of prompts, and dropped paths."""

import hashlib
import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from urllib.parse import unquote, urlsplit

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys
from textual.message import Message
from textual.widgets import TextArea

from accord.paths import data_dir
from accord.private_files import private_file, private_folder
from accord.tui.prompt.completion import CompletionPopup

if TYPE_CHECKING:
    from textual import events


MAX_PROMPTS: Final = 500
_MAX_PROMPT: Final = 20_000
_MAX_FILE_BYTES: Final = 4 * 1024 * 1024


class PromptHistory:
    """Earlier prompts of a folder, stored in a file. The current text comes after the latest."""

    def __init__(self, cwd: str) -> None:
        key = hashlib.sha256(os.path.realpath(cwd).encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._path = data_dir() / "prompts" / f"{key}.jsonl"
        self._texts: list[str] | None = None
        self._index = 0
        self._draft = ""

    @property
    def texts(self) -> list[str]:
        """All prompts, oldest first."""
        if self._texts is None:
            self._texts = _read(self._path)
            self._index = len(self._texts)
        return self._texts

    @property
    def browsing(self) -> bool:
        """Whether an earlier prompt is shown."""
        return self._index < len(self.texts)

    def add(self, text: str) -> None:
        """Add a sent prompt."""
        texts = self.texts
        if text.strip() and len(text) <= _MAX_PROMPT and (not texts or texts[-1] != text):
            texts.append(text)
            self._write(text)
        del texts[:-MAX_PROMPTS]
        self.reset()

    def reset(self) -> None:
        """Return to the current text."""
        self._index = len(self.texts)
        self._draft = ""

    def older(self, current: str) -> str | None:
        """Return the previous prompt; None at the start."""
        texts = self.texts
        if self._index == 0 or not texts:
            return None
        if self._index == len(texts):
            self._draft = current
        self._index -= 1
        return texts[self._index]

    def newer(self) -> str | None:
        """Return the next prompt, finally the current text; None at the end."""
        texts = self.texts
        if self._index >= len(texts):
            return None
        self._index += 1
        return self._draft if self._index == len(texts) else texts[self._index]

    def _write(self, text: str) -> None:
        try:
            private_folder(self._path.parent)
            private_file(self._path)
            if self._path.stat().st_size > _MAX_FILE_BYTES:
                recent = "".join(json.dumps(prompt) + "\n" for prompt in self.texts[-MAX_PROMPTS // 2 :])
                self._path.write_text(recent, encoding="utf-8")
                return
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(text) + "\n")
        except OSError:
            pass  # the history is optional


def _read(path: Path) -> list[str]:
    texts: list[str] = []
    try:
        if path.stat().st_size > _MAX_FILE_BYTES * 2:
            return []
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[-MAX_PROMPTS:]:
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                texts.append(text)
    except OSError:
        pass
    return texts


_MAX_PATHS_TEXT: Final = 4_000
_MAX_PATHS: Final = 20


def dropped_paths(text: str) -> list[str]:
    """Return the paths of existing files if a pasted text contains nothing else.

    Terminals drop paths quoted, escaped or as file URLs.
    """
    text = text.strip()
    if not text or len(text) > _MAX_PATHS_TEXT or "\0" in text:
        return []
    if _is_file(text):
        return [_path(text)]
    lines = text.splitlines()
    words = [line.strip() for line in lines if line.strip()] if len(lines) > 1 else _words(text)
    if not 0 < len(words) <= _MAX_PATHS or not all(map(_is_file, words)):
        return []
    return list(dict.fromkeys(map(_path, words)))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _path(word: str) -> str:
    if word.startswith("file://"):
        word = unquote(urlsplit(word).path)
    return os.path.expanduser(word)


def _is_file(word: str) -> bool:
    path = _path(word)
    try:
        return os.path.isabs(path) and os.path.isfile(path)
    except (OSError, ValueError):
        return False


NEWLINE_KEYS: Final = frozenset(("shift+enter", "alt+enter", "ctrl+j", "ctrl+enter"))


def recognize_alt_enter() -> None:
    """Recognize Alt+Enter in terminals that send Escape and Return for it."""
    sequences = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    sequences.setdefault("\x1b\r", (Keys.ControlJ,))


class Editor(TextArea):
    """The text area of the prompt. Enter sends; up and down browse the history."""

    DEFAULT_CSS: ClassVar[str] = """
    Editor {
        height: auto; max-height: 12; min-height: 1; padding: 0; border: none; background: transparent;
        scrollbar-size-vertical: 1;
    }
    Editor:focus { border: none; background: transparent; }
    """

    class Sent(Message):
        """Enter was pressed on this text. The editor is already empty."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Dropped(Message):
        """Files were pasted or dropped."""

        def __init__(self, paths: list[str]) -> None:
            super().__init__()
            self.paths = paths

    class Completed(Message):
        """The user accepted the selected completion; `send` is set for Enter."""

        def __init__(self, *, send: bool) -> None:
            super().__init__()
            self.send = send

    class BackspaceAtStart(Message):
        """Backspace was pressed at the start of the text."""

    class HelpRequested(Message):
        """A question mark was typed into the empty prompt."""

    class Typed(Message):
        """A key was pressed."""

    def __init__(self, history: PromptHistory, popup: CompletionPopup) -> None:
        super().__init__(
            compact=True,
            show_line_numbers=False,
            soft_wrap=True,
            tab_behavior="focus",
            highlight_cursor_line=False,
        )
        self._prompt_history = history
        self._popup = popup

    async def _on_key(self, event: "events.Key") -> None:
        self.post_message(self.Typed())
        key = event.key
        if key in NEWLINE_KEYS:
            self._consume(event)
            self.insert("\n")
        elif self._popup.open and key in ("up", "down", "tab", "enter", "escape"):
            self._consume(event)
            self._complete(key)
        elif key == "question_mark" and not self.text:
            self._consume(event)
            self.post_message(self.HelpRequested())
        elif key == "enter":
            self._consume(event)
            if self._ends_with_backslash():
                self.action_delete_left()
                self.insert("\n")
            else:
                self.send()
        elif key == "up" and self.cursor_at_first_line and not event.is_printable:
            self._show_history(event, self._prompt_history.older(self.text))
        elif key == "down" and self.cursor_at_last_line:
            self._show_history(event, self._prompt_history.newer())
        elif key == "backspace" and self.cursor_at_start_of_text and not self.selected_text:
            self._consume(event)
            self.post_message(self.BackspaceAtStart())
        else:
            await super()._on_key(event)

    async def _on_paste(self, event: "events.Paste") -> None:
        paths = dropped_paths(event.text)
        if paths:
            self._consume(event)
            self.post_message(self.Dropped(paths))
            return
        event.text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        await super()._on_paste(event)
        self._consume(event)

    def send(self) -> None:
        """Clear the editor and post its text. Keys that follow belong to the next prompt."""
        text = self.text
        self.write("")
        self.post_message(self.Sent(text))

    def write(self, text: str) -> None:
        """Replace the text and move the cursor to its end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def _consume(self, event: "events.Key | events.Paste") -> None:
        event.stop()
        event.prevent_default()

    def _complete(self, key: str) -> None:
        if key in ("up", "down"):
            self._popup.move(-1 if key == "up" else 1)
        elif key == "escape":
            self._popup.show([])
        else:
            self.post_message(self.Completed(send=key == "enter"))

    def _ends_with_backslash(self) -> bool:
        row, column = self.cursor_location
        return self.selection.is_empty and column > 0 and self.document[row][:column].endswith("\\")

    def _show_history(self, event: "events.Key", text: str | None) -> None:
        if text is None:
            return
        self._consume(event)
        self.write(text)
