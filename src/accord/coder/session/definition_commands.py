"""Skills as slash commands; `/skills`, `/agents` and `/hooks`, which list what there is and ask about the
project's files.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from accord.agent.turn import Turn
from accord.coder.context.compaction import ASSUMED_SIZE
from accord.coder.definitions.agents import AgentDefinition
from accord.coder.definitions.definition_files import DefinitionSet
from accord.coder.definitions.skills import Skill
from accord.coder.model_history import TextPart
from accord.coder.permissions.project_files import ProjectFile, ProjectFiles, ask_trust, trust_asker
from accord.coder.session.slash_commands import BuiltInCommand, CommandReply, ModelPrompt, attachments
from accord.policy.trust_store import TrustStore
from accord.safe_text import one_line

if TYPE_CHECKING:
    from accord.coder.turn.session_runtime import SessionRuntime

_UNTRUSTED: Final = "A skill of this project that you have not trusted yet: you are asked before it is used"
_DEFAULT_HINT: Final = "what to apply it to"


@dataclass(frozen=True, slots=True)
class SkillCommand:
    """A skill as a slash command."""

    name: str
    skill: Skill

    @property
    def description(self) -> str:
        """The description. Menus show nothing from an untrusted file."""
        return _UNTRUSTED if self.skill.untrusted is not None else self.skill.description

    @property
    def hint(self) -> str | None:
        return self.skill.hint or _DEFAULT_HINT

    @property
    def details(self) -> list[str]:
        """Lines for `/help` with the name of the command."""
        lines = [f"Skill in `{self.skill.display_path}`."]
        if self.skill.allowed_tools:
            lines.append(
                f"It asks to use without a question: `{self.skill.allowed_tools}`. This is not granted."
            )
        if not self.skill.for_model:
            lines.append("Only you can start it.")
        return lines

    async def run(self, text: str, turn: Turn, runtime: "SessionRuntime", /) -> CommandReply | ModelPrompt:
        """Give the skill to the model; first ask the user to trust the file if needed."""
        skill = self.skill
        if skill.untrusted is not None:
            if not await _ask(turn, runtime, [skill.untrusted]):
                return CommandReply(
                    f"`/{self.name}` was not used: it is a file of the project, `{skill.display_path}`, "
                    "and you have not trusted it. Type it again to be asked again."
                )
            found = next(
                (one for one in runtime.definitions.skills.usable.values() if one.path == skill.path), None
            )
            if found is None:
                problems = [
                    line for line in runtime.definitions.skills.problems if skill.display_path in line
                ]
                return CommandReply("\n".join(["The skill is trusted, but cannot be used:", *problems]))
            skill = found
        if not skill.for_user:
            return CommandReply(f"The skill `{skill.name}` is trusted now. Only the model loads it.")
        model = await runtime.model()
        prompt = skill.prompt(text, model.context_size or ASSUMED_SIZE)
        runtime.definitions.allow_reading(skill.folder)
        typed = f"/{skill.name} {text}".strip()
        return ModelPrompt((TextPart(prompt), TextPart(typed), *await attachments(turn, runtime)))


def skill_commands(skills: Sequence[Skill], taken: Collection[str]) -> list[SkillCommand]:
    """The commands of skills. One whose name is taken becomes `skill:NAME`."""
    commands: dict[str, SkillCommand] = {}
    for skill in skills:
        if not skill.for_user:
            continue
        name = skill.name
        if name.casefold() in taken or name.casefold() in commands:
            name = f"skill:{name}"
        commands.setdefault(name.casefold(), SkillCommand(name, skill))
    return list(commands.values())


async def run_skills(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/skills`: list the skills; `/skills trust`: ask about those of the project."""
    skills = runtime.definitions.skills
    lines = [f"- {_skill_line(skill)}" for skill in skills.usable.values()]
    if not lines and not skills.waiting and not skills.problems:
        return CommandReply(
            "There are no skills. A skill is a folder with a `SKILL.md`, for example in `.agents/skills/` of "
            "the project or of your home folder."
        )
    if text.strip() != "trust":
        return _reply("skills", lines, skills)
    if (problem := await _trust_waiting(turn, runtime, skills, "skills")) is not None:
        return problem
    return _reply("skills", [f"- {_skill_line(skill)}" for skill in skills.usable.values()], skills)


