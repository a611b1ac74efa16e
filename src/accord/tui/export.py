"""Taking something out of the conversation: a message or a block of code by the clipboard, the whole session as Markdown.

The clipboard is the terminal's (OSC 52). Not every terminal has one, so the text always is in a file, too.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accord.paths import data_dir, private_file, private_folder
from accord.tui.list_screen import ListRow, ListScreen
from accord.tui.theme import count, first_line

if TYPE_CHECKING:
    from pathlib import Path

    from accord.tui.chat_app import ChatApp
    from accord.tui.transcript.transcript_layout import Item

MOST: Final = 74_000
"""Characters that terminals take; of more, some take nothing at all."""


class CodeBlock(NamedTuple):
    """A block of code in a message."""

    language: str
    text: str


def copied_file() -> "Path":
    """Where the text of the latest copy stands."""
    return data_dir() / "chat" / "copied.txt"


def keep_copy(text: str) -> str:
    """Put it into the file; a line that says what became of it."""
    what = count(len(text), "character")
    path = copied_file()
    try:
        private_folder(path.parent)
        private_file(path).write_text(text, "utf-8", errors="replace")
    except OSError as error:
        return f"Copied {what}; {path} cannot be written ({error.strerror})"
    if len(text) > MOST:
        return f"{what}: too many for the clipboard of a terminal; they are in {path}"
    return f"Copied {what}; also in {path}"


def blocks_in(item: "Item") -> list[CodeBlock]:
    """The blocks of code of an item."""
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
    """Copy the marked item or the latest answer; where it has blocks of code, choose among them."""
    from accord.tui.transcript.transcript_items import AnswerItem

    transcript = app.view.transcript
    answers = [
        item for item in reversed(transcript.items) if isinstance(item, AnswerItem) and item.text.strip()
    ]
    item = transcript.marked if transcript.marked is not None and transcript.marked.text else None
    if item is None and not answers:
        app.notify("Nothing to copy yet", severity="warning")
        return
    item = item or answers[0]
    blocks = blocks_in(item)
    if not blocks:
        app.copy_to_clipboard(item.text)
        return

    def chosen(text: Any) -> None:
        if text is not None:
            app.copy_to_clipboard(text)

    screen = ListScreen("Copy", _rows(item.text, blocks))
    screen.add_class("small")
    app.push_screen(screen, chosen)


def _rows(text: str, blocks: Sequence[CodeBlock]) -> list[ListRow]:
    rows = [ListRow(text, "The whole message", _glimpse(text), right=_lines(text))]
    rows += [
        ListRow(
            block.text,
            f"Code {number}" + (f" ({block.language})" if block.language else ""),
            _glimpse(block.text),
            right=_lines(block.text),
            also=block.text[:2000],
        )
        for number, block in enumerate(blocks, 1)
    ]
    return rows


def _glimpse(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _lines(text: str) -> str:
    return count(len(text.splitlines()), "line")


def export(app: "ChatApp") -> None:
    """Write the session to a Markdown file; the user says where."""
    conversation = app.view.conversation
    if conversation is None or conversation.session is None:
        app.notify("There is no session yet", severity="warning")
        return
    from accord.errors import UsageError
    from accord.frontend.transcript import SessionListEntry, StoredTranscript, free_place, markdown, write_new
    from accord.tui.list_screen import LineScreen

    session, server = conversation.session, conversation.server
    entry = SessionListEntry(
        agent=server.name if server is not None else app.view.status.agent,
        session_id=session.id,
        cwd=session.cwd,
        title=session.state.title or None,
        updated=session.state.updated_at or None,
        additional_directories=session.additional_directories,
    )

    def write(text: str) -> str | None:
        try:
            place = free_place(text)
            write_new(place, markdown(StoredTranscript(entry, session.state, "agent")))
        except UsageError as error:
            return first_line(error)
        app.notify(f"The session is in {place}")
        return None

    app.push_screen(
        LineScreen(
            "Export the session as Markdown to",
            _suggested(app.view.start.cwd, entry.title or session.id),
            write,
        )
    )


def _suggested(folder: str, name: str) -> str:
    """A file in the folder of the session that is not there yet."""
    import os
    import re

    if not os.path.isdir(folder):
        folder = os.getcwd()
    words = re.sub(r"[^\w.-]+", "-", name.casefold()).strip("-.")[:60] or "session"
    place = os.path.join(folder, f"{words}.md")
    number = 1
    while os.path.exists(place):
        number += 1
        place = os.path.join(folder, f"{words}-{number}.md")
    return place
