"""One session on the screen, and how its events reach the widgets."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from textual import on
from textual.app import SuspendNotSupported
from textual.containers import Horizontal, Vertical
from textual.message import Message

from accord.clock import SYSTEM_CLOCK, Clock
from accord.tui.chat_types import ChatStart, Draft, DraftQueue
from accord.tui.parts.markdown_part import leave_alone, let_go, warm_up
from accord.tui.prompt.prompt_box import PromptBox
from accord.tui.prompt.prompt_editor import Editor
from accord.tui.prompt.prompt_queue import PromptQueue
from accord.tui.session_panels import PlanPanel, Status, StatusLine, TitleLine
from accord.tui.shell_command import ShellCommands, ShellItem
from accord.tui.theme import app_of, at_home
from accord.tui.transcript.transcript_layout import NoteItem
from accord.tui.transcript.transcript_view import TranscriptView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult

    from accord.client import ClientEvent, ClientSession, RemoteAgent
    from accord.errors import AccordError
    from accord.schema import AvailableCommand
    from accord.session import TurnEnded
    from accord.tui.chat_session import ChatSession
    from accord.tui.chat_types import Phase
    from accord.tui.dialog import Dialog
    from accord.tui.parts.markdown_part import Tone
    from accord.tui.transcript.transcript_follower import TranscriptFollower


# MERGED tui.showing: What happens in a session, put on the screen: into the conversation, the plan and the lines at the edges.

_GLANCE: Final = 0.1
"""Seconds between two looks at what stands at the edges."""


class ScreenDisplay:
    """The stage of a conversation that is a screen."""

    def __init__(
        self,
        transcript: "TranscriptView",
        plans: "tuple[PlanPanel, ...]",
        status: "Status",
        clock: Clock,
        *,
        changed: Callable[[], None],
        queue_changed: Callable[[], None],
    ) -> None:
        """`changed` is called when the lines at the edges tell something else, `queue_changed` when a prompt left the queue or returned to it."""
        self.turns = 0
        """Turns that are over."""
        self.queue_changed = queue_changed
        self._transcript = transcript
        self._plans = plans
        self._status = status
        self._clock = clock
        self._changed = changed
        self._session: ClientSession | None = None
        self._follower: TranscriptFollower | None = None
        self._began = 0.0
        self._looking = False

    def phase_changed(self, phase: "Phase") -> None:
        """Something else goes on now."""
        if phase == "running":
            self._began = self._clock.now()
        self._status.enter(phase)
        self._changed()

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        """The session is there."""
        from accord.tui.transcript.transcript_follower import TranscriptFollower

        notes = [item for item in self._transcript.items if isinstance(item, NoteItem | ShellItem)]
        self._session = session
        self._follower = TranscriptFollower(session, self._transcript, self._clock)
        self._transcript.add(*notes)
        if agent.info is not None:
            self._status.agent = agent.name
        self._glance()

    def happened(self, event: "ClientEvent") -> None:
        """An event of the session."""
        from accord.client import AgentEnded
        from accord.session import TurnEnded

        assert self._follower is not None
        self._follower.take(event)
        if isinstance(event, TurnEnded):
            self._follower.turn_ended()
        elif isinstance(event, AgentEnded):
            self.note(f"The agent has ended: {_first_line(str(event.error))}", "bad", event.stderr)
        if not self._looking:
            self._looking = True
            self._transcript.set_timer(_GLANCE, self._glance)

    def _glance(self) -> None:
        """However much has happened, the edges of the screen are looked at a few times a second only."""
        self._looking = False
        if self._session is None:
            return
        state = self._session.state
        for plan in self._plans:
            plan.show(state.plan)
        if self._status.read(state):
            self._changed()

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Tell the user something."""
        self._transcript.add(NoteItem(text, tone, details))

    def failed(self, error: "AccordError", details: str) -> None:
        """It could not be connected."""
        self.note(str(error), "bad", details)

    def turn_over(self, ended: "TurnEnded | None", error: "AccordError | None") -> None:
        """A turn is over."""
        from accord.errors import ConnectionClosed
        from accord.frontend.display_text import ending, seconds

        self.turns += 1
        self._changed()
        if error is not None and not isinstance(error, ConnectionClosed):
            self.note(str(error), "bad")
        if error is not None or ended is None:
            return  # the end of the agent has been told already
        words = [ending(ended), seconds(self._clock.now() - self._began)]
        if ended.usage is not None:
            words.append(f"{ended.usage.total_tokens:,} tokens")
        tone: Tone = "quiet" if ended.stop_reason in ("end_turn", "cancelled") else "warn"
        self.note(" · ".join(words), tone)

    def tick(self) -> None:
        """Time passes while a turn runs."""
        from accord.frontend.display_text import seconds

        self._status.since = seconds(self._clock.now() - self._began)
        if self._follower is not None:
            self._follower.tick()


