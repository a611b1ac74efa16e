"""One session, as the agent holds it: where it works, what can be set in it, and what is told about it at any time."""

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import UNSET

from accord.agent.client import ClientPeer, SessionClient, run_quietly
from accord.agent.session_options import SessionOptions
from accord.agent.session_updates import Compaction, IdGenerator, PlanReporter, Subagent, admit
from accord.errors import UsageError
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
    from accord.agent.turn import Turn, TurnTask

OpeningRequest: TypeAlias = NewSessionRequest | LoadSessionRequest | ResumeSessionRequest | ForkSessionRequest
Command: TypeAlias = AvailableCommand | tuple[str, str] | tuple[str, str, str]
"""A slash command; as a tuple: name, description and, where it takes text, the hint for it."""


class AgentSession:
    """A session of one client. `data` is yours."""

    def __init__(self, peer: ClientPeer, session_id: str, request: OpeningRequest) -> None:
        self.id = session_id
        self.request = request
        """What opened it: a new, load, resume or fork request."""
        self.cwd = request.cwd
        self.additional_directories: tuple[str, ...] = tuple(request.additional_directories or ())
        self.mcp_servers: tuple[McpServer, ...] = tuple(request.mcp_servers or ())
        self.system_prompt: SystemPrompt | None = request.system_prompt or None
        self.client = SessionClient(peer, self)
        self.data: Any = None
        self.listener: Callable[[SessionUpdate], object] | None = None
        """Called with every update of this session right before it is sent, to log it, say. Set it where you need it: after
        a replay."""
        self.open_options: frozenset[str] = frozenset()
        """Ids of options that take values beyond those on offer. The handler of `session/set_config_option` judges them,
        and offers what it makes of them with `set_options(..., tell=False)`."""
        self.course: TurnTask | None = None
        self.children: dict[str, Subagent] = {}
        self.known_commands: tuple[str, ...] = ()
        self.ids = IdGenerator()
        self.pickers = SessionOptions(self.client)
        self.plans = PlanReporter()
        self._peer = peer
        self._closed = False
        self._opened = False
        self._held: list[tuple[str | None, SessionUpdate]] | None = None
        self._after_open: list[Callable[[], object]] = []
        self._work: set[Any] = set()

    # -- where it works -----------------------------------------------------------------------------------------

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories it may work in; relative paths belong to the first."""
        return (self.cwd, *self.additional_directories)

    def path(self, path: "str | os.PathLike[str]") -> str:
        """The absolute form of a path; relative ones are taken from `cwd`."""
        return os.path.normpath(os.path.join(self.cwd, path))

    @property
    def state(self) -> Literal["opening", "idle", "running", "closed"]:
        """Where it stands."""
        if self._closed:
            return "closed"
        if not self._opened:
            return "opening"
        return "idle" if self.course is None else "running"

    @property
    def turn(self) -> "Turn | None":
        """The turn that runs right now."""
        return None if self.course is None else self.course.turn

    # -- what is told about it ----------------------------------------------------------------------------------

    async def update(self, update: SessionUpdate) -> None:
        """Send any update; waits while the client reads more slowly. Gated ones raise NotOffered without the gate."""
        self.push(update)
        await self.drain()

    def push(self, update: SessionUpdate) -> None:
        """Send any update without waiting. While a session is being made, it is kept until the answer is out."""
        if self._closed:
            raise UsageError(f"session {self.id} is closed: nothing more can be told about it")
        admitted = admit(update, self)
        if self.listener is not None:
            self.listener(admitted)
        self._send(None, admitted)

    def _send(self, child_id: str | None, update: SessionUpdate) -> None:
        if self._held is not None:
            self._held.append((child_id, update))
        else:
            self._peer.update(child_id or self.id, update)

    async def drain(self) -> None:
        """Wait while the client reads more slowly than this agent writes."""
        await self._peer.connection.drain()

    async def commands(self, commands: Iterable[Command]) -> None:
        """Offer these slash commands, and no others."""
        offered = [_command(command) for command in commands]
        self.known_commands = tuple(command.name for command in offered)
        await self.update(AvailableCommandsUpdate(offered))

    async def title(self, title: str | None) -> None:
        """Name the session; None takes the name away."""
        await self.update(SessionInfoUpdate(title))

    async def usage(self, used: int, size: int, *, cost: Cost | tuple[float, str] | None = None) -> None:
        """Report how full the context window is, in tokens. Without a size there is nothing to report."""
        if size <= 0:
            return
        spent = Cost(*cost) if isinstance(cost, tuple) else cost
        await self.update(UsageUpdate(max(used, 0), size, UNSET if spent is None else spent))

    async def notice(self, title: str, description: str | None = None, *, severity: str = "info") -> None:
        """Tell the user something of the moment. A client without notices gets it as a message of its own."""
        if self.client.shows_notices:
            await self.update(Notice(severity, title, UNSET if description is None else description))
        elif self.turn is not None and self.turn.live:
            await self.turn.aside(title if description is None else f"{title}: {description}")
        else:
            text = title if description is None else f"{title}: {description}"
            await self.update(AgentMessageChunk(TextContent(text), self.ids.message()))

    def compaction(self) -> Compaction:
        """Show that the context is being compacted, as an async context manager."""
        return Compaction(self)

    def subagent(self, title: str | None = None, *, cancel: Callable[[], object] | None = None) -> Subagent:
        """Unstable. A child session, shown to clients that can; `cancel` is called when the user stops it."""
        return Subagent(self, title, cancel)

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

        return await mcp_request(self._peer, self, server_id, method, params, on_notification)

    async def update_child(self, child_id: str, update: SessionUpdate) -> None:
        """Send an update of an announced child session."""
        if child_id not in self.children or self._closed:
            raise UsageError(f"session {child_id} is no open child of session {self.id}")
        self._send(child_id, admit(update, self))
        await self.drain()

    # -- what can be set in it ----------------------------------------------------------------------------------

    @property
    def mode(self) -> str | None:
        """The mode in force."""
        return self.pickers.mode

    @property
    def modes(self) -> SessionModeState | None:
        """The modes on offer. Assign them while the session is being opened."""
        return self.pickers.modes

    @modes.setter
    def modes(self, modes: SessionModeState | None) -> None:
        self._only_opening("modes")
        self.pickers.offer_modes(modes)

    @property
    def config_options(self) -> list[SessionConfigOption]:
        """The options with their values. Assign them while the session is being opened, then use `set_options`."""
        return self.pickers.options

    @config_options.setter
    def config_options(self, options: Sequence[SessionConfigOption]) -> None:
        self._only_opening("config_options")
        self.pickers.offer_options(options)

    def option(self, config_id: str) -> str | bool:
        """The value of one option."""
        return self.pickers.value(config_id)

    async def set_mode(self, mode_id: str) -> None:
        """Change the mode yourself; the client is told."""
        await self._tell(self.pickers.set_mode(mode_id))

    async def set_option(self, config_id: str, value: str | bool) -> None:
        """Change one option yourself; the client is told."""
        await self._tell(self.pickers.set_option(config_id, value))

    async def set_options(self, options: Sequence[SessionConfigOption], *, tell: bool = True) -> None:
        """Offer other options; the client is told the complete list, unless it is about to learn it from an answer."""
        updates = self.pickers.offer_options(options)
        if tell:
            await self._tell(updates)

    async def _tell(self, updates: Iterable[SessionUpdate]) -> None:
        for update in updates:
            await self.update(update)

    def _only_opening(self, what: str) -> None:
        if self._opened:
            method = "set_options" if what == "config_options" else "set_mode"
            raise UsageError(f"`{what}` is assigned while the session is being opened; later, use `{method}`")

    # -- its life -----------------------------------------------------------------------------------------------

    def after_open(self, callback: Callable[[], object]) -> None:
        """Run something once the answer that opens the session is out; at once if it is."""
        if self._opened:
            callback()
        else:
            self._after_open.append(callback)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run something beside the turns; it is cancelled when the session closes."""
        if self._closed:
            work.close()
            raise UsageError(f"session {self.id} is closed: nothing can be started in it")
        task = self._peer.own(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def hold(self) -> None:
        """Keep updates back until `opened`."""
        self._held = []

    def opened(self) -> None:
        """The answer is out: send what was kept back, then run what was to follow."""
        self._opened = True
        held, self._held = self._held or [], None
        for child_id, update in held:
            self._peer.update(child_id or self.id, update)
        for callback in self._after_open:
            run_quietly(callback)

    def closed(self) -> None:
        """It is over: nothing can be told about it any more, and what runs beside the turns ends."""
        self._closed = True
        for task in self._work:
            task.cancel()


def _command(command: Command) -> AvailableCommand:
    if isinstance(command, AvailableCommand):
        offered = command
    else:
        name, description, *hint = command
        offered = AvailableCommand(name, description, UnstructuredCommandInput(hint[0]) if hint else UNSET)
    if not offered.name or offered.name.startswith("/"):
        raise UsageError(f"a command is named without its slash: {offered.name!r}")
    return offered
