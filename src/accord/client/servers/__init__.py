"""`acp.json`: which agents can be launched, with what, and what each may do.

servers = load(folder, trust=ask)
async with servers["claude"].connect(folder) as agent: ...
"""

from accord.client.servers.forms import BadServers
from accord.client.servers.mcp import McpEntry
from accord.client.servers.reading import ServersFile, project_file, user_file
from accord.client.servers.server import Server
from accord.client.servers.servers import Servers, UnknownAgent, load
from accord.client.servers.trusting import NotTrusted, Trusting, ask, leave_out, once, refuse

__all__ = [
    "BadServers",
    "McpEntry",
    "NotTrusted",
    "Server",
    "Servers",
    "ServersFile",
    "Trusting",
    "UnknownAgent",
    "ask",
    "leave_out",
    "load",
    "once",
    "project_file",
    "refuse",
    "user_file",
]
