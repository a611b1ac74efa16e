"""Unstable. Servers that the client itself offers: each request goes through the connection to the client."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from accord.coder.mcp.hooks import AcpRequest, McpFailure
from accord.coder.mcp.live.streams import Inbox, Outbox
from accord.coder.mcp.terms import Terms
from accord.errors import AccordError, RpcError
from accord.schema.mcp import McpServerAcp


class AcpStreams(Outbox):
    """Both streams: what is sent becomes requests to the client, their answers and their news come back."""

    def __init__(self, server_id: str, request: AcpRequest) -> None:
        super().__init__(self._send)
        self.inbox = Inbox()
        self._server_id = server_id
        self._request = request
        self._running: dict[Any, asyncio.Task[None]] = {}

    def _send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest):
            task = asyncio.ensure_future(self._ask(message))
            self._running[message.id] = task
            task.add_done_callback(lambda _: self._running.pop(message.id, None))
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            task = self._running.get((message.params or {}).get("requestId"))
            if task is not None:
                task.cancel()  # which tells the client; other notifications have no way to it

    async def _ask(self, message: JSONRPCRequest) -> None:
        def heard(method: str, params: Mapping[str, Any]) -> None:
            news = JSONRPCNotification(jsonrpc="2.0", method=method, params=dict(params))
            self.inbox.put(SessionMessage(news))

        try:
            result = await self._request(
                self._server_id, message.method, message.params, on_notification=heard
            )
            answer = JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result)
        except RpcError as error:
            said = ErrorData(code=error.code, message=error.message)
            answer = JSONRPCError(jsonrpc="2.0", id=message.id, error=said)
        except (AccordError, ValueError) as error:
            said = ErrorData(code=CONNECTION_CLOSED, message=str(error))
            answer = JSONRPCError(jsonrpc="2.0", id=message.id, error=said)
        self.inbox.put(SessionMessage(answer))

    async def end(self) -> None:
        """Cancel what is still asked."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        self.inbox.end()


@asynccontextmanager
async def acp_streams(server: McpServerAcp, terms: Terms) -> AsyncGenerator[tuple[Any, Any], None]:
    """The streams to a server of the client."""
    if terms.acp is None:
        raise McpFailure("servers that the client offers over ACP cannot be used here")
    streams = AcpStreams(server.server_id, terms.acp)
    try:
        yield streams.inbox, streams
    finally:
        await streams.end()
