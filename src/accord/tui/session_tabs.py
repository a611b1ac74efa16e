"""The open sessions as tabs, their marks, and notifications outside of the screen.

Loaded before the first paint: keep the client out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, cast

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


TabMark: TypeAlias = Literal["", "busy", "asks", "done", "dead"]
"""The mark on the tab of a session."""

_ENDINGS: Final = {"lost": "has lost its gateway", "dead": "has ended", "failed": "failed to connect"}
_MAX_NOTIFICATION: Final = 120
_MAX_TITLE: Final = 80
_URGENCY: Final[tuple[TabMark, ...]] = ("asks", "dead", "busy", "done")
_OSC_9_PROGRAMS: Final = frozenset(("iTerm.app", "WezTerm", "ghostty", "WarpTerminal", "kitty"))
_OSC_777_TERMS: Final = ("foot", "rxvt-unicode", "contour")


@dataclass(slots=True)
class _LastState:
    """The state of a session at the last check."""

    turns: int = 0
    dialog: Any = None
    ended: bool = False
    unread: bool = False


class SessionAttention:
    """Decides the marks of tabs and notifies the user. `write` sends escape sequences to the terminal."""

    def __init__(self, write: Callable[[str], None], environ: Mapping[str, str]) -> None:
        self._write = write
        self._environ = environ
        self._states: dict[int, _LastState] = {}
        self._title = ""

    def update(self, view: "SessionView", *, is_visible: bool, settings: "ChatSettings") -> None:
        """Notify the user of changes in a session. `is_visible` says whether the user is looking at it."""
        last = self._states.setdefault(id(view), _LastState())
        phase = "" if view.chat_session is None else view.chat_session.phase
        notice = ""
        if view.dialog is not last.dialog:
            last.dialog = view.dialog
            if view.dialog is not None:
                notice = f"asks: {view.dialog.title or 'a question'}"
        has_ended = phase in _ENDINGS
        if view.turns > last.turns and phase not in ("running", "cancelling"):
            last.turns = view.turns
            last.unread = True
            notice = notice or "is done"
        if has_ended and not last.ended:
            last.unread = True
            notice = _ENDINGS[phase]
        last.ended = has_ended
        if is_visible:
            last.unread = False
        if notice and (settings.notify_when == "always" or not is_visible):
            subject = view.status.title or view.status.folder
            self._notify(view.status.agent or "Accord", f"{notice} ({subject})", settings)

    def mark(self, view: "SessionView") -> TabMark:
        last = self._states.get(id(view), _LastState())
        phase = "" if view.chat_session is None else view.chat_session.phase
        if view.dialog is not None:
            return "asks"
        if phase in _ENDINGS:
            return "dead"
        if phase in ("running", "cancelling", "connecting"):
            return "busy"
        return "done" if last.unread else ""

    def show_title(self, views: "Sequence[SessionView]", current: "SessionView") -> None:
        """Set the title of the terminal: the most urgent mark of all sessions, and the visible session."""
        marks = {self.mark(view) for view in views}
        urgent: list[TabMark] = [mark for mark in _URGENCY if mark in marks]
        name = clean_line(current.status.title or current.status.agent or "Accord")
        title = one_line(f"{MARKS[urgent[0]].strip() if urgent else ''} {name}".strip(), _MAX_TITLE)
        if title != self._title:
            self._title = title
            self._write(f"\x1b]2;{title}\x07")

    def forget(self, view: "SessionView") -> None:
        """Drop a closed session."""
        self._states.pop(id(view), None)

    def _notify(self, title: str, text: str, settings: "ChatSettings") -> None:
        method = settings.notify
        if method == "off":
            return
        sequence = ""
        if method != "bell":
            sequence = desktop_notification(self._environ, title, text, force=method == "desktop")
        self._write(sequence or "\x07")


def desktop_notification(environ: Mapping[str, str], title: str, text: str, *, force: bool = False) -> str:
    """Return the escape sequence for a desktop notification; empty if the terminal may not support it.

    `force` returns a sequence in any case.
    """
    title, text = (one_line(clean_line(part), _MAX_NOTIFICATION).replace(";", ",") for part in (title, text))
    program, term = environ.get("TERM_PROGRAM", ""), environ.get("TERM", "")
    if any(term.startswith(name) for name in _OSC_777_TERMS):
        return f"\x1b]777;notify;{title};{text}\x1b\\"
    if program in _OSC_9_PROGRAMS or "kitty" in term or force:
        return f"\x1b]9;{title}: {text}\x1b\\"
    return ""


MARKS: Final[dict[TabMark, str]] = {"": "", "busy": " …", "asks": " ?", "done": " ●", "dead": " ✗"}
_MIN_TAB_WIDTH: Final = 12
_MAX_TAB_WIDTH: Final = 32


def recognize_alt_digits() -> None:
    """Let Alt and a digit select a tab: Textual maps them to characters of some keyboards."""
    sequences = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    for number in range(1, 10):
        sequences.pop(f"\x1b{number}", None)


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab."""

    id: str
    name: str
    mark: TabMark = ""
    current: bool = False


