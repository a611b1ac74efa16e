"""Everything for writing an agent: `Agent`, its sessions and turns, and the client it talks to."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from accord.agent.agent_session import AgentSession
from accord.agent.app import Agent, AgentConnection, AgentOptions
from accord.agent.capabilities import AgentFeatures, unknown_session
from accord.agent.client import Client, SessionClient
from accord.agent.decorators import ClientRequest
from accord.agent.session_updates import Compaction, Subagent
from accord.agent.tool_call_scope import PermissionAnswer, ToolCallScope
from accord.agent.turn import Turn
from accord.lazy_names import lazy_names

if TYPE_CHECKING:
    from accord.agent.client_services import ClientTerminal, CommandResult

__all__ = [
    "Agent", "AgentConnection", "AgentFeatures", "AgentOptions", "AgentSession", "Client", "ClientRequest",
    "ClientTerminal", "CommandResult", "Compaction", "PermissionAnswer", "SessionClient", "Subagent",
    "ToolCallScope", "Turn", "unknown_session",
]  # fmt: skip

# Not loaded before `initialize` is answered.
__getattr__: Callable[[str], object] = lazy_names(
    __name__, {"accord.agent.client_services": "ClientTerminal CommandResult"}
)
