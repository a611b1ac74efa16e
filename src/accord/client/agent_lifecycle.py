"""`AgentLifecycle`: an agent across its processes: start, handshake, end, restart, stop.

The client and the gateway use it. A subclass opens the connections, and reacts to starts and ends.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from accord.client.client_options import RestartPolicy, Restarts, bounded, ignore_failure
from accord.clock import Clock, OwnedTasks
from accord.errors import (
    UNSUPPORTED_VERSION,
    AccordError,
    BadAnswer,
    ConnectionClosed,
    HandshakeFailed,
    NeverStarted,
    RequestTimeout,
    RpcError,
)
from accord.schema import InitializeResponse
from accord.wire.transport import Transport, TransportEnd

PROTOCOL_VERSION: Final = 1

AgentState: TypeAlias = Literal["stopped", "starting", "ready", "failed"]

_NOISE_LINES: Final = 5
_NOISE_WIDTH: Final = 200


class AgentProcess(Protocol):
    """The connection to one process of an agent."""

    @property
    def end(self) -> TransportEnd | None:
        """How it ended; None while it runs."""
        ...

    async def aclose(self) -> None:
        """End the process, in bounded time."""
        ...


C = TypeVar("C", bound=AgentProcess)


class Handshake:
    """The `initialize` call of one connection, and the errors of a start that failed."""

    def __init__(self, agent: str, own_name: str, transport: Transport) -> None:
        """`agent` and `own_name` name the two sides in errors."""
        self.response: InitializeResponse | None = None
        """The agent's response; None until it arrived."""
        self._agent = agent
        self._own_name = own_name
        self._transport = transport
        self._noise: deque[str] = deque(maxlen=_NOISE_LINES)

    async def run(
        self, call: Awaitable[InitializeResponse], end: Callable[[], TransportEnd | None]
    ) -> InitializeResponse:
        """Await the call of `initialize`. Raises HandshakeFailed, NeverStarted."""
        try:
            response = await call
        except (RpcError, BadAnswer) as error:
            hint = ""
            if isinstance(error, RpcError) and error.code == UNSUPPORTED_VERSION:
                hint = '; ask for another version with `--protocol auto` or protocol="auto"'
            # A gateway names the failed `initialize` of its agent itself.
            what = "" if "initialize failed: " in str(error) else "initialize failed: "
            raise self._failed(f"{what}{error}{hint}") from error
        except ConnectionClosed:
            ended = end()
            if ended is None:
                raise
            raise self._ended(ended) from None
        if response.protocol_version != PROTOCOL_VERSION:
            raise self._failed(
                f"the agent speaks protocol version {response.protocol_version}, "
                f"{self._own_name} speaks {PROTOCOL_VERSION}"
            )
        self.response = response
        return response

    def add_noise(self, frame: bytes) -> None:
        """Keep output that is not a message, for the error of a failed start."""
        if self.response is None:
            self._noise.append(frame[:_NOISE_WIDTH].decode(errors="replace"))

    def expired(self, limit: float) -> Exception:
        """The error for an expired start-up limit."""
        reason = f"initialize was not answered within {limit:g} s"
        if self._noise:
            return self._failed(reason)
        stderr = getattr(self._transport, "stderr", "").rstrip()
        hint = f"; its last stderr lines:\n{stderr}" if stderr else "; is this an ACP agent?"
        return RequestTimeout(f"{self._agent}: {reason}{hint}")

    def _ended(self, end: TransportEnd) -> ConnectionClosed:
        if not end.connected:
            return NeverStarted(end.reason)
        comma = "," if end.exit_code is None and end.signal is None else ""
        return self._failed(f"{end.reason}{comma} before initialize was answered", end)

    def _failed(self, reason: str, end: TransportEnd | None = None) -> HandshakeFailed:
        if not reason.startswith(f"{self._agent}: "):
            reason = f"{self._agent}: {reason}"
        if self._noise:
            reason += "; it printed this instead of protocol messages:"
            reason += "".join(f"\n  {line}" for line in self._noise)
        if end is None:
            return HandshakeFailed(reason, stderr=getattr(self._transport, "stderr", ""))
        return end.error(reason, HandshakeFailed)


