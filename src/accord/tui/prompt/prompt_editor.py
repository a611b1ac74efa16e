"""The prompt editor, its history, and dropped paths."""

import hashlib
import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys
from textual.message import Message
from textual.widgets import TextArea

from accord.paths import data_dir, private_file, private_folder
from accord.tui.prompt.completion import CompletionPopup

if TYPE_CHECKING:
    from textual import events


# MERGED tui.prompting.history: What was said before in this folder, to be said again: kept in a file of the user's own, the latest last.

KEPT: Final = 500
_LONGEST_HISTORY: Final = 20_000
_LARGEST_FILE: Final = 4 * 1024 * 1024


class PromptHistory:
    """Walk back and forth; the text that was being written is at its end."""

    def __init__(self, cwd: str) -> None:
        key = hashlib.sha256(os.path.realpath(cwd).encode("utf-8", "surrogateescape")).hexdigest()[:24]
        self._path = data_dir() / "prompts" / f"{key}.jsonl"
        self._texts: list[str] | None = None
        self._at = 0
        self._draft = ""

    @property
    def texts(self) -> list[str]:
        """The oldest first."""
        if self._texts is None:
            self._texts = _read(self._path)
            self._at = len(self._texts)
        return self._texts

    @property
    def walking(self) -> bool:
        """Whether an earlier text is shown."""
        return self._at < len(self.texts)

    def add(self, text: str) -> None:
        """It was said."""
        texts = self.texts
        if text.strip() and len(text) <= _LONGEST_HISTORY and (not texts or texts[-1] != text):
            texts.append(text)
            self._write(text)
        del texts[:-KEPT]
        self.rest()

    def rest(self) -> None:
        """Go back to the end."""
        self._at = len(self.texts)
        self._draft = ""

    def older(self, current: str) -> str | None:
        """The text before the one that is shown; None at the beginning."""
        texts = self.texts
        if self._at == 0 or not texts:
            return None
        if self._at == len(texts):
            self._draft = current
        self._at -= 1
        return texts[self._at]

    def newer(self) -> str | None:
        """The text behind it, at last what was being written; None at the end."""
        texts = self.texts
        if self._at >= len(texts):
            return None
        self._at += 1
        return self._draft if self._at == len(texts) else texts[self._at]

    def _write(self, text: str) -> None:
        try:
            private_folder(self._path.parent)
            private_file(self._path)
            if self._path.stat().st_size > _LARGEST_FILE:
                kept = "".join(json.dumps(one) + "\n" for one in self.texts[-KEPT // 2 :])
                self._path.write_text(kept, encoding="utf-8")
                return
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(text) + "\n")
        except OSError:
            pass  # that it is not remembered costs nothing today


def _read(path: Path) -> list[str]:
    texts: list[str] = []
    try:
        if path.stat().st_size > _LARGEST_FILE * 2:
            return []
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[-KEPT:]:
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                texts.append(text)
    except OSError:
        pass
    return texts


# MERGED tui.prompting.paths: Text that is pasted or dropped and is nothing but paths: those files are meant.

_LONGEST_PATH: Final = 4_000
_MOST: Final = 20


def dropped_paths(text: str) -> list[str]:
    """The absolute paths of existing files, if the text holds nothing else; terminals drop them quoted, escaped or as addresses."""
    text = text.strip()
    if not text or len(text) > _LONGEST_PATH or "\0" in text:
        return []
    if _is_file(text):
        return [_path(text)]
    lines = text.splitlines()
    words = [line.strip() for line in lines if line.strip()] if len(lines) > 1 else _words(text)
    if not 0 < len(words) <= _MOST or not all(map(_is_file, words)):
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


# MERGED tui.prompting.editor: The editor of the prompt: Enter sends, other Enters make a line, the arrows walk through what was said before.

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

    def __init__(self, history: PromptHistory, popup: CompletionPopup) -> None:
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
