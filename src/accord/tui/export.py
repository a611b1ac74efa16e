"""Copy a message or a code block, and export the session as Markdown.

Copies go through the terminal (OSC 52). Not every terminal supports it, so each copy is
also written to a file.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accord.frontend.display_text import error_line
from accord.paths import data_dir
from accord.private_files import private_file, private_folder
from accord.text_width import count_text
from accord.tui.list_screen import ListRow, ListScreen

if TYPE_CHECKING:
    from pathlib import Path

    from accord.tui.chat_app import ChatApp
    from accord.tui.transcript.transcript_layout import Item

MAX_CLIPBOARD: Final = 74_000
"""Characters that all terminals with a clipboard accept; some ignore longer texts."""


class CodeBlock(NamedTuple):
    """A code block of a message."""

    language: str
    text: str


def copied_file() -> "Path":
    """Return the path of the file with the latest copy."""
    return data_dir() / "chat" / "copied.txt"


def save_copy(text: str) -> str:
    """Write the copy to the file; return a message for the user."""
    size = count_text(len(text), "character")
    path = copied_file()
    try:
        private_folder(path.parent)
        private_file(path).write_text(text, "utf-8", errors="replace")
    except OSError as error:
        return f"Copied {size}; cannot write {path} ({error.strerror})"
    if len(text) > MAX_CLIPBOARD:
        return f"{size}: too long for the terminal clipboard; written to {path}"
    return f"Copied {size}; also in {path}"


def code_blocks(item: "Item") -> list[CodeBlock]:
    from accord.tui.parts.message_parts import CodePart

    found: list[CodeBlock] = []
    inside = False
    for part in item.parts:
        if not isinstance(part, CodePart):
            inside = False
            continue
        if inside and not part.gap:
            found[-1] = CodeBlock(found[-1].language, f"{found[-1].text}\n{part.text}")
        else:
            found.append(CodeBlock(part.language, part.text))
        inside = True
    return found


def copy(app: "ChatApp") -> None:
    """Copy the selected item or the latest answer; if it has code blocks, let the user choose."""
    from accord.tui.transcript.transcript_items import AnswerItem

    transcript = app.view.transcript
    answers = [
        item for item in reversed(transcript.items) if isinstance(item, AnswerItem) and item.text.strip()
    ]
    item = transcript.selected if transcript.selected is not None and transcript.selected.text else None
    if item is None and not answers:
        app.notify("Nothing to copy yet", severity="warning")
        return
    item = item or answers[0]
    blocks = code_blocks(item)
    if not blocks:
        app.copy_to_clipboard(item.text)
        return

    def on_choice(text: Any) -> None:
        if text is not None:
            app.copy_to_clipboard(text)

    screen = ListScreen("Copy", _rows(item.text, blocks))
    screen.add_class("small")
    app.push_screen(screen, on_choice)


def _rows(text: str, blocks: Sequence[CodeBlock]) -> list[ListRow]:
    rows = [ListRow(text, "The whole message", _first_line(text), right=_line_count(text))]
    rows += [
        ListRow(
            block.text,
            f"Code {number}" + (f" ({block.language})" if block.language else ""),
            _first_line(block.text),
            right=_line_count(block.text),
            search_text=block.text[:2000],
        )
        for number, block in enumerate(blocks, 1)
    ]
    return rows


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _line_count(text: str) -> str:
    return count_text(len(text.splitlines()), "line")


def export(app: "ChatApp") -> None:
    """Ask for a path and write the session to it as Markdown."""
    chat_session = app.view.chat_session
    if chat_session is None or chat_session.session is None:
        app.notify("There is no session yet", severity="warning")
        return
    from accord.errors import UsageError
    from accord.frontend.transcript import (
        SessionListEntry,
        StoredTranscript,
        markdown,
        new_file_path,
        write_new_file,
    )
    from accord.tui.list_screen import TextInputScreen

    session, configured = chat_session.session, chat_session.configured_agent
    entry = SessionListEntry(
        agent=configured.name if configured is not None else app.view.status.agent,
        session_id=session.id,
        cwd=session.cwd,
        title=session.state.title or None,
        updated=session.state.updated_at or None,
        additional_directories=session.additional_directories,
    )

    def write(text: str) -> str | None:
        try:
            path = new_file_path(text)
            write_new_file(path, markdown(StoredTranscript(entry, session.state, "agent")))
        except UsageError as error:
            return error_line(error)
        app.notify(f"Exported the session to {path}")
        return None

    app.push_screen(
        TextInputScreen(
            "Export the session as Markdown to",
            suggested_path(app.view.start.cwd, entry.title or session.id),
            write,
        )
    )


def suggested_path(folder: str, name: str) -> str:
    """Return a path in the folder of the session that does not exist yet."""
    import os
    import re

    if not os.path.isdir(folder):
        folder = os.getcwd()
    stem = re.sub(r"[^\w-]+", "-", name.casefold()).strip("-")[:60] or "session"
    path = os.path.join(folder, f"{stem}.md")
    number = 1
    while os.path.exists(path):
        number += 1
        path = os.path.join(folder, f"{stem}-{number}.md")
    return path