async def run_agents(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/agents`: list the custom agents; `/agents trust`: ask about those of the project."""
    agents = runtime.session.agents
    lines = [f"- {_agent_line(agent)}" for agent in agents.usable.values()]
    if not lines and not agents.waiting and not agents.problems:
        return CommandReply(
            "There are no custom agents. One is a Markdown file, for example in `.accord/agents/` of the "
            "project, or in `agents/` of your config folder."
        )
    if text.strip() != "trust":
        return _reply("agents", lines, agents)
    if (problem := await _trust_waiting(turn, runtime, agents, "agents")) is not None:
        return problem
    return _reply("agents", [f"- {_agent_line(agent)}" for agent in agents.usable.values()], agents)


async def run_hooks(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/hooks`: list the hooks; `/hooks trust`: ask again about the files of the project."""
    if text.strip() == "trust":
        if runtime.project is None or not runtime.project.untrusted:
            return CommandReply("There is nothing to trust: no file of this project waits for it.")
        await runtime.load_project_files(turn, again=True)
    hooks = [] if runtime.hooks is None else runtime.hooks.set.hooks
    lines = [
        f"- {hook.event}{f' of `{one_line(hook.matcher, 80)}`' if hook.matcher else ''}: "
        f"`{one_line(hook.line, 200)}` ({hook.source})"
        for hook in hooks
    ]
    waiting = [] if runtime.project is None else list(runtime.project.untrusted)
    if not lines and not waiting:
        return CommandReply("There are no hooks. Yours are in `hooks.json` of your config folder.")
    shown = ["Hooks:", "", *lines, ""] if lines else []
    if waiting:
        shown += ["Of this project, not used before you trust them (`/hooks trust`):", ""]
        shown += [f"- `{name}`" for name in waiting]
    return CommandReply("\n".join(shown).rstrip())


async def _trust_waiting(
    turn: Turn, runtime: "SessionRuntime", definitions: DefinitionSet[Any], kind: str
) -> CommandReply | None:
    """Ask about the files of the project that wait for trust. Returns the reply if nothing changed."""
    files = [one.untrusted for one in definitions.waiting if one.untrusted is not None]
    if not files:
        return CommandReply(f"There is nothing to trust: none of this project's {kind} waits for it.")
    if not await _ask(turn, runtime, files):
        return CommandReply(f"Nothing was trusted. Type `/{kind} trust` to be asked again.")
    await runtime.offer_commands()
    return None


def _reply(kind: str, lines: Sequence[str], definitions: DefinitionSet[Any]) -> CommandReply:
    shown = [f"{kind.capitalize()}:", "", *lines, ""] if lines else []
    if definitions.waiting:
        waiting = [f"- `{one.name}` in `{one.display_path}`" for one in definitions.waiting]
        shown += [f"Of this project, not used before you trust them (`/{kind} trust`):", "", *waiting, ""]
    if definitions.problems:
        shown += ["Remarks:", "", *(f"- {problem}" for problem in definitions.problems)]
    return CommandReply("\n".join(shown).rstrip())


def _agent_line(agent: AgentDefinition) -> str:
    marks = [f"in `{agent.display_path}`"]
    if agent.mode is not None:
        marks.append(f"at most mode `{agent.mode}`")
    if agent.model is not None:
        marks.append(f"model `{agent.model}`")
    if agent.tools.allowed is not None:
        marks.append(f"tools: {', '.join(agent.tools.allowed) or 'none'}")
    if agent.tools.denied:
        marks.append(f"without {', '.join(agent.tools.denied)}")
    if not agent.as_mode:
        marks.append("only for sub-agents")
    if not agent.as_subagent:
        marks.append("only as a mode")
    return f"`{agent.name}`: {agent.description} ({'; '.join(marks)})"


def _skill_line(skill: Skill) -> str:
    marks = [f"in `{skill.display_path}`"]
    if not skill.for_model:
        marks.append("only you can start it")
    if not skill.for_user:
        marks.append("only the model can load it")
    if skill.allowed_tools:
        marks.append(f"its `allowed-tools` ({skill.allowed_tools}) permit nothing")
    return f"`{skill.name}`: {skill.description} ({'; '.join(marks)})"


async def _ask(turn: Turn, runtime: "SessionRuntime", untrusted: Sequence[ProjectFile]) -> bool:
    """Ask the user to trust files, and read the skills again after a yes."""
    files = ProjectFiles(untrusted, {}, TrustStore())
    if not await ask_trust(files, trust_asker(turn), clock=runtime.session.clock):
        return False
    await runtime.commands.load()
    return True


AGENTS: Final = BuiltInCommand(
    "agents", "Show the custom agents, or trust those of this project", "[trust]", run_agents
)
HOOKS: Final = BuiltInCommand(
    "hooks", "Show the hooks, or trust the files of this project", "[trust]", run_hooks
)
SKILLS: Final = BuiltInCommand(
    "skills", "Show the skills, or trust those of this project", "[trust]", run_skills
)
