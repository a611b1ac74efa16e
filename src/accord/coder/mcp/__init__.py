"""MCP servers of a session: started and reached, their tools, resources and prompts put to use.

`McpHost` is the way in; what the session gives it is in `hooks.py`. The `mcp` package is imported only by `live/`, in a
thread, when the first session has servers.
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
