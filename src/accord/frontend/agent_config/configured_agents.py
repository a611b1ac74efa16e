"""All agents that can be launched from a folder: the project's file over the user's, then the built-in one and the catalogue."""

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
from accord.frontend.known_agents import BUILT_IN, catalogue, identity, known, started_by
from accord.policy.trust_store import TrustStore


class UnknownAgent(UsageError):
    """No agent has that name; the text says which are near."""


class ConfiguredAgents:
    """The agents of one folder. `servers["name"]` is one of them, `servers.default` the one that runs when none is named."""

    def __init__(
        self,
        user: AgentConfigFile | None = None,
        project: AgentConfigFile | None = None,
        left_out: AgentConfigFile | None = None,
    ) -> None:
        self.user = user
        self.project = project
        self.left_out = left_out
        """A project's file that does not count, because the user did not agree to it."""
        files = [file for file in (user, project) if file is not None]
        self.notes = [note for file in files for note in file.form.notes]
        """What the files say that has no use here."""
        self._configured: dict[str, ConfiguredAgent] = {}
        for file in files:
            for server in file.servers:
                self._add(server)
        everywhere = {entry.name: entry for file in files for entry in file.mcp}
        self._everywhere = tuple(everywhere.values())
        self._default = self._find_default(files)

    @property
    def default(self) -> ConfiguredAgent:
        """The agent that runs when none is named."""
        return self[self._default]

    @property
    def configured(self) -> list[ConfiguredAgent]:
        """The agents of the files and the built-in one."""
        own = [] if BUILT_IN in self._configured else [built_in()]
        return [self._equipped(server) for server in (*own, *self._configured.values())]

    @property
    def others(self) -> list[ConfiguredAgent]:
        """The agents of the catalogue that no file speaks of."""
        return [
            self._equipped(of_catalogue(agent)) for agent in catalogue() if agent.id not in self._configured
        ]

    def __iter__(self) -> Iterator[ConfiguredAgent]:
        yield from self.configured
        yield from self.others

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def __getitem__(self, name: str) -> ConfiguredAgent:
        """The agent of that name, in any case; a well-known one by any of its names. Raises UnknownAgent."""
        server = self._find(name)
        if server is None:
            raise UnknownAgent(self._unknown(name))
        return self._equipped(server)

    def _find(self, name: str) -> ConfiguredAgent | None:
        if (server := self._configured.get(identity(name))) is not None:
            return server
        if name.casefold() == BUILT_IN:
            return built_in()
        agent = known(name)
        return None if agent is None else of_catalogue(agent)

    def _unknown(self, name: str) -> str:
        names = [server.name for server in self]
        near = difflib.get_close_matches(name.casefold(), names, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "`accord agents list` shows all"
        text = f"no agent is called {name!r}; {hint}"
        if self.left_out is not None and self.left_out.speaks_of(name):
            text = f"the agent {name!r} stands in {self.left_out.path}, which does not count: you have not agreed to it"
        return text

    def _add(self, server: ConfiguredAgent) -> None:
        """A project's agent takes the place of the user's whole entry, but never of the user's permissions."""
        key = identity(server.name)
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
        """What the user says of the well-known agent that this one starts under another name."""
        agent = started_by(server.command) if server.command else None
        return None if agent is None else self._configured.get(agent.id)

    def _equipped(self, server: ConfiguredAgent) -> ConfiguredAgent:
        """With the MCP servers that every agent gets; its own of the same name go before."""
        mcp: dict[str, McpEntry] = {entry.name: entry for entry in (*self._everywhere, *server.mcp)}
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
    """The agents that can be launched from this folder.

    `trust` decides about a project's file that the user has not agreed to: `ask`, `once`, `leave_out`, or a function of
    your own; by default NotTrusted is raised. Raises BadServers and BadRules for a file that cannot be used.
    """
    user = read_file(user_file(), "user")
    path = project_file(Path(os.path.abspath(cwd)))
    if path is None or os.path.realpath(path) == os.path.realpath(user_file()):
        return ConfiguredAgents(user)
    project = read_file(path, "project")
    if project is None or TrustStore().is_trusted(path, project.content) or trust(project):
        return ConfiguredAgents(user, project)
    return ConfiguredAgents(user, left_out=project)
