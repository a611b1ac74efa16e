"""Unstable. MCP servers that the client itself offers: one request at a time goes through the connection."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from accord.errors import RpcError, UsageError
from accord.schema.mcp import (
    McpFailure,
    McpServerAcp,
    MessageMcpNotification,
    MessageMcpRequest,
    MessageMcpResponse,
)

if TYPE_CHECKING:
    from .peer import Peer
    from .session import AgentSession

News = Callable[[str, Mapping[str, Any]], object]
"""Hears the method and the parameters of a notification that belongs to a running request."""


async def mcp_request(
    peer: "Peer",
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


def mcp_heard(peer: "Peer", params: MessageMcpNotification) -> None:
    """News about a running request; late ones are dropped."""
    listener = peer.mcp_news.get((params.server_id, params.request_id))
    if listener is not None:
        listener(params.method, params.params or {})
