"""The Textual app of `accord chat`: the tabs with sessions, and the keys.

Loaded before the first paint: keep the client out.
"""

import asyncio
import contextlib
import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual._compositor import CompositorUpdate
from textual.actions import SkipAction
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from accord.clock import SYSTEM_CLOCK, Clock
from accord.safe_text import clean_line
from accord.tui.actions import ACTIONS
from accord.tui.background_color import ENTER
from accord.tui.chat_settings import AUTO_THEME, DARK, LIGHT, ChatSettings
from accord.tui.chat_types import ChatStart
from accord.tui.ordered_keys import keys_handled
from accord.tui.prompt_box import Editor, recognize_alt_enter
from accord.tui.session_tabs import MainScreen, SessionAttention, SessionTabs, TabBar, recognize_alt_digits
from accord.tui.session_view import SessionView
from accord.tui.theme import colors_of, readable_variables
from accord.tui.transcript.transcript_view import TranscriptView

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.driver import Driver
    from textual.notifications import SeverityLevel

    from accord.tui.chat_types import CheckKey, ChooseAgent
    from accord.tui.frame_sender import FrameSender


_KEEP_TITLE = "\x1b[22;2t"
_RESTORE_TITLE = "\x1b]2;\x07\x1b[23;2t"
"""Empties the title first, for terminals that cannot restore it."""


