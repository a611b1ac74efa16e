"""The prompt box: editor, history, completion popup, attachments and hint.

Loaded before the first paint: keep the client out.
"""

import asyncio
import os
import shlex
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from urllib.parse import unquote, urlsplit

from textual import on
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static, TextArea

from accord.frontend.file_index import FileIndex
from accord.safe_text import clean_line
from accord.tui.chat_types import Attachment, Draft
from accord.tui.completion import (
    Completion,
    CompletionPopup,
    CompletionQuery,
    best_completions,
    completion_query,
    format_mention,
)
from accord.tui.ordered_keys import run_own_binding
from accord.tui.prompt_history import PromptHistory
from accord.tui.theme import app_of, set_border

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from accord.schema import AvailableCommand
    from accord.tui.picture_preview import PicturePreview


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


NEWLINE_KEYS: Final = frozenset(("shift+enter", "ctrl+j", "ctrl+enter"))


class _AltEnter(StrEnum):
    """The key that Textual has no name for."""

    ALT_ENTER = "alt+enter"


def recognize_alt_enter() -> None:
    """Recognize Alt+Enter in terminals that send Escape and Return for it."""
    sequences = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    sequences["\x1b\r"] = (_AltEnter.ALT_ENTER,)


class Editor(TextArea):
    """The text area of the prompt. Enter sends; up and down browse the history."""

    DEFAULT_CSS: ClassVar[str] = """
    Editor {
        height: auto; max-height: 12; min-height: 1; padding: 0; border: none; background: transparent;
        scrollbar-size-vertical: 1;
    }
    Editor:focus { border: none; background: transparent; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+underscore", "undo", "Undo", show=False)]

    class HelpRequested(Message):
        """A question mark was typed into the empty prompt."""

    class Typed(Message):
        """A key was pressed."""

    def __init__(self, box: "PromptBox") -> None:
        super().__init__(
            compact=True,
            show_line_numbers=False,
            soft_wrap=True,
            tab_behavior="focus",
            highlight_cursor_line=False,
        )
        self._box = box

    async def _on_key(self, event: "events.Key") -> None:
        self.post_message(self.Typed())
        key = event.key
        self._box.update_popup()
        if key in NEWLINE_KEYS:
            self._consume(event)
            self.insert("\n")
        elif self._box.popup.open and key in ("up", "down", "tab", "enter", "escape"):
            self._consume(event)
            self._box.popup_key(key)
        elif key == "tab":
            self._consume(event)
            self._box.leave()  # at once: the next key may be there already
        elif key == "question_mark" and not self.text:
            self._consume(event)
            self.post_message(self.HelpRequested())
        elif key == "enter":
            self._consume(event)
            if self._ends_with_backslash():
                self.action_delete_left()
                self.insert("\n")
            else:
                self._box.send()
        elif key == "up" and self.cursor_at_first_line and not event.is_printable:
            self._show_history(event, self._box.history.older(self.text))
        elif key == "down" and self.cursor_at_last_line:
            self._show_history(event, self._box.history.newer())
        elif key == "backspace" and self._delete_chip():
            self._consume(event)
        elif key == "backspace" and self.cursor_at_start_of_text and not self.selected_text:
            self._consume(event)
            self._box.remove_last_attachment()
        else:
            await run_own_binding(self, event)

    async def _on_paste(self, event: "events.Paste") -> None:
        if not event.text:  # some terminals paste nothing if the clipboard holds a picture
            self._consume(event)
            self._box.paste_picture()
            return
        paths = dropped_paths(event.text)
        if paths:
            self._consume(event)
            self._box.attach(*(Attachment(os.path.basename(path), path) for path in paths))
            return
        event.text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        if is_long_paste(event.text):
            self._consume(event)
            self.insert(self._box.add_chip(event.text))
            return
        await super()._on_paste(event)
        self._consume(event)

    def write(self, text: str) -> None:
        """Replace the text and move the cursor to its end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def _consume(self, event: "events.Key | events.Paste") -> None:
        event.stop()
        event.prevent_default()

    def _ends_with_backslash(self) -> bool:
        row, column = self.cursor_location
        return self.selection.is_empty and column > 0 and self.document[row][:column].endswith("\\")

    def action_paste(self) -> None:
        """Ctrl+V: paste a picture from the clipboard; otherwise what was copied in the editor."""
        self._box.paste_picture(super().action_paste)

    def chip_at_cursor(self) -> tuple[str, int, int] | None:
        """The chip that the cursor is in or directly behind, and its columns."""
        row, column = self.cursor_location
        line = self.document[row]
        for chip in self._box.pastes:
            start = line.find(chip)
            if start >= 0 and start < column <= start + len(chip):
                return chip, start, start + len(chip)
        return None

    def _delete_chip(self) -> bool:
        found = self.chip_at_cursor() if self.selection.is_empty else None
        if found is not None:
            row = self.cursor_location[0]
            self.delete((row, found[1]), (row, found[2]))
        return found is not None

    def _show_history(self, event: "events.Key", text: str | None) -> None:
        if text is None:
            return
        self._consume(event)
        self.write(text)


