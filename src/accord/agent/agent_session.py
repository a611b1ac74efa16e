"""`AgentSession`: its directories, modes, options and updates, and `AgentSessionCore`, its internal state.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import UNSET

from accord.agent.client import ClientPeer, SessionClient, run_callback
from accord.agent.session_options import SessionOptions
from accord.agent.session_updates import Compaction, IdGenerator, PlanReporter, Subagent, adapt_update
from accord.clock import OwnedTasks
from accord.errors import NotOffered, UsageError
from accord.schema.content import TextContent
from accord.schema.mcp import McpServer
from accord.schema.session_requests import (
    AvailableCommand,
    AvailableCommandsUpdate,
    ForkSessionRequest,
    LoadSessionRequest,
    NewSessionRequest,
    ResumeSessionRequest,
    SessionConfigOption,
    SessionModeState,
    SystemPrompt,
    UnstructuredCommandInput,
)
from accord.schema.updates import (
    AgentMessageChunk,
    Cost,
    Notice,
    SessionInfoUpdate,
    SessionUpdate,
    UsageUpdate,
)

if TYPE_CHECKING:
    from accord.agent.shown_work import AgentTerminal
    from accord.agent.tool_call_scope import ToolCallScope
    from accord.agent.turn import Turn, TurnTask

OpeningRequest: TypeAlias = NewSessionRequest | LoadSessionRequest | ResumeSessionRequest | ForkSessionRequest
Command: TypeAlias = AvailableCommand | tuple[str, str] | tuple[str, str, str]
"""A slash command. As a tuple: name, description and, if it takes text, the hint for it."""


_MAX_HELD_NOTICES: Final = 20


class AgentSession:
    """A session of one client. `data` is for the application."""

    def __init__(self, core: "AgentSessionCore", session_id: str, request: OpeningRequest) -> None:
        """Internal: sessions are created by requests of the client."""
        self.id: str = session_id
        self.cwd: str = request.cwd
        self.additional_directories: tuple[str, ...] = tuple(request.additional_directories or ())
        self.system_prompt: SystemPrompt | None = request.system_prompt or None
        self.client: SessionClient = SessionClient(core.peer, self)
        self.data: Any = None
        self.on_update: Callable[[SessionUpdate], object] | None = None
        """Called with every update of this session immediately before it is sent, for example to store it."""
        self.custom_value_options: frozenset[str] = frozenset()
        """Ids of options that accept values that are not listed.

        The handler of `session/set_config_option` checks such a value and lists it with
        `set_options(..., notify=False)`.
        """
        self._core = core

    # -- directories and state --

    @property
    def request(self) -> OpeningRequest:
        """The new, load, resume or fork request that opened the session."""
        self._core.servers_read = True
        return self._core.request

    @property
    def mcp_servers(self) -> tuple[McpServer, ...]:
        """The MCP servers that the agent should attach. Accord warns if it never reads them."""
        self._core.servers_read = True
        return tuple(self._core.request.mcp_servers or ())

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories that the session may work in. Relative paths start at the first."""
        return (self.cwd, *self.additional_directories)

    def path(self, path: "str | os.PathLike[str]") -> str:
        """Return the absolute form of a path, from `cwd`; it is not checked and can lie outside `roots`."""
        return os.path.normpath(os.path.join(self.cwd, path))

    @property
    def state(self) -> Literal["opening", "idle", "running", "closed"]:
        if self._core.closed:
            return "closed"
        if not self._core.opened:
            return "opening"
        return "idle" if self._core.turn_task is None else "running"

    @property
    def turn(self) -> "Turn | None":
        """The running turn."""
        return None if self._core.turn_task is None else self._core.turn_task.turn

    # -- updates --

    async def update(self, update: SessionUpdate) -> None:
        """Send any update; waits while the client reads more slowly than the agent writes.

        Raises NotOffered if the client lacks the capability for this update.
        """
        await self._core.peer.connection.drain_after(self._core.push, update)

    async def replay(self, updates: Iterable[SessionUpdate]) -> None:
        """Send the updates of a stored session, without those that the client cannot receive."""
        for update in updates:
            with suppress(NotOffered):
                await self.update(update)

    def push(self, update: SessionUpdate) -> None:
        """Send any update without waiting. Before the session is open, queue it behind the response."""
        if self._core.peer.hand_over(self.push, update):
            return
        self._core.push(update)
        self._core.peer.connection.check_open()

    async def drain(self) -> None:
        """Wait while the client reads more slowly than the agent writes."""
        await self._core.peer.connection.drain()

    async def commands(self, commands: Iterable[Command]) -> None:
        """Replace the slash commands on offer."""
        offered = [_command(command) for command in commands]
        self._core.command_names = tuple(command.name for command in offered)
        await self.update(AvailableCommandsUpdate(offered))

    @property
    def command_names(self) -> tuple[str, ...]:
        """The names of the slash commands on offer."""
        return self._core.command_names

    async def title(self, title: str | None) -> None:
        """Set the title of the session; None removes it."""
        await self.update(SessionInfoUpdate(title))

    async def usage(self, used: int, size: int, *, cost: Cost | tuple[float, str] | None = None) -> None:
        """Report the used tokens of the context window. Does nothing if its size is unknown (0)."""
        if size <= 0:
            await self.drain()
            return
        amount = Cost(*cost) if isinstance(cost, tuple) else cost
        if amount is not None and not isfinite(amount.amount):
            raise UsageError(f"cost={amount.amount} is no amount; leave an unknown cost out")
        await self.update(UsageUpdate(max(used, 0), size, UNSET if amount is None else amount))

    async def notice(self, title: str, description: str | None = None, *, severity: str = "info") -> None:
        """Show a notice. A client without notices gets a separate message, between turns with the next turn.

        Clients append messages that arrive between turns to the last answer.
        """
        text = title if description is None else f"{title}: {description}"
        if self.client.shows_notices:
            await self.update(Notice(severity, title, UNSET if description is None else description))
        elif self.turn is not None and self.turn.live:
            await self.turn.say_separately(text)
        else:
            self._core.hold_notice(text)

    def compaction(self) -> Compaction:
        """Return an async context manager that shows a compaction of the context."""
        return Compaction(self._core)

    def subagent(self, title: str | None = None, *, cancel: Callable[[], object] | None = None) -> Subagent:
        """Unstable. Show a child session; `cancel` is called when the user stops it."""
        return Subagent(self._core, title, cancel)

    def show_terminal(
        self, command: str, *, cwd: str | None = None, cancel: Callable[[], object] | None = None
    ) -> "AgentTerminal":
        """Return an async context manager that shows a command of the agent, with its output.

        `cancel` is called when the user stops it alone.
        """
        from accord.agent.shown_work import AgentTerminal

        return AgentTerminal(self._core, command, cwd, cancel)

    async def show_background(self, work: "Iterable[AgentTerminal | ToolCallScope]") -> None:
        """Show what goes on while no turn runs. An empty list shows that nothing does.

        Only version 2 has this; other clients are sent nothing.
        """
        kinds = {item.id: "terminal" if hasattr(item, "command") else "tool_call" for item in work}
        items = [{"kind": kind, "id": id} for id, kind in kinds.items()]
        self._core.peer.report_event(self.id, "state_changed", {"state": "", "background": items})
        await self.drain()

    def new_message_id(self) -> str:
        """Return an unused message id, for updates that you build yourself."""
        return self._core.ids.message()

    def new_tool_call_id(self) -> str:
        """Return an unused tool call id, for updates that you build yourself."""
        return self._core.ids.tool_call()

    async def mcp_request(
        self,
        server_id: str,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_notification: Callable[[str, Mapping[str, Any]], object] | None = None,
    ) -> Any:
        """Unstable. Call an MCP method of a server of type `acp`; its progress goes to `on_notification`."""
        from accord.agent.client_services import mcp_request

        return await mcp_request(self._core.peer, self, server_id, method, params, on_notification)

    # -- modes and options --

    @property
    def mode(self) -> str | None:
        """The id of the current mode."""
        return self._core.options.mode

    @property
    def modes(self) -> SessionModeState | None:
        """The available modes. Assign them while the session opens."""
        return self._core.options.modes

    @modes.setter
    def modes(self, modes: SessionModeState | None) -> None:
        self._require_opening("modes", "set_mode")
        self._core.options.offer_modes(modes)

    @property
    def config_options(self) -> list[SessionConfigOption]:
        """The options with their values. Assign them while the session opens, then use `set_options`."""
        return self._core.options.options

    @config_options.setter
    def config_options(self, options: Sequence[SessionConfigOption]) -> None:
        self._require_opening("config_options", "set_options")
        self._core.options.offer_options(options)

    def option(self, config_id: str) -> str | bool:
        """Return the value of one option."""
        return self._core.options.value(config_id)

    async def change_modes(self, modes: SessionModeState) -> None:
        """Replace the modes of an open session. Clients with config options get the new list."""
        await self._send_all(self._core.options.change_modes(modes))

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode and notify the client."""
        await self._send_all(self._core.options.set_mode(mode_id))

    async def set_option(self, config_id: str, value: str | bool) -> None:
        """Change one option and notify the client."""
        await self._send_all(self._core.options.set_option(config_id, value))

    async def set_options(self, options: Sequence[SessionConfigOption], *, notify: bool = True) -> None:
        """Replace the options. `notify=False` is for handlers whose response contains the new list anyway."""
        updates = self._core.options.offer_options(options)
        if notify:
            await self._send_all(updates)

    async def _send_all(self, updates: Iterable[SessionUpdate]) -> None:
        for update in updates:
            await self.update(update)

    def _require_opening(self, name: str, later: str) -> None:
        if self._core.opened:
            raise UsageError(f"assign `{name}` only while the session opens; afterwards use `{later}`")

    # -- callbacks and tasks --

    def after_open(self, callback: Callable[[], object]) -> None:
        """Call a function after the response that opens the session; immediately if it is already open."""
        if self._core.opened:
            callback()
        else:
            self._core.open_callbacks.append(callback)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine in parallel to the turns; it is canceled when the session closes."""
        if self._core.peer.hand_over(self.spawn, work):
            return
        if self._core.closed:
            work.close()
            raise UsageError(f"session {self.id} is closed; cannot start a task in it")
        self._core.tasks.adopt(self._core.peer.tasks.start(work))


