"""The review of changes: all changes of the turn or session, to revert, comment on or commit.

Imported on first use.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias, cast

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from accord.errors import AccordError
from accord.frontend.display_text import error_line
from accord.frontend.review import (
    Hunk,
    ReviewComment,
    ReviewedFile,
    ReviewScope,
    ReviewService,
    inverse,
    relative_path,
)
from accord.safe_text import clean_line
from accord.text_width import count_text
from accord.tui.chat_types import Draft
from accord.tui.key_footer import KeyHint, ScreenFooter
from accord.tui.list_screen import ListRows, TextInputScreen
from accord.tui.parts.diff_part import marked_pair
from accord.tui.theme import palette_of, set_border
from accord.workspace.roots import Roots

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from accord.tui.chat_app import ChatApp
    from accord.tui.session_view import SessionView
    from accord.tui.theme import Palette

_SCOPES: Final[dict[ReviewScope, str]] = {
    "turn": "Changes of the last turn",
    "session": "Changes of the session",
    "uncommitted": "Everything that is not committed",
}
_MAX_LINE: Final = 2_000
_KEYS: Final = (
    ("x", "revert"),
    ("c", "comment"),
    ("m", "commit"),
    ("Esc", "close"),
    ("n p", "change"),
    ("1 2 3", "turn, session, all"),
    ("Tab", "file"),
    ("u", "undo a revert"),
)
"""The keys, the most important ones first."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """The headline of a file."""

    file: ReviewedFile


@dataclass(frozen=True, slots=True)
class LineRow:
    """One line of a hunk."""

    hunk: Hunk
    sign: str
    number: int
    text: str
    marks: tuple[tuple[int, int], ...] = ()
    """Where the line differs from the one it replaces."""


@dataclass(frozen=True, slots=True)
class GapRow:
    """The space between two hunks."""

    hunk: Hunk


@dataclass(frozen=True, slots=True)
class CommentRow:
    """A comment below its line."""

    comment: ReviewComment


Row: TypeAlias = FileRow | LineRow | GapRow | CommentRow


class ReviewRows(ListRows):
    """Draws the lines of all changes."""

    def __init__(self, cwd: str) -> None:
        super().__init__(empty_text="No changes")
        self._cwd = cwd

    def draw_row(self, row: Row, width: int, palette: "Palette", selected: bool) -> Text:
        match row:
            case FileRow(file):
                line = Text(clean_line(relative_path(file.path, self._cwd)), palette.heading)
                whole = file.hunks[0].whole_file if file.hunks else ""
                line.append(f"  {whole}" if whole else "", palette.muted)
                if file.hunks:
                    line.append(f"  +{file.added}", palette.good).append(f" −{file.removed}", palette.bad)
                note = file.problem or file.note
                return line.append(f"  {clean_line(note)}" if note else "", palette.warn)
            case GapRow(hunk):
                return Text(f"  ⋯ line {hunk.start}", palette.muted)
            case CommentRow(comment):
                text = " ".join(comment.text.split())
                return Text("       ▎ ", palette.warn).append(clean_line(text), palette.text)
            case LineRow(_, sign, number, source, marks):
                styles = {"+": (palette.good, palette.added), "-": (palette.bad, palette.removed)}
                style, background = styles.get(sign, (palette.faint, None))
                line = Text(f"{number:>5} ", palette.faint)
                line.append(f"{'−' if sign == '-' else sign} ", style)
                text = Text(source[:_MAX_LINE], palette.text)
                for start, end in marks:
                    text.stylize(palette.changed(sign), start, end)
                line.append_text(text)
                if background is not None:
                    line.append(" " * max(width - line.cell_len, 0))
                    line.stylize_before(background)
                return line


class ReviewScreen(ModalScreen[None]):
    """All changes on one page, by file and line."""

    DEFAULT_CSS: ClassVar[str] = """
    ReviewScreen { background: $background; }
    ReviewScreen > Vertical {
        height: 100%; padding: 0 1; background: $surface; border: round $primary;
        border-title-color: $primary;
    }
    ReviewScreen #message { height: auto; max-height: 3; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Close", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("n,right_square_bracket", "hunk(1)", "Next change", show=False),
        Binding("p,left_square_bracket", "hunk(-1)", "Previous change", show=False),
        Binding("tab", "file(1)", "Next file", show=False),
        Binding("shift+tab", "file(-1)", "Previous file", show=False),
        Binding("x", "revert", "Revert", show=False),
        Binding("u", "undo_revert", "Take the revert back", show=False),
        Binding("c", "comment", "Comment", show=False),
        Binding("d", "remove_comment", "Remove the comment", show=False),
        Binding("s", "send", "Send the comments", show=False),
        Binding("m", "commit", "Commit", show=False),
        Binding("1", "scope('turn')", "Last turn", show=False),
        Binding("2", "scope('session')", "Session", show=False),
        Binding("3", "scope('uncommitted')", "Not committed", show=False),
    ]

    def __init__(self, view: "SessionView", service: ReviewService) -> None:
        super().__init__()
        self._view = view
        self._service = service
        self._scope: ReviewScope = "turn"
        self._files: Sequence[ReviewedFile] = ()
        self._reverted: list[Hunk] = []
        self.rows: ReviewRows = ReviewRows(str(service.roots.cwd))
        self.message: Static = Static(id="message", markup=False)

    def compose(self) -> "ComposeResult":
        with Vertical(id="frame"):
            yield self.rows
            yield self.message
        yield ScreenFooter(self._key_hints)

    def on_mount(self) -> None:
        self._load(self._first_scope)

    def _first_scope(self) -> None:
        """Show the session if the last turn changed nothing, and then what is not committed."""
        scopes: tuple[ReviewScope, ...] = ("turn", "session", "uncommitted")
        for scope in scopes:
            self._scope = scope
            try:
                self._files = self._service.files(scope)
            except AccordError:
                continue  # not a repository
            if self._files:
                return

    def _load(self, work: Callable[[], object] | None = None, done: str = "") -> None:
        """Do blocking work, then show the changes as they are now."""
        self.run_worker(self._work(work, done), group="review", exclusive=True)

    async def _work(self, work: Callable[[], object] | None, done: str) -> None:
        try:
            if work is not None:
                result = await asyncio.to_thread(work)
                done = done.format(result)
            if work != self._first_scope:
                self._files = await asyncio.to_thread(self._service.files, self._scope)
        except AccordError as error:
            self._show_message(error_line(error), bad=True)
        else:
            self._show_message(done)
        self._show_rows()
        self._view.update_branch()

    def on_resize(self) -> None:
        self._show_rows()

    def _show_rows(self) -> None:
        rows: list[Row] = []
        for file in self._files:
            rows.append(FileRow(file))
            for number, hunk in enumerate(file.hunks):
                rows += [GapRow(hunk)] if number else []
                rows += self._hunk_rows(hunk)
        self.rows.show(rows, min(self.rows.selected_index, max(len(rows) - 1, 0)))
        added, removed = (sum(getattr(file, name) for file in self._files) for name in ("added", "removed"))
        files = count_text(len(self._files), "file")
        title = f"{_SCOPES[self._scope]}: {files}, +{added} −{removed}"
        set_border(self.query_one("#frame", Vertical), title=title)
        self.query_one(ScreenFooter).refresh(layout=True)

    def _key_hints(self) -> Sequence[KeyHint]:
        comments = len(self._service.comments)
        return (("s", f"send {count_text(comments, 'comment')}"), *_KEYS) if comments else _KEYS

    def _hunk_rows(self, hunk: Hunk) -> list[Row]:
        rows: list[Row] = []
        lines = [(sign, at, clean_line(text.rstrip("\n").expandtabs(4))) for sign, at, text in hunk.lines()]
        marks = _marks(lines)
        for index, (sign, number, text) in enumerate(lines):
            rows.append(LineRow(hunk, sign, number, text, marks.get(index, ())))
            is_last_of_line = index + 1 == len(lines) or lines[index + 1][1] != number
            rows += [
                CommentRow(comment)
                for comment in self._service.comments
                if is_last_of_line and (comment.path, comment.line) == (hunk.path, number)
            ]
        return rows

    def _show_message(self, text: str, *, bad: bool = False) -> None:
        palette = palette_of(self)
        self.message.update(Text(clean_line(text), palette.bad if bad else palette.muted))

    @property
    def _hunk(self) -> Hunk | None:
        row: Row | None = self.rows.selected
        if isinstance(row, LineRow | GapRow):
            return row.hunk
        if isinstance(row, FileRow) and len(row.file.hunks) == 1:
            return row.file.hunks[0]
        return None

    # -- moving ----------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        self.rows.move(by)

    def action_page(self, by: int) -> None:
        self.rows.page(by)

    def action_file(self, by: int) -> None:
        self._jump(by, lambda row, before: isinstance(row, FileRow))

    def action_hunk(self, by: int) -> None:
        """Go to the next or previous group of changed lines."""

        def begins(row: Row, before: Row | None) -> bool:
            is_changed = isinstance(row, LineRow) and row.sign != " "
            return is_changed and not (isinstance(before, LineRow) and before.sign != " ")

        self._jump(by, begins)

    def _jump(self, by: int, begins: "Callable[[Row, Row | None], bool]") -> None:
        rows: Sequence[Row] = self.rows.rows
        index = self.rows.selected_index + by
        while 0 <= index < len(rows):
            if begins(rows[index], rows[index - 1] if index else None):
                self.rows.move(index - self.rows.selected_index)
                return
            index += by

    def action_scope(self, scope: ReviewScope) -> None:
        """Show the changes of the last turn, of the session, or all that are not committed."""
        self._scope = scope
        self.rows.selected_index = 0
        self._load()

    # -- acting ----------------------------------------------------------------------------------------------

    def action_revert(self) -> None:
        """Take the selected change back."""
        hunk = self._hunk
        if hunk is None:
            self._show_message("Select a line of the change to revert")
            return

        def revert() -> None:
            self._service.revert(hunk)
            self._reverted.append(hunk)

        self._load(revert, "Reverted; u brings it back")

    def action_undo_revert(self) -> None:
        """Bring the last reverted change back."""
        if not self._reverted:
            self._show_message("Nothing was reverted here")
            return
        hunk = self._reverted[-1]

        def undo() -> None:
            self._service.revert(inverse(hunk))
            self._reverted.pop()

        self._load(undo, "The change is back")

    def action_comment(self) -> None:
        """Comment on the selected line."""
        row: Row | None = self.rows.selected
        if not isinstance(row, LineRow):
            self._show_message("Select a line to comment on")
            return

        def add(text: str) -> str | None:
            self._service.comment(row.hunk, row.number, text)
            self._show_rows()
            return None

        place = f"{relative_path(row.hunk.path, str(self._service.roots.cwd))}, line {row.number}"
        self._chat.push_screen(TextInputScreen(f"Comment on {place}", "", add))

    def action_remove_comment(self) -> None:
        """Remove the selected comment."""
        row: Row | None = self.rows.selected
        if isinstance(row, CommentRow):
            self._service.comments.remove(row.comment)
            self._show_rows()

    def action_send(self) -> None:
        """Send the comments as the next prompt."""
        prompt = self._service.prompt()
        if not prompt:
            self._show_message("No comments yet; c comments on a line")
            return
        self._service.comments.clear()
        self.dismiss(None)
        self._view.submit(Draft(prompt))

    def action_commit(self) -> None:
        """Commit the files of this page."""
        paths = [file.path for file in self._files]
        if not paths:
            self._show_message("Nothing to commit here")
            return

        def commit(message: str) -> str | None:
            self._load(lambda: self._service.commit(message, paths), "Committed as {}")
            return None

        title = f"Message of the commit of {count_text(len(paths), 'file')}"
        self._chat.push_screen(TextInputScreen(title, "", commit))

    @property
    def _chat(self) -> "ChatApp":
        return cast("ChatApp", self.app)  # pyright: ignore[reportUnknownMemberType]


