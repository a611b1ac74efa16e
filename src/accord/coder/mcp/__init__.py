"""The MCP servers of a session: connections, tools, resources and prompts.

`McpHost` is the entry point; `McpHooks` is what the session does for its servers. The `mcp` package is
imported in a thread, when the first session with servers starts.
"""

from accord.coder.mcp.host import McpHost
from accord.coder.mcp.server_features import McpPrompt
from accord.coder.mcp.server_interface import (
    AcpRequest,
    McpHooks,
    McpLimits,
    McpServerFailure,
    ServerState,
    Status,
)

__all__ = [
    "AcpRequest",
    "McpHooks",
    "McpHost",
    "McpLimits",
    "McpPrompt",
    "McpServerFailure",
    "ServerState",
    "Status",
]
