"""A session at the client: prompt it, watch it, change its settings, close it.

The state is current at any time. Updates arrive inline from the connection, in wire order: applied to the state, then
put into the queue of whoever iterates.
"""

from typing import TYPE_CHECKING, TypeAlias

from accord.client import choices, gates
from accord.client.answer import Answer
from accord.client.blocks import Prompt, blocks_of, check_offered
from accord.client.events import AgentEnded, ClientEvent
from accord.client.inbox import Inbox
from accord.client.listeners import OVERHEAD, Listeners
from accord.client.questions import OpenQuestions
from accord.client.setup import SessionSetup
from accord.client.stream import EventStream
from accord.client.terminals import TerminalPrinted, TerminalViews
from accord.client.turn import Turn
from accord.client.workspaces import SessionWorkspace
from accord.errors import ConnectionClosed, NotOffered, UsageError
from accord.schema import (
    CancelNotification,
    CloseSessionRequest,
    ContentBlock,
    ForkSessionResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptRequest,
    ResumeSessionResponse,
    SessionUpdate,
    SubagentUpdate,
    Unknown,
)
from accord.session import Event, Picker, SessionState, TurnCancelling, TurnEnded, TurnStarted
from accord.session.v1 import opened
from accord.workspace.roots import Roots

if TYPE_CHECKING:
    from accord.client.life import Life

Opened: TypeAlias = NewSessionResponse | LoadSessionResponse | ResumeSessionResponse | ForkSessionResponse
"""The answers that open a session."""


