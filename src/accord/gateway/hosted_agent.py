"""One agent of the gateway: starts its program on first use, restarts it after a crash, stops it when idle.

Keeps the answer to `initialize`, so that the capabilities are known while the program does not run.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from logging import getLogger
from typing import Final, Protocol, TypeAlias

from msgspec import Raw

from accord import __version__
from accord.client.agent_lifecycle import PROTOCOL_VERSION, AgentLifecycle, Handshake
from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import (
    AccordError,
    AuthRequired,
    ConnectionClosed,
    HandshakeFailed,
    NeverStarted,
    RequestCancelled,
    RpcError,
)
from accord.gateway.access.resource_limits import LimitLease
from accord.gateway.contracts import Fence, SessionNames
from accord.gateway.renamed_sessions import RenamedSessions
from accord.gateway.upstream import Upstream
from accord.safe_text import clean_line, one_line
from accord.schema import (
    AgentCapabilities,
    BooleanConfigOptionCapabilities,
    ClientCapabilities,
    ClientSessionCapabilities,
    CompactionCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    ElicitationUrlCapabilities,
    FileSystemCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    McpServer,
    NoticeCapabilities,
    SessionConfigOptionsCapabilities,
    SessionNotification,
)
from accord.schema.message_reader import MessageReader
from accord.schema.methods import Alias, request
from accord.wire.envelope import RequestId
from accord.wire.transport import Transport, TransportEnd

LOG = getLogger("accord.gateway")

CLIENT_CAPABILITIES: Final = ClientCapabilities(
    fs=FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
    session=ClientSessionCapabilities(
        compaction=CompactionCapabilities(),
        notices=NoticeCapabilities(),
        config_options=SessionConfigOptionsCapabilities(boolean=BooleanConfigOptionCapabilities()),
    ),
    elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities(), url=ElicitationUrlCapabilities()),
)
"""What the gateway announces to agents. It serves files and terminals itself; clients show the rest."""

StartAgent: TypeAlias = Callable[[Callable[[str], None]], Awaitable[Transport]]
"""Starts the program. The callback gets each line of its stderr. Raises NeverStarted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSource:
    """How to start an agent, and how to present it."""

    name: str
    start: StartAgent
    title: str = ""
    description: str = ""
    mcp_servers: Callable[[], Sequence[McpServer]] = field(default=tuple[McpServer, ...])
    """MCP servers for every session. Raises UsageError for an unresolvable reference."""
    hints: Callable[[], Iterable[str]] = field(default=tuple[str, ...])
    """Lines about what may be missing if the agent fails or requires sign-in."""
    startup: float = 60.0
    """Seconds from the start of the program to its answer to `initialize`."""


class HostedAgentListener(Protocol):
    """Receives the events of a hosted agent."""

    def on_update(self, agent: "HostedAgent", notification: SessionNotification, frame: bytes) -> None: ...
    def on_updates(
        self, agent: "HostedAgent", notifications: list[SessionNotification], frames: list[bytes]
    ) -> None: ...
    def on_request(
        self, agent: "HostedAgent", id: RequestId, method: str, params: Raw | None, alias: Alias | None
    ) -> None: ...
    def on_notification(
        self, agent: "HostedAgent", method: str, params: Raw | None, frame: bytes
    ) -> None: ...
    def on_batch_end(self) -> None: ...
    def on_oversized(self, agent: "HostedAgent", head: bytes, problem: str) -> None: ...
    def on_agent_end(self, agent: "HostedAgent", end: TransportEnd) -> None: ...
    def lease_process(self, agent: "HostedAgent") -> LimitLease: ...


