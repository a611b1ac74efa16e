"""Everything for writing an agent: `Agent`, its sessions and turns, and the client it talks to."""

from accord.agent.agent_session import AgentSession
from accord.agent.app import Agent, AgentConnection, AgentOptions
from accord.agent.capabilities import AgentFeatures, unknown_session
from accord.agent.client import Client, SessionClient
from accord.agent.decorators import ClientRequest
from accord.agent.tool_call_scope import PermissionAnswer, ToolCallScope
from accord.agent.turn import Turn

__all__ = [
    "Agent", "AgentConnection", "AgentFeatures", "AgentOptions", "AgentSession", "Client", "ClientRequest",
    "PermissionAnswer", "SessionClient", "ToolCallScope", "Turn", "unknown_session",
]  # fmt: skip