_CHIP_LINES: Final = 6
_CHIP_CHARS: Final = 1_000


def is_long_paste(text: str) -> bool:
    """Whether a pasted text is shown as a chip."""
    return text.count("\n") >= _CHIP_LINES - 1 or len(text) > _CHIP_CHARS


PLACEHOLDER: Final = "What should the agent do?"
_MAX_FILE_COMPLETIONS: Final = 50
"""Number of file completions after which the list of files is read again."""


class PromptBox(Vertical):
    """The editor and everything around it."""

    DEFAULT_CSS: ClassVar[str] = """
    PromptBox { height: auto; max-height: 60%; }
    PromptBox > #frame {
        height: auto; border: round $foreground 25%; padding: 0 1; margin: 0;
        border-title-color: $text-muted; border-subtitle-color: $text-muted; background: $background;
    }
    PromptBox > #frame:focus-within { border: round $primary; }
    PromptBox.shell > #frame { border: round $warning; }
    PromptBox #attachments { height: auto; display: none; color: $text-muted; }
    PromptBox #attachments.some { display: block; }
    """

    class Submitted(Message):
        """The user sent a prompt."""

        def __init__(self, draft: Draft, *, later: bool) -> None:
            """`later` keeps the draft until the end of the running turn."""
            super().__init__()
            self.draft = draft
            self.later = later

    class ShellCommand(Message):
        """The user entered a `!command`."""

        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    def __init__(
        self, cwd: str, commands: "Callable[[], Sequence[AvailableCommand]]", leave: Callable[[], None]
    ) -> None:
        """Tab calls `leave`, which moves the focus to the question or to the conversation."""
        super().__init__()
        self.leave = leave
        self.history: PromptHistory = PromptHistory(cwd)
        self.attachments: list[Attachment] = []
        self.pastes: dict[str, str] = {}
        """What the chips in the text stand for."""
        self._preview: PicturePreview | None = None
        self._chips = 0
        self._pictures = 0
        self._cwd = cwd
        self._commands = commands
        self._files = FileIndex(cwd)
        self._completed: CompletionQuery | None = None
        """The word that the list of completions is for."""
        self.popup: CompletionPopup = CompletionPopup()
        self.editor: Editor = Editor(self)
        self.editor.placeholder = PLACEHOLDER

    def compose(self) -> "ComposeResult":
        yield self.popup
        with Vertical(id="frame"):
            yield Static(id="attachments", markup=False)
            yield self.editor

    # -- contents --

    @property
    def draft(self) -> Draft:
        """The current contents."""
        text = self.editor.text
        pastes = {chip: pasted for chip, pasted in self.pastes.items() if chip in text}
        return Draft(text, list(self.attachments), pastes)

    def append(self, draft: Draft) -> None:
        """Append a draft to the contents."""
        before = self.editor.text
        self.pastes |= draft.pastes
        self.editor.write(f"{before.rstrip()}\n{draft.text}" if before.strip() else draft.text)
        self.attach(*draft.attachments)
        self.editor.focus()

    def attach(self, *attachments: Attachment) -> None:
        """Add attachments."""
        known = {(one.path, one.text, one.picture) for one in self.attachments}
        self.attachments += [one for one in attachments if (one.path, one.text, one.picture) not in known]
        self._update_attachments()

    def add_chip(self, text: str) -> str:
        """Keep a pasted text, and return the chip that stands for it in the prompt."""
        self._chips += 1
        lines = text.count("\n") + 1
        size = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        chip = f"[Pasted {self._chips}: {size}]"
        self.pastes[chip] = text
        return chip

    def unfold_chip(self) -> bool:
        """Show what the chip at the cursor stands for. Return whether there is one."""
        found = self.editor.chip_at_cursor() if self.editor.has_focus else None
        if found is not None:
            row = self.editor.cursor_location[0]
            self.editor.replace(self.pastes.pop(found[0]), (row, found[1]), (row, found[2]))
        return found is not None

    def unfold_chips(self) -> str:
        """The text with what all chips stand for, which are then gone."""
        text, self.pastes = self.draft.full_text, {}
        return text

    def paste_picture(self, otherwise: "Callable[[], None] | None" = None) -> None:
        """Attach the picture in the clipboard; `otherwise` is called if there is none."""
        self.run_worker(self._paste_picture(otherwise), group="clipboard", exclusive=True)

    async def _paste_picture(self, otherwise: "Callable[[], None] | None") -> None:
        from accord.errors import UsageError
        from accord.tui.clipboard_picture import read_picture

        problem = "The clipboard holds no picture"
        try:
            data = await asyncio.to_thread(read_picture)
        except UsageError as error:
            data, problem = None, str(error)
        if data is not None:
            self._pictures += 1
            self.attach(Attachment(f"picture {self._pictures}", picture=data))
        elif otherwise is not None and app_of(self).clipboard:
            otherwise()
        else:
            self.notify(problem)

    def remove_last_attachment(self) -> None:
        """Remove the attachment that was added last, if any."""
        del self.attachments[-1:]
        self._update_attachments()

    def take(self) -> Draft:
        """Clear the prompt and return its contents."""
        draft = self.draft
        self.editor.write("")
        self.pastes = {}
        self._remove_attachments()
        return draft

    def clear(self) -> None:
        """Clear the prompt; the text stays in the history."""
        self.history.add(self.draft.full_text)
        self.editor.write("")
        self.pastes = {}
        self._remove_attachments()
        self.popup.show([])

    def _remove_attachments(self) -> None:
        self.attachments = []
        self._update_attachments()

    def _update_attachments(self) -> None:
        names = self.query_one("#attachments", Static)
        names.update("  ".join(f"⊕ {clean_line(_label(attachment))}" for attachment in self.attachments))
        names.set_class(bool(self.attachments), "some")
        self._update_preview()

    def _update_preview(self) -> None:
        """Show the picture that was attached last, in terminals that can."""
        pictures = [data for attachment in self.attachments if (data := _picture(attachment))]
        preview = self._preview
        if preview is None and pictures:
            from accord.tui.picture_preview import PicturePreview, picture_protocol

            protocol = picture_protocol(os.environ)
            if not protocol:
                return
            preview = self._preview = PicturePreview(protocol)
            self.query_one("#frame", Vertical).mount(preview, before="#attachments")
        if preview is not None:
            preview.show(pictures[-1] if pictures else b"")

    def set_hint(self, text: str) -> None:
        """Show a hint on the border."""
        set_border(self.query_one("#frame", Vertical), subtitle=text)

    # -- sending --

    def send(self, *, later: bool = False) -> None:
        """Clear the prompt and post its contents. Keys that follow belong to the next prompt."""
        draft = self.take()
        self.history.add(draft.full_text)
        command = draft.text.strip()
        if command.startswith("!") and command[1:].strip():
            self.post_message(self.ShellCommand(command[1:].strip()))
        else:
            self.post_message(self.Submitted(draft, later=later))

    # -- completion --

    @on(TextArea.Changed)
    def _changed(self) -> None:
        self.set_class(self.editor.text.lstrip().startswith("!"), "shell")
        self._update_completions()

    @on(TextArea.SelectionChanged)
    def _moved(self) -> None:
        if self.popup.open:
            self._update_completions()

    def update_popup(self) -> None:
        """Before a key: make the list one of the word at the cursor, if letters have come since."""
        query = self._query_at_cursor()
        if not self.popup.open or query == self._completed:
            return
        if query is not None and query.kind == "file":
            self._completed = query
            self._show_files(self._files.find_now(query.text, _MAX_FILE_COMPLETIONS))
        else:
            self._update_completions()

    def _update_completions(self) -> None:
        """Show completions for the word at the cursor."""
        query = self._completed = self._query_at_cursor()
        if query is None or self.history.browsing:
            self.popup.show([])
            self._show_argument_hint(self.editor.text)
        elif query.kind == "command":
            self.popup.show(self._matching_commands(query.text))
        else:
            self._complete_files(query)

    def _query_at_cursor(self) -> CompletionQuery | None:
        editor = self.editor
        row, column = editor.cursor_location
        if not editor.selection.is_empty:
            return None
        return completion_query(editor.document[row], column, first=row == 0)

    def _matching_commands(self, query: str) -> list[Completion]:
        from accord.tui.slash_commands import COMMANDS  # on first use

        own = {
            command.name: Completion(f"/{command.name} ", f"/{command.name}", command.description)
            for command in COMMANDS
        }
        listed = dict(own)
        for command in self._commands():
            # A second slash reaches the agent's command of the same name.
            label = f"//{command.name}" if command.name in own else f"/{command.name}"
            listed[label.removeprefix("/")] = Completion(f"{label} ", label, command.description)
        return [listed[name] for name in best_completions(listed, query)]

    def _show_argument_hint(self, text: str) -> None:
        """Show which arguments a command takes."""
        name, space, arguments = text.partition(" ")
        hint = ""
        if name.startswith("/") and space and not arguments.strip():
            from accord.tui.slash_commands import COMMANDS

            hints = {f"/{command.name}": _argument_hint(command) for command in self._commands()}
            hints |= {f"/{command.name}": command.argument for command in COMMANDS}
            hint = hints.get(name, "")
        self.set_hint(hint)

    def _complete_files(self, query: CompletionQuery) -> None:
        if self._files.complete:
            self._files.refresh()
            self._show_files(self._files.find_now(query.text, _MAX_FILE_COMPLETIONS))
        else:
            self.run_worker(self._search_files(query), group="files", exclusive=True, exit_on_error=False)

    async def _search_files(self, query: CompletionQuery) -> None:
        """Show matching files, and more as they are found while the folder is read for the first time."""
        complete = False
        while not complete:
            paths, complete = await self._files.find(query.text, _MAX_FILE_COMPLETIONS)
            if self._query_at_cursor() != query:
                return  # the user has typed on
            self._show_files(paths)
            if not complete:
                await self._files.wait_for_more()

    def _show_files(self, paths: "list[str]") -> None:
        self.popup.show([Completion(f"{format_mention(path)} ", path) for path in paths])

    def on_unmount(self) -> None:
        self._files.close()

    @on(CompletionPopup.Chosen)
    def _clicked(self, event: CompletionPopup.Chosen) -> None:
        event.stop()
        self.popup.selected = event.index
        self._complete()
        self.editor.focus()

    def popup_key(self, key: str) -> None:
        """Handle a key while completions are shown. Enter on a complete command sends it."""
        completion = self.popup.current
        if key in ("up", "down"):
            self.popup.move(-1 if key == "up" else 1)
        elif key == "escape":
            self.popup.show([])
        elif key == "enter" and completion is not None and self.editor.text.strip() == completion.label:
            self.popup.show([])
            self.send()
        else:
            self._complete()

    def _complete(self) -> None:
        completion, editor = self.popup.current, self.editor
        row, column = editor.cursor_location
        query = completion_query(editor.document[row], column, first=row == 0)
        if completion is None or query is None:
            return
        value = completion.value
        if value.endswith("/ "):
            value = value[:-1]  # a folder: let the user continue
        editor.replace(value, (row, query.start), (row, column))
        if not value.endswith("/"):
            self.popup.show([])
        self._show_argument_hint(editor.text)


def _label(attachment: Attachment) -> str:
    """The name of an attachment; of a picture also what it is."""
    from accord.tui.picture_info import HEAD_BYTES, picture_info  # on first use

    head, size = attachment.picture[:HEAD_BYTES], len(attachment.picture)
    if attachment.path:
        try:
            with open(attachment.path, "rb") as file:
                head, size = file.read(HEAD_BYTES), os.fstat(file.fileno()).st_size
        except OSError:
            return attachment.name
    info = picture_info(head)
    return attachment.name if info is None else f"{attachment.name} ({info.describe(size)})"


def _picture(attachment: Attachment) -> bytes:
    """The bytes of an attached picture that can be shown; empty for anything else."""
    from accord.frontend.attachments import picture_type
    from accord.tui.picture_preview import MAX_BYTES

    data = attachment.picture
    if attachment.path:
        try:
            with open(attachment.path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError:
            return b""
    return data if data and len(data) <= MAX_BYTES and picture_type(data) is not None else b""


def _argument_hint(command: "AvailableCommand") -> str:
    return command.input.hint if command.input and hasattr(command.input, "hint") else ""