class AgentSessionCore:
    """The state of a session that only this package uses. Applications get its `session`."""

    def __init__(self, peer: ClientPeer, session_id: str, request: OpeningRequest, *, hold: bool) -> None:
        """`hold` keeps updates back until the response that opens the session has been sent."""
        self.peer: ClientPeer = peer
        self.request: OpeningRequest = request
        self.servers_read: bool = False
        """Whether the application has asked for the MCP servers."""
        self.turn_task: TurnTask | None = None
        self.held_turns: list[TurnTask] = []
        """The turns that wait for the end of the running one, in the order of their prompts."""
        self.children: dict[str, Callable[[], object] | None] = {}
        """The functions that cancel the announced child sessions, by id."""
        self.cancels: dict[str, Callable[[], object]] = {}
        """The functions that stop single tool calls and terminals, by id."""
        self.command_names: tuple[str, ...] = ()
        self.ids: IdGenerator = IdGenerator()
        self.plans: PlanReporter = PlanReporter()
        self.opened: bool = False
        self.closed: bool = False
        self.open_callbacks: list[Callable[[], object]] = []
        self.tasks: OwnedTasks = OwnedTasks()
        self.session: AgentSession = AgentSession(self, session_id, request)
        self.options: SessionOptions = SessionOptions(self.session.client)
        self._held_notices: list[str] = []
        self._queued_updates: list[tuple[str | None, SessionUpdate]] | None = [] if hold else None

    def push(self, update: SessionUpdate) -> None:
        session = self.session
        if self.closed:
            raise UsageError(f"session {session.id} is closed; cannot send an update")
        adapted_update = adapt_update(update, session.client, self.options)
        if session.on_update is not None:
            session.on_update(adapted_update)
        self._send(None, adapted_update)

    def add_turn(self, turn: "TurnTask") -> None:
        """Make this the running turn, or hold it behind the running one."""
        if self.turn_task is None:
            self.turn_task = turn
        else:
            self.held_turns.append(turn)

    def remove_turn(self, turn: "TurnTask") -> None:
        """Forget a turn that is answered; the next one starts."""
        if turn is not self.turn_task:
            self.held_turns.remove(turn)
        else:
            self.turn_task = self.held_turns.pop(0) if self.held_turns else None
            if self.turn_task is not None:
                self.turn_task.started.set_result(None)
        turn.answered.set_result(None)

    def cancel_turns(self) -> "list[TurnTask]":
        """Cancel the running turn and all held ones, and return them."""
        turns = [] if self.turn_task is None else [self.turn_task, *self.held_turns]
        for turn in turns:
            turn.cancel()
        return turns

    def hold_notice(self, text: str) -> None:
        """Keep a notice for a client without notices until the next turn has output."""
        if text not in self._held_notices:
            self._held_notices = [*self._held_notices, text][-_MAX_HELD_NOTICES:]

    def send_held_notices(self) -> None:
        """Send the notices that were held, each as a message of its own. Called before output of a turn."""
        while self._held_notices:
            text = self._held_notices.pop(0)
            self.push(AgentMessageChunk(TextContent(f"{text}\n\n"), self.ids.message()))

    def push_child(self, child_id: str, update: SessionUpdate) -> None:
        """Send an update of an announced child session."""
        if child_id not in self.children or self.closed:
            raise UsageError(f"session {self.session.id} has no open child {child_id}")
        self._send(child_id, adapt_update(update, self.session.client, self.options))

    def mark_open(self) -> None:
        """Send the held updates, then run the callbacks. Called after the response."""
        self.opened = True
        queued_updates, self._queued_updates = self._queued_updates or [], None
        for child_id, update in queued_updates:
            self._send(child_id, update)
        for callback in self.open_callbacks:
            run_callback(callback)

    def mark_closed(self) -> None:
        """Refuse further updates and cancel the tasks of the session."""
        self.closed = True
        self.tasks.cancel()

    def _send(self, child_id: str | None, update: SessionUpdate) -> None:
        if self._queued_updates is not None:
            self._queued_updates.append((child_id, update))
        else:
            self.peer.send_update(child_id or self.session.id, update)


def _command(command: Command) -> AvailableCommand:
    if isinstance(command, AvailableCommand):
        offered = command
    else:
        name, description, *hint = command
        offered = AvailableCommand(name, description, UnstructuredCommandInput(hint[0]) if hint else UNSET)
    if not offered.name or offered.name.startswith("/"):
        raise UsageError(f"invalid command name {offered.name!r}; write it without the slash")
    return offered
