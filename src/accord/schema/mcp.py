"""MCP servers of a session, and MCP messages through the client (unstable).

Loaded before `initialize` is answered: keep heavy imports out.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeAlias

from accord.schema.base import (
    IN_ORDER,
    TAG_OR_REST,
    UNSET,
    Choice,
    Int32,
    McpRequestId,
    McpServerAcpId,
    Object,
    OrEmpty,
    Record,
    Strict,
    unstable,
)
from accord.schema.client_requests import EnvVariable

# The message types of this module, which `accord.schema` exports.
__all__ = [
    "HttpHeader", "McpError", "McpFailure", "McpResult", "McpServer", "McpServerAcp", "McpServerHttp",
    "McpServerSse", "McpServerStdio", "MessageMcpNotification", "MessageMcpRequest", "MessageMcpResponse",
]  # fmt: skip

MCP_VERSION: Final = "2026-07-28"
"""The revision of MCP whose messages `mcp/message` carries."""


class HttpHeader(Object):
    """One header to send along."""

    name: str
    value: str


class McpServerHttp(Object, tag_field="type", tag="http"):
    """A server reached over HTTP. Only if the agent says it can."""

    name: str
    url: str
    headers: OrEmpty[list[HttpHeader]]


class McpServerSse(Object, tag_field="type", tag="sse"):
    """A server reached over HTTP with server-sent events. Only if the agent says it can."""

    name: str
    url: str
    headers: OrEmpty[list[HttpHeader]]


@unstable
class McpServerAcp(Object, tag_field="type", tag="acp"):
    """Unstable. A server that the client itself offers through `mcp/message`."""

    name: str
    server_id: McpServerAcpId


class McpServerStdio(Object):
    """A server started as a program. Every agent can use it."""

    name: str
    command: str
    args: OrEmpty[list[str]]
    env: OrEmpty[list[EnvVariable]]


McpServer: TypeAlias = Choice[McpServerHttp | McpServerSse | McpServerAcp | McpServerStdio, TAG_OR_REST]
"""A server without a known tag must be a stdio server."""


@unstable
class MessageMcpRequest(Object):
    """Unstable. The agent calls an MCP method of a server that the client offers."""

    server_id: McpServerAcpId
    request_id: McpRequestId
    method: str
    params: Strict[dict[str, Any] | None] = UNSET


@unstable
class MessageMcpNotification(Object):
    """Unstable. Progress of a running MCP request. Only before that request is answered."""

    server_id: McpServerAcpId
    request_id: McpRequestId
    method: str
    params: Strict[dict[str, Any] | None] = UNSET


@unstable
class McpError(Record):
    """Unstable. An error of the MCP method itself. MCP may add members, which are ignored."""

    extra_members: ClassVar[bool] = True

    code: Int32
    message: str
    data: Strict[Any] = UNSET


@unstable
class McpResult(Object):
    """Unstable. The result of the MCP method. Null is a valid result."""

    result: Any


@unstable
class McpFailure(Object):
    """Unstable. The MCP method failed. If the message did not reach it, an ordinary error is sent instead."""

    error: McpError


MessageMcpResponse: TypeAlias = Choice[McpResult | McpFailure, IN_ORDER]
"""If a peer sends both members, the result counts."""
