"""The wire view: all messages of a session, a filter, and the selected message in full.

Imported on first use.
"""

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import Input, Static

from accord.safe_text import clean_line
from accord.text_width import count_text, cut_to_width
from accord.trace import RingEntry
from accord.trace.step_summary import (
    escape_controls,
    escape_lines,
    format_duration,
    format_size,
    summarize_step,
)
from accord.tui.key_footer import ScreenFooter
from accord.tui.list_screen import LineInput, ListRows
from accord.tui.parts.part import highlight
from accord.tui.theme import app_of, palette_of

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from accord.trace import FrameRing
    from accord.tui.chat_app import ChatApp
    from accord.tui.theme import Palette


MAX_SHOWN_LENGTH: Final = 60_000
"""Characters of one message that are shown."""
_SUMMARY_WIDTH: Final = 76
_KEYS: Final = (
    ("Esc", "close"),
    ("↑ ↓", "select"),
    ("Tab", "scroll the message"),
    ("Ctrl+End", "follow"),
    ("F8", "copy"),
)
"""The keys, the most important ones first."""
_KIND_LABELS: Final = {
    "noise": "not JSON",
    "cut": "too long",
    "stderr": "stderr",
    "closed": "closed",
    "exit": "exit",
    "lost": "lost",
}


class FrameRows(ListRows):
    """One row per message."""

    def draw_row(self, row: Any, width: int, palette: "Palette", selected: bool) -> Text:
        entry: RingEntry = row
        from_client = entry.sender == "client"
        bad = entry.kind in ("error", "noise", "cut")
        style = palette.bad if bad else palette.accent if from_client else palette.good
        if entry.sender == "stderr" or entry.kind in ("closed", "exit", "lost"):
            arrow, style = "·", palette.muted
        else:
            arrow = "→" if from_client else "←"
        line = Text(f"{entry.at:>9.3f} ", palette.faint).append(f"{arrow} ", style)
        line.append(f"{entry_label(entry):<28} ", palette.strong if selected else palette.text)
        line.append(f"{format_size(entry.size) if entry.size else '':>8} ", palette.muted)
        if width >= _SUMMARY_WIDTH:
            elapsed = "" if entry.duration is None else format_duration(entry.duration)
            line.append(f"{elapsed:>9}  ", palette.faint)
            available = max(width - cell_len(line.plain), 0)
            line.append(escape_controls(summarize_step(entry.step)[: available + 1]), palette.muted)
        return line


def entry_label(entry: RingEntry) -> str:
    """Return the method and id, with a sign for responses."""
    name = entry.method or _KIND_LABELS.get(entry.kind, entry.kind)
    sign = {"answer": "= ", "error": "✗ ", "request": "", "notification": ""}.get(entry.kind, "")
    id = f" #{entry.id}" if entry.id is not None else ""
    return cut_to_width(f"{sign}{escape_controls(name)}{escape_controls(id)}", 28)


def full_text(entry: RingEntry) -> str:
    """Return the message as indented JSON. Secrets are already removed."""
    text = (
        entry.trace_entry.text if entry.kind not in ("closed", "exit", "lost") else summarize_step(entry.step)
    )
    if entry.kind not in ("noise", "cut", "stderr", "closed", "exit", "lost"):
        try:
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass  # show it as received
    return escape_lines(text)


def draw_entry(entry: RingEntry, palette: "Palette") -> Text:
    """Draw a message with a header line."""
    sides = {"client": "client → agent", "agent": "agent → client", "stderr": "stderr of the agent"}
    header = [
        f"#{entry.number}",
        sides[entry.sender],
        entry.kind,
        escape_controls(entry.method),
        format_size(entry.size),
        f"at {entry.at:.3f} s",
    ]
    if entry.duration is not None:
        header.append(f"took {format_duration(entry.duration)}")
    if entry.session:
        header.append(f"session {escape_controls(entry.session)}")
    out = Text(" · ".join(filter(None, header)), palette.muted).append("\n\n")
    text = full_text(entry)
    for line in highlight(text[:MAX_SHOWN_LENGTH], "json", palette):
        out.append_text(line).append("\n")
    if len(text) > MAX_SHOWN_LENGTH:
        out.append(
            f"… {len(text) - MAX_SHOWN_LENGTH:,} more characters; F8 copies the whole message", palette.warn
        )
    return out


class FrameFilter:
    """A filter of messages: all words must occur, `-word` must not, `>` sent, `<` received, `!` failed.

    Results are cached: messages are long, and the list is drawn often.
    """

    def __init__(self, text: str = "") -> None:
        words = text.casefold().split()
        self._excluded = [word[1:] for word in words if word.startswith("-") and len(word) > 1]
        self._signs = [word for word in words if word in (">", "<", "!")]
        self._words = [word for word in words if word not in self._signs and not word.startswith("-")]
        self._results: dict[int, bool] = {}

    def matches(self, entry: RingEntry) -> bool:
        """Whether a message is shown."""
        result = self._results.get(entry.number)
        if result is None:
            result = self._results[entry.number] = self._match(entry)
        return result

    def _match(self, entry: RingEntry) -> bool:
        for sign in self._signs:
            if not {
                ">": entry.sender == "client",
                "<": entry.sender == "agent",
                "!": entry.kind in ("error", "noise", "cut", "stderr"),
            }[sign]:
                return False
        if not self._words and not self._excluded:
            return True
        head = f"{entry.method} {entry.kind} {entry.session} {entry.id} {entry.sender}".casefold()
        if any(word in head for word in self._excluded):
            return False
        missing = [word for word in self._words if word not in head]
        if not missing:
            return True
        body = entry.trace_entry.text.casefold()  # without secrets
        return all(word in body for word in missing)


