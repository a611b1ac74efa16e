"""The internal side of a session: `SessionCore` belongs to the library, `ClientSession` to the application.

The state is always current. Updates arrive from the connection in wire order. Each is applied to the state
first and then put into the queue of every iterator.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from accord import telemetry
from accord.client import agent_connection
from accord.client.agent_connection import Prompt, prompt_blocks
from accord.client.agent_requests import SessionWorkspace
from accord.client.client_events import AgentEnded, ClientEvent, TerminalPrinted, TerminalViews
from accord.client.client_session import ClientSession
from accord.client.event_stream import EVENT_OVERHEAD, EventListeners, EventQueue
from accord.client.permissions import PendingPermissions
from accord.client.prompt_turn import PromptTurn
from accord.client.turn_requests import TurnRequests
from accord.errors import ConnectionClosed, NotOffered, UsageError
from accord.schema import (
    UNSET,
    AgentCapabilities,
    CancelNotification,
    ContentBlock,
    ForkSessionRequest,
    IdleStateUpdate,
    LoadSessionRequest,
    McpServer,
    McpServerAcp,
    NewSessionRequest,
    Notice,
    PromptRequest,
    ResumeSessionRequest,
    SessionUpdate,
    SubagentUpdate,
    SystemPrompt,
    Unknown,
    UnsetType,
)
from accord.schema.base import Mismatch
from accord.schema.session_requests import OpeningResponse
from accord.session import (
    Event,
    MessageChanged,
    SessionState,
    StateChanged,
    TerminalChanged,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
)
from accord.session.events import OWN_TAGS, own_event
from accord.session.protocol_v1 import session_opened_event
from accord.workspace.roots import Roots

if TYPE_CHECKING:
    from accord.client.agent_handle import AgentHandle

AnyPath: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class SessionSetup:
    """Directories, MCP servers and instructions of one session.

    It is kept, because load, resume and a restart have to send all of it again.
    """

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
        """Make the paths absolute and check the types of the arguments."""
        if isinstance(additional_directories, str):
            raise UsageError(
                f"additional_directories is a list of directories, not one ({additional_directories!r})"
            )
        if not isinstance(cwd, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"a session needs the path of its folder, such as '.'; got {cwd!r}")
        extra = tuple(_absolute(path) for path in additional_directories)
        return SessionSetup(_absolute(cwd), extra, tuple(mcp_servers), system_prompt)

    def check(self, capabilities: AgentCapabilities) -> None:
        """Raise NotOffered or UsageError if the agent does not accept this setup."""
        agent_connection.require_servers(self.mcp_servers, capabilities)
        agent_connection.require_roots(self.additional_directories, capabilities)
        agent_connection.require_system_prompt(self.system_prompt, capabilities)

    def new_request(self) -> NewSessionRequest:
        """The parameters of `session/new`."""
        return NewSessionRequest(
            self.cwd,
            list(self.mcp_servers),
            self._directories,
            self.system_prompt or UNSET,
            meta=telemetry.injected() or UNSET,
        )

    def load_request(self, session_id: str) -> LoadSessionRequest:
        """The parameters of `session/load`."""
        return LoadSessionRequest(
            session_id,
            self.cwd,
            list(self.mcp_servers),
            self._directories,
            self.system_prompt or UNSET,
            meta=telemetry.injected() or UNSET,
        )

    def resume_request(self, session_id: str) -> ResumeSessionRequest:
        """The parameters of `session/resume`."""
        return ResumeSessionRequest(
            session_id,
            self.cwd,
            list(self.mcp_servers),
            self._directories,
            self.system_prompt or UNSET,
            meta=telemetry.injected() or UNSET,
        )

    def fork_request(self, session_id: str) -> ForkSessionRequest:
        """The parameters of `session/fork`."""
        return ForkSessionRequest(
            session_id,
            self.cwd,
            list(self.mcp_servers),
            self._directories,
            self.system_prompt or UNSET,
            meta=telemetry.injected() or UNSET,
        )

    @property
    def _directories(self) -> list[str] | UnsetType:
        return list(self.additional_directories) if self.additional_directories else UNSET


def _absolute(path: AnyPath) -> str:
    text = os.fspath(path)
    if not text:
        raise UsageError("the path of a session directory is empty; `.` is the current directory")
    return os.path.abspath(os.path.expanduser(text))


_GATEWAY_EVENTS: Final = (MessageChanged, ToolCallChanged, TerminalChanged, StateChanged)
"""What a gateway may tell in place of updates."""


class SessionCore:
    """Everything the library does with one session: apply updates, run turns, serve requests, end it."""

    def __init__(
        self, handle: "AgentHandle", session_id: str, setup: SessionSetup, parent: "SessionCore | None" = None
    ) -> None:
        self.handle: AgentHandle = handle
        self.id: str = session_id
        self.setup: SessionSetup = setup
        self.parent: SessionCore | None = parent
        self.state: SessionState = SessionState(session_id, setup.cwd, setup.additional_directories)
        self.terminals: TerminalViews = TerminalViews(self._terminal_printed)
        self.lost_reason: str | None = None
        """Why the session could not be reopened after a restart of the agent; None if it was not lost."""
        self.closed: bool = False
        self.replaying: bool = False
        self._is_open = False
        self.open_requests: int = 0
        """Requests of the agent about this session that the client has not answered yet."""
        self.turn: PromptTurn | None = None
        self._turn_number = 0
        self._cancels = 0
        self.turn_requests: TurnRequests = TurnRequests(None if parent is None else parent.turn_requests)
        """The requests of the agent that end with the turn."""
        self.listeners: EventListeners = EventListeners(handle.sessions.unread)
        self.permissions: PendingPermissions = PendingPermissions(self)
        self.workspace: SessionWorkspace = SessionWorkspace(self)
        self._roots: Roots | None = None
        self.session: ClientSession = ClientSession(self)
        """The public object that the application uses."""

    @property
    def busy(self) -> bool:
        """Whether the agent may be silent: it waits for the client, or a tool call is in progress."""
        return (
            self.open_requests > 0
            or any(call.status == "in_progress" and call.open for call in self.state.tool_calls.values())
            or any(child.busy for child in self.children)
        )

    @property
    def children(self) -> "list[SessionCore]":
        """The open child sessions that this session announced."""
        cores = map(self.handle.sessions.find, self.state.history.subagents)
        return [core for core in cores if core is not None and core.parent is self]

    @property
    def roots(self) -> Roots:
        """The directories of the session. A child session never gets more than its parent has."""
        if self.parent is None:
            if self._roots is None:
                self._roots = Roots(self.setup.cwd, self.setup.additional_directories)
            return self._roots
        announced = self.parent.state.history.subagents.get(self.id)
        if announced is None:
            return self.parent.roots.child(None, None)
        return self.parent.roots.child(announced.cwd, announced.additional_directories)

    def request_answered(self) -> None:
        """Count a request of the agent as answered."""
        self.open_requests -= 1

    def uses_server(self, server_id: str) -> bool:
        """Whether the session was opened with this MCP server of the client."""
        return any(
            isinstance(server, McpServerAcp) and server.server_id == server_id
            for server in self.setup.mcp_servers
        )

    def check_usable(self) -> None:
        """Raise an error if the session is closed or lost, or is a child session."""
        if self.parent is not None:
            raise NotOffered(
                f"{self.id!r} is a child session, which the client can only watch; use its parent"
            )
        if self.lost_reason is not None:
            raise UsageError(
                f"the session {self.id!r} was lost when the agent was restarted: {self.lost_reason}"
            )
        if self.closed:
            raise UsageError(
                f"the session {self.id!r} is closed; open it again with load_session or resume_session"
            )

    # -- turns -----------------------------------------------------------------------------------------------

    @property
    def turn_number(self) -> int | None:
        """The number of the running turn; None if there is none, or it was canceled."""
        if self.parent is not None:
            return self.parent.turn_number
        return None if self.turn is None or self.turn.cancelling else self._turn_number

    def prepare_prompt(self, prompt: Prompt) -> list[ContentBlock]:
        """The content blocks of a prompt. Raises an error if the prompt cannot be sent now."""
        self.check_usable()
        if self.turn is not None and not self.turn.cancelling:
            raise UsageError(
                "a turn is running in this session; cancel it or wait for its end before the next prompt"
            )
        return self.message_blocks(prompt)

    def message_blocks(self, message: Prompt) -> list[ContentBlock]:
        """The content blocks of a message. Raises an error if the agent does not accept them."""
        blocks = prompt_blocks(message)
        agent_connection.require_blocks(blocks, self.handle.connection.capabilities)
        agent_connection.require_valid("session/prompt", PromptRequest(self.id, blocks))
        return blocks

    async def start_turn(
        self, blocks: list[ContentBlock], open_queue: Callable[[], EventQueue[ClientEvent]] | None = None
    ) -> PromptTurn:
        """Send a prompt, after the end of a canceled turn. `open_queue` makes the queue for its events."""
        cancels = self._cancels
        if self.turn is not None and self.turn.cancelling:
            await self.turn.wait()
        connection = await self.handle.ready()
        self.check_usable()
        if self.turn is not None:
            raise UsageError("another turn was started in this session; only one can run at a time")
        queue = None if open_queue is None else open_queue()
        self.turn = turn = PromptTurn(self, connection, queue)
        self._turn_number = self.turn_requests.begin_turn()
        self._resume_children()
        self.publish(TurnStarted(blocks))
        await turn.start(blocks)
        if self._cancels != cancels and self.turn is turn:
            self.cancel()  # it was canceled while it waited for the agent or for the end of another turn
        return turn

    def cancel(self) -> None:
        """Stop what is open in the turn, then send `session/cancel`; does nothing without a prompt."""
        if self.parent is not None:
            self._cancel_child(self.parent)
            return
        self._cancels += 1
        turn = self.turn
        if turn is None or turn.cancelling:
            return
        self.stop_requests()
        turn.cancel()
        self.publish(TurnCancelling())

    async def cancel_item(self, method: str, name: str, id: str) -> None:
        """Ask an agent in version 2 to stop one tool call or terminal."""
        connection = await self.handle.ready()
        params = {"sessionId": self.id, name: id}
        await connection.call(f"{OWN_TAGS}{method}", params, read=lambda _: None, key=self.id)

    def _cancel_child(self, parent: "SessionCore") -> None:
        announced = parent.state.history.subagents.get(self.id)
        if announced is None or not announced.may_cancel:
            raise NotOffered(f"the child session {self.id!r} cannot be canceled: it does not offer that")
        self.stop_requests()
        self.handle.connection.notify("session/cancel", CancelNotification(self.id))

    def _resume_children(self) -> None:
        for child in self.children:
            child.turn_requests.resume()
            child._resume_children()

    def stop_requests(self) -> None:
        """Stop the requests of this session and of all sessions below it."""
        self.turn_requests.cancel_turn()
        for child in self.children:
            child.stop_requests()

    def turn_ended(self, turn: PromptTurn, event: TurnEnded) -> None:
        """End the turn here. `PromptTurn` calls this once."""
        if self.turn is turn:
            self.turn = None
        self._end_requests()
        self.publish(event)

    def _end_requests(self) -> None:
        """Stop what waits for the user here, and in the sessions below that do not go on by themselves."""
        self.turn_requests.end_turn()
        for child in self.children:
            announced = self.state.history.subagents[child.id]
            if announced.state is None or announced.activity == "idle":
                child._end_requests()

    # -- events ----------------------------------------------------------------------------------------------

    def open(self, setup: SessionSetup, response: OpeningResponse) -> None:
        """Apply the agent's response to a request that opened the session, or opened it again."""
        self.setup = setup
        self._roots = None
        self._is_open = True
        event = session_opened_event(self.id, response)
        event.cwd, event.additional_directories = setup.cwd, list(setup.additional_directories)
        self.publish(event)

    def receive(self, update: SessionUpdate | Unknown, size: int) -> None:
        """Apply an update of the agent from a message of `size` bytes, and pass the event on."""
        event = self.state.apply(update)  # pyright: ignore[reportArgumentType] - unknown updates pass through
        if type(event) is Unknown and event.kind.startswith(OWN_TAGS):
            event = self._translated_event(event)
        queues = self.listeners.queues
        if queues:
            size += EVENT_OVERHEAD
            for queue in queues:
                queue.put(event, size)
        elif self.turn is None and not self.replaying:
            self.listeners.keep(event, size)
        if type(event) is SubagentUpdate:
            self._child_changed(event)
        elif type(event) is Notice and not self._is_open and self.parent is None:
            self.handle.show_notice(self.id, event)

    def _translated_event(self, update: Unknown) -> Event:
        """The event that the translation of another version, or a gateway, sent. An agent cannot send any."""
        connection = self.handle.connection
        if not connection.takes_events and not connection.is_told_events:
            return update
        try:
            event = own_event(update)
        except Mismatch:
            return update
        if not connection.takes_events and not isinstance(event, _GATEWAY_EVENTS):
            return update
        event = self.state.apply(event)
        if isinstance(event, TerminalChanged):
            self.terminals.show(event)
        return event

    def _child_changed(self, event: SubagentUpdate) -> None:
        self.handle.add_child(self, event.session_id)
        child = self.handle.sessions.find(event.session_id)
        if child is not None and child.parent is self and isinstance(event.state, IdleStateUpdate):
            child._end_requests()

    def publish(self, event: Event) -> Event:
        """Apply an event of the client's own making to the state, and pass it on."""
        event = self.state.apply(event)
        self.listeners.put(event)
        return event

    def _terminal_printed(self, event: TerminalPrinted) -> None:
        self.listeners.put_unless_behind(event, len(event.text))

    # -- the end ---------------------------------------------------------------------------------------------

    async def end(self, reason: str) -> None:
        """End everything that belongs to the session here; `reason` is for the error of a running turn."""
        self.closed = True
        self.turn_requests.stop()
        children = self.children
        self.handle.sessions.remove(self)
        turn = self.turn
        if turn is not None:
            turn.fail(ConnectionClosed(f"the turn was not answered: {reason}"))
            await turn.join()
        for child in children:
            await child.end(reason)
        await self.workspace.aclose()
        self.listeners.close()

    def agent_ended(self, event: AgentEnded) -> None:
        """Dismiss the open requests and end the terminals: the agent no longer waits for answers."""
        self.turn_requests.stop()
        self.listeners.put(event)
        self.handle.tasks.start(self.workspace.aclose())