class ChatApp(App[int]):
    """`accord chat` on a terminal."""

    TITLE: str | None = "Accord"
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = True
    COMMAND_PALETTE_BINDING: ClassVar[str] = "ctrl+p"
    CSS: ClassVar[str] = """
    Screen { background: $background; }
    ModalScreen { background: $background 60%; }
    TextArea .text-area--placeholder, Input > .input--placeholder { color: $text-muted; }
    Input:focus { background-tint: transparent; }
    ToastRack { dock: top; align: right top; margin: 1 0 0 0; }
    Toast { max-width: 80%; padding: 0 1; margin: 0 1 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Stop, clear or quit", show=False, priority=True),
        Binding("ctrl+d", "leave", "Quit", show=False, priority=True),
        Binding("f1", "help", "Keys", show=False, priority=True),
        Binding("pageup", "scroll(-1)", "Scroll up", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Scroll down", show=False, priority=True),
        *(
            # Priority over the keys of the editor, except Esc: the focused widget handles it first.
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
        choose_agent: "ChooseAgent | None" = None,
        check_key: "CheckKey | None" = None,
        write: Callable[[str], None] | None = None,
        terminal_mode: list[Any] | None = None,
    ) -> None:
        """`dark` is the background of the terminal, `typed` what the user typed before the screen opened.

        `choose_agent` finds other agents, `check_key` looks up the key of the coding agent. `write` sends
        escape sequences to the terminal. `terminal_mode` is that of the terminal for programs that run while
        the screen is hidden.
        """
        super().__init__()
        recognize_alt_enter()
        recognize_alt_digits()
        self.clock: Clock = clock
        self.settings: ChatSettings = settings or ChatSettings()
        self.choose_agent: ChooseAgent | None = choose_agent
        self.check_key: CheckKey | None = check_key
        self.ended: list[tuple[ChatStart, str]] = []
        """The used sessions that were open at the end, with their ids."""
        self._dark = dark
        self._typed_text = typed
        self._terminal_mode = terminal_mode
        self._start = start
        self._quit_requested = False
        self.write_sequence: Callable[[str], None] = write or self._write_to_terminal
        """Writes an escape sequence to the terminal."""
        self._attention = SessionAttention(self.write_sequence, os.environ)
        self._frames: FrameSender | None = None
        self._sets_title = self.settings.terminal_title
        self._tabs: SessionTabs | None = None
        self.theme = self._theme_name()
        names = {action.name for action in ACTIONS}
        self.set_keymap({name: key for name, key in self.settings.keys.items() if name in names})

    def get_driver_class(self) -> "type[Driver]":
        if sys.platform == "win32" or "TEXTUAL_DRIVER" in os.environ:
            return super().get_driver_class()
        from accord.tui.terminal_driver import TerminalDriver

        return TerminalDriver

    def get_default_screen(self) -> Screen[None]:
        return MainScreen(id="_default")

    def compose(self) -> "ComposeResult":
        self._tabs = SessionTabs(self._start, self.clock, self._attention, lambda: self.settings)
        yield self._tabs

    def on_mount(self) -> None:
        if self._terminal_mode is not None and hasattr(self._driver, "attrs_before"):
            # The screen opened in the mode of `early_keys`, which other programs must not get.
            setattr(self._driver, "attrs_before", self._terminal_mode)  # noqa: B010
        *lines, rest = self._typed_text.split(ENTER)
        for line in filter(None, lines):
            self.view.prompt.editor.write(line)
            self.view.prompt.send()
        if rest:
            self.view.prompt.editor.write(rest)
        self._send_frames()
        if not self.is_headless:
            self._exit_on_signals()
        if self._sets_title:
            self._write_to_terminal(_KEEP_TITLE)

    def _exit_on_signals(self) -> None:
        """Restore the terminal and end the agents on SIGTERM and SIGHUP."""
        loop = asyncio.get_running_loop()
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            with contextlib.suppress(NotImplementedError):  # Windows has no such handlers
                if number is not None:
                    loop.add_signal_handler(number, self._end_by_signal, number)

    def _end_by_signal(self, number: int) -> None:
        if number == getattr(signal, "SIGHUP", None) and self._driver is not None:
            # The terminal is gone. Textual would wait for it once its queue of output is full.
            setattr(self._driver, "write", _drop_output)  # noqa: B010
        self.exit(128 + number)

    # -- sessions --

    @property
    def tabs(self) -> SessionTabs:
        assert self._tabs is not None, "not composed yet"
        return self._tabs

    @property
    def view(self) -> SessionView:
        """The visible session."""
        return self.tabs.view

    @property
    def views(self) -> list[SessionView]:
        """All sessions, in the order of their tabs."""
        return list(self.tabs.views)

    async def open(self, start: ChatStart) -> SessionView:
        """Open another session and show it."""
        return await self.tabs.open(start)

    async def close(self, view: SessionView) -> None:
        """Close a session; closing the last one quits."""
        if len(self.tabs.views) == 1:
            self.exit(0)
        else:
            await self.tabs.close(view)

    def ask_to_close(self, view: SessionView) -> None:
        """Close a session; ask first if a turn runs in it."""
        if view.chat_session is None or view.chat_session.phase not in ("running", "cancelling"):
            self.run_worker(self.close(view))
            return
        from accord.tui.list_screen import ConfirmScreen

        async def on_answer(confirmed: Any) -> None:
            if confirmed and view in self.tabs.views:
                await self.close(view)

        self.push_screen(
            ConfirmScreen("A turn is running in this session", "Close it", "Keep it open"), on_answer
        )

    def action_show(self, number: int) -> None:
        """Switch to a tab by its number."""
        self._require_main_screen()
        if number <= len(self.tabs.views):
            self.tabs.show(self.tabs.views[number - 1])

    def watch_app_focus(self) -> None:
        if self._tabs is not None:
            self._tabs.update_attention(self._tabs.view)
            if self.app_focus:
                self._tabs.view.update_branch()  # another program may have changed files

    @on(TabBar.Chosen)
    def _tab_chosen(self, event: TabBar.Chosen) -> None:
        event.stop()
        view = next((view for view in self.tabs.views if view.id == event.id), None)
        if view is not None and event.close:
            self.ask_to_close(view)
        elif view is not None:
            self.tabs.show(view)

    @on(TabBar.NewRequested)
    async def _new_tab_requested(self, event: TabBar.NewRequested) -> None:
        event.stop()
        await self.action_do("agent")

    # -- keys --

    async def on_event(self, event: "events.Event") -> None:
        if isinstance(event, events.Key) and not event.is_forwarded and self.focused is not None:
            await keys_handled(self.focused)
        await super().on_event(event)

    async def action_do(self, name: str) -> None:
        """Run an action by its name. Only `quit` and `suspend` work on top of other screens."""
        if name not in ("quit", "suspend"):
            self._require_main_screen()
        action = next(action for action in ACTIONS if action.name == name)
        result = action.run(self)
        if inspect.isawaitable(result):
            await result

    def action_interrupt(self) -> None:
        """Ctrl+C: copy the selection, or stop the turn, or clear the prompt, or quit if pressed twice."""
        self._require_main_screen()
        view = self.view
        selected = self.screen.get_selected_text() or view.prompt.editor.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
        elif view.chat_session is not None and view.chat_session.phase == "running":
            view.stop()
        elif view.prompt.draft:
            view.prompt.clear()
        elif self._quit_requested:
            self.exit(0)
        else:
            self._quit_requested = True
            self.notify("Press Ctrl+C again to quit")
            self.set_timer(3, self._reset_quit)

    def _reset_quit(self) -> None:
        self._quit_requested = False

    def action_leave(self) -> None:
        """Ctrl+D: quit if the prompt is empty."""
        self._require_main_screen()
        if self.view.prompt.draft:
            self.notify("The prompt is not empty: Ctrl+C clears it, Ctrl+Q quits")
        else:
            self.exit(0)

    def action_scroll(self, by: int) -> None:
        """Scroll the transcript, or the text of an open question, by a page."""
        self._require_main_screen()
        self.view.scroll_target.page(by)

    def _require_main_screen(self) -> None:
        """Leave the key to another screen if one is on top."""
        if len(self.screen_stack) > 1:
            raise SkipAction

    def action_command_palette(self) -> None:
        from accord.tui.actions import CommandMenu

        if not isinstance(self.screen, CommandMenu):
            self.push_screen(CommandMenu(id="--command-palette"))

    def action_help(self) -> None:
        from accord.tui.actions import HelpScreen

        if isinstance(self.screen, HelpScreen):
            raise SkipAction  # the same key closes it
        self.push_screen(HelpScreen(self.settings.keys))

    @on(Editor.HelpRequested)
    def _help_requested(self, event: Editor.HelpRequested) -> None:
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
        """Show a short notification. Never as markup: it may contain paths and names."""
        super().notify(clean_line(message), title=title, severity=severity, timeout=timeout, markup=False)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy through the terminal, and to a file for terminals that do not support it."""
        from accord.tui.export import MAX_CLIPBOARD, save_copy

        if len(text) <= MAX_CLIPBOARD:
            super().copy_to_clipboard(text)
        self.notify(save_copy(text))

    def redraw(self) -> None:
        """Send all lines to the terminal again."""
        if self._frames is not None:
            self._frames.forget_screen()
        self.refresh()

    def _write_to_terminal(self, text: str) -> None:
        """Write an escape sequence to the terminal."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(text)

    def get_system_commands(self, screen: "Screen[Any]") -> Iterable[SystemCommand]:
        for action in ACTIONS:
            title = f"{action.title}  ({action.key_label})" if action.key_label else action.title
            yield SystemCommand(
                title, action.help, lambda name=action.name: self.run_worker(self.action_do(name))
            )
        yield SystemCommand("Keys", "List all keys", self.action_help)

    # -- frames --

    def _send_frames(self) -> None:
        """Send frames as fast as the terminal shows them, where the driver can tell."""
        if self.is_headless or sys.platform == "win32":
            return
        from accord.tui.frame_sender import FrameSender
        from accord.tui.terminal_driver import TerminalDriver

        if isinstance(self._driver, TerminalDriver):
            self._frames = FrameSender(self, self._driver)

    def _display(self, screen: "Screen[Any]", renderable: Any) -> None:
        if self._frames is None or not isinstance(renderable, CompositorUpdate):
            super()._display(screen, renderable)  # pyright: ignore[reportUnknownMemberType]
        elif not self._batch_count:
            self._frames.frame_changed(renderable)
            self.post_display_hook()

    @property
    def accepts_frames(self) -> bool:
        """Whether the screen is open."""
        is_open = self._running and not self._closed and bool(self._screen_stacks)
        return is_open and not self._batch_count and self._driver is not None

    @property
    def synchronizes_frames(self) -> bool:
        """Whether the terminal can show an update at once."""
        return self._sync_available

    # -- shutdown --

    async def on_unmount(self) -> None:
        if self._sets_title:
            self._write_to_terminal(_RESTORE_TITLE)
        await self.close_sessions()

    async def close_sessions(self) -> None:
        """End all agents."""
        views = [] if self._tabs is None else self._tabs.views
        self.ended += [
            (view.start, view.chat_session.session.id)
            for view in views
            if view.chat_session is not None
            and view.chat_session.session is not None
            and view.chat_session.session.state.timeline
        ]
        while views:
            await views.pop().aclose()

    # -- settings --

    @property
    def diffs(self) -> str:
        """How diffs are shown: `auto`, `below` or `beside`."""
        return self.settings.diffs

    def set_setting(self, name: str, value: str | bool) -> None:
        """Apply a setting."""
        self.settings = replace(self.settings, **{name: value})
        self.theme = self._theme_name()
        if name == "diffs":
            self.restyle()

    def _theme_name(self) -> str:
        name = self.settings.theme
        if name == AUTO_THEME:
            name = LIGHT if self._dark is False else DARK
        return {DARK: "textual-dark", LIGHT: "textual-light"}.get(name, name)

    def get_css_variables(self) -> dict[str, str]:
        variables = super().get_css_variables()
        self.theme_variables: dict[str, str] = readable_variables(
            variables, dark=self.current_theme.dark, colors=colors_of(self)
        )
        return self.theme_variables

    def watch_theme(self) -> None:
        self.call_after_refresh(self.restyle)

    def restyle(self) -> None:
        """Redraw all transcripts."""
        for view in [] if self._tabs is None else self._tabs.views:
            for transcript in view.query(TranscriptView):
                transcript.restyle()


def _drop_output(_: str) -> None:
    """Write nothing."""
