"""The open sessions as tabs, which one is shown, and which want the user."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.containers import Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from accord.clock import Clock
from accord.safe_text import clean_line, one_line
from accord.tui.chat_types import ChatStart
from accord.tui.session_view import SessionView
from accord.tui.theme import app_of, palette_of

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

    from accord.tui.chat_settings import ChatSettings


# MERGED tui.attention: Who wants the user: which sessions ask, which are done and were not looked at yet, and how the user is told outside the screen.

Mark: TypeAlias = Literal["", "busy", "asks", "done", "dead"]
"""What the tab of a session tells."""

_LONGEST: Final = 120
_NINE: Final = frozenset(("iTerm.app", "WezTerm", "ghostty", "WarpTerminal", "kitty"))
_SEVENS: Final = ("foot", "rxvt-unicode", "contour")


@dataclass(slots=True)
class _Known:
    """What was known of a session the last time."""

    turns: int = 0
    dialog: Any = None
    ended: bool = False
    unseen: bool = False


class SessionAttention:
    """Keeps an eye on all sessions. `write` sends text to the terminal as it is."""

    def __init__(self, write: Callable[[str], None], environ: Mapping[str, str]) -> None:
        self._write = write
        self._environ = environ
        self._known: dict[int, _Known] = {}

    def look(self, view: "SessionView", *, seen: bool, settings: "ChatSettings") -> None:
        """Something has changed there; `seen` by the user, who has it before them."""
        known = self._known.setdefault(id(view), _Known())
        phase = "" if view.conversation is None else view.conversation.phase
        news = ""
        if view.dialog is not known.dialog:
            known.dialog = view.dialog
            if view.dialog is not None:
                news = f"asks: {view.dialog.border_title or 'a question'}"
        ended = phase in ("dead", "failed")
        if view.turns > known.turns and phase not in ("running", "cancelling"):
            known.turns = view.turns
            known.unseen = True
            news = news or "is done"
        if ended and not known.ended:
            known.unseen = True
            news = "has ended" if phase == "dead" else "could not be connected"
        known.ended = ended
        if seen:
            known.unseen = False
        if news and (settings.notify_when == "always" or not seen):
            about = view.status.title or view.status.folder
            self._tell(view.status.agent or "Accord", f"{news} ({about})", settings)

    def mark(self, view: "SessionView") -> Mark:
        """What its tab tells."""
        known = self._known.get(id(view), _Known())
        phase = "" if view.conversation is None else view.conversation.phase
        if view.dialog is not None:
            return "asks"
        if phase in ("dead", "failed"):
            return "dead"
        if phase in ("running", "cancelling", "connecting"):
            return "busy"
        return "done" if known.unseen else ""

    def forget(self, view: "SessionView") -> None:
        """It is closed."""
        self._known.pop(id(view), None)

    def _tell(self, title: str, text: str, settings: "ChatSettings") -> None:
        way = settings.notify
        if way == "off":
            return
        said = desktop_note(self._environ, title, text, insist=way == "desktop") if way != "bell" else ""
        self._write(said or "\x07")


def desktop_note(environ: Mapping[str, str], title: str, text: str, *, insist: bool = False) -> str:
    """The sequence by which this terminal notifies the desktop; empty where it is not known to. `insist`: try it anyway."""
    title, text = (one_line(clean_line(words), _LONGEST).replace(";", ",") for words in (title, text))
    program, term = environ.get("TERM_PROGRAM", ""), environ.get("TERM", "")
    if any(term.startswith(name) for name in _SEVENS):
        return f"\x1b]777;notify;{title};{text}\x1b\\"
    if program in _NINE or "kitty" in term or insist:
        return f"\x1b]9;{title}: {text}\x1b\\"
    return ""


# MERGED tui.tabs: The tabs of several sessions, on one line: what each is about, and a mark where one wants the user.

SIGNS: Final[dict[Mark, str]] = {"": "", "busy": " …", "asks": " ?", "done": " ●", "dead": " ✗"}
_NARROWEST: Final = 12
_WIDEST: Final = 32


def know_alt_digits() -> None:
    """Textual takes Alt and a digit for a sign of some keyboards; here it is the number of a tab."""
    known = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    for number in range(1, 10):
        known.pop(f"\x1b{number}", None)


@dataclass(frozen=True, slots=True)
class Tab:
    """One of them."""

    id: str
    name: str
    mark: Mark = ""
    current: bool = False


class TabBar(Widget):
    """All of them; nothing while there is only one."""

    DEFAULT_CSS = """
    TabBar { height: 1; display: none; background: $panel; }
    TabBar.some { display: block; }
    """

    class Chosen(Message):
        """One was clicked."""

        def __init__(self, id: str, *, close: bool = False) -> None:
            super().__init__()
            self.id = id
            self.close = close

    class Wanted(Message):
        """Another session is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.tabs: list[Tab] = []
        self._places: list[tuple[int, int, str, bool]] = []  # from, to, the id, whether it closes

    def show(self, tabs: Sequence[Tab]) -> None:
        """These are the tabs now."""
        if list(tabs) != self.tabs:
            self.tabs = list(tabs)
            self.set_class(len(tabs) > 1, "some")
            self.refresh()

    def render(self) -> Text:
        palette = palette_of(self)
        width = self.size.width
        room = max(min((width - 3) // max(len(self.tabs), 1), _WIDEST), _NARROWEST)
        first = self._first(max((width - 3) // room, 1))
        styles = {"asks": palette.warn, "done": palette.good, "dead": palette.bad}
        out = Text(no_wrap=True, overflow="crop")
        self._places = []
        for number, tab in enumerate(self.tabs):
            if number < first or cell_len(out.plain) + room > width - 3:
                continue
            start = cell_len(out.plain)
            sign = SIGNS[tab.mark]
            name = Text(
                f" {number + 1} {one_line(clean_line(tab.name))}",
                palette.strong if tab.current else palette.muted,
            )
            name.truncate(room - cell_len(sign) - 3, overflow="ellipsis", pad=True)
            name.append(sign, styles.get(tab.mark, palette.faint))
            if tab.current:
                name.append(" ×", palette.muted).append(" ")
                name.stylize_before(palette.user)
            else:
                name.append("   ")
            out.append_text(name)
            end = cell_len(out.plain)
            self._places.append((start, end - 3, tab.id, False))
            self._places.append((end - 3, end, tab.id, tab.current))
        hidden = len(self.tabs) - len(self._places) // 2
        self._places.append((cell_len(out.plain), width, "", False))
        return out.append(f" +{hidden}" if hidden else " +", palette.accent)

    def _first(self, shown: int) -> int:
        """The first that is shown, so that the current one is."""
        at = next((number for number, tab in enumerate(self.tabs) if tab.current), 0)
        return max(min(at - shown // 2, len(self.tabs) - shown), 0)

    def on_click(self, event: "events.Click") -> None:
        for start, end, id, close in self._places:
            if start <= event.x < end:
                self.post_message(self.Chosen(id, close=close) if id else self.Wanted())
                return


# MERGED tui.desk: Where the sessions lie: each has a tab, one is shown, and those that want the user are marked.


class MainScreen(Screen[None]):
    """The screen below all others. While another one is on top, no question of a session takes a key."""

    def on_screen_suspend(self) -> None:
        for view in self.query(SessionView):
            view.put_away()

    def on_screen_resume(self) -> None:
        for view in self.query(SessionView):
            view.look_again()


class SessionTabs(Vertical):
    """The sessions that are open."""

    DEFAULT_CSS = """
    SessionTabs { height: 1fr; }
    SessionTabs > ContentSwitcher { height: 1fr; }
    """

    def __init__(
        self,
        start: ChatStart,
        clock: Clock,
        attention: SessionAttention,
        settings: "Callable[[], ChatSettings]",
    ) -> None:
        super().__init__()
        self._clock = clock
        self._attention = attention
        self._settings = settings
        self._numbers = count(1)
        self._tabs = TabBar()
        self._switcher = ContentSwitcher(id="sessions")
        self.views: list[SessionView] = []
        """All of them, in the order of their tabs."""
        self.view = self._new_view(start)
        """The one that is shown."""

    def compose(self) -> "ComposeResult":
        yield self._tabs
        with self._switcher:
            yield self.view

    def on_mount(self) -> None:
        self._switcher.current = self.view.id

    # -- one of them --------------------------------------------------------------------------------------------

    async def open(self, start: ChatStart) -> SessionView:
        """Open another session and show it."""
        view = self._new_view(start)
        await self._switcher.mount(view)
        self.show(view)
        return view

    def show(self, view: SessionView) -> None:
        """Let this one be on the screen."""
        if view is not self.view:
            self.view.put_away()
            self.view = view
            self._switcher.current = view.id
            view.come_up()
        self.look(view)

    def step(self, by: int) -> None:
        """Show the one beside."""
        self.show(self.views[(self.views.index(self.view) + by) % len(self.views)])

    async def close(self, view: SessionView) -> None:
        """End one of several."""
        at = self.views.index(view)
        self.views.remove(view)
        self._attention.forget(view)
        if view is self.view:
            self.show(self.views[min(at, len(self.views) - 1)])
        await view.aclose()
        await view.remove()
        self._show_tabs()

    def _new_view(self, start: ChatStart) -> SessionView:
        view = SessionView(start, clock=self._clock, id=f"session-{next(self._numbers)}")
        self.views.append(view)
        return view

    # -- their tabs ---------------------------------------------------------------------------------------------

    @on(SessionView.Changed)
    def _changed(self, event: SessionView.Changed) -> None:
        event.stop()
        self.look(event.view)

    def look(self, view: SessionView) -> None:
        """Something has changed there, or for whoever looks at it."""
        if view in self.views:
            seen = view is self.view and app_of(self).app_focus
            self._attention.look(view, seen=seen, settings=self._settings())
            self._show_tabs()

    def _show_tabs(self) -> None:
        self._tabs.show([self._tab(view) for view in self.views])

    def _tab(self, view: SessionView) -> Tab:
        name = view.status.title or view.status.agent
        return Tab(view.id or "", name, self._attention.mark(view), view is self.view)
