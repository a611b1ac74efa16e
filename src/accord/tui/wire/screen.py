"""The wire view on the screen: the messages of a session as they cross, a filter, and the marked one in full."""

from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import Input, Static

from accord.cleaning import clean_line
from accord.tui.host import app_of, palette_of
from accord.tui.lists.rows import Rows
from accord.tui.wire.frames import FrameRows, drawn, whole_text
from accord.tui.wire.sieve import Sieve

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from accord.trace import Ring, Seen
    from accord.tui.app import ChatApp

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

    def __init__(self, ring: "Ring", agent: str) -> None:
        super().__init__()
        self._ring = ring
        self._agent = agent
        self._sieve = Sieve()
        self._following = True
        self._looking = False
        self._drawn: Seen | None = None
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

    def _came(self, news: "list[Seen]") -> None:
        """However much crosses, it is looked at a few times a second only."""
        if not self._looking:
            self._looking = True
            self.set_timer(_GLANCE, self._show)

    def _show(self) -> None:
        self._looking = False
        everything = self._ring.seen
        rows = [seen for seen in everything if self._sieve.wants(seen)]
        marked: Seen | None = self.list.marked
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

    @on(Rows.Marked)
    def _marked(self, event: Rows.Marked) -> None:
        event.stop()
        seen: Seen | None = self.list.marked
        if seen is not self._drawn:
            self._drawn = seen
            self._whole.update(Text() if seen is None else drawn(seen, palette_of(self)))
            self.query_one("#whole", VerticalScroll).scroll_home(animate=False)

    @on(Rows.Clicked)
    def _clicked(self, event: Rows.Clicked) -> None:
        event.stop()
        self._moved()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        event.stop()
        self._sieve = Sieve(event.value)
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
