"""What the agent did not advertise is not asked of it: calls are refused here, before anything is sent."""

from collections.abc import Iterable
from typing import Any

from accord.errors import NotOffered, UsageError
from accord.schema import (
    AgentCapabilities,
    McpServer,
    McpServerAcp,
    McpServerHttp,
    McpServerSse,
    SystemPrompt,
    TextContent,
)
from accord.schema.codec import to_builtins
from accord.schema.methods import request
from accord.schema.walk import violations


def require(method: str, capabilities: AgentCapabilities) -> None:
    """Refuse a method whose capability is missing, null or not literally true."""
    entry = request("agent", method)
    assert entry is not None, f"{method} is in the method table"
    if not entry.offered(capabilities, None):
        raise NotOffered(f"{method} is not offered by this agent ({' or '.join(entry.gates)} is not set)")


def require_servers(servers: Iterable[McpServer], capabilities: AgentCapabilities) -> None:
    """Refuse MCP servers that the agent has not said it can reach."""
    reach = capabilities.mcp_capabilities or None
    ids: set[str] = set()
    for server in servers:
        if isinstance(server, McpServerHttp) and not (reach and reach.http):
            raise NotOffered(f"the MCP server {server.name!r} needs mcpCapabilities.http, which is not set")
        if isinstance(server, McpServerSse) and not (reach and reach.sse):
            raise NotOffered(f"the MCP server {server.name!r} needs mcpCapabilities.sse, which is not set")
        if isinstance(server, McpServerAcp):
            if not (reach and reach.acp):
                raise NotOffered(
                    f"the MCP server {server.name!r} needs mcpCapabilities.acp, which is not set"
                )
            if server.server_id in ids:
                raise UsageError(
                    f"two MCP servers have the server id {server.server_id!r}; it must be unique"
                )
            ids.add(server.server_id)


def require_roots(roots: tuple[str, ...], capabilities: AgentCapabilities) -> None:
    """Refuse additional directories unless the agent takes them."""
    offered = capabilities.session_capabilities or None
    if roots and not (offered and offered.additional_directories):
        raise NotOffered(
            "additional directories need sessionCapabilities.additionalDirectories, which is not set; "
            "open the session without them"
        )


def require_system_prompt(prompt: SystemPrompt | None, capabilities: AgentCapabilities) -> None:
    """Refuse a system prompt the agent has not said it can apply, and one that is no text."""
    if prompt is None:
        return
    sessions = capabilities.session_capabilities or None
    offered = (sessions.system_prompt or None) if sessions else None
    if offered is None:
        raise NotOffered("a system prompt needs sessionCapabilities.systemPrompt, which is not set")
    if prompt.mode == "override" and not (offered.mode and offered.mode.override):
        raise NotOffered("overriding the system prompt needs sessionCapabilities.systemPrompt.mode.override")
    if prompt.mode not in ("append", "override"):
        raise UsageError(f"a system prompt is appended or overrides; there is no mode {prompt.mode!r}")
    if not prompt.content or not all(isinstance(block, TextContent) for block in prompt.content):
        raise UsageError("a system prompt is made of text blocks, one at least")


def insist_on_validity(method: str, params: Any) -> None:
    """Refuse what would not be valid on the wire: parts of it may be of the caller's making."""
    entry = request("agent", method)
    assert entry is not None, f"{method} is in the method table"
    found = violations(entry.params, to_builtins(params))
    if found:
        raise UsageError(f"{method} cannot be sent like this: {'; '.join(str(item) for item in found[:3])}")
