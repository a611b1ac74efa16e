"""MCP servers of a session: started and reached, their tools, resources and prompts put to use.

`McpHost` is the way in; what the session gives it is in `hooks.py`. The `mcp` package is imported only by `live/`, in a
thread, when the first session has servers.
"""

from accord.coder.mcp.hooks import AcpRequest, McpFailure, McpHooks, McpLimits, ServerState, Status
from accord.coder.mcp.host import McpHost
from accord.coder.mcp.prompt import McpPrompt

__all__ = [
    "AcpRequest",
    "McpFailure",
    "McpHooks",
    "McpHost",
    "McpLimits",
    "McpPrompt",
    "ServerState",
    "Status",
]