BESIDE_WIDTH: Final = 130
"""From this width on, the message is beside the list."""
_UPDATE_INTERVAL: Final = 0.1


def show_wire(app: "ChatApp") -> None:
    """Open the wire view of the visible session."""
    chat_session = app.view.chat_session
    if chat_session is None:
        app.notify("No messages yet", severity="warning")
    else:
        app.push_screen(WireScreen(chat_session.ring, app.view.status.agent))


class WireScreen(Screen[None]):
    """Follows new messages until the user selects an earlier one."""

    DEFAULT_CSS: ClassVar[str] = """
    WireScreen { background: $background; }
    WireScreen #head { height: 1; padding: 0 2; background: $surface; }
    WireScreen #filter { height: 1; border: none; padding: 0 2; background: $background; }
    WireScreen #filter:focus { border: none; }
    WireScreen #both { height: 1fr; layout: vertical; }
    WireScreen #both.beside { layout: horizontal; }
    WireScreen FrameRows { height: 1fr; background: $background; }
    WireScreen #whole { height: 1fr; border-top: solid $panel; padding: 0 1; }
    WireScreen #both.beside > #whole { border-top: none; border-left: solid $panel; width: 45%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f12", "leave", "Close", show=False),
        Binding("up,ctrl+up", "move(-1)", "Up", show=False),
        Binding("down,ctrl+down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("ctrl+home", "edge(0)", "First", show=False, priority=True),
        Binding("ctrl+end", "edge(1)", "Last", show=False, priority=True),
        Binding("tab", "switch_focus", "Scroll the message", show=False, priority=True),
        Binding("f8", "copy", "Copy", show=False),
    ]

    def __init__(self, ring: "FrameRing", agent: str) -> None:
        super().__init__()
        self._ring = ring
        self._agent = agent
        self._frame_filter = FrameFilter()
        self._following = True
        self._update_scheduled = False
        self._shown_entry: RingEntry | None = None
        self.list: FrameRows = FrameRows(empty_text="No matches")
        self.filter_input: LineInput = LineInput(
            placeholder="Filter: words, -word, > sent, < received, ! failed", id="filter", compact=True
        )
        self._message_text = Static(id="text", markup=False)

    def compose(self) -> "ComposeResult":
        yield Static(id="head", markup=False)
        yield self.filter_input
        with Horizontal(id="both"):
            yield self.list
            with VerticalScroll(id="whole"):
                yield self._message_text
        yield ScreenFooter(lambda: _KEYS)

    def on_mount(self) -> None:
        self.filter_input.focus()
        self._unsubscribe = self._ring.subscribe(self._entries_added)
        self._show()

    def on_unmount(self) -> None:
        self._unsubscribe()

    def on_resize(self, event: "events.Resize") -> None:
        self.query_one("#both", Horizontal).set_class(event.size.width >= BESIDE_WIDTH, "beside")

    # -- messages --

    def _entries_added(self, entries: "list[RingEntry]") -> None:
        """Update the list at most ten times per second."""
        if not self._update_scheduled:
            self._update_scheduled = True
            self.set_timer(_UPDATE_INTERVAL, self._show)

    def _show(self) -> None:
        self._update_scheduled = False
        entries = self._ring.entries
        rows = [entry for entry in entries if self._frame_filter.matches(entry)]
        selected: RingEntry | None = self.list.selected
        index = len(rows) - 1
        if not self._following and selected is not None:
            index = next(
                (number for number, entry in enumerate(rows) if entry.number >= selected.number), index
            )
        self.list.show(rows, index)
        palette = palette_of(self)
        title = Text("Wire  ", palette.heading).append(clean_line(self._agent), palette.text)
        title.append(f"  {len(rows):,} of {count_text(len(entries), 'message')}", palette.muted)
        if self._ring.dropped:
            title.append(f", {self._ring.dropped:,} older messages dropped", palette.warn)
        if not self._following:
            title.append("  not following: Ctrl+End", palette.warn)
        self.query_one("#head", Static).update(title)

    @on(ListRows.Selected)
    def _selected(self, event: ListRows.Selected) -> None:
        event.stop()
        entry: RingEntry | None = self.list.selected
        if entry is not self._shown_entry:
            self._shown_entry = entry
            self._message_text.update(Text() if entry is None else draw_entry(entry, palette_of(self)))
            self.query_one("#whole", VerticalScroll).scroll_home(animate=False)

    @on(ListRows.Clicked)
    def _clicked(self, event: ListRows.Clicked) -> None:
        event.stop()
        self._update_following()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self._frame_filter = FrameFilter(event.value)
        self._show()

    # -- keys --

    def _update_following(self) -> None:
        following = self.list.selected_index >= len(self.list.rows) - 1
        if following != self._following:
            self._following = following
            self._show()

    def action_leave(self) -> None:
        """Esc: clear the filter, then close the view."""
        if self.filter_input.value:
            self.filter_input.value = ""
        else:
            self.dismiss(None)

    def action_move(self, by: int) -> None:
        self.list.move(by)
        self._update_following()

    def action_page(self, by: int) -> None:
        self.list.page(by)
        self._update_following()

    def action_edge(self, last: int) -> None:
        self.list.move(len(self.list.rows) if last else -len(self.list.rows))
        self._update_following()

    def action_switch_focus(self) -> None:
        """Move the focus to the message, or back to the filter."""
        message_view = self.query_one("#whole", VerticalScroll)
        (self.filter_input if message_view.has_focus else message_view).focus()

    def action_copy(self) -> None:
        """Copy the selected message."""
        if self.list.selected is not None:
            app_of(self).copy_to_clipboard(full_text(self.list.selected))
