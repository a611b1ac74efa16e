"""What the client runs for the agent: terminals, and MCP servers that it offers.

Imported on first use.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

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


# MERGED agent.terminal: Terminals: commands that the client runs for the agent. Each is released, whatever happens to the code that made it.

RELEASE_BOUND: Final = 2.0
"""Seconds that the end of a block waits for the client to confirm a release; the release itself is not undone."""
CANCELLED_BOUND: Final = 0.5
"""The same where a cancel ended the block."""


class CommandResult(Struct, frozen=True):
    """How a command ended and what it printed."""

    output: str
    truncated: bool
    exit_code: int | None
    signal: str | None
    timed_out: bool = False


class ClientTerminal:
    """`async with turn.terminal(...) as terminal:`. The end of the block releases it."""

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
        peer.need(session.client.can_run_terminals, "terminal/*")
        self.id = ""
        """Empty until the client has started the command."""
        self.released = False
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
            raise UsageError("a terminal runs one command; make another one for the next")
        # In a task of its own: if we are cancelled meanwhile, the id that still comes must be released.
        creating = self._peer.own(self._create())
        try:
            await asyncio.shield(creating)
        except asyncio.CancelledError:
            self.released = True
            if self.id:
                self._peer.own(self._release())
            raise
        if self._failure is not None:
            raise self._failure
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        cancelled = isinstance(error, asyncio.CancelledError)
        await self._release_within(CANCELLED_BOUND if cancelled else RELEASE_BOUND)

    async def output(self) -> TerminalOutputResponse:
        """What it has printed so far; does not wait."""
        return await self._peer.call(
            "terminal/output",
            TerminalOutputRequest(self._session_id, self._live_id()),
            key=self._session_id,
        )

    async def wait(self) -> WaitForTerminalExitResponse:
        """Wait for its end."""
        return await self._peer.call(
            "terminal/wait_for_exit",
            WaitForTerminalExitRequest(self._session_id, self._live_id()),
            key=self._session_id,
        )

    async def kill(self) -> None:
        """Stop the command; output and status can still be read."""
        params = KillTerminalRequest(self._session_id, self._live_id())
        await self._peer.call("terminal/kill", params, key=self._session_id)

    async def release(self) -> None:
        """Stop the command and forget the terminal; happens by itself at the end of the block."""
        await self._release_within(RELEASE_BOUND)

    async def finish(self, timeout: float | None) -> CommandResult:
        """Wait for the end, so long at most, then kill it; what it printed comes back in either case."""
        waiting = asyncio.get_running_loop().create_task(self.wait())
        try:
            if timeout is None:
                await asyncio.wait((waiting,))
            timed_out = timeout is not None and not await within(self._peer.clock, timeout, waiting)
            if timed_out:
                await self.kill()
                await within(self._peer.clock, RELEASE_BOUND, waiting)
            status = waiting.result() if waiting.done() else None
            printed = await self.output()
        finally:
            if not waiting.done():
                waiting.cancel()
                await asyncio.wait((waiting,))
        ended = status or printed.exit_status
        return CommandResult(
            printed.output,
            printed.truncated,
            None if not ended or ended.exit_code is UNSET else ended.exit_code,
            None if not ended or ended.signal is UNSET else ended.signal,
            timed_out,
        )

    async def _create(self) -> None:
        try:
            answer = await self._peer.call("terminal/create", self._params, key=self._session_id)
        except (RpcError, BadAnswer, ConnectionClosed) as error:
            self._failure = error
            return
        self.id = answer.terminal_id
        if self.released:
            await self._release()

    async def _release_within(self, seconds: float) -> None:
        if self.released or not self.id:
            return
        self.released = True
        await within(self._peer.clock, seconds, self._peer.own(self._release()))

    async def _release(self) -> None:
        params = ReleaseTerminalRequest(self._session_id, self.id)
        try:
            await self._peer.call("terminal/release", params, key=self._session_id)
        except (RpcError, BadAnswer, ConnectionClosed):
            pass  # the client has forgotten it already, or is gone

    def _live_id(self) -> str:
        if not self.id or self.released:
            raise UsageError("the terminal is not there: use it inside its `async with` block")
        return self.id


async def run_terminal(
    terminal: ClientTerminal, timeout: float | None, call: "ToolCallScope | None"
) -> CommandResult:
    """Run a command from start to end, shown in the tool call if one is given."""
    async with terminal:
        if call is not None:
            await call.terminal(terminal)
        return await terminal.finish(timeout)


# MERGED agent.mcp: Unstable. MCP servers that the client itself offers: one request at a time goes through the connection.

News = Callable[[str, Mapping[str, Any]], object]
"""Hears the method and the parameters of a notification that belongs to a running request."""


async def mcp_request(
    peer: "ClientPeer",
    session: "AgentSession",
    server_id: str,
    method: str,
    params: Mapping[str, Any] | None,
    on_notification: News | None,
) -> Any:
    """Call a method of such a server and return its result; an error of the method is raised as RpcError."""
    declared = [server.server_id for server in session.mcp_servers if isinstance(server, McpServerAcp)]
    if server_id not in declared:
        raise UsageError(f"session {session.id} has no acp server {server_id!r}; it has {declared}")
    request_id = os.urandom(8).hex()
    if on_notification is not None:
        peer.mcp_news[server_id, request_id] = on_notification
    try:
        message = MessageMcpRequest(server_id, request_id, method, UNSET if params is None else dict(params))
        answer: MessageMcpResponse = await peer.call("mcp/message", message, key=None)
    finally:
        peer.mcp_news.pop((server_id, request_id), None)
    if isinstance(answer, McpFailure):
        error = answer.error
        raise RpcError.of(error.code, error.message, *(() if error.data is UNSET else (error.data,)))
    return answer.result


def mcp_heard(peer: "ClientPeer", params: MessageMcpNotification) -> None:
    """News about a running request; late ones are dropped."""
    listener = peer.mcp_news.get((params.server_id, params.request_id))
    if listener is not None:
        listener(params.method, params.params or {})
