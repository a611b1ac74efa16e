"""Where the sessions lie: each has a tab, one is shown, and those that want the user are marked."""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from textual import on
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from accord.clock import Clock
from accord.tui.attention import Attention
from accord.tui.host import app_of
from accord.tui.sessionview import SessionView
from accord.tui.start import Start
from accord.tui.tabs import Tab, TabBar

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from accord.tui.settings.table import Settings


class DeskScreen(Screen[None]):
    """The screen below all others. While another one is on top, no question of a session takes a key."""

    def on_screen_suspend(self) -> None:
        for view in self.query(SessionView):
            view.put_away()

    def on_screen_resume(self) -> None:
        for view in self.query(SessionView):
            view.look_again()


class Desk(Vertical):
    """The sessions that are open."""

    DEFAULT_CSS = """
    Desk { height: 1fr; }
    Desk > ContentSwitcher { height: 1fr; }
    """

    def __init__(
        self, start: Start, clock: Clock, attention: Attention, settings: "Callable[[], Settings]"
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

    async def open(self, start: Start) -> SessionView:
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

    def _new_view(self, start: Start) -> SessionView:
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
