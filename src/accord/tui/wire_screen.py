"""The wire view: messages as they cross, a filter, one message in full.

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
from accord.trace import RingEntry
from accord.trace.step_summary import clean, clean_lines, cut, duration, size, summary
from accord.tui.list_screen import ListRows
from accord.tui.parts.part import highlighted
from accord.tui.theme import app_of, palette_of

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from accord.trace import FrameRing
    from accord.tui.chat_app import ChatApp
    from accord.tui.theme import Palette


# MERGED tui.wire.frames: Messages of the wire as rows, and one of them in full; cleaned of everything that a terminal would obey.

LONGEST: Final = 60_000
"""Characters of one message that are shown."""
_WIDE: Final = 76
_OTHERS: Final = {
    "noise": "no message",
    "cut": "too long",
    "stderr": "stderr",
    "closed": "closed",
    "exit": "exit",
    "lost": "lost",
}


class FrameRows(ListRows):
    """One row for each."""

    def line(self, row: Any, width: int, palette: "Palette", marked: bool) -> Text:
        seen: RingEntry = row
        sent = seen.sender == "client"
        bad = seen.kind in ("error", "noise", "cut")
        style = palette.bad if bad else palette.accent if sent else palette.good
        if seen.sender == "stderr" or seen.kind in ("closed", "exit", "lost"):
            arrow, style = "·", palette.muted
        else:
            arrow = "→" if sent else "←"
        line = Text(f"{seen.at:>9.3f} ", palette.faint).append(f"{arrow} ", style)
        line.append(f"{name_of(seen):<28} ", palette.strong if marked else palette.text)
        line.append(f"{size(seen.size) if seen.size else '':>8} ", palette.muted)
        if width >= _WIDE:
            took = "" if seen.took is None else duration(seen.took)
            line.append(f"{took:>9}  ", palette.faint)
            room = max(width - cell_len(line.plain), 0)
            line.append(clean(summary(seen.step)[: room + 1]), palette.muted)
        return line


def name_of(seen: RingEntry) -> str:
    """What it is called: its method, and whether it answers."""
    name = seen.method or _OTHERS.get(seen.kind, seen.kind)
    sign = {"answer": "= ", "error": "✗ ", "request": "", "notification": ""}.get(seen.kind, "")
    id = f" #{seen.id}" if seen.id is not None else ""
    return cut(f"{sign}{clean(name)}{clean(id)}", 28)


def whole_text(seen: RingEntry) -> str:
    """All of it, its JSON on lines; what was a secret is not in it."""
    text = seen.entry.text if seen.kind not in ("closed", "exit", "lost") else summary(seen.step)
    if seen.kind not in ("noise", "cut", "stderr", "closed", "exit", "lost"):
        try:
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass  # then as it came
    return clean_lines(text)


def drawn(seen: RingEntry, palette: "Palette") -> Text:
    """The same, with its head and in colours."""
    sides = {"client": "client → agent", "agent": "agent → client", "stderr": "stderr of the agent"}
    facts = [
        f"#{seen.number}",
        sides[seen.sender],
        seen.kind,
        clean(seen.method),
        size(seen.size),
        f"at {seen.at:.3f} s",
    ]
    if seen.took is not None:
        facts.append(f"took {duration(seen.took)}")
    if seen.session:
        facts.append(f"session {clean(seen.session)}")
    out = Text(" · ".join(filter(None, facts)), palette.muted).append("\n\n")
    text = whole_text(seen)
    for line in highlighted(text[:LONGEST], "json", palette):
        out.append_text(line).append("\n")
    if len(text) > LONGEST:
        out.append(f"… {len(text) - LONGEST:,} characters more; F8 copies all of it", palette.warn)
    return out


# MERGED tui.wire.sieve: Which messages are shown: all words of the filter have to be in a message, `>` is what was sent, `<` what came, `!` what failed.


class FrameFilter:
    """One filter. What it found of a message is remembered: messages are long, and the list is drawn often."""

    def __init__(self, text: str = "") -> None:
        words = text.casefold().split()
        self._without = [word[1:] for word in words if word.startswith("-") and len(word) > 1]
        self._signs = [word for word in words if word in (">", "<", "!")]
        self._with = [word for word in words if word not in self._signs and not word.startswith("-")]
        self._known: dict[int, bool] = {}

    def wants(self, seen: RingEntry) -> bool:
        """Whether this one is to be shown."""
        found = self._known.get(seen.number)
        if found is None:
            found = self._known[seen.number] = self._judged(seen)
        return found

    def _judged(self, seen: RingEntry) -> bool:
        for sign in self._signs:
            if not {
                ">": seen.sender == "client",
                "<": seen.sender == "agent",
                "!": seen.kind in ("error", "noise", "cut", "stderr"),
            }[sign]:
                return False
        if not self._with and not self._without:
            return True
        head = f"{seen.method} {seen.kind} {seen.session} {seen.id} {seen.sender}".casefold()
        if any(word in head for word in self._without):
            return False
        missing = [word for word in self._with if word not in head]
        if not missing:
            return True
        body = seen.entry.text.casefold()  # as it is shown: a secret is not found
        return all(word in body for word in missing)


# MERGED tui.wire.screen: The wire view on the screen: the messages of a session as they cross, a filter, and the marked one in full.

BESIDE: Final = 130
"""From this width on the message stands beside the list."""
_GLANCE: Final = 0.1


def show_wire(app: "ChatApp") -> None:
    """Show the messages of the session that is shown."""
    conversation = app.view.conversation
    if conversation is None:
        app.notify("Nothing has crossed yet", severity="warning")
    else:
        app.push_screen(WireScreen(conversation.ring, app.view.status.agent))


class WireScreen(Screen[None]):
    """Follows the end until the mark is moved off it."""

    DEFAULT_CSS = """
    WireScreen { background: $background; }
    WireScreen #head { height: 1; padding: 0 2; background: $surface; }
    WireScreen #letters { height: 1; border: none; padding: 0 2; background: $background; }
    WireScreen #letters:focus { border: none; }
    WireScreen #both { height: 1fr; layout: vertical; }
    WireScreen #both.beside { layout: horizontal; }
    WireScreen FrameRows { height: 1fr; background: $background; }
    WireScreen #whole { height: 1fr; border-top: solid $panel; padding: 0 1; }
    WireScreen #both.beside > #whole { border-top: none; border-left: solid $panel; width: 45%; }
    WireScreen #foot { height: 1; padding: 0 2; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f12", "leave", "Close", show=False),
        Binding("up,ctrl+up", "move(-1)", "Up", show=False),
        Binding("down,ctrl+down", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("ctrl+home", "edge(0)", "First", show=False, priority=True),
        Binding("ctrl+end", "edge(1)", "Last", show=False, priority=True),
        Binding("tab", "turn", "Read the message", show=False, priority=True),
        Binding("f8", "copy", "Copy", show=False),
    ]

    def __init__(self, ring: "FrameRing", agent: str) -> None:
        super().__init__()
        self._ring = ring
        self._agent = agent
        self._sieve = FrameFilter()
        self._following = True
        self._looking = False
        self._drawn: RingEntry | None = None
        self.list = FrameRows(empty="Nothing fits")
        self.letters = Input(
            placeholder="Filter: words, -word, > sent, < received, ! failed", id="letters", compact=True
        )
        self._whole = Static(id="text", markup=False)

    def compose(self) -> "ComposeResult":
        yield Static(id="head", markup=False)
        yield self.letters
        with Horizontal(id="both"):
            yield self.list
            with VerticalScroll(id="whole"):
                yield self._whole
        yield Static(
            "↑ ↓ mark · Tab reads the message · Ctrl+End follows · F8 copies · Esc closes",
            id="foot",
            markup=False,
        )

    def on_mount(self) -> None:
        self.letters.focus()
        self._unsubscribe = self._ring.subscribe(self._came)
        self._show()

    def on_unmount(self) -> None:
        self._unsubscribe()

    def on_resize(self, event: "events.Resize") -> None:
        self.query_one("#both", Horizontal).set_class(event.size.width >= BESIDE, "beside")

    # -- what crosses -------------------------------------------------------------------------------------------

    def _came(self, news: "list[RingEntry]") -> None:
        """However much crosses, it is looked at a few times a second only."""
        if not self._looking:
            self._looking = True
            self.set_timer(_GLANCE, self._show)

    def _show(self) -> None:
        self._looking = False
        everything = self._ring.seen
        rows = [seen for seen in everything if self._sieve.wants(seen)]
        marked: RingEntry | None = self.list.marked
        at = len(rows) - 1
        if not self._following and marked is not None:
            at = next((number for number, seen in enumerate(rows) if seen.number >= marked.number), at)
        self.list.show(rows, at)
        palette = palette_of(self)
        head = Text("Wire  ", palette.heading).append(clean_line(self._agent), palette.text)
        head.append(f"  {len(rows):,} of {len(everything):,} messages", palette.muted)
        if self._ring.missed:
            head.append(f", {self._ring.missed:,} older ones are gone", palette.warn)
        if not self._following:
            head.append("  not following: Ctrl+End", palette.warn)
        self.query_one("#head", Static).update(head)

    @on(ListRows.Marked)
    def _marked(self, event: ListRows.Marked) -> None:
        event.stop()
        seen: RingEntry | None = self.list.marked
        if seen is not self._drawn:
            self._drawn = seen
            self._whole.update(Text() if seen is None else drawn(seen, palette_of(self)))
            self.query_one("#whole", VerticalScroll).scroll_home(animate=False)

    @on(ListRows.Clicked)
    def _clicked(self, event: ListRows.Clicked) -> None:
        event.stop()
        self._moved()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self._sieve = FrameFilter(event.value)
        self._show()

    # -- keys ---------------------------------------------------------------------------------------------------

    def _moved(self) -> None:
        following = self.list.at >= len(self.list.rows) - 1
        if following != self._following:
            self._following = following
            self._show()

    def action_leave(self) -> None:
        """Esc takes the filter away, then the view."""
        if self.letters.value:
            self.letters.value = ""
        else:
            self.dismiss(None)

    def action_move(self, by: int) -> None:
        self.list.move(by)
        self._moved()

    def action_page(self, by: int) -> None:
        self.list.page(by)
        self._moved()

    def action_edge(self, last: int) -> None:
        self.list.move(len(self.list.rows) if last else -len(self.list.rows))
        self._moved()

    def action_turn(self) -> None:
        """To the message, and back."""
        whole = self.query_one("#whole", VerticalScroll)
        (self.letters if whole.has_focus else whole).focus()

    def action_copy(self) -> None:
        """The marked message, whole."""
        if self.list.marked is not None:
            app_of(self).copy_to_clipboard(whole_text(self.list.marked))
