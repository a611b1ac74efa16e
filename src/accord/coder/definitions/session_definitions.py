"""The skills and custom agents of one session, and what they change in its turns."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from accord.coder.context.compaction import ASSUMED_SIZE
from accord.coder.context.history_summary import loaded_skills
from accord.coder.definitions.agents import SMALL_MODEL, AgentDefinition
from accord.coder.definitions.definition_folders import agent_folders, project_chain
from accord.coder.definitions.skills import SkillSet
from accord.coder.model_history import Message, ModelHistory
from accord.coder.models.model import Model, ModelError
from accord.coder.models.model_registry import UnknownModel
from accord.coder.session.session_options import offer_agents
from accord.coder.tools.agent import AGENT
from accord.coder.tools.builtin_tool import ToolWithChoices
from accord.coder.tools.skill import SKILL
from accord.coder.tools.tool import Tool, ToolFailure
from accord.coder.tools.tool_context import UseSkill
from accord.paths import config_folder

if TYPE_CHECKING:
    from accord.coder.acp_agents.agent_model import AgentModel
    from accord.coder.acp_agents.agent_pool import AgentPool
    from accord.coder.permissions.permission_gate import PermissionGate
    from accord.coder.session.coder_session import CoderSession


class SessionDefinitions:
    """The skills and custom agents of one session. Call `load` before each turn: it reads the files."""

    def __init__(self, session: "CoderSession", gate: "PermissionGate") -> None:
        self.skills: SkillSet = SkillSet()
        self.external_agents: dict[str, str] = {}
        """The other ACP agents for tasks: their names in `acp.json`, by what the model calls them."""
        self._session = session
        self._gate = gate
        self._pool: AgentPool | None = None
        self._agent_model: AgentModel | None = None
        self._external_lines: list[str] = []

    async def load(self) -> None:
        """Read the files again, and offer the agents as modes."""
        session = self._session
        cwd = session.agent_session.cwd
        await asyncio.to_thread(self.skills.load, cwd)
        if session.knows_agents or agent_folders().exist(cwd):
            await asyncio.to_thread(session.agents.load, cwd)
            await offer_agents(session)
        await self._load_external()

    def pool(self) -> "AgentPool":
        """The processes of other agents."""
        if self._pool is None:
            from accord.coder.acp_agents.agent_pool import AgentPool

            self._pool = AgentPool(self._session)
        return self._pool

    async def agent_model(self, name: str) -> "AgentModel":
        """The agent that answers in place of a model."""
        await asyncio.to_thread(import_module, "accord.coder.acp_agents.agent_model")
        from accord.coder.acp_agents.agent_model import AgentModel

        pool = self.pool()
        await asyncio.to_thread(pool.load)
        if self._agent_model is None or self._agent_model.name != name:
            self._agent_model = AgentModel(pool, self._session, self._gate, name)
        return self._agent_model

    def conversation_rewound(self) -> None:
        """Let the agent that answers begin anew: it cannot forget what was taken back."""
        self._agent_model = None
        self._session.use_remote_session(None)

    async def aclose(self) -> None:
        """End the other agents."""
        if self._pool is not None:
            await self._pool.aclose()

    async def _load_external(self) -> None:
        """Read which other agents there are, if there is an `acp.json`."""
        if self._pool is None and not _has_agent_list(self._session.agent_session.cwd):
            return
        await asyncio.to_thread(import_module, "accord.coder.acp_agents.agent_pool")
        pool = self.pool()
        await asyncio.to_thread(pool.load)
        taken = {agent.name for agent in self.subagents}
        named = {name if name not in taken else f"acp:{name}": name for name in pool.names}
        self.external_agents = named
        self._external_lines = [f"- {shown}: {pool.names[name]}" for shown, name in named.items()]

    @property
    def subagents(self) -> Sequence[AgentDefinition]:
        """The custom agents for sub-agents."""
        return self._session.agents.subagents if self._session.knows_agents else ()

    @property
    def problems(self) -> list[str]:
        """One line for each file that is not used, or used in another way than it says."""
        agents = self._session.agents.problems if self._session.knows_agents else []
        other = [self._pool.problem] if self._pool is not None and self._pool.problem else []
        return self.skills.problems + agents + other

    def subagent(self, name: str) -> AgentDefinition:
        """The custom agent for a task. Raises ToolFailure."""
        for agent in self.subagents:
            if agent.name == name:
                return agent
        names = ", ".join([*(agent.name for agent in self.subagents), *self.external_agents]) or "none"
        raise ToolFailure(f"there is no agent {name[:100]!r}; the agents are: {names}")

    def tools(self, tools: Mapping[str, Tool], agent: AgentDefinition | None) -> dict[str, Tool]:
        """The tools without those that the agent, or the agent that is the mode, does not have."""
        agents = [one for one in (self._session.agent, agent) if one is not None]
        kept = {name: tool for name, tool in tools.items() if all(one.tools.keeps(name) for one in agents)}
        if kept.pop(SKILL.name, None) is not None and self.skills.for_model:
            names = tuple(skill.name for skill in self.skills.for_model)
            kept[SKILL.name] = ToolWithChoices(SKILL, "name", names)
        if AGENT.name in kept and (self.subagents or self.external_agents):
            lines = [f"- {one.name}: {one.description}" for one in self.subagents] + self._external_lines
            more = "\n".join(["Values of `agent`, for tasks that fit:", *lines])
            kept[AGENT.name] = ToolWithChoices(
                AGENT, "agent", (*(one.name for one in self.subagents), *self.external_agents), more
            )
        return kept

    async def model(self, agent: AgentDefinition | None, model: Model, small_model: Model) -> Model:
        """The model of a custom agent; `model` if it names none. Raises ModelError, with the agent."""
        if agent is None or agent.model is None:
            return model
        if agent.model.casefold() == SMALL_MODEL:
            return small_model
        models = self._session.resources.models
        provider = self._session.model.provider
        if agent.model.startswith("claude-") and models.kind_of(self._session.model) != "anthropic":
            provider = "anthropic"  # a file of Claude Code, while the session works with another provider
        try:
            return await models.resolve(models.find(agent.model, provider))
        except UnknownModel as error:
            raise ModelError("other", f"the agent {agent.name} ({agent.display_path}): {error}") from None
        except ModelError as error:
            raise ModelError(error.kind, f"the agent {agent.name} ({agent.display_path}): {error}") from None

    # -- skills ----------------------------------------------------------------------------------------------

    def skill_loader(self, history: ModelHistory, model: Model) -> UseSkill:
        """Return a function that loads skills for the loop with this history."""
        window = model.context_size or ASSUMED_SIZE

        async def use_skill(name: str, arguments: str) -> str:
            skill, text = await asyncio.to_thread(
                self.skills.load_for_model, name, arguments, list(history.messages), window
            )
            self.allow_reading(skill.folder)
            return text

        return use_skill

    def allow_folders(self, messages: Sequence[Message]) -> None:
        """Let tools read the files beside the loaded skills."""
        headings = [text.partition("\n")[0] for text in loaded_skills(messages)]
        for skill in self.skills.usable.values():
            if any(skill.heading in heading for heading in headings):
                self.allow_reading(skill.folder)

    def allow_reading(self, folder: str) -> None:
        """Let tools read a folder outside the session's folders without a question."""
        directories, path = self._gate.directories, Path(folder)
        if path not in directories.readable:
            self._gate.directories = replace(directories, readable=(*directories.readable, path))


def _has_agent_list(cwd: str) -> bool:
    """Whether there is an `acp.json` of the user or the project. Reads no file."""
    folders = (config_folder(), *project_chain(cwd))
    return any(os.path.lexists(os.path.join(folder, "acp.json")) for folder in folders)
