"""One agent of the gateway: starts its program on first use, restarts it after a crash, stops it when idle.

Keeps the answer to `initialize`, so that the capabilities are known while the program does not run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from logging import getLogger
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Raw

from accord import __version__
from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import (
    AccordError,
    AuthRequired,
    BadAnswer,
    ConnectionClosed,
    HandshakeFailed,
    NeverStarted,
    RequestCancelled,
    RequestTimeout,
    RpcError,
)
from accord.gateway.access.resource_limits import LimitLease
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
PROTOCOL_VERSION: Final = 1

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
AgentState: TypeAlias = Literal["stopped", "starting", "ready", "failed"]

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
    def on_request(
        self, agent: "HostedAgent", id: RequestId, method: str, params: Raw | None, alias: Alias | None
    ) -> None: ...
    def on_notification(
        self, agent: "HostedAgent", method: str, params: Raw | None, frame: bytes
    ) -> None: ...
    def on_batch_end(self) -> None: ...
    def on_agent_end(self, agent: "HostedAgent", end: TransportEnd) -> None: ...
    def lease_process(self, agent: "HostedAgent") -> LimitLease: ...


class HostedAgent:
    """An agent by its name, whether or not its program runs."""

    def __init__(
        self, source: AgentSource, listener: HostedAgentListener, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.source: AgentSource = source
        self.name: str = source.name
        self.state: AgentState = "stopped"
        self.reason: str = ""
        """Why the last start failed; "" otherwise."""
        self.start_count: int = 0
        self.last_used: float = clock.now()
        """On the gateway's clock."""
        self.on_update: partial[None] = partial(listener.on_update, self)
        self._listener = listener
        self._clock = clock
        self._reader = MessageReader(report=self._log_dialect, active_session=self._active_session)
        self._upstream: Upstream | None = None
        self._initialize_response: InitializeResponse | None = None
        self._starting: asyncio.Task[Upstream] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._stopped_for_good = False
        self._lease: LimitLease | None = None
        self._gave_hints = False
        self.running_turns: dict[str, int] = {}
        """The number of running turns by session id."""

    @property
    def upstream(self) -> Upstream | None:
        """The connection to the running program; None unless it is initialized and not stopping."""
        return self._upstream if self.state == "ready" and self._stopping is None else None

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
        self.last_used = self._clock.now()
        while self._stopping is not None:
            await asyncio.wait((self._stopping,))
        if self._stopped_for_good:
            raise ConnectionClosed(f"cannot start {self.name}: the gateway is stopping")
        if self.state == "ready" and self._upstream is not None:
            return self._upstream
        if self._starting is None or self._starting.done():
            self._starting = asyncio.get_running_loop().create_task(self._start())
        return await asyncio.shield(self._starting)

    async def stop(self, *, for_good: bool = False) -> None:
        """Stop the program, in bounded time. It restarts on the next use, unless `for_good`."""
        self._stopped_for_good = self._stopped_for_good or for_good
        if self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._run_stop())
        await asyncio.shield(self._stopping)

    async def _run_stop(self) -> None:
        try:
            await self._stop_program()
        finally:
            self._stopping = None

    async def _stop_program(self) -> None:
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        upstream = self._upstream
        if upstream is not None:
            await upstream.aclose()

    async def _start(self) -> Upstream:
        lease = self._listener.lease_process(self)
        self.state, self.reason = "starting", ""
        self.start_count += 1
        try:
            upstream = await self._initialize(await self.source.start(self._log_stderr))
            if upstream.end is not None:  # it ended right after `initialize`
                raise HandshakeFailed(f"{self.name}: {upstream.end.reason}")
        except BaseException as error:
            lease.release()
            self.state = "failed"
            self.reason = str(error) if isinstance(error, AccordError) else "the start was cancelled"
            LOG.warning("agent %s: %s", self.name, self.reason)
            if isinstance(error, AccordError) and not isinstance(error, NeverStarted):
                self._log_hints()
            raise
        self.state, self._lease = "ready", lease
        LOG.info("agent %s is ready", self.name)
        return upstream

    async def _initialize(self, transport: Transport) -> Upstream:
        upstream = self._upstream = Upstream(transport, self, self._reader)
        upstream.start()
        info = Implementation("accord-gateway", __version__, title="Accord gateway")
        response_task = asyncio.ensure_future(
            upstream.request("initialize", InitializeRequest(PROTOCOL_VERSION, CLIENT_CAPABILITIES, info))
        )
        try:
            if not await within(self._clock, self.source.startup, response_task):
                raise RequestTimeout(
                    f"{self.name}: no answer to initialize in {self.source.startup:g} s; is it an ACP agent?"
                )
            initialize_response: InitializeResponse = response_task.result()
            if initialize_response.protocol_version != PROTOCOL_VERSION:
                raise HandshakeFailed(
                    f"{self.name} speaks protocol version {initialize_response.protocol_version}, "
                    f"the gateway speaks {PROTOCOL_VERSION}"
                )
        except (RpcError, BadAnswer) as error:
            await upstream.aclose()
            raise HandshakeFailed(f"{self.name}: initialize failed: {error}") from None
        except ConnectionClosed as error:
            raise HandshakeFailed(
                f"{self.name}: {error.args[0]}",
                exit_code=error.exit_code,
                signal=error.signal,
                stderr=error.stderr,
            ) from None
        except BaseException:
            response_task.cancel()
            await upstream.aclose()
            raise
        self._initialize_response = initialize_response
        return upstream

    # -- events of the connection

    def on_request(self, id: RequestId, method: str, params: Raw | None, alias: Alias | None) -> None:
        self._listener.on_request(self, id, method, params, alias)

    def on_notification(self, method: str, params: Raw | None, frame: bytes) -> None:
        self._listener.on_notification(self, method, params, frame)

    def on_batch_end(self) -> None:
        self.last_used = self._clock.now()
        self._listener.on_batch_end()

    def on_end(self, upstream: Upstream, end: TransportEnd) -> None:
        if upstream is not self._upstream:
            return
        self._upstream = None
        self.running_turns.clear()
        if self.state == "ready":
            self.state = "stopped"
            if self._lease is not None:
                self._lease.release()
            LOG.info("agent %s: %s", self.name, end.reason)
            self._listener.on_agent_end(self, end)

    def on_failure(self, method: str, error: RpcError) -> None:
        if isinstance(error, AuthRequired):
            LOG.warning("agent %s: %s: %s", self.name, method, one_line(clean_line(str(error))))
        if isinstance(error, AuthRequired) or (
            method == "session/prompt" and not isinstance(error, RequestCancelled)
        ):
            self._log_hints()

    def on_problem(self, problem: str) -> None:
        LOG.warning("agent %s: %s", self.name, problem)

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