def _first_line(text: str) -> str:
    return text.partition("\n")[0].partition("; its last stderr lines")[0]


# MERGED tui.sessionview: One session on the screen: its title, the conversation, the plan, questions, the queue, the prompt and the status line.

BESIDE: Final = 120
"""From this width on the plan stands beside the conversation."""


class SessionView(Vertical):
    """A session, and everything around it."""

    DEFAULT_CSS = """
    SessionView { height: 1fr; }
    SessionView > #middle { height: 1fr; }
    SessionView > #question { height: auto; }
    """

    class Changed(Message):
        """Something that a list of sessions shows has changed: the title, what goes on, whether it waits for the user."""

        def __init__(self, view: "SessionView") -> None:
            super().__init__()
            self.view = view

    def __init__(self, start: ChatStart, *, clock: Clock = SYSTEM_CLOCK, id: str | None = None) -> None:
        super().__init__(id=id)
        self.start = start
        self.clock = clock
        self.status = Status(agent=start.name, folder=at_home(start.cwd))
        self.queue = DraftQueue()
        self.conversation: ChatSession | None = None
        self.dialog: Dialog | None = None
        """The question on the screen."""
        self.transcript = TranscriptView()
        self.plan = PlanPanel()
        self.side_plan = PlanPanel(beside=True)
        self.waiting = PromptQueue(self.queue)
        self.prompt = PromptBox(start.cwd, self._commands)
        self._title = TitleLine(self.status)
        self._line = StatusLine(self.status)
        self._shell = ShellCommands(start.cwd, self.transcript.changed)
        self._ran: ShellItem | None = None
        self.showing = ScreenDisplay(
            self.transcript,
            (self.plan, self.side_plan),
            self.status,
            clock,
            changed=self._show_status,
            queue_changed=self.waiting.update,
        )

    def compose(self) -> "ComposeResult":
        yield self._title
        with Horizontal(id="middle"):
            yield self.transcript
            yield self.side_plan
        yield self.plan
        yield Vertical(id="question")
        yield self.waiting
        yield self.prompt
        yield self._line

    # -- beginning and end --------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.prompt.editor.focus()
        self.set_interval(0.5, self._tick)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self.run_worker(self._connect(), group="life")

    async def _connect(self) -> None:
        """The client is imported when the prompt is on the screen and can be used."""
        module: Any = await asyncio.to_thread(import_module, "accord.tui.chat_session")
        dialogs: Any = await asyncio.to_thread(import_module, "accord.tui.question_dialogs")
        await asyncio.to_thread(import_module, "accord.tui.transcript.transcript_follower")
        leave_alone()
        conversation = module.ChatSession(
            self.start, self.showing, dialogs.DialogHandler(self), self.queue, self.clock
        )
        self.conversation = conversation
        conversation.begin()
        await asyncio.to_thread(warm_up)  # while the agent starts

    async def aclose(self) -> None:
        """End the agent, and what the user started."""
        await self._shell.aclose()
        if self.conversation is not None:
            await self.conversation.aclose()
        let_go()

    # -- questions ----------------------------------------------------------------------------------------------

    async def ask(self, dialog: "Dialog") -> Any:
        """Show a question and wait for its answer."""
        dialog.clock = self.clock
        self.dialog = dialog
        try:
            await self.query_one("#question", Vertical).mount(dialog)
            self._say_changed()
            return await dialog.answer
        finally:
            self.dialog = None
            had_focus = dialog.has_focus_within or dialog.has_focus
            dialog.remove()
            if had_focus:
                self.prompt.editor.focus()
            self._say_changed()

    def lend_terminal(self, run: "Callable[[], int]") -> int:
        """Take the screen away until something else has had the terminal."""
        try:
            with app_of(self).suspend():
                return run()
        except SuspendNotSupported:
            from accord.errors import UsageError

            raise UsageError("this terminal cannot be left to another program; sign in outside") from None

    def come_up(self) -> None:
        """It is the one that is shown."""
        self.prompt.editor.focus()
        self.look_again()

    def look_again(self) -> None:
        """Nothing is on top of it any more."""
        if self.dialog is not None:
            self.dialog.look_again()

    def put_away(self) -> None:
        """Another one is shown, or another screen is on top."""
        if self.dialog is not None:
            self.dialog.put_away()

    # -- showing ------------------------------------------------------------------------------------------------

    @property
    def turns(self) -> int:
        """Turns that are over."""
        return self.showing.turns

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Tell the user something."""
        self.showing.note(text, tone, details)

    def _tick(self) -> None:
        if self.conversation is not None and self.conversation.phase in ("running", "cancelling"):
            self.showing.tick()

    def _show_status(self) -> None:
        self._title.refresh()
        self._line.refresh()
        self._say_changed()

    def _say_changed(self) -> None:
        self.post_message(self.Changed(self))

    def on_resize(self, event: "events.Resize") -> None:
        if self.dialog is not None:
            self.dialog.fit()
        beside = event.size.width >= BESIDE
        self.plan.set_class(beside, "away")
        self.side_plan.set_class(not beside, "away")

    def _commands(self) -> "Sequence[AvailableCommand]":
        session = self.conversation.session if self.conversation is not None else None
        return () if session is None else session.state.commands

    @property
    def readable(self) -> TranscriptView:
        """What the page keys scroll."""
        about = None if self.dialog is None or not self.dialog.armed else self.dialog.about
        return self.transcript if about is None else about

    # -- what the user does -------------------------------------------------------------------------------------

    @on(PromptBox.Said)
    def _said(self, event: PromptBox.Said) -> None:
        event.stop()
        if event.draft:
            self.say(event.draft)
        elif self.queue.held:
            self._advance()
        self.transcript.action_bottom()

    def say(self, draft: Draft) -> None:
        """Send a prompt, or queue it behind the others."""
        self.queue.add(draft)
        self._advance()

    def _advance(self) -> None:
        self.queue.held = False
        if self.conversation is not None:
            self.conversation.advance()
        self.waiting.update()

    @on(PromptBox.Ran)
    def _run(self, event: PromptBox.Ran) -> None:
        event.stop()
        self._ran = item = ShellItem(event.command)
        self.transcript.add(item)
        self.transcript.action_bottom()
        self.prompt.say_hint("Ctrl+G hands the output to the agent")
        self.run_worker(self._shell.run(item), group="shell")

    @on(Editor.Typed)
    def _typed(self) -> None:
        if self.dialog is not None:
            self.dialog.typed()

    @on(PromptQueue.Edited)
    def _edit(self, event: PromptQueue.Edited) -> None:
        event.stop()
        self.prompt.hold(event.draft)

    @on(PromptQueue.Dropped)
    def _dropped(self, event: PromptQueue.Dropped) -> None:
        event.stop()
        if not len(self.queue):
            self.prompt.editor.focus()

    @on(TranscriptView.Copied)
    def _copied(self, event: TranscriptView.Copied) -> None:
        event.stop()
        self.app.copy_to_clipboard(event.text)  # pyright: ignore[reportUnknownMemberType]

    def stop(self) -> None:
        """Esc: stop the turn, or a command of the user's own, or return to the prompt."""
        if self.conversation is not None and self.conversation.cancel():
            return
        if self.dialog is not None:
            self.dialog.settle(None)
            return
        if self._ran is not None and self._ran.running:
            self.run_worker(self._shell.stop(), group="shell")
        self.prompt.editor.focus()

    def restart(self) -> None:
        """Start the agent again."""
        if self.conversation is not None:
            self.conversation.restart()

    def hand_over(self) -> None:
        """Let the output of the last command go with the next prompt."""
        if self._ran is None:
            self.notify("Nothing to hand over: run a command with ! first")
            return
        self.prompt.attach(self._ran.attachment())
        self.prompt.say_hint("")
        self.prompt.editor.focus()

    def fold_plan(self) -> None:
        """Fold the plan, or show it whole."""
        self.plan.toggle()
        self.side_plan.toggle()

    def unfold(self) -> None:
        """Show more or less of the marked item, else of the latest that has something to show."""
        marked = self.transcript.marked
        if marked is not None:
            self.transcript.toggle(marked)
            return
        from accord.tui.transcript.transcript_items import CallItem, ThoughtItem

        for item in reversed(self.transcript.items):
            if isinstance(item, CallItem | ThoughtItem | ShellItem):
                self.transcript.toggle(item)
                return

    def read(self) -> None:
        """Go to the conversation, or back to the prompt."""
        (self.prompt.editor if self.transcript.has_focus else self.transcript).focus()

    def look_at_queue(self) -> None:
        """Go to the prompts that wait."""
        if len(self.queue):
            self.waiting.focus()
        else:
            self.notify("No prompt waits")
