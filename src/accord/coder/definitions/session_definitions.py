"""The skills and custom agents of one session, and what they change in its turns."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from accord.coder.context.compaction import ASSUMED_SIZE
from accord.coder.context.history_summary import loaded_skills
from accord.coder.definitions.agents import SMALL_MODEL, AgentDefinition
from accord.coder.definitions.definition_folders import agent_folders
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

if TYPE_CHECKING:
    from accord.coder.permissions.permission_gate import PermissionGate
    from accord.coder.session.coder_session import CoderSession


class SessionDefinitions:
    """The skills and custom agents of one session. Call `load` before each turn: it reads the files."""

    def __init__(self, session: "CoderSession", gate: "PermissionGate") -> None:
        self.skills: SkillSet = SkillSet()
        self._session = session
        self._gate = gate

    async def load(self) -> None:
        """Read the files again, and offer the agents as modes."""
        session = self._session
        cwd = session.agent_session.cwd
        await asyncio.to_thread(self.skills.load, cwd)
        if session.knows_agents or agent_folders().exist(cwd):
            await asyncio.to_thread(session.agents.load, cwd)
            await offer_agents(session)

    @property
    def subagents(self) -> Sequence[AgentDefinition]:
        """The custom agents for sub-agents."""
        return self._session.agents.subagents if self._session.knows_agents else ()

    @property
    def problems(self) -> list[str]:
        """One line for each file that is not used, or used in another way than it says."""
        agents = self._session.agents.problems if self._session.knows_agents else []
        return self.skills.problems + agents

    def subagent(self, name: str) -> AgentDefinition:
        """The custom agent for a task. Raises ToolFailure."""
        for agent in self.subagents:
            if agent.name == name:
                return agent
        names = ", ".join(agent.name for agent in self.subagents) or "none"
        raise ToolFailure(f"there is no agent {name[:100]!r}; the agents are: {names}")

    def tools(self, tools: Mapping[str, Tool], agent: AgentDefinition | None) -> dict[str, Tool]:
        """The tools without those that the agent, or the agent that is the mode, does not have."""
        agents = [one for one in (self._session.agent, agent) if one is not None]
        kept = {name: tool for name, tool in tools.items() if all(one.tools.keeps(name) for one in agents)}
        if kept.pop(SKILL.name, None) is not None and self.skills.for_model:
            names = tuple(skill.name for skill in self.skills.for_model)
            kept[SKILL.name] = ToolWithChoices(SKILL, "name", names)
        if AGENT.name in kept and self.subagents:
            lines = [f"- {one.name}: {one.description}" for one in self.subagents]
            more = "\n".join(["Values of `agent`, for tasks that fit:", *lines])
            kept[AGENT.name] = ToolWithChoices(
                AGENT, "agent", tuple(one.name for one in self.subagents), more
            )
        return kept

    async def model(self, agent: AgentDefinition | None, model: Model, small_model: Model) -> Model:
        """The model of a custom agent; `model` if it names none. Raises ModelError, with the agent."""
        if agent is None or agent.model is None:
            return model
        if agent.model.casefold() == SMALL_MODEL:
            return small_model
        models = self._session.resources.models
        try:
            return await models.resolve(models.find(agent.model, self._session.model.provider))
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
