"""The prompt box: editor, completion popup, attachments and hint.

Loaded before the first paint: keep the client out.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static, TextArea

from accord.safe_text import clean_line
from accord.tui.chat_types import Attachment, Draft
from accord.tui.prompt.completion import (
    Completion,
    CompletionPopup,
    CompletionQuery,
    best_completions,
    completion_query,
    format_mention,
    list_files,
)
from accord.tui.prompt.prompt_editor import Editor, PromptHistory
from accord.tui.theme import set_border

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.worker import Worker

    from accord.schema import AvailableCommand

PLACEHOLDER: Final = "What should the agent do?   / commands   @ files   ! shell"
_REREAD_AFTER: Final = 20
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

        def __init__(self, draft: Draft) -> None:
            super().__init__()
            self.draft = draft

    class ShellCommand(Message):
        """The user entered a `!command`."""

        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    def __init__(self, cwd: str, commands: "Callable[[], Sequence[AvailableCommand]]") -> None:
        super().__init__()
        self.history: PromptHistory = PromptHistory(cwd)
        self.attachments: list[Attachment] = []
        self._cwd = cwd
        self._commands = commands
        self._files: list[str] | None = None
        self._completions_used = 0
        self._file_worker: Worker[None] | None = None
        self.popup: CompletionPopup = CompletionPopup()
        self.editor: Editor = Editor(self.history, self.popup)
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
        return Draft(self.editor.text, list(self.attachments))

    def append(self, draft: Draft) -> None:
        """Append a draft to the contents."""
        before = self.editor.text
        self.editor.write(f"{before.rstrip()}\n{draft.text}" if before.strip() else draft.text)
        self.attach(*draft.attachments)
        self.editor.focus()

    def attach(self, *attachments: Attachment) -> None:
        """Add attachments."""
        known = {(attachment.path, attachment.text) for attachment in self.attachments}
        self.attachments += [
            attachment for attachment in attachments if (attachment.path, attachment.text) not in known
        ]
        self._update_attachments()

    def clear(self) -> None:
        """Clear the prompt; the text stays in the history."""
        self.history.add(self.editor.text)
        self.editor.write("")
        self._remove_attachments()
        self.popup.show([])

    def _remove_attachments(self) -> None:
        self.attachments = []
        self._update_attachments()

    def _update_attachments(self) -> None:
        names = self.query_one("#attachments", Static)
        names.update("  ".join(f"⊕ {clean_line(attachment.name)}" for attachment in self.attachments))
        names.set_class(bool(self.attachments), "some")

    def set_hint(self, text: str) -> None:
        """Show a hint on the border."""
        set_border(self.query_one("#frame", Vertical), subtitle=text)

    # -- sending --

    @on(Editor.Sent)
    def _send(self, event: Editor.Sent) -> None:
        event.stop()
        draft = Draft(event.text, list(self.attachments))
        self.history.add(draft.text)
        self._remove_attachments()
        command = draft.text.strip()
        if command.startswith("!") and command[1:].strip():
            self.post_message(self.ShellCommand(command[1:].strip()))
        else:
            self.post_message(self.Submitted(draft))

    @on(Editor.Dropped)
    def _dropped(self, event: Editor.Dropped) -> None:
        event.stop()
        self.attach(*(Attachment(os.path.basename(path), path) for path in event.paths))

    @on(Editor.BackspaceAtStart)
    def _backspace_at_start(self, event: Editor.BackspaceAtStart) -> None:
        event.stop()
        if self.attachments:
            self.attachments.pop()
            self._update_attachments()

    # -- completion --

    @on(TextArea.Changed)
    def _changed(self) -> None:
        self.set_class(self.editor.text.lstrip().startswith("!"), "shell")
        self._update_completions()

    @on(TextArea.SelectionChanged)
    def _moved(self) -> None:
        if self.popup.open:
            self._update_completions()

    def _update_completions(self) -> None:
        """Show completions for the word at the cursor."""
        editor = self.editor
        row, column = editor.cursor_location
        query = (
            completion_query(editor.document[row], column, first=row == 0)
            if editor.selection.is_empty
            else None
        )
        if query is None or self.history.browsing:
            self.popup.show([])
            self._show_argument_hint(editor.text)
        elif query.kind == "command":
            self.popup.show(self._matching_commands(query.text))
        else:
            self._complete_files(query)

    def _matching_commands(self, query: str) -> list[Completion]:
        commands = {command.name: command for command in self._commands()}
        return [
            Completion(f"/{name} ", f"/{name}", commands[name].description)
            for name in best_completions(commands, query)
        ]

    def _show_argument_hint(self, text: str) -> None:
        """Show which arguments a command takes."""
        name, space, arguments = text.partition(" ")
        hint = ""
        if name.startswith("/") and space and not arguments.strip():
            hint = next(
                (_argument_hint(command) for command in self._commands() if command.name == name[1:]), ""
            )
        self.set_hint(hint)

    def _complete_files(self, query: CompletionQuery) -> None:
        if self._files is None or self._completions_used > _REREAD_AFTER:
            self._completions_used = 0
            if self._file_worker is None or self._file_worker.is_finished:
                self._file_worker = self.run_worker(self._read_files, thread=True, exit_on_error=False)
        paths = best_completions(self._files or (), query.text)
        self.popup.show([Completion(f"{format_mention(path)} ", path) for path in paths])

    def _read_files(self) -> None:
        files = list_files(self._cwd)

        def set_files() -> None:
            first, self._files = self._files is None, files
            if first:
                self._update_completions()

        if self.is_attached:
            self.call_later(set_files)

    @on(CompletionPopup.Chosen)
    def _clicked(self, event: CompletionPopup.Chosen) -> None:
        event.stop()
        self.popup.selected = event.index
        self._complete()
        self.editor.focus()

    @on(Editor.Completed)
    def _completed(self, event: Editor.Completed) -> None:
        event.stop()
        completion = self.popup.current
        if event.send and completion is not None and self.editor.text.strip() == completion.label:
            self.popup.show([])
            self.editor.send()
        else:
            self._complete()

    def _complete(self) -> None:
        completion, editor = self.popup.current, self.editor
        row, column = editor.cursor_location
        query = completion_query(editor.document[row], column, first=row == 0)
        if completion is None or query is None:
            return
        self._completions_used += 1
        value = completion.value
        if value.endswith("/ "):
            value = value[:-1]  # a folder: let the user continue
        editor.replace(value, (row, query.start), (row, column))
        if not value.endswith("/"):
            self.popup.show([])
        self._show_argument_hint(editor.text)


def _argument_hint(command: "AvailableCommand") -> str:
    return command.input.hint if command.input and hasattr(command.input, "hint") else ""