class ClientSession:
    """One session of an agent. Made by the agent's handle; a child session is announced by its parent."""

    def __init__(
        self, life: "Life", session_id: str, setup: SessionSetup, parent: "ClientSession | None" = None
    ) -> None:
        self.life = life
        self.id = session_id
        self.setup = setup
        """What it was opened with."""
        self.parent = parent
        """Unstable. For a child session: the one that announced it. A child can be watched, and cancelled if it says so."""
        self.state = SessionState(session_id, setup.cwd, setup.additional_directories)
        self.terminals = TerminalViews(self._printed)
        """What the commands that run for the agent print."""
        self.lost: str | None = None
        """Why the session could not be taken up again after a restart; None while all is well."""
        self.closed = False
        self.replaying = False
        self.serving = 0
        """Requests of the agent about this session that wait for us."""
        self._roots: Roots | None = None
        self._listeners = Listeners(life.sessions.ledger)
        self._questions = OpenQuestions(self)
        self._turn: Turn | None = None
        self.workspace = SessionWorkspace(self)
        """The files and terminals that the agent works on in here."""

    def __repr__(self) -> str:
        return f"ClientSession({self.id!r}, cwd={self.setup.cwd!r})"

    @property
    def running(self) -> bool:
        """Whether a turn runs, the last moments of a cancelled one included."""
        return self._turn is not None

    @property
    def busy(self) -> bool:
        """Whether there is a good reason for silence: the agent waits for us, or a tool is at work."""
        return (
            self.serving > 0
            or any(call.status == "in_progress" and call.open for call in self.state.tool_calls.values())
            or any(child.busy for child in self.children)
        )

    @property
    def children(self) -> "list[ClientSession]":
        """Unstable. The child sessions it has announced."""
        found = map(self.life.sessions.find, self.state.history.subagents)
        return [child for child in found if child is not None and child.parent is self]

    @property
    def roots(self) -> Roots:
        """The folders that bound what the agent may read, write and run in here."""
        if self.parent is None:
            if self._roots is None:
                self._roots = Roots(self.setup.cwd, self.setup.additional_directories)
            return self._roots
        told = self.parent.state.history.subagents.get(self.id)
        cwd, extra = (None, None) if told is None else (told.cwd, told.additional_directories)
        return self.parent.roots.child(cwd, extra)

    # -- turns --------------------------------------------------------------------------------------------------

    def prompt(self, prompt: Prompt) -> EventStream[ClientEvent]:
        """Run a turn: iterate over its events, in order, from `TurnStarted` to `TurnEnded`.

        If the turn fails, the error is raised behind the last event. Leaving the iteration cancels the turn.
        """
        blocks = self._checked_prompt(prompt)
        begun: list[Turn] = []

        async def begin() -> Inbox[ClientEvent]:
            begun.append(turn := await self._begin(blocks, watched=True))
            assert turn.inbox is not None, "a watched turn has a queue"
            return turn.inbox

        def leave() -> None:
            for turn in begun:
                turn.leave()

        return EventStream(None, leave, begin=begin, outcome=lambda: begun[0].error)

    async def ask(self, prompt: Prompt) -> Answer:
        """Run a turn and return what the agent said."""
        turn = await self._begin(self._checked_prompt(prompt), watched=False)
        try:
            await turn.wait()
        finally:
            turn.leave()
        if turn.error is not None:
            raise turn.error
        assert turn.ended is not None, "a turn that is over has ended"
        return Answer.of(self.state, turn.ended)

    def cancel(self) -> None:
        """Ask the agent to stop, and dismiss its open permission questions. The turn goes on until it is answered."""
        if self.parent is not None:
            self._cancel_child()
            return
        turn = self._turn
        if turn is None or turn.cancelling:
            return
        self.life.link.notify("session/cancel", CancelNotification(self.id))
        self.publish(TurnCancelling())
        for asked in (self, *self.children):
            asked.questions.dismiss()
        turn.cancel()

    async def set_mode(self, mode_id: str) -> None:
        """Work in another mode, one that the agent listed; by its config option where it has one for that."""
        await choices.set_mode(self, mode_id)

    async def set_config_option(self, config_id: str, value: str | bool) -> None:
        """Set an option that the agent listed to a value it listed; True or False for a switch."""
        await choices.set_config_option(self, config_id, value)

    async def choose(self, picker: Picker, value: str | bool) -> None:
        """Set whatever a picker of `state.settings.pickers` stands for: an option, the mode, or a legacy model."""
        await choices.choose(self, picker, value)

    def events(self) -> EventStream[ClientEvent]:
        """Every event of the session from now on, in turns and between them, until it is closed."""
        return self._listeners.listen()

    def _checked_prompt(self, prompt: Prompt) -> list[ContentBlock]:
        self.insist_on_use()
        if self._turn is not None and not self._turn.cancelling:
            raise UsageError(
                "a turn is running in this session; cancel it or wait for its end before the next prompt"
            )
        blocks = blocks_of(prompt)
        check_offered(blocks, self.life.link.capabilities)
        gates.insist_on_validity("session/prompt", PromptRequest(self.id, blocks))
        return blocks

    async def _begin(self, blocks: list[ContentBlock], *, watched: bool) -> Turn:
        if self._turn is not None and self._turn.cancelling:
            await self._turn.wait()
        link = await self.life.ready()
        self.insist_on_use()
        if self._turn is not None:
            raise UsageError("another turn has begun in this session meanwhile; one runs at a time")
        self._turn = turn = Turn(self, link, self._listeners.open() if watched else None)
        self.publish(TurnStarted(blocks))
        await turn.start(blocks)
        return turn

    def _cancel_child(self) -> None:
        assert self.parent is not None
        told = self.parent.state.history.subagents.get(self.id)
        if told is None or not told.may_cancel:
            raise NotOffered(f"the child session {self.id!r} cannot be cancelled: it does not offer that")
        self.life.link.notify("session/cancel", CancelNotification(self.id))
        self._questions.dismiss()

    # -- what arrives -------------------------------------------------------------------------------------------

    def opened(self, setup: SessionSetup, answer: Opened) -> None:
        """The agent has opened the session, or opened it again, with these folders and servers."""
        self.setup = setup
        self._roots = None
        event = opened(self.id, answer)
        event.cwd, event.additional_directories = setup.cwd, list(setup.additional_directories)
        self.publish(event)

    def take(self, update: SessionUpdate | Unknown, size: int) -> None:
        """One update of the agent, from a message of this many bytes."""
        event = self.state.apply(update)  # pyright: ignore[reportArgumentType] - unknown updates pass through
        inboxes = self._listeners.inboxes
        if inboxes:
            size += OVERHEAD
            for inbox in inboxes:
                inbox.put(event, size)
        elif self._turn is None and not self.replaying:
            self._listeners.keep(event, size)
        if type(event) is SubagentUpdate:
            self.life.child_announced(self, event.session_id)

    def publish(self, event: Event) -> Event:
        """Something that this side knows happened: apply it and tell everybody."""
        event = self.state.apply(event)
        self._listeners.tell(event)
        return event

    def tell(self, event: ClientEvent) -> None:
        """Something that is no part of the state."""
        self._listeners.tell(event)

    def turn_over(self, turn: Turn, ended: TurnEnded) -> None:
        """A turn has ended; called once by it."""
        if self._turn is turn:
            self._turn = None
        self._questions.dismiss()
        self.publish(ended)

    def unsubscribe(self, inbox: Inbox[ClientEvent]) -> None:
        """This queue hears nothing more."""
        self._listeners.leave(inbox)

    # -- what the agent asks for --------------------------------------------------------------------------------

    @property
    def questions(self) -> OpenQuestions:
        """The permission requests that wait for a decision."""
        return self._questions

    # -- the end ------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the session at the agent: what runs is cancelled, the history stays with the agent."""
        self.insist_on_use()
        link = await self.life.ready()
        gates.require("session/close", link.capabilities)
        self._questions.dismiss()
        await link.call("session/close", CloseSessionRequest(self.id), key=self.id)
        await self.shut()

    async def shut(self, why: str = "the session was closed") -> None:
        """The session is over at the agent: end what belongs to it here."""
        self.closed = True
        children = self.children
        self.life.sessions.remove(self)
        turn = self._turn
        if turn is not None:
            turn.give_up(ConnectionClosed(f"the turn was not answered: {why}"))
            await turn.finish()
        for child in children:
            await child.shut(why)
        await self.workspace.aclose()
        self._listeners.close()

    def agent_ended(self, event: AgentEnded) -> None:
        """The program behind the session is gone: nobody waits for our answers any more."""
        self.tell(event)
        self._questions.dismiss()
        self.life.own(self.workspace.aclose())

    def insist_on_use(self) -> None:
        """Refuse calls on a session that is closed or lost, and on a child, which can only be watched and cancelled."""
        if self.parent is not None:
            raise NotOffered(
                f"{self.id!r} is a child session, which the client can only watch; use its parent"
            )
        if self.lost is not None:
            raise UsageError(f"the session {self.id!r} was lost when the agent was restarted: {self.lost}")
        if self.closed:
            raise UsageError(
                f"the session {self.id!r} is closed; open it again with load_session or resume_session"
            )

    def _printed(self, event: TerminalPrinted) -> None:
        self._listeners.tell_those_who_keep_up(event, len(event.text))