class HostedAgent(AgentLifecycle[Upstream]):
    """An agent by its name, whether or not its program runs."""

    own_name = "the gateway"

    def __init__(
        self,
        source: AgentSource,
        listener: HostedAgentListener,
        clock: Clock = SYSTEM_CLOCK,
        fence: Fence | None = None,
        names: SessionNames | None = None,
    ) -> None:
        super().__init__(clock, source.startup)
        self.source: AgentSource = source
        self.name: str = source.name
        self.last_used: float = clock.now()
        """On the gateway's clock."""
        self.on_update: partial[None] = partial(listener.on_update, self)
        self.on_updates: partial[None] = partial(listener.on_updates, self)
        self._listener = listener
        self._fence = fence
        self._names = names
        self._newest: Upstream | None = None  # also while it is not initialized
        self._reader = MessageReader(report=self._log_dialect, active_session=self._active_session)
        self._lease: LimitLease | None = None
        self._gave_hints = False
        self.running_turns: dict[str, int] = {}
        """The number of running turns by session id."""

    @property
    def upstream(self) -> Upstream | None:
        """The connection to the running program; None unless it is initialized and not stopping."""
        return self._connection if self.state == "ready" and self._stopping is None else None

    @property
    def takes_events(self) -> bool:
        """Whether the agent speaks version 2, so that events come in place of some updates."""
        return self._connection is not None and self._connection.takes_events

    @property
    def reason(self) -> str:
        """Why the last start failed; "" otherwise."""
        if self.state != "failed":
            return ""
        return "the start was cancelled" if self.start_error is None else str(self.start_error)

    def is_idle(self, seconds: float) -> bool:
        """Whether the program runs and has had nothing to do for so long."""
        upstream = self.upstream
        unused = self.clock.now() - self.last_used >= seconds
        return upstream is not None and unused and not upstream.open_calls and not self.running_turns

    @property
    def initialize_response(self) -> InitializeResponse:
        """The latest answer to `initialize`."""
        assert self._initialize_response is not None, "the agent has not been started"
        return self._initialize_response

    @property
    def capabilities(self) -> AgentCapabilities:
        """Empty before the first start."""
        initialize_response = self._initialize_response
        return (
            initialize_response.agent_capabilities if initialize_response else None
        ) or AgentCapabilities()

    def supports(self, method: str) -> bool:
        """Whether the agent serves this method."""
        entry = request("agent", method)
        return entry is not None and entry.offered(self.capabilities, None)

    @property
    def can_reopen_sessions(self) -> bool:
        """Whether the agent can load or resume a session."""
        return self.supports("session/load") or self.supports("session/resume")

    async def ensure_started(self) -> Upstream:
        """Return the connection to the running program, and start it if needed.

        Raises ConnectionClosed and its subclasses, RequestTimeout, UsageError.
        """
        self.last_used = self.clock.now()
        return await super().ensure_started()

    def kill(self) -> None:
        """Kill the program and everything it started, at once: for a node that may no longer act."""
        if self._newest is not None:
            self._newest.kill()

    # -- the life cycle

    async def start(self) -> Upstream:
        lease = self._listener.lease_process(self)
        try:
            upstream = await super().start()
        except BaseException as error:
            lease.release()
            LOG.warning("agent %s: %s", self.name, self.reason)
            if isinstance(error, AccordError) and not isinstance(error, NeverStarted):
                self._log_hints()
            raise
        self._lease = lease
        LOG.info("agent %s is ready", self.name)
        return upstream

    @property
    def _program(self) -> str:
        return self.name

    def _stopped_error(self) -> AccordError:
        return ConnectionClosed(f"cannot start {self.name}: the gateway is stopping")

    async def _open_transport(self) -> Transport:
        if self._fence is not None:
            self._fence.check()
        return await self.source.start(self._log_stderr)

    def _make_connection(self, transport: Transport, handshake: Handshake) -> Upstream:
        renamed = None if self._names is None else RenamedSessions(self._names, self.name)
        self._newest = Upstream(transport, self, self._reader, self._fence, renamed)
        return self._newest

    async def _initialize(self, connection: Upstream) -> InitializeResponse:
        connection.start()
        info = Implementation("accord-gateway", __version__, title="Accord gateway")
        params = InitializeRequest(PROTOCOL_VERSION, CLIENT_CAPABILITIES, info)
        return await connection.request("initialize", params)

    async def _connect(self) -> Upstream:
        upstream = await super()._connect()
        if upstream.end is not None:  # it ended right after `initialize`
            raise upstream.end.error(f"{self.name}: {upstream.end.reason}", HandshakeFailed)
        return upstream

    def _process_ended(self, connection: Upstream, end: TransportEnd) -> None:
        self.running_turns.clear()
        if self._lease is not None:
            self._lease.release()
        LOG.info("agent %s: %s", self.name, end.reason)
        self._listener.on_agent_end(self, end)

    # -- events of the connection

    def on_request(self, id: RequestId, method: str, params: Raw | None, alias: Alias | None) -> None:
        self._listener.on_request(self, id, method, params, alias)

    def on_notification(self, method: str, params: Raw | None, frame: bytes) -> None:
        self._listener.on_notification(self, method, params, frame)

    def on_batch_end(self) -> None:
        self.last_used = self.clock.now()
        self._listener.on_batch_end()

    def on_end(self, upstream: Upstream, end: TransportEnd) -> None:
        self.connection_ended(upstream, end)

    def on_failure(self, method: str, error: RpcError) -> None:
        if isinstance(error, AuthRequired):
            LOG.warning("agent %s: %s: %s", self.name, method, one_line(clean_line(str(error))))
        if isinstance(error, AuthRequired) or (
            method == "session/prompt" and not isinstance(error, RequestCancelled)
        ):
            self._log_hints()

    def on_problem(self, problem: str) -> None:
        LOG.warning("agent %s: %s", self.name, problem)

    def on_oversized(self, head: bytes, problem: str) -> None:
        self._listener.on_oversized(self, head, problem)

    def _log_hints(self) -> None:
        """Log once what the operator can do about a failure."""
        if not self._gave_hints:
            self._gave_hints = True
            for hint in self.source.hints():
                LOG.warning("agent %s: %s", self.name, hint)

    def _log_dialect(self, row: int, text: str) -> None:
        LOG.info("agent %s speaks dialect %d: %s", self.name, row, text)

    def _active_session(self) -> str | None:
        return next(iter(self.running_turns)) if len(self.running_turns) == 1 else None

    def _log_stderr(self, text: str) -> None:
        LOG.debug("agent %s: stderr: %s", self.name, text)
