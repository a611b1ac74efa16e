"""What one needs to write an agent: the app object, the sessions, the turn and what can be done in it."""

from .app import Agent
from .capabilities import Accepts
from .client import Client, SessionClient
from .connection import AgentConnection
from .opening import unknown_session
from .options import AgentOptions
from .permission import PermissionAnswer
from .request import ClientRequest
from .session import AgentSession
from .toolcall import ToolCallScope
from .turn import Turn

__all__ = [
    "Accepts",
    "Agent",
    "AgentConnection",
    "AgentOptions",
    "AgentSession",
    "Client",
    "ClientRequest",
    "PermissionAnswer",
    "SessionClient",
    "ToolCallScope",
    "Turn",
    "unknown_session",
]