class AgentLifecycle(ABC, Generic[C]):
    """An agent, whether or not its process runs."""

    own_name: str = "this client"
    """How errors name this side."""

    def __init__(
        self,
        clock: Clock,
        startup: float | None,
        *,
        restart: RestartPolicy | None = None,
        grace: float | None = None,
    ) -> None:
        """`startup` is the limit in seconds until `initialize` is answered, `grace` the one for its tasks."""
        self.state: AgentState = "stopped"
        self.start_error: AccordError | None = None
        """Why the latest start failed."""
        self.clock: Clock = clock
        self.tasks: OwnedTasks = OwnedTasks(clock, grace, ignore_failure)
        """Tasks that end with this agent at the latest."""
        self._startup = startup
        self._start_verb = "started"
        self._restarts = Restarts(restart, clock)
        self._connection: C | None = None
        self._initialize_response: InitializeResponse | None = None  # the latest; outlives the process
        self._starting: asyncio.Task[Any] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._stopped_for_good = False

    # -- what a subclass provides ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def _program(self) -> str:
        """The name of the agent in errors."""

    @abstractmethod
    def _stopped_error(self) -> AccordError:
        """The error for the use of an agent that was stopped for good."""

    @abstractmethod
    async def _open_transport(self) -> Transport:
        """Start the program or connect to the address."""

    @abstractmethod
    def _make_connection(self, transport: Transport, handshake: Handshake) -> C:
        """Create the connection of a transport."""

    @abstractmethod
    def _initialize(self, connection: C) -> Awaitable[InitializeResponse]:
        """Start the connection and call `initialize`."""

    def _process_ended(self, connection: C, end: TransportEnd) -> None:
        """Handle the end of the running process."""

    async def _before_restart(self) -> None:
        """Handle the end of the process that a restart replaces."""

    async def _restarted(self, connection: C, count: int) -> None:
        """Handle a restart; `count` is how many there were. Callers of `ready` wait for it."""

    def _restart_failed(self, error: ConnectionClosed) -> None:
        """Handle the failure of an automatic restart."""

    # -- start and restart -----------------------------------------------------------------------------------

    async def start(self) -> C:
        """Start the agent. Canceling the current task cancels the start."""
        self.state, self.start_error = "starting", None
        try:
            connection = self._connection = await self._connect()
        except BaseException as error:
            self.state = "failed"
            self.start_error = error if isinstance(error, AccordError) else None
            raise
        self.state = "ready"
        return connection

    async def ensure_started(self) -> C:
        """Return the connection to the running process; start it if needed. Callers share one start."""
        while self._stopping is not None:
            await asyncio.wait((self._stopping,))
        if self._stopped_for_good:
            raise self._stopped_error()
        if self.state == "ready" and self._connection is not None:
            return self._connection
        return await asyncio.shield(self._start_once(self.start))

    async def ready(self) -> C:
        """The latest connection; it may have ended. Waits for a start that is in progress."""
        while self._starting is not None and not self._starting.done():
            await asyncio.wait([self._starting])
        if self._stopped_for_good:
            raise self._stopped_error()
        if self.start_error is not None:
            raise self.start_error.with_traceback(None)
        assert self._connection is not None, "the agent has been started"
        return self._connection

    async def restart(self) -> None:
        """End the process and start another. Callers share one restart."""
        await asyncio.shield(self._start_once(self._restart))

    def _start_once(self, start: Callable[[], Coroutine[Any, Any, Any]]) -> "asyncio.Task[Any]":
        if self._starting is None or self._starting.done():
            self._starting = self.tasks.start(start())
        return self._starting

    async def _connect(self) -> C:
        """Open a connection and call `initialize`, within the start-up limit."""
        handshakes: list[Handshake] = []
        connections: list[C] = []

        async def connect() -> C:
            transport = await self._open_transport()
            handshake = Handshake(self._program, self.own_name, transport)
            connection = self._make_connection(transport, handshake)
            handshakes.append(handshake)
            connections.append(connection)
            call = self._initialize(connection)
            self._initialize_response = await handshake.run(call, lambda: connection.end)
            return connection

        def expired() -> Exception:
            limit = self._startup or 0.0
            if handshakes:
                return handshakes[0].expired(limit)
            return RequestTimeout(f"{self._program} could not be {self._start_verb} within {limit:g} s")

        try:
            return await bounded(connect(), expired, self.clock, self._startup)
        except BaseException:
            for connection in connections:
                await connection.aclose()
            raise

    async def _restart(self) -> None:
        try:
            if self._connection is not None:
                await self._connection.aclose()
            await self._before_restart()
            connection = await self.start()
            self._restarts.count += 1
            await self._restarted(connection, self._restarts.count)
        except AccordError as error:
            self.start_error = error
            raise

    async def _restart_after(self, pause: float | None) -> None:
        while pause is not None:
            await self.clock.sleep(pause)
            try:
                await self._restart()
            except AccordError as error:
                if not isinstance(error, ConnectionClosed):
                    error = HandshakeFailed(f"not restarted: {error}")
                self._restart_failed(error)
                pause = self._restarts.next_pause()
            else:
                return

    # -- the end ---------------------------------------------------------------------------------------------

    def connection_ended(self, connection: C, end: TransportEnd) -> None:
        """Handle the end of a connection; restart the agent if the policy says so."""
        if connection is not self._connection or self.state != "ready":
            return
        self.state = "stopped"
        self._process_ended(connection, end)
        if self._starting is not None and not self._starting.done():
            return  # it died again while its sessions were reopened; that attempt fails by itself
        pause = self._restarts.next_pause()
        if pause is not None:
            self._starting = self.tasks.start(self._restart_after(pause))

    async def stop(self, *, for_good: bool = False) -> None:
        """Stop the process, in bounded time. It can be started again, unless `for_good`."""
        self._stopped_for_good = self._stopped_for_good or for_good
        if self._stopping is None:
            self._stopping = self.tasks.start(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        try:
            if self._starting is not None and not self._starting.done():
                self._starting.cancel()
                await asyncio.wait([self._starting])
            if self._connection is not None:
                await self._connection.aclose()
        finally:
            self._stopping = None
