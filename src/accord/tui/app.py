"""The app: sessions, of which one is shown, and what the keys do. It paints before anything of the client is imported."""

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.actions import SkipAction
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.widgets import ContentSwitcher

from accord.clock import SYSTEM_CLOCK, Clock
from accord.tui.actions import ACTIONS
from accord.tui.prompting.editor import know_alt_enter
from accord.tui.sessionview import SessionView
from accord.tui.start import Start

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.screen import Screen


class ChatApp(App[int]):
    """`accord chat` on a terminal."""

    TITLE = "Accord"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    CSS = """
    Screen { background: $background; }
    ContentSwitcher { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Stop, clear or quit", show=False, priority=True),
        Binding("ctrl+d", "leave", "Quit", show=False, priority=True),
        Binding("f1", "help", "Keys", show=False),
        Binding("pageup", "scroll(-1)", "Scroll up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Scroll down", show=False, priority=True),
        *(
            # Before the editor, which has keys of its own; but what Esc means is for whoever has the focus to say first.
            Binding(
                action.key, f"do('{action.name}')", action.title, show=False, priority=action.key != "escape"
            )
            for action in ACTIONS
            if action.key
        ),
    ]

    def __init__(self, start: Start, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        know_alt_enter()
        self.clock = clock
        self._start = start
        self._opened: list[SessionView] = []
        self._asked_to_quit = False

    def compose(self) -> "ComposeResult":
        with ContentSwitcher(initial="session-1", id="sessions"):
            yield self._new_view(self._start)

    # -- sessions -----------------------------------------------------------------------------------------------

    @property
    def view(self) -> SessionView:
        """The session that is shown."""
        current = self.query_one("#sessions", ContentSwitcher).current
        return self.query_one(f"#{current}", SessionView)

    @property
    def views(self) -> list[SessionView]:
        """All of them."""
        return list(self.query(SessionView))

    async def open(self, start: Start) -> SessionView:
        """Open another session and show it."""
        view = self._new_view(start)
        switcher = self.query_one("#sessions", ContentSwitcher)
        await switcher.mount(view)
        switcher.current = view.id
        return view

    def _new_view(self, start: Start) -> SessionView:
        view = SessionView(start, clock=self.clock, id=f"session-{len(self._opened) + 1}")
        self._opened.append(view)
        return view

    # -- keys ---------------------------------------------------------------------------------------------------

    async def action_do(self, name: str) -> None:
        """Do one of the actions."""
        self._insist_on_sessions()
        action = next(action for action in ACTIONS if action.name == name)
        done = action.run(self)
        if inspect.isawaitable(done):
            await done

    def action_interrupt(self) -> None:
        """Ctrl+C: copy what is selected, else stop the turn, else empty the prompt, else quit at the second time."""
        view = self.view
        selected = self.screen.get_selected_text() or view.prompt.editor.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self.notify("Copied")
        elif view.conversation is not None and view.conversation.phase == "running":
            view.stop()
        elif view.prompt.draft:
            view.prompt.clear()
        elif self._asked_to_quit:
            self.exit(0)
        else:
            self._asked_to_quit = True
            self.notify("Ctrl+C again quits")
            self.set_timer(3, self._forget_quitting)

    def _forget_quitting(self) -> None:
        self._asked_to_quit = False

    def action_leave(self) -> None:
        """Ctrl+D quits where nothing is written."""
        if self.view.prompt.draft:
            self.notify("The prompt is not empty: Ctrl+C empties it, Ctrl+Q quits")
        else:
            self.exit(0)

    def action_scroll(self, by: int) -> None:
        """A page of the conversation, or of what a question is about."""
        self._insist_on_sessions()
        self.view.readable.page(by)

    def _insist_on_sessions(self) -> None:
        """While another screen is on top, the keys are its own."""
        if len(self.screen_stack) > 1:
            raise SkipAction

    def action_help(self) -> None:
        """The keys."""
        from accord.tui.help import HelpScreen

        self.push_screen(HelpScreen())

    def get_system_commands(self, screen: "Screen[Any]") -> Iterable[SystemCommand]:
        for action in ACTIONS:
            title = f"{action.title}  ({action.shown})" if action.shown else action.title
            yield SystemCommand(
                title, action.help, lambda name=action.name: self.run_worker(self.action_do(name))
            )
        yield SystemCommand("Keys", "What the keys do", self.action_help)

    # -- the end ------------------------------------------------------------------------------------------------

    async def on_unmount(self) -> None:
        await self.close_sessions()

    async def close_sessions(self) -> None:
        """End every agent."""
        for view in self._opened:
            await view.aclose()
        self._opened.clear()

    def watch_theme(self) -> None:
        for view in self.query(SessionView):
            self.call_after_refresh(view.transcript.restyle)
