"""The place where the user writes: editor, completions above it, what is attached, and what is being typed for."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from textual import on
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static, TextArea

from accord.tui.chat_types import Attachment, Draft
from accord.tui.prompt.completion import (
    Completion,
    CompletionPopup,
    CompletionQuery,
    completing,
    list_files,
    mention,
    ranked,
)
from accord.tui.prompt.prompt_editor import Editor, PromptHistory

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.worker import Worker

    from accord.schema import AvailableCommand

PLACEHOLDER: Final = "Say what to do   / commands   @ files   ! shell"
_FRESH: Final = 20
"""Completions of files after which the list is read anew."""


class PromptBox(Vertical):
    """The editor and everything around it."""

    DEFAULT_CSS = """
    PromptBox { height: auto; max-height: 60%; }
    PromptBox > #frame {
        height: auto; border: round $foreground 25%; padding: 0 1; margin: 0;
        border-title-color: $text-muted; border-subtitle-color: $text-muted; background: $background;
    }
    PromptBox > #frame:focus-within { border: round $primary; }
    PromptBox.shell > #frame { border: round $warning; }
    PromptBox #chips { height: auto; display: none; color: $text-muted; }
    PromptBox #chips.some { display: block; }
    """

    class Said(Message):
        """The user sent something."""

        def __init__(self, draft: Draft) -> None:
            super().__init__()
            self.draft = draft

    class Ran(Message):
        """The user wants a command run in their shell."""

        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    def __init__(self, cwd: str, commands: "Callable[[], Sequence[AvailableCommand]]") -> None:
        super().__init__()
        self.history = PromptHistory(cwd)
        self.attachments: list[Attachment] = []
        self._cwd = cwd
        self._commands = commands
        self._files: list[str] | None = None
        self._uses = 0
        self._reading: Worker[None] | None = None
        self.popup = CompletionPopup()
        self.editor = Editor(self.history, self.popup)
        self.editor.placeholder = PLACEHOLDER

    def compose(self) -> "ComposeResult":
        yield self.popup
        with Vertical(id="frame"):
            yield Static(id="chips", markup=False)
            yield self.editor

    # -- what it holds ------------------------------------------------------------------------------------------

    @property
    def draft(self) -> Draft:
        """What stands there now."""
        return Draft(self.editor.text, list(self.attachments))

    def hold(self, draft: Draft) -> None:
        """Let this stand there, behind what does."""
        before = self.editor.text
        self.editor.write(f"{before.rstrip()}\n{draft.text}" if before.strip() else draft.text)
        self.attach(*draft.attachments)
        self.editor.focus()

    def attach(self, *attachments: Attachment) -> None:
        """Let these go with it."""
        known = {(one.path, one.text) for one in self.attachments}
        self.attachments += [one for one in attachments if (one.path, one.text) not in known]
        self._show_chips()

    def clear(self) -> None:
        """Empty it; the text can be had again by the arrow up."""
        self.history.add(self.editor.text)
        self.editor.write("")
        self._take_off()
        self.popup.show([])

    def _take_off(self) -> None:
        self.attachments = []
        self._show_chips()

    def _show_chips(self) -> None:
        chips = self.query_one("#chips", Static)
        chips.update("  ".join(f"⊕ {one.name}" for one in self.attachments))
        chips.set_class(bool(self.attachments), "some")

    def say_hint(self, text: str) -> None:
        """A few words at the edge of the box."""
        self.query_one("#frame", Vertical).border_subtitle = text

    # -- sending ------------------------------------------------------------------------------------------------

    @on(Editor.Sent)
    def _send(self, event: Editor.Sent) -> None:
        event.stop()
        draft = Draft(event.text, list(self.attachments))
        self.history.add(draft.text)
        self._take_off()
        command = draft.text.strip()
        if command.startswith("!") and command[1:].strip():
            self.post_message(self.Ran(command[1:].strip()))
        else:
            self.post_message(self.Said(draft))

    @on(Editor.Dropped)
    def _dropped(self, event: Editor.Dropped) -> None:
        event.stop()
        self.attach(*(Attachment(os.path.basename(path), path) for path in event.paths))

    @on(Editor.Emptied)
    def _emptied(self, event: Editor.Emptied) -> None:
        event.stop()
        if self.attachments:
            self.attachments.pop()
            self._show_chips()

    # -- completing ---------------------------------------------------------------------------------------------

    @on(TextArea.Changed)
    def _changed(self) -> None:
        self.set_class(self.editor.text.lstrip().startswith("!"), "shell")
        self._offer()

    @on(TextArea.SelectionChanged)
    def _moved(self) -> None:
        if self.popup.open:
            self._offer()

    def _offer(self) -> None:
        """Offer what fits to the word at the cursor."""
        editor = self.editor
        row, column = editor.cursor_location
        found = (
            completing(editor.document[row], column, first=row == 0) if editor.selection.is_empty else None
        )
        if found is None or self.history.walking:
            self.popup.show([])
            self._hint_for(editor.text)
        elif found.kind == "command":
            self.popup.show(self._fitting_commands(found.letters))
        else:
            self._offer_files(found)

    def _fitting_commands(self, letters: str) -> list[Completion]:
        known = {command.name: command for command in self._commands()}
        return [
            Completion(f"/{name} ", f"/{name}", known[name].description, _wanted(known[name]))
            for name in ranked(known, letters)
        ]

    def _hint_for(self, text: str) -> None:
        """What is still to be written behind a command."""
        name, space, rest = text.partition(" ")
        hint = ""
        if name.startswith("/") and space and not rest.strip():
            hint = next((_wanted(command) for command in self._commands() if command.name == name[1:]), "")
        self.say_hint(hint)

    def _offer_files(self, found: CompletionQuery) -> None:
        if self._files is None or self._uses > _FRESH:
            self._uses = 0
            if self._reading is None or self._reading.is_finished:
                self._reading = self.run_worker(self._read_files, thread=True, exit_on_error=False)
        paths = ranked(self._files or (), found.letters)
        self.popup.show([Completion(f"{mention(path)} ", path) for path in paths])

    def _read_files(self) -> None:
        files = list_files(self._cwd)

        def take() -> None:
            first, self._files = self._files is None, files
            if first:
                self._offer()

        if self.is_attached:
            self.call_later(take)

    @on(CompletionPopup.Chosen)
    def _clicked(self, event: CompletionPopup.Chosen) -> None:
        event.stop()
        self.popup.at = event.index
        self._complete()
        self.editor.focus()

    @on(Editor.Completed)
    def _completed(self, event: Editor.Completed) -> None:
        event.stop()
        chosen = self.popup.current
        if event.send and chosen is not None and self.editor.text.strip() == chosen.label:
            self.popup.show([])
            self.editor.send()
        else:
            self._complete()

    def _complete(self) -> None:
        chosen, editor = self.popup.current, self.editor
        row, column = editor.cursor_location
        found = completing(editor.document[row], column, first=row == 0)
        if chosen is None or found is None:
            return
        self._uses += 1
        value = chosen.value
        if value.endswith("/ "):
            value = value[:-1]  # a folder: one may go on
        editor.replace(value, (row, found.start), (row, column))
        if not value.endswith("/"):
            self.popup.show([])
        self._hint_for(editor.text)


def _wanted(command: "AvailableCommand") -> str:
    return command.input.hint if command.input and hasattr(command.input, "hint") else ""
