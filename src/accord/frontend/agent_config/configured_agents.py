"""All agents that can be started in a directory.

The project's file overrides the user's; then come the built-in agent and the catalog.
"""

import difflib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from accord.errors import UsageError
from accord.frontend.agent_config.acp_file import AgentConfigFile, project_file, read_file, user_file
from accord.frontend.agent_config.agent_entry import ConfiguredAgent, McpEntry, built_in, of_catalogue
from accord.frontend.agent_config.formats import BadAgentConfig
from accord.frontend.agent_config.project_trust import Trusting, refuse
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
        left_out: AgentConfigFile | None = None,
    ) -> None:
        self.user: AgentConfigFile | None = user
        self.project: AgentConfigFile | None = project
        self.left_out: AgentConfigFile | None = left_out
        """A project's file that is ignored, because the user does not trust it."""
        files = [file for file in (user, project) if file is not None]
        self.notes: list[str] = [note for file in files for note in file.form.notes]
        """Messages about known keys that have no effect here."""
        self._configured: dict[str, ConfiguredAgent] = {}
        for file in files:
            for server in file.servers:
                self._add(server)
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
        own = [] if BUILT_IN in self._configured else [built_in()]
        return [self._with_mcp(server) for server in (*own, *self._configured.values())]

    @property
    def others(self) -> list[ConfiguredAgent]:
        """The agents of the catalog that are in no file."""
        return [
            self._with_mcp(of_catalogue(agent)) for agent in catalog() if agent.id not in self._configured
        ]

    def __iter__(self) -> Iterator[ConfiguredAgent]:
        yield from self.configured
        yield from self.others

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def __getitem__(self, name: str) -> ConfiguredAgent:
        """The agent with this name or alias; ignores case. Raises UnknownAgent."""
        server = self._find(name)
        if server is None:
            raise UnknownAgent(self._unknown(name))
        return self._with_mcp(server)

    def _find(self, name: str) -> ConfiguredAgent | None:
        if (server := self._configured.get(canonical_name(name))) is not None:
            return server
        if name.casefold() == BUILT_IN:
            return built_in()
        agent = find_known_agent(name)
        return None if agent is None else of_catalogue(agent)

    def _unknown(self, name: str) -> str:
        names = [server.name for server in self]
        near = difflib.get_close_matches(name.casefold(), names, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "`accord agents list` shows all"
        text = f"no agent is called {name!r}; {hint}"
        if self.left_out is not None and self.left_out.contains(name):
            text = (
                f"the agent {name!r} is in {self.left_out.path}, which is not trusted; "
                "run `accord agents trust` to allow it"
            )
        return text

    def _add(self, server: ConfiguredAgent) -> None:
        """Add an agent. A project's entry replaces the user's entry, but not the user's permissions."""
        key = canonical_name(server.name)
        if server.origin == "project":
            before = self._configured.get(key) or self._of_program(server)
            unattended = before.unattended if before is not None else None
            if server.unattended == "none":
                unattended = "none"
            server = replace(
                server, permissions=before.permissions if before is not None else None, unattended=unattended
            )
        self._configured[key] = server

    def _of_program(self, server: ConfiguredAgent) -> ConfiguredAgent | None:
        """The user's entry for the known agent that this entry starts under another name."""
        agent = known_agent_of(server.command) if server.command else None
        return None if agent is None else self._configured.get(agent.id)

    def _with_mcp(self, server: ConfiguredAgent) -> ConfiguredAgent:
        """Add the MCP servers that every agent gets; its own entries override those."""
        mcp: dict[str, McpEntry] = {entry.name: entry for entry in (*self._common_mcp, *server.mcp)}
        return replace(server, mcp=tuple(mcp.values()))

    def _find_default(self, files: list[AgentConfigFile]) -> str:
        name = BUILT_IN
        for file in files:
            if file.form.default is not None:
                key, name = file.form.default
                if name not in self:
                    raise BadAgentConfig(str(file.path), key, self._unknown(name))
        return name


def load(cwd: str | os.PathLike[str] = ".", *, trust: Trusting = refuse) -> ConfiguredAgents:
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
    return ConfiguredAgents(user, left_out=project)