def _marks(lines: "Sequence[tuple[str, int, str]]") -> dict[int, tuple[tuple[int, int], ...]]:
    """Where replaced lines differ, by index: the removed lines are paired with the added ones after them."""
    marks: dict[int, tuple[tuple[int, int], ...]] = {}
    index = 0
    while index < len(lines):
        start = index
        while index < len(lines) and lines[index][0] == "-":
            index += 1
        added = index
        while index < len(lines) and lines[index][0] == "+":
            index += 1
        if added - start == index - added:
            for offset in range(added - start):
                old, new = lines[start + offset][2], lines[added + offset][2]
                marks[start + offset], marks[added + offset] = marked_pair(old, new)
        index += 1 if index == start else 0
    return marks


def open_review(app: "ChatApp") -> None:
    """Show the changes of the visible session."""
    view = app.view
    session = view.chat_session.session if view.chat_session is not None else None
    if session is None:
        app.notify("There is no session yet", severity="warning")
        return
    if view.start.remote is not None or not os.path.isdir(session.cwd):
        app.notify("The files are on another machine", severity="warning")
        return
    if view.review is None or view.review.state is not session.state:
        folders = [folder for folder in session.additional_directories if os.path.isdir(folder)]
        view.review = ReviewService(session.state, Roots(session.cwd, folders))
    app.push_screen(ReviewScreen(view, view.review))
