"""Services of the client: terminals, and requests to MCP servers of type `acp` (unstable).

Imported on first use.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import UNSET, Struct

from accord.clock import within
from accord.errors import AccordError, BadAnswer, ConnectionClosed, RpcError, UsageError
from accord.schema.client_requests import (
    CreateTerminalRequest,
    EnvVariable,
    KillTerminalRequest,
    ReleaseTerminalRequest,
    TerminalOutputRequest,
    TerminalOutputResponse,
    WaitForTerminalExitRequest,
    WaitForTerminalExitResponse,
)
from accord.schema.mcp import (
    MCP_VERSION,
    McpFailure,
    McpServerAcp,
    MessageMcpNotification,
    MessageMcpRequest,
    MessageMcpResponse,
)

if TYPE_CHECKING:
    from accord.agent.agent_session import AgentSession
    from accord.agent.client import ClientPeer
    from accord.agent.tool_call_scope import ToolCallScope


RELEASE_SECONDS: Final = 2.0
"""How long the end of a block waits for the response to `terminal/release`."""
CANCELED_RELEASE_SECONDS: Final = 0.5
"""The same if the block was canceled."""

McpListener: TypeAlias = Callable[[str, Mapping[str, Any]], object]
"""Receives the method and params of a notification that belongs to a running request."""


class CommandResult(Struct, frozen=True):
    """The output and the exit status of a command."""

    output: str
    truncated: bool
    exit_code: int | None
    signal: str | None
    timed_out: bool = False


class ClientTerminal:
    """`async with turn.terminal(...) as terminal:`. The end of the block always releases it."""

    def __init__(
        self,
        peer: "ClientPeer",
        session: "AgentSession",
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
    ) -> None:
        peer.require(session.client.can_run_terminals, "terminal/*")
        self.id: str = ""
        """Empty until the client has started the command."""
        self.released: bool = False
        self._peer = peer
        self._session_id = session.id
        self._failure: AccordError | None = None
        self._params = CreateTerminalRequest(
            session.id,
            command,
            list(args),
            [EnvVariable(name, value) for name, value in (env or {}).items()],
            session.path(cwd or ""),
            UNSET if output_byte_limit is None else output_byte_limit,
        )

    async def __aenter__(self) -> "ClientTerminal":
        if self.id or self.released:
            raise UsageError("the terminal was already used; create another for the next command")
        # In a separate task: if this is canceled, the terminal must still be released when its id arrives.
        creating = self._peer.tasks.start(self._create())
        try:
            await asyncio.shield(creating)
        except asyncio.CancelledError:
            self.released = True
            if self.id:
                self._peer.tasks.start(self._release())
            raise
        if self._failure is not None:
            raise self._failure
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        canceled = isinstance(error, asyncio.CancelledError)
        await self._release_within(CANCELED_RELEASE_SECONDS if canceled else RELEASE_SECONDS)

    async def output(self) -> TerminalOutputResponse:
        """Return the output so far."""
        return await self._peer.call(
            "terminal/output",
            TerminalOutputRequest(self._session_id, self._require_id()),
            key=self._session_id,
        )

    async def wait(self) -> WaitForTerminalExitResponse:
        """Wait until the command ends."""
        return await self._peer.call(
            "terminal/wait_for_exit",
            WaitForTerminalExitRequest(self._session_id, self._require_id()),
            key=self._session_id,
        )

    async def kill(self) -> None:
        """Kill the command; its output and status stay available."""
        params = KillTerminalRequest(self._session_id, self._require_id())
        await self._peer.call("terminal/kill", params, key=self._session_id)

    async def release(self) -> None:
        """Kill the command and release the terminal. The end of the block does this as well."""
        await self._release_within(RELEASE_SECONDS)

    async def finish(self, timeout: float | None) -> CommandResult:
        """Wait until the command ends, kill it after `timeout` seconds, and return its result."""
        exit_task = asyncio.get_running_loop().create_task(self.wait())
        try:
            if timeout is None:
                await asyncio.wait((exit_task,))
            timed_out = timeout is not None and not await within(self._peer.clock, timeout, exit_task)
            if timed_out:
                await self.kill()
                await within(self._peer.clock, RELEASE_SECONDS, exit_task)
            status = exit_task.result() if exit_task.done() else None
            output = await self.output()
        finally:
            if not exit_task.done():
                exit_task.cancel()
                await asyncio.wait((exit_task,))
        exit_status = status or output.exit_status
        return CommandResult(
            output.output,
            output.truncated,
            None if not exit_status or exit_status.exit_code is UNSET else exit_status.exit_code,
            None if not exit_status or exit_status.signal is UNSET else exit_status.signal,
            timed_out,
        )

    async def _create(self) -> None:
        try:
            response = await self._peer.call("terminal/create", self._params, key=self._session_id)
        except (RpcError, BadAnswer, ConnectionClosed) as error:
            self._failure = error
            return
        self.id = response.terminal_id
        if self.released:
            await self._release()

    async def _release_within(self, seconds: float) -> None:
        if self.released or not self.id:
            return
        self.released = True
        await within(self._peer.clock, seconds, self._peer.tasks.start(self._release()))

    async def _release(self) -> None:
        params = ReleaseTerminalRequest(self._session_id, self.id)
        try:
            await self._peer.call("terminal/release", params, key=self._session_id)
        except (RpcError, BadAnswer, ConnectionClosed):
            pass  # the terminal or the client no longer exists

    def _require_id(self) -> str:
        if not self.id or self.released:
            raise UsageError("the terminal is not open; use it inside its `async with` block")
        return self.id


async def run_terminal(
    terminal: ClientTerminal, timeout: float | None, call: "ToolCallScope | None"
) -> CommandResult:
    """Run a command until it ends; show the terminal in the tool call, if any."""
    async with terminal:
        if call is not None:
            await call.terminal(terminal)
        return await terminal.finish(timeout)


async def mcp_request(
    peer: "ClientPeer",
    session: "AgentSession",
    server_id: str,
    method: str,
    params: Mapping[str, Any] | None,
    on_notification: McpListener | None,
) -> Any:
    """Call a method of an MCP server of type `acp`; raise RpcError if it fails."""
    declared = [server.server_id for server in session.mcp_servers if isinstance(server, McpServerAcp)]
    if server_id not in declared:
        raise UsageError(
            f"session {session.id} has no MCP server {server_id!r} of type acp; it has {declared}"
        )
    request_id = os.urandom(8).hex()
    if on_notification is not None:
        peer.mcp_listeners[server_id, request_id] = on_notification
    try:
        message = MessageMcpRequest(server_id, request_id, method, _with_mcp_version(params or {}))
        response: MessageMcpResponse = await peer.call("mcp/message", message, key=None)
    finally:
        peer.mcp_listeners.pop((server_id, request_id), None)
    if isinstance(response, McpFailure):
        error = response.error
        raise RpcError.of(error.code, error.message, *(() if error.data is UNSET else (error.data,)))
    return response.result


def _with_mcp_version(params: Mapping[str, Any]) -> dict[str, Any]:
    """Add what each request of this revision of MCP must say, unless the caller has said it."""
    required: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MCP_VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {**params, "_meta": required | (params.get("_meta") or {})}


def dispatch_mcp_notification(peer: "ClientPeer", params: MessageMcpNotification) -> None:
    """Pass a notification to the listener of its request; drop it if the request has ended."""
    listener = peer.mcp_listeners.get((params.server_id, params.request_id))
    if listener is not None:
        listener(params.method, params.params or {})
