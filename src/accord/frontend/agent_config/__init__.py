"""`acp.json`: the configured agents, their commands and their permissions.

agents = load(folder, trust=ask)
async with agents["claude"].connect(folder) as agent: ...
"""

from accord.frontend.agent_config.acp_file import AgentConfigFile, project_file, user_file
from accord.frontend.agent_config.agent_entry import ConfiguredAgent, McpEntry
from accord.frontend.agent_config.config_values import BadAgentConfig
from accord.frontend.agent_config.configured_agents import ConfiguredAgents, UnknownAgent, load
from accord.frontend.agent_config.project_trust import NotTrusted, TrustCallback, ask, leave_out, once, refuse

__all__ = [
    "AgentConfigFile", "BadAgentConfig", "ConfiguredAgent", "ConfiguredAgents", "McpEntry", "NotTrusted",
    "TrustCallback", "UnknownAgent", "ask", "leave_out", "load", "once", "project_file", "refuse",
    "user_file",
]  # fmt: skip
