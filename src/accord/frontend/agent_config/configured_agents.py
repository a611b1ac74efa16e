"""All agents that can be started in a directory.

The project's file overrides the user's; then come the built-in agent and the catalog.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from accord.errors import UsageError
from accord.frontend.agent_config.acp_file import AgentConfigFile, project_file, read_file, user_file
from accord.frontend.agent_config.agent_entry import ConfiguredAgent, McpEntry, built_in, from_catalog
from accord.frontend.agent_config.config_values import BadAgentConfig
from accord.frontend.agent_config.project_trust import TrustCallback, refuse
from accord.frontend.known_agents import BUILT_IN, canonical_name, catalog, find_known_agent, known_agent_of
from accord.policy.trust_store import TrustStore


class UnknownAgent(UsageError):
    """No agent has this name; the message suggests similar names."""


class ConfiguredAgents:
    """The agents of one directory. `agents["name"]` is one of them, `agents.default` the default agent."""

    def __init__(
        self,
        user: AgentConfigFile | None = None,
        project: AgentConfigFile | None = None,
        untrusted_file: AgentConfigFile | None = None,
    ) -> None:
        self.user: AgentConfigFile | None = user
        self.project: AgentConfigFile | None = project
        self.untrusted_file: AgentConfigFile | None = untrusted_file
        """A project's file that is ignored, because the user does not trust it."""
        files = [file for file in (user, project) if file is not None]
        self.notes: list[str] = [note for file in files for note in file.agent_list.notes]
        """Messages about known keys that have no effect here."""
        self._configured: dict[str, ConfiguredAgent] = {}
        for file in files:
            for agent in file.agents:
                self._add(agent)
        common = {entry.name: entry for file in files for entry in file.mcp}
        self._common_mcp = tuple(common.values())
        self._default = self._find_default(files)

    @property
    def default(self) -> ConfiguredAgent:
        """The agent that runs if none is named."""
        return self[self._default]

    @property
    def configured(self) -> list[ConfiguredAgent]:
        """The agents of the files and the built-in one."""
        built_in_agents = [] if BUILT_IN in self._configured else [built_in()]
        return [self._with_mcp(agent) for agent in (*built_in_agents, *self._configured.values())]

    @property
    def known_only(self) -> list[ConfiguredAgent]:
        """The agents of the catalog that are in no file."""
        return [
            self._with_mcp(from_catalog(known)) for known in catalog() if known.id not in self._configured
        ]

    def __iter__(self) -> Iterator[ConfiguredAgent]:
        yield from self.configured
        yield from self.known_only

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def __getitem__(self, name: str) -> ConfiguredAgent:
        """The agent with this name or alias; ignores case. Raises UnknownAgent."""
        agent = self._find(name)
        if agent is None:
            raise UnknownAgent(self._unknown(name))
        return self._with_mcp(agent)

    def _find(self, name: str) -> ConfiguredAgent | None:
        if (agent := self._configured.get(canonical_name(name))) is not None:
            return agent
        if name.casefold() == BUILT_IN:
            return built_in()
        known = find_known_agent(name)
        return None if known is None else from_catalog(known)

    def _unknown(self, name: str) -> str:
        import difflib

        names = [agent.name for agent in self]
        similar = difflib.get_close_matches(name.casefold(), names, n=3)
        hint = f"did you mean {', '.join(similar)}?" if similar else "`accord agents list` shows all"
        text = f"unknown agent {name!r}; {hint}"
        if self.untrusted_file is not None and self.untrusted_file.contains(name):
            text = (
                f"the agent {name!r} is in {self.untrusted_file.path}, which is not trusted; "
                "run `accord agents trust` to allow it"
            )
        return text

    def _add(self, agent: ConfiguredAgent) -> None:
        """Add an agent. A project's entry replaces the user's entry, but not the user's permissions."""
        key = canonical_name(agent.name)
        if agent.origin == "project":
            user_entry = self._configured.get(key) or self._user_entry_for(agent)
            unattended = user_entry.unattended if user_entry is not None else None
            if agent.unattended == "none":
                unattended = "none"
            agent = replace(
                agent,
                permissions=user_entry.permissions if user_entry is not None else None,
                unattended=unattended,
            )
        self._configured[key] = agent

    def _user_entry_for(self, agent: ConfiguredAgent) -> ConfiguredAgent | None:
        """The user's entry for the known agent that this entry starts under another name."""
        known = known_agent_of(agent.command) if agent.command else None
        return None if known is None else self._configured.get(known.id)

    def _with_mcp(self, agent: ConfiguredAgent) -> ConfiguredAgent:
        """Add the MCP servers that every agent gets; its own entries override those."""
        mcp: dict[str, McpEntry] = {entry.name: entry for entry in (*self._common_mcp, *agent.mcp)}
        return replace(agent, mcp=tuple(mcp.values()))

    def _find_default(self, files: list[AgentConfigFile]) -> str:
        name = BUILT_IN
        for file in files:
            if file.agent_list.default is not None:
                key, name = file.agent_list.default
                if name not in self:
                    raise BadAgentConfig(str(file.path), key, self._unknown(name))
        return name


def load(cwd: str | os.PathLike[str] = ".", *, trust: TrustCallback = refuse) -> ConfiguredAgents:
    """Load the agents that can be started in this directory.

    `trust` decides about a project's file that the user does not trust yet: `ask`, `once`, `leave_out`, or
    your own function. By default NotTrusted is raised. Raises BadAgentConfig or BadRules for an invalid file.
    """
    user = read_file(user_file(), "user")
    path = project_file(Path(os.path.abspath(cwd)))
    if path is None or os.path.realpath(path) == os.path.realpath(user_file()):
        return ConfiguredAgents(user)
    project = read_file(path, "project")
    if project is None or TrustStore().is_trusted(path, project.content) or trust(project):
        return ConfiguredAgents(user, project)
    return ConfiguredAgents(user, untrusted_file=project)
