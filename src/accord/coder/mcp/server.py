"""One MCP server of a session: connects on demand, reconnects, and gives up after too many failures."""

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from accord.clock import Clock, within
from accord.coder.library_imports import server_connection_type
from accord.coder.mcp.server_interface import (
    McpLimits,
    McpServerFailure,
    OfferedFeatures,
    ServerConnectionLost,
    ServerContext,
    ServerState,
    SessionExpired,
    Status,
    clean_line,
)
from accord.errors import AccordError
from accord.schema.mcp import McpServer, McpServerAcp, McpServerHttp, McpServerSse, McpServerStdio
from accord.trace.redaction import redact_command

if TYPE_CHECKING:
    from accord.coder.mcp.server_connection import Mode, ServerConnection
    from accord.coder.mcp.sign_in import McpSignIn, ShowAddress


_LOG: Final = logging.getLogger("accord.coder.mcp")
_MAX_COMMAND_CHARS: Final = 300


class ConnectionTask:
    """One connection to a server in its own task, from its start to its end."""

    def __init__(
        self,
        server: McpServer,
        server_context: "Callable[[ConnectionTask], ServerContext]",
        mode: "Mode",
        on_features: "Callable[[ConnectionTask, OfferedFeatures], None]",
        on_end: "Callable[[ConnectionTask], None]",
    ) -> None:
        self._server = server
        self._context = server_context(self)
        self._mode: Mode = mode
        self._on_features = on_features
        self._on_end = on_end
        self._lost: str | None = None
        self._stale = False
        self.closing: bool = False
        """Whether we are closing it."""
        self._wake = asyncio.Event()
        self.created_at: float = self._clock.now()
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection is ready or has failed."""
        self.connection: ServerConnection | None = None
        """The connection, while it is open."""
        self.reason: str = ""
        """Why it ended, in one line; empty before."""
        self.task: asyncio.Task[None] = asyncio.create_task(self._run(), name=f"mcp {self._context.name}")

    @property
    def is_over(self) -> bool:
        """Whether the connection can no longer be used."""
        return self._lost is not None or self.closing or self.task.done()

    async def ready(self) -> "ServerConnection":
        """Wait until the server has listed its features, and return the connection.

        Raises McpServerFailure.
        """
        await asyncio.shield(self.started)
        if self.connection is None or self.is_over:
            raise McpServerFailure(self.reason or self._lost or "it is closed")
        return self.connection

    def lost(self, reason: str) -> None:
        """Record why the connection was lost. The first reason counts."""
        if self._lost is None:
            self._lost = reason
            self._wake.set()

    def stale(self) -> None:
        """Record that the features of the server have changed."""
        self._stale = True
        self._wake.set()

    def close(self) -> None:
        """Close it in order."""
        self.closing = True
        self._wake.set()
        if not self.started.done():
            self.task.cancel()

    async def _run(self) -> None:
        limit = self._limits.connect_seconds
        self._timer = self._clock.call_later(limit, self._connect_timeout)
        try:
            await self._connect()
            self.reason = self._lost or "it was closed"
        except asyncio.CancelledError:
            self.reason = self._lost or "it was closed"
        except AccordError as error:
            self.reason = self._lost or str(error)
        except Exception as error:  # noqa: BLE001  (the top of a task: one server must not stop the others)
            _LOG.error(
                "the connection to %s failed because of an internal error", self._context.name, exc_info=error
            )
            self.reason = f"the connection failed because of an internal error ({type(error).__name__})"
        finally:
            self._timer.cancel()
            await self._context.sign_in.finish()
            self.connection = None
            if self._lost is None:
                self._lost = self.reason
            if not self.started.done():
                self.started.set_result(None)
            self._on_end(self)

    async def _connect(self) -> None:
        connection_type = await server_connection_type()
        # Some older servers exit if the first message is not the `initialize` that they know. Their process
        # is started again, with the older handshake.
        retry = self._mode == "auto" and isinstance(self._server, McpServerStdio)
        for mode in (self._mode, "legacy") if retry else (self._mode,):
            self._lost = None
            try:
                async with connection_type.open(self._server, self._context, mode) as connection:
                    await self._serve(connection)
                return
            except McpServerFailure as failure:
                if self.started.done() or mode == "legacy" or self._lost is None or self.closing:
                    raise McpServerFailure(self._lost or str(failure)) from None

    async def _serve(self, connection: "ServerConnection") -> None:
        features = await self._list_features(connection)
        self.connection = connection
        self.started.set_result(None)
        self._on_features(self, features)
        listen_task = asyncio.create_task(connection.listen())
        listed_at = self._clock.now()
        try:
            while self._lost is None and not self.closing:
                await self._wake.wait()
                self._wake.clear()
                if self._stale and self._lost is None and not self.closing:
                    await self._clock.sleep(
                        max(listed_at + self._limits.refresh_seconds - self._clock.now(), 0)
                    )
                    self._stale = False
                    listed_at = self._clock.now()
                    await self._refresh(connection)
        finally:
            listen_task.cancel()
            await asyncio.wait({listen_task})

    async def _refresh(self, connection: "ServerConnection") -> None:
        try:
            self._on_features(self, await self._list_features(connection))
        except McpServerFailure as failure:
            _LOG.warning("%s did not list its changed features: %s", self._context.name, failure)

    async def _list_features(self, connection: "ServerConnection") -> OfferedFeatures:
        list_task = asyncio.ensure_future(connection.features())
        try:
            if await within(self._clock, self._limits.list_seconds, list_task):
                return list_task.result()
        finally:
            list_task.cancel()
        raise McpServerFailure(f"it did not list its features within {self._limits.list_seconds:g} s")

    def _connect_timeout(self) -> None:
        if self._context.sign_in.is_waiting:  # the time of the user does not count
            self._timer = self._clock.call_later(self._limits.connect_seconds, self._connect_timeout)
        elif not self.started.done():
            self.lost(f"it was not ready within {self._limits.connect_seconds:g} s")
            self.task.cancel()

    @property
    def _limits(self) -> McpLimits:
        return self._context.limits

    @property
    def _clock(self) -> Clock:
        return self._context.clock


T = TypeVar("T")
ServerCall: TypeAlias = "Callable[[ServerConnection, Callable[[], None]], Awaitable[T]]"
"""Sends a request over a connection. Calls its second argument whenever the server reports progress."""


class SessionMcpServer:
    """An MCP server of a session. `features` is its last list of features."""

    def __init__(self, server: McpServer, server_context: ServerContext) -> None:
        self.name: str = server_context.name
        self.features: OfferedFeatures = OfferedFeatures()
        self._server = server
        self._context = server_context
        self._limits = server_context.limits
        self._connection_task: ConnectionTask | None = None
        self._mode: Mode = "auto"
        self._losses = 0  # lost connections in a row
        self._reason = ""
        self._closed = False
        self._calls: set[asyncio.Future[Any]] = set()

    @property
    def state(self) -> ServerState:
        features = self.features
        return ServerState(
            self.name,
            _transport(self._server),
            self._status,
            self._reason if self._status == "failed" else "",
            len(features.tools),
            len(features.prompts),
            len(features.resources),
            self.command,
            len(features.left_out),
        )

    @property
    def command(self) -> str:
        """The command line of a stdio server on one line, without secrets; empty for other servers."""
        server = self._server
        if not isinstance(server, McpServerStdio):
            return ""
        words = redact_command([server.command, *server.args])
        return clean_line(self._context.secrets.masked(shlex.join(words)), _MAX_COMMAND_CHARS)

    @property
    def _status(self) -> Status:
        if self._closed:
            return "closed"
        if self._connection_task is not None and self._connection_task.reason:
            return "failed"
        return (
            "ready"
            if self._connection_task is not None
            and not self._connection_task.is_over
            and self._connection_task.connection
            else "connecting"
        )

    def start(self) -> None:
        """Start to connect, unless that has happened already."""
        if self._connection_task is None and not self._closed:
            self._start_task()

    def restart(self) -> None:
        """Connect again, also after giving up. Does nothing while it is connected."""
        if not self._closed and (self._connection_task is None or self._connection_task.task.done()):
            self._losses = 0
            self._start_task()
            self._notify(self._context.hooks.changed)

    async def reconnect(self, show: "ShowAddress | None" = None) -> "asyncio.Future[None]":
        """End the connection and connect again, also after giving up.

        With `show` the user signs in: it gets the address of the page. The result is done when the server is
        ready or has failed.
        """
        connection_task = self._connection_task
        if connection_task is not None and not connection_task.task.done():
            connection_task.close()
            if not await within(
                self._context.clock, 2 * self._limits.leave_seconds + 2, connection_task.task
            ):
                connection_task.task.cancel()
                await asyncio.wait({connection_task.task})
        self._losses = 0
        self.sign_in.show = show
        new_task = self._start_task()
        self._notify(self._context.hooks.changed)
        return new_task.started

    @property
    def connect_seconds(self) -> float:
        """How long a start may take."""
        return self._limits.connect_seconds

    @property
    def started(self) -> "asyncio.Future[None]":
        """Done when the connection is ready or has failed."""
        return (self._connection_task or self._start_task()).started

    @property
    def sign_in(self) -> "McpSignIn":
        return self._context.sign_in

    @property
    def url(self) -> str | None:
        """The address, if it is on the network."""
        return self._server.url if isinstance(self._server, McpServerHttp | McpServerSse) else None

    def _start_task(self) -> ConnectionTask:
        self._connection_task = ConnectionTask(
            self._server, self._context_of, self._mode, self._features_listed, self._connection_ended
        )
        return self._connection_task

    async def wait_started(self, seconds: float) -> None:
        """Wait until it is ready or has failed, at most until `seconds` after its start.

        Does not wait for a user who signs in.
        """
        connection_task = self._connection_task
        if connection_task is not None and not self.sign_in.is_waiting:
            remaining = connection_task.created_at + seconds - self._context.clock.now()
            if remaining > 0:
                await within(self._context.clock, remaining, connection_task.started)

    async def aclose(self) -> None:
        """Close the connection, in bounded time."""
        self._closed = True
        connection_task = self._connection_task
        if connection_task is not None and not connection_task.task.done():
            connection_task.close()
            timeout = 2 * self._limits.leave_seconds + 2
            if not await within(self._context.clock, timeout, connection_task.task):
                connection_task.task.cancel()
                await within(self._context.clock, timeout, connection_task.task)
        for call in list(self._calls):
            call.cancel()

    def _context_of(self, connection_task: ConnectionTask) -> ServerContext:
        return replace(self._context, on_lost=connection_task.lost, on_features_changed=connection_task.stale)

    def _features_listed(self, connection_task: ConnectionTask, features: OfferedFeatures) -> None:
        if features.left_out and features.left_out != self.features.left_out:
            self._notify(self._context.hooks.left_out, self.name, features.left_out)
        self.features = features
        self._notify(self._context.hooks.changed)

    def _connection_ended(self, connection_task: ConnectionTask) -> None:
        if self._closed or connection_task.closing or connection_task is not self._connection_task:
            return
        self._losses += 1
        self._reason = connection_task.reason
        if self._gave_up:
            self.features = OfferedFeatures()
        self._notify(self._context.hooks.failed, self.name, connection_task.reason)
        self._notify(self._context.hooks.changed)

    def _notify(self, hook: Callable[..., None], *args: object) -> None:
        try:
            hook(*args)
        except Exception as error:  # noqa: BLE001  (an error in the session must not break the connection)
            _LOG.error("a hook of the session failed for %s", self.name, exc_info=error)

    @property
    def _gave_up(self) -> bool:
        return self._losses > self._limits.restarts

    async def _open_connection(self) -> "tuple[ConnectionTask, ServerConnection]":
        """Return an open connection. Reconnects if needed, a limited number of times."""
        if self._closed:
            raise McpServerFailure(f"{self.name} is closed")
        connection_task = self._connection_task
        if connection_task is None or connection_task.is_over:
            if connection_task is not None:
                await asyncio.wait({connection_task.task})  # the old process ends before a new one starts
            if self._gave_up:
                raise McpServerFailure(
                    f"{self.name} is not started again because it failed too often: {self._reason}"
                )
            if connection_task is not self._connection_task and self._connection_task is not None:
                connection_task = self._connection_task  # another call has reconnected meanwhile
            else:
                connection_task = self._start_task()
                self._notify(self._context.hooks.changed)
        try:
            connection = await connection_task.ready()
        except McpServerFailure as failure:
            raise McpServerFailure(f"{self.name} is not available: {failure}") from None
        self._mode = connection.mode
        return connection_task, connection

    async def request(self, call: "ServerCall[T]") -> T:
        """Send a request. Raises McpServerFailure. A cancel is also sent to the server."""
        try:
            return await self._request_once(call)
        except SessionExpired:
            return await self._request_once(call)

    async def _request_once(self, call: "ServerCall[T]") -> T:
        connection_task, connection = await self._open_connection()
        try:
            result = await self._call_with_limits(connection, call)
        except SessionExpired:
            connection_task.close()
            self._losses += 1
            raise
        except ServerConnectionLost as failure:
            connection_task.lost(str(failure))
            await within(self._context.clock, 2 * self._limits.leave_seconds, connection_task.task)
            if self._closed:
                raise McpServerFailure(f"{self.name} was closed before it answered") from None
            outcome = "not be used again" if self._gave_up else "be started again for the next call"
            raise McpServerFailure(
                f"{self.name} ended before it answered; the call may or may not have had effects: "
                f"{connection_task.reason or failure}. It will {outcome}."
            ) from None
        except McpServerFailure as failure:
            raise McpServerFailure(f"{self.name}: {failure}") from None
        self._losses = 0
        return result

    async def _call_with_limits(self, connection: "ServerConnection", call: "ServerCall[T]") -> T:
        clock, limits = self._context.clock, self._limits
        started_at = last_progress = clock.now()

        def on_progress() -> None:
            nonlocal last_progress
            last_progress = clock.now()

        def deadline() -> float:
            return min(last_progress + limits.call_seconds, started_at + limits.max_call_seconds)

        call_task = asyncio.ensure_future(call(connection, on_progress))
        self._calls.add(call_task)
        call_task.add_done_callback(self._call_done)
        try:
            while not await within(clock, max(deadline() - clock.now(), 0.0), call_task):
                if connection.waits_for_user:  # the time of the user does not count
                    started_at = last_progress = clock.now()
                elif clock.now() >= deadline():
                    await self._cancel_call(call_task)
                    raise McpServerFailure(
                        f"no response for {clock.now() - last_progress:g} s; the call was canceled"
                    )
        except asyncio.CancelledError:
            await self._cancel_call(call_task)
            raise
        return call_task.result()

    async def _cancel_call(self, call_task: "asyncio.Future[Any]") -> None:
        """Cancel a call, and wait briefly so that the cancellation reaches the server."""
        call_task.cancel()
        await within(self._context.clock, self._limits.cancel_seconds, call_task)

    def _call_done(self, call_task: "asyncio.Future[Any]") -> None:
        self._calls.discard(call_task)
        if not call_task.cancelled():
            call_task.exception()  # mark it as retrieved


def _transport(server: McpServer) -> str:
    if isinstance(server, McpServerHttp):
        return "http"
    if isinstance(server, McpServerSse):
        return "sse"
    return "acp" if isinstance(server, McpServerAcp) else "stdio"
