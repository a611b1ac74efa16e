"""`acp.json`: the configured agents, their commands and their permissions.

agents = load(folder, trust=ask)
async with agents["claude"].connect(folder) as agent: ...

Names are imported on first use: threads import modules of this package.
"""

from typing import TYPE_CHECKING

from accord.lazy_names import LazyGetattr, lazy_names

if TYPE_CHECKING:
    from accord.frontend.agent_config.acp_file import AgentConfigFile, project_file, user_file
    from accord.frontend.agent_config.agent_entry import ConfiguredAgent, McpEntry
    from accord.frontend.agent_config.config_values import BadAgentConfig
    from accord.frontend.agent_config.configured_agents import ConfiguredAgents, UnknownAgent, load
    from accord.frontend.agent_config.project_trust import (
        NotTrusted,
        TrustCallback,
        ask,
        leave_out,
        once,
        refuse,
    )

__all__ = [
    "AgentConfigFile", "BadAgentConfig", "ConfiguredAgent", "ConfiguredAgents", "McpEntry", "NotTrusted",
    "TrustCallback", "UnknownAgent", "ask", "leave_out", "load", "once", "project_file", "refuse",
    "user_file",
]  # fmt: skip

__getattr__: LazyGetattr = lazy_names(
    __name__,
    {
        "accord.frontend.agent_config.acp_file": "AgentConfigFile project_file user_file",
        "accord.frontend.agent_config.agent_entry": "ConfiguredAgent McpEntry",
        "accord.frontend.agent_config.config_values": "BadAgentConfig",
        "accord.frontend.agent_config.configured_agents": "ConfiguredAgents UnknownAgent load",
        "accord.frontend.agent_config.project_trust": "NotTrusted TrustCallback ask leave_out once refuse",
    },
)