class TabBar(Widget):
    """The line with the tabs; hidden while there is only one."""

    DEFAULT_CSS: ClassVar[str] = """
    TabBar { height: 1; display: none; background: $panel; }
    TabBar.some { display: block; }
    """

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, id: str, *, close: bool = False) -> None:
            super().__init__()
            self.id = id
            self.close = close

    class NewRequested(Message):
        """The `+` was clicked."""

    def __init__(self) -> None:
        super().__init__()
        self.tabs: list[Tab] = []
        # Start, end, tab id, and whether a click closes the tab.
        self._click_areas: list[tuple[int, int, str, bool]] = []

    def show(self, tabs: Sequence[Tab]) -> None:
        """Show these tabs."""
        if list(tabs) != self.tabs:
            self.tabs = list(tabs)
            self.set_class(len(tabs) > 1, "some")
            self.refresh()

    def render(self) -> Text:
        palette = palette_of(self)
        width = self.size.width
        tab_width = max(min((width - 3) // max(len(self.tabs), 1), _MAX_TAB_WIDTH), _MIN_TAB_WIDTH)
        first = self._first(max((width - 3) // tab_width, 1))
        styles = {"asks": palette.warn, "done": palette.good, "dead": palette.bad}
        out = Text(no_wrap=True, overflow="crop")
        self._click_areas = []
        for number, tab in enumerate(self.tabs):
            if number < first or cell_len(out.plain) + tab_width > width - 3:
                continue
            start = cell_len(out.plain)
            sign = MARKS[tab.mark]
            name = Text(
                f" {number + 1} {one_line(clean_line(tab.name))}",
                palette.strong if tab.current else palette.muted,
            )
            name.truncate(tab_width - cell_len(sign) - 3, overflow="ellipsis", pad=True)
            name.append(sign, styles.get(tab.mark, palette.faint))
            if tab.current:
                name.append(" ×", palette.muted).append(" ")
                name.stylize_before(palette.prompt)
            else:
                name.append("   ")
            out.append_text(name)
            end = cell_len(out.plain)
            self._click_areas.append((start, end - 3, tab.id, False))
            self._click_areas.append((end - 3, end, tab.id, tab.current))
        hidden = len(self.tabs) - len(self._click_areas) // 2
        self._click_areas.append((cell_len(out.plain), width, "", False))
        return out.append(f" +{hidden}" if hidden else " +", palette.accent)

    def _first(self, visible_count: int) -> int:
        """Return the index of the first visible tab, so that the current tab is visible."""
        current = next((number for number, tab in enumerate(self.tabs) if tab.current), 0)
        return max(min(current - visible_count // 2, len(self.tabs) - visible_count), 0)

    def on_click(self, event: "events.Click") -> None:
        for start, end, id, close in self._click_areas:
            if start <= event.x < end:
                self.post_message(self.Chosen(id, close=close) if id else self.NewRequested())
                return


class MainScreen(Screen[None]):
    """The screen with the sessions. While another screen is on top, no dialog accepts keys."""

    def on_screen_suspend(self) -> None:
        for view in self.query(SessionView):
            view.suspend_dialog()

    def on_screen_resume(self) -> None:
        for view in self.query(SessionView):
            view.resume_dialog()


class SessionTabs(Vertical):
    """The open sessions; one is visible."""

    DEFAULT_CSS: ClassVar[str] = """
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
        self._tab_bar = TabBar()
        self._switcher = ContentSwitcher(id="sessions")
        self.views: list[SessionView] = []
        """All sessions, in the order of their tabs."""
        self.view: SessionView = self._new_view(start)
        """The visible session."""

    def compose(self) -> "ComposeResult":
        yield self._tab_bar
        with self._switcher:
            yield self.view

    def on_mount(self) -> None:
        self._switcher.current = self.view.id

    # -- sessions --

    async def open(self, start: ChatStart) -> SessionView:
        """Open another session and show it."""
        view = self._new_view(start)
        await self._switcher.mount(view)
        self.show(view)
        return view

    def show(self, view: SessionView) -> None:
        if view is not self.view:
            self.view.suspend_dialog()
            self.view = view
            self._switcher.current = view.id
            view.activate()
        self.update_attention(view)

    def step(self, by: int) -> None:
        """Show the next or previous session."""
        self.show(self.views[(self.views.index(self.view) + by) % len(self.views)])

    async def close(self, view: SessionView) -> None:
        """Close one of several sessions."""
        index = self.views.index(view)
        self.views.remove(view)
        self._attention.forget(view)
        if view is self.view:
            self.show(self.views[min(index, len(self.views) - 1)])
        await view.aclose()
        await view.remove()
        self._show_tabs()

    def _new_view(self, start: ChatStart) -> SessionView:
        view = SessionView(start, clock=self._clock, id=f"session-{next(self._numbers)}")
        self.views.append(view)
        return view

    # -- tab bar --

    @on(SessionView.Changed)
    def _changed(self, event: SessionView.Changed) -> None:
        event.stop()
        self.update_attention(event.view)

    def update_attention(self, view: SessionView) -> None:
        """Update the mark of a session after a change of the session or of the focus."""
        if view in self.views:
            is_visible = view is self.view and app_of(self).app_focus
            self._attention.update(view, is_visible=is_visible, settings=self._settings())
            self._show_tabs()

    def _show_tabs(self) -> None:
        self._tab_bar.show([self._tab(view) for view in self.views])
        if self._settings().terminal_title and self.views:
            self._attention.show_title(self.views, self.view)

    def mark(self, view: SessionView) -> TabMark:
        """The mark of a session."""
        return self._attention.mark(view)

    def _tab(self, view: SessionView) -> Tab:
        name = view.status.title or view.status.agent
        return Tab(view.id or "", name, self._attention.mark(view), view is self.view)
