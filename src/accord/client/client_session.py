"""`ClientSession`: prompt it, watch it, change its settings, close it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs

from accord.client import agent_connection
from accord.client.agent_connection import Prompt, blocks_of, check_offered
from accord.client.agent_requests import SessionWorkspace
from accord.client.client_events import AgentEnded, ClientEvent, TerminalPrinted, TerminalViews
from accord.client.event_stream import OVERHEAD, EventListeners, EventQueue, EventStream
from accord.client.permissions import PendingPermissions
from accord.client.prompt_turn import PromptTurn, TurnResult
from accord.errors import ConnectionClosed, NotOffered, UsageError
from accord.schema import (
    UNSET,
    AgentCapabilities,
    CancelNotification,
    CloseSessionRequest,
    ConfigOptionUpdate,
    ContentBlock,
    ForkSessionRequest,
    ForkSessionResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    McpServer,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SessionConfigOption,
    SessionConfigSelect,
    SessionUpdate,
    SetSessionConfigOptionRequest,
    SetSessionConfigOptionResponse,
    SetSessionModeRequest,
    SubagentUpdate,
    SystemPrompt,
    Unknown,
    UnsetType,
)
from accord.schema.dialects import set_by
from accord.session import Event, ModeChanged, Picker, SessionState, TurnCancelling, TurnEnded, TurnStarted
from accord.session.protocol_v1 import opened
from accord.session.session_settings import of_option
from accord.workspace.roots import Roots

if TYPE_CHECKING:
    from accord.client.agent_handle import AgentHandle


# MERGED client.setup: What a session is opened with. It is kept, because load, resume and a restart have to say all of it again.

AnyPath: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class SessionSetup:
    """Folders, MCP servers and instructions of one session. Relative folders count from our own."""

    cwd: str
    additional_directories: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    system_prompt: SystemPrompt | None = None
    """Unstable."""

    @staticmethod
    def of(
        cwd: AnyPath,
        mcp_servers: Sequence[McpServer] = (),
        additional_directories: Sequence[AnyPath] = (),
        system_prompt: SystemPrompt | None = None,
    ) -> "SessionSetup":
        """From what a caller passes."""
        if isinstance(additional_directories, str):
            raise UsageError("additional_directories is a list of folders, not one folder")
        extra = tuple(_absolute(folder) for folder in additional_directories)
        return SessionSetup(_absolute(cwd), extra, tuple(mcp_servers), system_prompt)

    def check(self, capabilities: AgentCapabilities) -> None:
        """Refuse what the agent does not take."""
        agent_connection.require_servers(self.mcp_servers, capabilities)
        agent_connection.require_roots(self.additional_directories, capabilities)
        agent_connection.require_system_prompt(self.system_prompt, capabilities)

    def new(self) -> NewSessionRequest:
        """The parameters of `session/new`."""
        return NewSessionRequest(self.cwd, list(self.mcp_servers), self._roots, self.system_prompt or UNSET)

    def load(self, session_id: str) -> LoadSessionRequest:
        """The parameters of `session/load`."""
        return LoadSessionRequest(
            session_id, self.cwd, list(self.mcp_servers), self._roots, self.system_prompt or UNSET
        )

    def resume(self, session_id: str) -> ResumeSessionRequest:
        """The parameters of `session/resume`."""
        return ResumeSessionRequest(
            session_id, self.cwd, list(self.mcp_servers), self._roots, self.system_prompt or UNSET
        )

    def fork(self, session_id: str) -> ForkSessionRequest:
        """The parameters of `session/fork`."""
        return ForkSessionRequest(
            session_id, self.cwd, list(self.mcp_servers), self._roots, self.system_prompt or UNSET
        )

    @property
    def _roots(self) -> list[str] | UnsetType:
        return list(self.additional_directories) if self.additional_directories else UNSET


def _absolute(folder: AnyPath) -> str:
    text = os.fspath(folder)
    if not text:
        raise UsageError("a folder must have a name; `.` is the current one")
    return os.path.abspath(os.path.expanduser(text))


# MERGED client.choices: Setting what a session lets the user set: config options, modes, and the model list of agents from before options.
#
# Only values that the agent listed are sent. What it answers is taken over; where it answers without the list, the state
# stays as it is until an update comes.


async def choose(session: "ClientSession", picker: Picker, value: str | bool) -> None:
    """Set what a picker stands for."""
    if picker.source == "modes":
        await set_mode(session, str(value))
    else:
        await set_config_option(session, picker.id, value)


async def set_mode(session: "ClientSession", mode_id: str) -> None:
    """By the mode option where the agent has one, else by `session/set_mode`."""
    settings = session.state.settings
    listed = [mode.id for mode in settings.modes]
    if mode_id not in listed:
        raise UsageError(f"there is no mode {mode_id!r}; the agent lists {_names(listed)}")
    for option in settings.config_options:
        if isinstance(option, SessionConfigSelect) and option.category == "mode":
            await set_config_option(session, option.id, mode_id)
            return
    session.insist_on_use()
    link = await session.life.ready()
    await link.call("session/set_mode", SetSessionModeRequest(session.id, mode_id), key=session.id)
    session.publish(ModeChanged(mode_id))


async def set_config_option(session: "ClientSession", config_id: str, value: str | bool) -> None:
    """By `session/set_config_option`, or for a model list of old by `session/set_model`."""
    options = session.state.settings.config_options
    option = next((option for option in options if option.id == config_id), None)
    if option is None:
        raise UsageError(f"there is no option {config_id!r}; the agent lists {_names(o.id for o in options)}")
    picker = of_option(option)
    if not picker.offers(value):
        listed = (
            "True or False" if isinstance(picker.current, bool) else _names(c.value for c in picker.choices)
        )
        raise UsageError(f"the option {config_id!r} cannot be set to {value!r}; the agent lists {listed}")
    session.insist_on_use()
    if set_by(option):
        await _set_model(session, option, value)
        return
    kind = "boolean" if isinstance(value, bool) else UNSET
    wanted = SetSessionConfigOptionRequest(session.id, config_id, value, kind)
    link = await session.life.ready()
    answer: SetSessionConfigOptionResponse = await link.call(
        "session/set_config_option", wanted, key=session.id
    )
    if answer.config_options:
        session.publish(ConfigOptionUpdate(answer.config_options))


async def _set_model(session: "ClientSession", option: SessionConfigOption, value: str | bool) -> None:
    link = await session.life.ready()
    params = {"sessionId": session.id, "modelId": value}
    await link.call("session/set_model", params, read=_ignore, key=session.id)
    # Such an agent never lists its models again, so nobody else will say that the choice has changed.
    changed = structs.replace(option, current_value=value)
    options = session.state.settings.config_options
    session.publish(ConfigOptionUpdate([changed if other.id == option.id else other for other in options]))


def _ignore(_raw: Any) -> None:
    return None


def _names(ids: Any) -> str:
    return ", ".join(repr(id) for id in ids) or "none"


# MERGED client.session: A session at the client: prompt it, watch it, change its settings, close it.
#
# The state is current at any time. Updates arrive inline from the connection, in wire order: applied to the state, then
# put into the queue of whoever iterates.

Opened: TypeAlias = NewSessionResponse | LoadSessionResponse | ResumeSessionResponse | ForkSessionResponse
"""The answers that open a session."""


class ClientSession:
    """One session of an agent. Made by the agent's handle; a child session is announced by its parent."""

    def __init__(
        self, life: "AgentHandle", session_id: str, setup: SessionSetup, parent: "ClientSession | None" = None
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
        self._listeners = EventListeners(life.sessions.ledger)
        self._questions = PendingPermissions(self)
        self._turn: PromptTurn | None = None
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
        begun: list[PromptTurn] = []

        async def begin() -> EventQueue[ClientEvent]:
            begun.append(turn := await self._begin(blocks, watched=True))
            assert turn.inbox is not None, "a watched turn has a queue"
            return turn.inbox

        def leave() -> None:
            for turn in begun:
                turn.leave()

        return EventStream(None, leave, begin=begin, outcome=lambda: begun[0].error)

    async def ask(self, prompt: Prompt) -> TurnResult:
        """Run a turn and return what the agent said."""
        turn = await self._begin(self._checked_prompt(prompt), watched=False)
        try:
            await turn.wait()
        finally:
            turn.leave()
        if turn.error is not None:
            raise turn.error
        assert turn.ended is not None, "a turn that is over has ended"
        return TurnResult.of(self.state, turn.ended)

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
        await set_mode(self, mode_id)

    async def set_config_option(self, config_id: str, value: str | bool) -> None:
        """Set an option that the agent listed to a value it listed; True or False for a switch."""
        await set_config_option(self, config_id, value)

    async def choose(self, picker: Picker, value: str | bool) -> None:
        """Set whatever a picker of `state.settings.pickers` stands for: an option, the mode, or a legacy model."""
        await choose(self, picker, value)

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
        agent_connection.insist_on_validity("session/prompt", PromptRequest(self.id, blocks))
        return blocks

    async def _begin(self, blocks: list[ContentBlock], *, watched: bool) -> PromptTurn:
        if self._turn is not None and self._turn.cancelling:
            await self._turn.wait()
        link = await self.life.ready()
        self.insist_on_use()
        if self._turn is not None:
            raise UsageError("another turn has begun in this session meanwhile; one runs at a time")
        self._turn = turn = PromptTurn(self, link, self._listeners.open() if watched else None)
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

    def turn_over(self, turn: PromptTurn, ended: TurnEnded) -> None:
        """A turn has ended; called once by it."""
        if self._turn is turn:
            self._turn = None
        self._questions.dismiss()
        self.publish(ended)

    def unsubscribe(self, inbox: EventQueue[ClientEvent]) -> None:
        """This queue hears nothing more."""
        self._listeners.leave(inbox)

    # -- what the agent asks for --------------------------------------------------------------------------------

    @property
    def questions(self) -> PendingPermissions:
        """The permission requests that wait for a decision."""
        return self._questions

    # -- the end ------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the session at the agent: what runs is cancelled, the history stays with the agent."""
        self.insist_on_use()
        link = await self.life.ready()
        agent_connection.require("session/close", link.capabilities)
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
