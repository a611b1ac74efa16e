"""Unstable. MCP servers that the client itself offers: the agent calls their methods by `mcp/message`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from accord.schema import (
    McpError,
    McpFailure,
    McpResult,
    MessageMcpNotification,
    MessageMcpRequest,
)


class McpMethodFailed(Exception):
    """Raise it in an `McpService`: the method itself failed, which the agent's MCP client is told as such."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = McpError(code, message) if data is None else McpError(code, message, data)


@dataclass(slots=True)
class McpCall:
    """One MCP request while it is served."""

    method: str
    params: dict[str, Any] | None
    sent: MessageMcpRequest
    send: Callable[[MessageMcpNotification], None]
    active: bool = True

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tell the caller something about this request, such as its progress; nothing is sent once it is answered."""
        if self.active:
            self.send(MessageMcpNotification(self.sent.server_id, self.sent.request_id, method, params))


McpService: TypeAlias = Callable[[McpCall], Awaitable[Any]]
"""Serves the methods of one MCP server: gives the result as plain JSON values, or raises `McpMethodFailed`."""


async def serve(service: McpService, call: McpCall) -> McpResult | McpFailure:
    """One request, answered with exactly one of a result and an error."""
    try:
        return McpResult(await service(call))
    except McpMethodFailed as failure:
        return McpFailure(failure.error)
    finally:
        call.active = False
