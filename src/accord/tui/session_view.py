"""One session on the screen, and how its events reach the widgets.

Loaded before the first paint: keep the client out.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import on
from textual.app import SuspendNotSupported
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import TextArea

from accord.clock import SYSTEM_CLOCK, Clock
from accord.tui.chat_types import ChatStart, Draft, DraftQueue
from accord.tui.completion import CompletionPopup
from accord.tui.key_footer import KeyFooter, hints_of, key_of
from accord.tui.prompt_box import Editor, PromptBox
from accord.tui.screen_display import ScreenDisplay
from accord.tui.session_panels import PlanPanel, PromptQueue, Status, StatusLine, TitleLine, shorten_home
from accord.tui.shell_command import ShellCommands, ShellItem
from accord.tui.theme import app_of, palette_of
from accord.tui.transcript.transcript_view import TranscriptView
from accord.tui.warm_up import end_gc_exemption, exempt_from_gc, warm_up
from accord.tui.welcome import WelcomePanel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from textual import events
    from textual.app import ComposeResult

    from accord.frontend.review import ReviewService
    from accord.frontend.rewind import RewindOutcome, RewindService
    from accord.schema import AvailableCommand
    from accord.tui.chat_app import ChatApp
    from accord.tui.chat_session import ChatSession
    from accord.tui.dialog import Dialog
    from accord.tui.parts.note_part import Tone
    from accord.tui.tour import Tour


_CANNOT_REWIND: Final = "Cannot go back now: a turn runs, or the agent behind the gateway has no rewind"
PLAN_BESIDE_WIDTH: Final = 120
"""From this width on, the plan is beside the transcript."""
_BRANCH_TICKS: Final = 10
"""Ticks of half a second between two looks at the branch during a turn."""


class SessionView(Vertical):
    """A session: title, transcript, plan, question, queue, prompt and status line."""

    DEFAULT_CSS: ClassVar[str] = """
    SessionView { height: 1fr; }
    SessionView > #middle { height: 1fr; }
    SessionView > #question { height: auto; }
    """

    class Changed(Message):
        """The title, the phase or the open question has changed."""

        def __init__(self, view: "SessionView") -> None:
            super().__init__()
            self.view = view

    def __init__(self, start: ChatStart, *, clock: Clock = SYSTEM_CLOCK, id: str | None = None) -> None:
        super().__init__(id=id)
        self.start: ChatStart = start
        self.clock: Clock = clock
        self.status: Status = Status(agent=start.name, folder=shorten_home(start.cwd))
        self.queue: DraftQueue = DraftQueue()
        self.chat_session: ChatSession | None = None
        self.dialog: Dialog | None = None
        """The open question."""
        self.transcript: TranscriptView = TranscriptView()
        self.plan: PlanPanel = PlanPanel()
        self.side_plan: PlanPanel = PlanPanel(beside=True)
        self.queue_view: PromptQueue = PromptQueue(self.queue)
        self.prompt: PromptBox = PromptBox(start.cwd, self._commands, self._leave_prompt)
        self.review: ReviewService | None = None
        """The review of the session's changes, with the comments that are not sent yet."""
        self.stash: list[Draft] = []
        """Prompts that are put aside."""
        self.welcome: WelcomePanel = WelcomePanel(
            self.status,
            lambda action: key_of(self, action),
            lambda: max(self.prompt.outer_size.height, 3),
        )
        self.tour: Tour | None = None
        self._was_ended = False
        self._ticks = 0
        self._branch_turns = 0  # the number of turns when the branch was looked up
        self._footer = KeyFooter(lambda: hints_of(self))
        self._title = TitleLine(self.status)
        self._status_line = StatusLine(self.status)
        self._shell = ShellCommands(start.cwd, self.transcript.changed)
        self._shell_item: ShellItem | None = None
        self.display_adapter: ScreenDisplay = ScreenDisplay(
            self.transcript,
            (self.plan, self.side_plan),
            self.status,
            clock,
            changed=self._show_status,
            queue_changed=self.queue_view.update,
        )

    def compose(self) -> "ComposeResult":
        yield self._title
        yield self.welcome
        with Horizontal(id="middle"):
            yield self.transcript
            yield self.side_plan
        yield self.plan
        yield Vertical(id="question")
        yield self.queue_view
        yield self.prompt
        yield self._status_line
        yield self._footer

    # -- start and end --

    def on_mount(self) -> None:
        self.prompt.editor.focus()
        self.set_interval(0.5, self._tick)
        self.welcome.set_class(not self._is_new, "hidden")
        self.call_after_refresh(self._start_connecting)

    def _start_connecting(self) -> None:
        self.run_worker(self._connect(), group="connection")

    async def _connect(self) -> None:
        """Import the client in a thread, after the prompt is usable, and connect."""
        chat_module: Any = await asyncio.to_thread(import_module, "accord.tui.chat_session")
        dialogs_module: Any = await asyncio.to_thread(import_module, "accord.tui.question_dialogs")
        await asyncio.to_thread(import_module, "accord.tui.transcript.transcript_follower")
        if self._was_ended:
            return
        exempt_from_gc()
        chat_session = chat_module.ChatSession(
            self.start, self.display_adapter, dialogs_module.DialogHandler(self), self.queue, self.clock
        )
        self.chat_session = chat_session
        chat_session.begin()
        self.update_branch()
        await asyncio.to_thread(warm_up)  # while the agent starts
        if self.welcome.shown:
            actions: Any = await asyncio.to_thread(import_module, "accord.tui.welcome_actions")
            await actions.fill_in(self)

    @property
    def _is_new(self) -> bool:
        """Whether the session may be shown as a new one: nothing was said in it."""
        session = None if self.chat_session is None else self.chat_session.session
        opens_other = session is None and (self.start.session is not None or self.start.newest)
        said = self.turns or len(self.queue) or (session is not None and session.state.timeline)
        return not (said or opens_other or self.dialog or self.tour or self._shell_item)

    def _update_welcome(self) -> None:
        if self.welcome.shown != self._is_new:
            if self.welcome.has_focus:
                self.prompt.editor.focus()
            self.welcome.set_class(not self._is_new, "hidden")
        elif self.welcome.shown:
            self.welcome.update()

    @on(WelcomePanel.Chosen)
    async def _welcome_chosen(self, event: WelcomePanel.Chosen) -> None:
        event.stop()
        from accord.tui.welcome_actions import choose

        self.chat_app.run_worker(choose(self.chat_app, event.row), group="welcome", exclusive=True)

    @on(WelcomePanel.Left)
    def _welcome_left(self, event: WelcomePanel.Left) -> None:
        event.stop()
        self.prompt.editor.focus()

    def update_branch(self) -> None:
        """Look up the branch and the number of changed files, unless that is under way."""
        if self.start.remote is None and self.is_attached:
            self.run_worker(self._update_branch(), group="branch", exclusive=True)

    async def _update_branch(self) -> None:
        git: Any = await asyncio.to_thread(import_module, "accord.frontend.git_command")
        found = await asyncio.to_thread(git.folder_status, self.start.cwd)
        branch, changes = ("", 0) if found is None else found
        if (branch, changes) != (self.status.branch, self.status.changed_files):
            self.status.branch, self.status.changed_files = branch, changes
            self._title.refresh()

    async def aclose(self) -> None:
        """End the agent and the user's shell commands."""
        self._was_ended = True
        await self._shell.aclose()
        if self.chat_session is not None:
            await self.chat_session.aclose()
        if self.tour is not None:
            self.tour.close()
        end_gc_exemption()

    # -- questions --

    async def ask(self, dialog: "Dialog") -> Any:
        """Show a question and wait for its answer. Raises what drawing it raises."""
        dialog.check_drawable(max(self.size.width - 4, 20), palette_of(self))
        dialog.clock = self.clock
        self.dialog = dialog
        try:
            self._update_welcome()
            await self.query_one("#question", Vertical).mount(dialog)
            self._post_changed()
            return await dialog.answer
        finally:
            self.dialog = None
            had_focus = dialog.has_focus_within or dialog.has_focus
            dialog.remove()
            self._update_welcome()
            if had_focus:
                self.prompt.editor.focus()
            self._post_changed()

    def run_without_screen(self, run: "Callable[[], int]") -> int:
        """Hide the screen while `run` uses the terminal."""
        try:
            with app_of(self).suspend():
                return run()
        except SuspendNotSupported:
            from accord.errors import UsageError

            raise UsageError(
                "cannot run another program in this terminal; run it outside of the chat"
            ) from None

    def activate(self) -> None:
        """Focus the prompt. Called when the session becomes visible."""
        self.prompt.editor.focus()
        self.resume_dialog()
        self.update_branch()

    def resume_dialog(self) -> None:
        """Let the open question accept keys again. Called when no screen is on top."""
        if self.dialog is not None:
            self.dialog.resume()

    def suspend_dialog(self) -> None:
        """Keep the open question from accepting keys."""
        if self.dialog is not None:
            self.dialog.suspend()

    # -- display --

    @property
    def turns(self) -> int:
        """Number of ended turns."""
        return self.display_adapter.turns

    def rename(self, title: str) -> None:
        """Show the title that the user chose."""
        self.status.own_title = self.status.title = title
        self._show_status()

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        self.display_adapter.note(text, tone, details)

    def _tick(self) -> None:
        if self.chat_session is not None and self.chat_session.phase in ("running", "cancelling"):
            self.display_adapter.tick()
            self._ticks += 1
            if self._ticks % _BRANCH_TICKS == 0:
                self.update_branch()

    def _show_status(self) -> None:
        if self.turns != self._branch_turns:
            self._branch_turns = self.turns
            self.update_branch()
        self._title.refresh()
        self._status_line.refresh()
        self._footer.refresh()
        self._update_welcome()
        if self.tour is not None:
            self.tour.turn_ended(self)
        self._post_changed()

    def _post_changed(self) -> None:
        self.post_message(self.Changed(self))

    def on_resize(self, event: "events.Resize") -> None:
        if self.dialog is not None:
            self.dialog.update_size()
        beside = event.size.width >= PLAN_BESIDE_WIDTH
        self.plan.set_class(beside, "hidden")
        self.side_plan.set_class(not beside, "hidden")

    def on_descendant_focus(self) -> None:
        self._footer.refresh()

    def on_dialog_armed_changed(self) -> None:
        self._footer.refresh()

    @on(TextArea.Changed)
    @on(CompletionPopup.Toggled)
    @on(TranscriptView.SelectionChanged)
    def _update_footer(self) -> None:
        if self.welcome.shown:
            self.call_after_refresh(self.welcome.update)  # the prompt has grown or shrunk
        self._footer.refresh()

    def _commands(self) -> "Sequence[AvailableCommand]":
        session = self.chat_session.session if self.chat_session is not None else None
        return () if session is None else session.state.commands

    @property
    def scroll_target(self) -> TranscriptView:
        """The widget that the page keys scroll."""
        body = None if self.dialog is None or not self.dialog.armed else self.dialog.body
        return self.transcript if body is None else body

    # -- user actions --

    @on(PromptBox.Submitted)
    def _prompt_submitted(self, event: PromptBox.Submitted) -> None:
        event.stop()
        if event.draft:
            self.submit(event.draft, later=event.later)
        elif self.queue.paused:
            self._advance()
        self.transcript.action_bottom()

    def submit(self, draft: Draft, *, later: bool = False) -> None:
        """Send a prompt, or queue it. During a turn, a draft joins the turn if the agent supports that."""
        if draft.text.lstrip().startswith("/") and not draft.attachments and self._run_command(draft):
            return
        if not later and self.chat_session is not None and self.chat_session.steer(draft):
            return
        self.queue.add(draft)
        self._update_welcome()
        self._advance()

    def _run_command(self, draft: Draft) -> bool:
        """Run a command of the chat. Return False for the prompts and commands of the agent."""
        from accord.tui.slash_commands import agent_command, find_command

        names = [command.name for command in self._commands()]
        found = find_command(draft.text, names)
        if found is None:
            draft.text = agent_command(draft.text)
            return False
        command, argument = found
        agent = self.chat_session.agent if self.chat_session is not None else None
        has_own = command.name in names and agent is not None and not agent.can_rewind
        if command.name in ("undo", "redo", "rewind") and has_own:
            return False
        self.chat_app.call_later(command.run, self.chat_app, argument)
        return True

    @property
    def chat_app(self) -> "ChatApp":
        return cast("ChatApp", app_of(self))

    def run_rewind_command(self, text: str) -> bool:
        """Run `/undo`, `/redo` or `/rewind` here if the agent supports it and no turn runs."""
        from accord.frontend.rewind import rewind_command

        command = rewind_command(text)
        if command is None:
            self.notify(f"Cannot read {text!r}; use files or conversation, and force")
            return False
        if not self.can_rewind:
            self.notify(_CANNOT_REWIND)
            return False
        if command.name == "redo":
            self.rewind(lambda service: service.redo(force=command.force))
        elif command.name == "rewind" and command.number is None:
            self.choose_rewind()
        else:
            number = command.number or 1
            self.rewind(lambda service: service.rewind_to(number, command.scope, force=command.force))
        return True

    @property
    def can_rewind(self) -> bool:
        """Whether the session can go back to earlier messages now."""
        return self.chat_session is not None and self.chat_session.rewind_target is not None

    def choose_rewind(self) -> None:
        """Let the user choose a message to go back to."""
        if not self.can_rewind:
            self.notify(_CANNOT_REWIND)
            return
        from accord.tui.rewind_screen import choose_point

        self.run_worker(self._with_rewind(lambda service: choose_point(self, service)), group="rewind")

    def rewind(self, action: "Callable[[RewindService], Awaitable[RewindOutcome | None]]") -> None:
        """Go back, show what happened, and put the message into the prompt."""

        async def work(service: "RewindService") -> None:
            outcome = await action(service)
            if outcome is None:
                self.note("There is no such message to go back to.")
                return
            self.note(outcome.title, "good" if outcome.complete else "warn", outcome.details)
            if outcome.prompt and not self.prompt.draft:
                self.prompt.append(Draft(outcome.prompt))
            if self.tour is not None:
                self.tour.rewound(self)

        self.run_worker(self._with_rewind(work), group="rewind")

    async def _with_rewind(self, work: "Callable[[RewindService], Awaitable[None]]") -> None:
        from accord.errors import AccordError
        from accord.frontend.rewind import RewindService

        target = self.chat_session.rewind_target if self.chat_session is not None else None
        if target is None:
            return
        try:
            await work(RewindService(target))
        except AccordError as error:
            self.note(f"cannot go back: {error}", "bad")

    def _advance(self) -> None:
        self.queue.paused = False
        if self.chat_session is not None:
            self.chat_session.advance()
        self.queue_view.update()

    @on(PromptBox.ShellCommand)
    def _run_shell_command(self, event: PromptBox.ShellCommand) -> None:
        event.stop()
        self._shell_item = item = ShellItem(event.command)
        self.transcript.add(item)
        self._update_welcome()
        self.transcript.action_bottom()
        self.prompt.set_hint("Ctrl+G attaches the output to the prompt")
        self.run_worker(self._run_shell(item), group="shell")

    async def _run_shell(self, item: ShellItem) -> None:
        await self._shell.run(item)
        self.update_branch()

    @on(Editor.Typed)
    def _typed(self) -> None:
        if self.dialog is not None:
            self.dialog.user_typed()

    def _leave_prompt(self) -> None:
        if self.dialog is not None and self.dialog.armed:
            self.dialog.take_focus()
        else:
            self.screen.set_focus(self.welcome if self.welcome.shown else self.transcript)

    def say_instead(self) -> None:
        """Let the user write what the agent should do instead of what was rejected."""
        if self.tour is not None:
            self.tour.rejected()
        self.prompt.set_hint("say what to do instead")
        self.prompt.editor.focus()

    @on(PromptQueue.Edited)
    def _edit_queued_prompt(self, event: PromptQueue.Edited) -> None:
        event.stop()
        self.prompt.append(event.draft)

    @on(PromptQueue.Removed)
    def _queued_prompt_removed(self, event: PromptQueue.Removed) -> None:
        event.stop()
        if not len(self.queue):
            self.prompt.editor.focus()

    @on(TranscriptView.CopyRequested)
    def _copy_requested(self, event: TranscriptView.CopyRequested) -> None:
        event.stop()
        self.app.copy_to_clipboard(event.text)  # pyright: ignore[reportUnknownMemberType]

    def stop(self) -> None:
        """Esc: stop the turn, cancel the question, or stop a shell command and return to the prompt."""
        if self.chat_session is not None and self.chat_session.cancel():
            return
        if self.dialog is not None:
            self.dialog.set_answer(None)
            return
        if self._shell_item is not None and self._shell_item.running:
            self.run_worker(self._shell.stop(), group="shell")
        self.prompt.editor.focus()

    def after_keys(self, action: Callable[[], None]) -> None:
        """Do something with the prompt, after the keys that the editor has not handled yet."""
        self.prompt.editor.call_later(action)

    def restart_or_search(self) -> None:
        """Restart the agent if it has ended; otherwise search earlier prompts."""
        if self.chat_session is not None and self.chat_session.phase in ("lost", "dead", "failed"):
            self.chat_session.restart()
        else:
            self.search_history()

    def search_history(self) -> None:
        """Let the user choose an earlier prompt."""
        from accord.tui.prompt_tools import search_history

        search_history(self.chat_app, self.prompt)

    def edit_prompt(self) -> None:
        """Edit the prompt in the user's editor."""
        from accord.tui.prompt_tools import edit_in_editor

        edit_in_editor(self, self.prompt)

    def stash_prompt(self) -> None:
        """Put the prompt aside, or take the latest one back into the empty prompt."""
        if self.prompt.draft:
            self.stash.append(self.prompt.take())
            self.notify("The prompt is put aside; the same key in an empty prompt takes it back")
        elif self.stash:
            self.prompt.append(self.stash.pop())
        else:
            self.notify("No prompt is put aside")
        self._footer.refresh()

    def attach_output(self) -> None:
        """Attach the output of the last shell command to the prompt."""
        if self._shell_item is None:
            self.notify("No output to attach: run a command with ! first")
            return
        self.prompt.attach(self._shell_item.attachment())
        self.prompt.set_hint("")
        self.prompt.editor.focus()

    def toggle_plan(self) -> None:
        """Fold or unfold the plan."""
        self.plan.toggle()
        self.side_plan.toggle()

    def toggle_item(self) -> None:
        """Fold or unfold the selected item, or the latest tool call, thought or command."""
        if self.prompt.unfold_chip():
            return
        selected = self.transcript.selected
        if selected is not None:
            self.transcript.toggle(selected)
            return
        from accord.tui.transcript.transcript_items import CallItem, ThoughtItem

        for item in reversed(self.transcript.items):
            if isinstance(item, CallItem | ThoughtItem | ShellItem):
                self.transcript.toggle(item)
                return

    def toggle_focus(self) -> None:
        """Move the focus to the transcript, or back to the prompt."""
        (self.prompt.editor if self.transcript.has_focus else self.transcript).focus()

    def focus_queue(self) -> None:
        """Move the focus to the queued prompts."""
        if len(self.queue):
            self.queue_view.focus()
        else:
            self.notify("No prompts are queued")
