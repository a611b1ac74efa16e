"""The app: sessions, of which one is shown, and what the keys do. It paints before anything of the client is imported."""

import asyncio
import contextlib
import inspect
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.actions import SkipAction
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from accord.clock import SYSTEM_CLOCK, Clock
from accord.safe_text import clean_line
from accord.tui.actions import ACTIONS
from accord.tui.chat_settings import DARK, FOLLOW, LIGHT, ChatSettings
from accord.tui.chat_types import ChatStart
from accord.tui.prompt.prompt_editor import Editor, know_alt_enter
from accord.tui.session_tabs import MainScreen, SessionAttention, SessionTabs, TabBar, know_alt_digits
from accord.tui.session_view import SessionView
from accord.tui.transcript.transcript_view import TranscriptView

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.notifications import SeverityLevel

    from accord.tui.chat_types import Choose


class ChatApp(App[int]):
    """`accord chat` on a terminal."""

    TITLE = "Accord"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    CSS = """
    Screen { background: $background; }
    ModalScreen { background: $background 60%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Stop, clear or quit", show=False, priority=True),
        Binding("ctrl+d", "leave", "Quit", show=False, priority=True),
        Binding("f1", "help", "Keys", show=False, priority=True),
        Binding("pageup", "scroll(-1)", "Scroll up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Scroll down", show=False, priority=True),
        *(
            # Before the editor, which has keys of its own; but what Esc means is for whoever has the focus to say first.
            Binding(
                action.key,
                f"do('{action.name}')",
                action.title,
                show=False,
                priority=action.key != "escape",
                id=action.name,
            )
            for action in ACTIONS
            if action.key
        ),
        *(
            Binding(f"alt+{number}", f"show({number})", f"Session {number}", show=False, priority=True)
            for number in range(1, 10)
        ),
    ]

    def __init__(
        self,
        start: ChatStart,
        *,
        clock: Clock = SYSTEM_CLOCK,
        settings: ChatSettings | None = None,
        dark: bool | None = None,
        typed: str = "",
        choose: "Choose | None" = None,
        write: Callable[[str], None] | None = None,
    ) -> None:
        """`dark` is how the terminal looks, `typed` what was written before the screen was there, `choose` finds other agents,
        and `write` gets what goes to the terminal beside the screen.
        """
        super().__init__()
        know_alt_enter()
        know_alt_digits()
        self.clock = clock
        self.settings = settings or ChatSettings()
        self.choose = choose
        self._dark = dark
        self._typed = typed
        self._start = start
        self._asked_to_quit = False
        self._attention = SessionAttention(write or self._send, os.environ)
        self._desk: SessionTabs | None = None
        self.theme = self._theme_now()
        self.set_keymap(dict(self.settings.keys))

    def get_default_screen(self) -> Screen[None]:
        return MainScreen(id="_default")

    def compose(self) -> "ComposeResult":
        self._desk = SessionTabs(self._start, self.clock, self._attention, lambda: self.settings)
        yield self._desk

    def on_mount(self) -> None:
        if self._typed:
            self.view.prompt.editor.write(self._typed)
        if not self.is_headless:
            self._end_by_signals()

    def _end_by_signals(self) -> None:
        """Whoever ends the program from outside gets the terminal back as well, and no agent stays behind."""
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            with contextlib.suppress(NotImplementedError):  # Windows has no such handlers
                if number is not None:
                    loop.add_signal_handler(number, self.exit, 128 + number)

    # -- sessions -----------------------------------------------------------------------------------------------

    @property
    def desk(self) -> SessionTabs:
        """Where the sessions lie."""
        assert self._desk is not None, "it is there from the first paint on"
        return self._desk

    @property
    def view(self) -> SessionView:
        """The session that is shown."""
        return self.desk.view

    @property
    def views(self) -> list[SessionView]:
        """All of them, in the order of their tabs."""
        return list(self.desk.views)

    async def open(self, start: ChatStart) -> SessionView:
        """Open another session and show it."""
        return await self.desk.open(start)

    async def close(self, view: SessionView) -> None:
        """End one; with the last, everything."""
        if len(self.desk.views) == 1:
            self.exit(0)
        else:
            await self.desk.close(view)

    def ask_to_close(self, view: SessionView) -> None:
        """End one, if the user is sure where something goes on in it."""
        if view.conversation is None or view.conversation.phase not in ("running", "cancelling"):
            self.run_worker(self.close(view))
            return
        from accord.tui.list_screen import ConfirmScreen

        async def answered(sure: Any) -> None:
            if sure and view in self.desk.views:
                await self.close(view)

        self.push_screen(ConfirmScreen("A turn runs in this session", "Close it", "Let it run"), answered)

    def action_show(self, number: int) -> None:
        """Show the session of this tab."""
        self._insist_on_sessions()
        if number <= len(self.desk.views):
            self.desk.show(self.desk.views[number - 1])

    def watch_app_focus(self) -> None:
        if self._desk is not None:
            self._desk.look(self._desk.view)

    @on(TabBar.Chosen)
    def _tab_chosen(self, event: TabBar.Chosen) -> None:
        event.stop()
        view = next((view for view in self.desk.views if view.id == event.id), None)
        if view is not None and event.close:
            self.ask_to_close(view)
        elif view is not None:
            self.desk.show(view)

    @on(TabBar.Wanted)
    async def _tab_wanted(self, event: TabBar.Wanted) -> None:
        event.stop()
        await self.action_do("agent")

    # -- keys ---------------------------------------------------------------------------------------------------

    async def action_do(self, name: str) -> None:
        """Do one of the actions. Leaving is understood everywhere."""
        if name != "quit":
            self._insist_on_sessions()
        action = next(action for action in ACTIONS if action.name == name)
        done = action.run(self)
        if inspect.isawaitable(done):
            await done

    def action_interrupt(self) -> None:
        """Ctrl+C: copy what is selected, else stop the turn, else empty the prompt, else quit at the second time."""
        self._insist_on_sessions()
        view = self.view
        selected = self.screen.get_selected_text() or view.prompt.editor.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
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
        self._insist_on_sessions()
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
        from accord.tui.actions import HelpScreen

        if isinstance(self.screen, HelpScreen):
            raise SkipAction  # there the same key closes it
        self.push_screen(HelpScreen(self.settings.keys))

    @on(Editor.Asked)
    def _asked(self, event: Editor.Asked) -> None:
        event.stop()
        self.action_help()

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: "SeverityLevel" = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Tell the user something in passing. Paths and names are in it, so nothing in it is markup."""
        super().notify(clean_line(message), title=title, severity=severity, timeout=timeout, markup=False)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy it by the terminal, and into a file for terminals that cannot."""
        from accord.tui.export import MOST, keep_copy

        if len(text) <= MOST:
            super().copy_to_clipboard(text)
        self.notify(keep_copy(text))

    def _send(self, text: str) -> None:
        """Write to the terminal, beside the screen."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(text)

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
        views = [] if self._desk is None else self._desk.views
        while views:
            await views.pop().aclose()

    # -- settings -----------------------------------------------------------------------------------------------

    @property
    def diffs(self) -> str:
        """How changes of files are shown."""
        return self.settings.diffs

    def set_setting(self, name: str, value: str | bool) -> None:
        """Let a setting count from now on."""
        self.settings = replace(self.settings, **{name: value})
        self.theme = self._theme_now()
        if name == "diffs":
            self.restyle()

    def _theme_now(self) -> str:
        named = self.settings.theme
        if named == FOLLOW:
            named = LIGHT if self._dark is False else DARK
        return {DARK: "textual-dark", LIGHT: "textual-light"}.get(named, named)

    def watch_theme(self) -> None:
        self.call_after_refresh(self.restyle)

    def restyle(self) -> None:
        """Draw every conversation anew."""
        for view in [] if self._desk is None else self._desk.views:
            for transcript in view.query(TranscriptView):
                transcript.restyle()
