"""The slash commands of a session by name, including skills and those in files of the user and the project.

Built-in commands have priority, then the user's, then the project's, then skills, then the prompts of MCP
servers. A prompt that starts with a slash but names no command is an ordinary prompt.

`/skills`, `/agents` and `/hooks` list what files define, and ask about those of the project.
"""

import asyncio
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accord.agent.agent_session import Command as OfferedCommand
from accord.agent.turn import Turn
from accord.coder.context.compaction import ASSUMED_SIZE
from accord.coder.definitions.agents import AgentDefinition
from accord.coder.definitions.definition_files import DefinitionSet
from accord.coder.definitions.front_matter import read_markdown
from accord.coder.definitions.skills import Skill, fill_prompt, has_placeholder
from accord.coder.mcp.server_interface import clean_line
from accord.coder.model_history import TextPart
from accord.coder.permissions.project_files import (
    ProjectFile,
    ProjectFiles,
    ask_trust,
    project_files,
    read_bounded,
    trust_asker,
)
from accord.coder.session.memory_command import MEMORY
from accord.coder.session.slash_commands import (
    COMPACT,
    HELP,
    INIT,
    MCP,
    MODE,
    MODEL,
    PLAN,
    REDO,
    REWIND,
    TOOLS,
    UNDO,
    USAGE,
    BuiltInCommand,
    CommandReply,
    McpPromptCommand,
    ModelPrompt,
    SlashCommand,
    attachments,
    prompt_with_attachments,
)
from accord.paths import config_dir
from accord.policy.trust_store import TrustStore
from accord.safe_text import one_line

if TYPE_CHECKING:
    from accord.coder.turn.session_runtime import SessionRuntime


_UNTRUSTED_SKILL: Final = (
    "A skill of this project that you have not trusted yet: you are asked before it is used"
)
_SKILL_HINT: Final = "what to apply it to"


@dataclass(frozen=True, slots=True)
class SkillCommand:
    """A skill as a slash command."""

    name: str
    skill: Skill

    @property
    def description(self) -> str:
        """The description. Menus show nothing from an untrusted file."""
        return _UNTRUSTED_SKILL if self.skill.untrusted is not None else self.skill.description

    @property
    def hint(self) -> str | None:
        return self.skill.hint or _SKILL_HINT

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


_LINE_LIMIT: Final = 200


class ParsedCommandFile(NamedTuple):
    """The parsed content of a command file."""

    description: str
    hint: str | None
    prompt: str


def parse_command_file(text: str) -> ParsedCommandFile:
    """Parse a command file. The front matter may set `description` and `argument-hint`.

    Without a description the first line of the prompt is used.
    """
    file = read_markdown(text)
    first_line = next((line.strip(" #*\t") for line in file.body.splitlines() if line.strip(" #*\t")), "")
    return ParsedCommandFile(
        clean_line(file.text("description"), _LINE_LIMIT) or clean_line(first_line, _LINE_LIMIT),
        clean_line(file.text("argument-hint"), _LINE_LIMIT) or None,
        file.body,
    )


_SUFFIX: Final = ".md"
_MAX_FILES: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_UNTRUSTED: Final = "A command of this project that you have not trusted yet: you are asked before it is used"

_DEFAULT_HINT: Final = "arguments"
"""The hint of a command whose file gives none: some clients accept text only after commands with a hint."""


class UnusableCommandFile(Exception):
    """Why a file cannot be used as a command."""


@dataclass(frozen=True, slots=True)
class FileCommand:
    """A command whose prompt is in a file."""

    name: str
    display_path: str
    """The path, for display."""
    file: ParsedCommandFile
    untrusted: ProjectFile | None = None
    """The file, if the user has to trust it first."""

    @property
    def description(self) -> str:
        """The description. Menus show nothing from an untrusted file."""
        return self.file.description if self.untrusted is None else _UNTRUSTED

    @property
    def hint(self) -> str | None:
        if self.untrusted is not None:
            return _DEFAULT_HINT
        return self.file.hint or (_DEFAULT_HINT if has_placeholder(self.file.prompt) else None)

    async def run(self, text: str, turn: Turn, runtime: "SessionRuntime", /) -> CommandReply | ModelPrompt:
        """Ask the model with the prompt of the file; first ask the user to trust the file if needed."""
        if self.untrusted is not None:
            files = ProjectFiles([self.untrusted], {}, TrustStore())
            if not await ask_trust(files, trust_asker(turn), clock=runtime.session.clock):
                return CommandReply(
                    f"`/{self.name}` was not used: it is a file of the project, `{self.display_path}`, "
                    "and you have not trusted it. Type it again to be asked again."
                )
        return await prompt_with_attachments(fill_prompt(self.file.prompt, text), turn, runtime)


def user_commands(folder: Path) -> Iterator[FileCommand | str]:
    """The user's commands, and a message for each unusable file. Reads the disk: not on the event loop."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield f"`{folder}`: {error.strerror or error}"
        return
    names = [name for name in names if name.endswith(_SUFFIX) and not name.startswith(".")]
    for name in names[:_MAX_FILES]:
        display_path = one_line(str(folder / name))
        try:
            yield _parse_command(name, display_path, read_bounded(str(folder / name)))
        except OSError as error:
            yield f"`{display_path}`: {error.strerror or error}"
        except UnusableCommandFile as problem:
            yield f"`{display_path}`: {problem}"
    if len(names) > _MAX_FILES:
        yield f"`{folder}`: only the first {_MAX_FILES} files are read"


def project_commands(cwd: str) -> Iterator[FileCommand | str]:
    """The project's commands, and a message for each unusable file. Untrusted ones ask the user first."""
    files = project_files(cwd, purposes=["command"])
    for name, file in sorted((*files.trusted.items(), *files.untrusted.items())):
        display_path = one_line(name)
        untrusted = file if name in files.untrusted else None
        try:
            yield _parse_command(os.path.basename(name), display_path, file.content, untrusted)
        except UnusableCommandFile as problem:
            yield f"`{display_path}`: {problem}"
    for name, reason in files.unusable.items():
        yield f"`{one_line(name)}`: {reason}"


def _parse_command(
    file_name: str, display_path: str, content: bytes, untrusted: ProjectFile | None = None
) -> FileCommand:
    name = file_name.removesuffix(_SUFFIX)
    if not _NAME.fullmatch(name):
        raise UnusableCommandFile("its name may only have letters, digits, `-` and `_`, 64 at most")
    try:
        parsed = parse_command_file(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise UnusableCommandFile("it is not UTF-8") from None
    if not parsed.prompt:
        raise UnusableCommandFile("it is empty")
    return FileCommand(name, display_path, parsed, untrusted)


BUILT_IN: Final[tuple[BuiltInCommand, ...]] = (
    HELP, MODEL, MODE, PLAN, COMPACT, UNDO, REDO, REWIND, USAGE, INIT, MEMORY, TOOLS, SKILLS,
    AGENTS, HOOKS, MCP,
)  # fmt: skip


class CommandRegistry:
    """The commands of one session. Call `load` before each turn: it reads the command files."""

    def __init__(self, runtime: "SessionRuntime") -> None:
        self._runtime = runtime
        self._user_commands: list[FileCommand] = []
        self._project_commands: list[FileCommand] = []
        self._skill_commands: list[SkillCommand] = []
        self.problems: list[str] = []
        """A message for each file that cannot be used or whose name is taken."""

    async def load(self) -> None:
        """Read the command files."""
        cwd = self._runtime.session.agent_session.cwd
        user, project = await asyncio.to_thread(_read_commands, cwd)
        definitions = self._runtime.definitions
        await definitions.load()
        skills = definitions.skills
        self.problems = [item for item in (*user, *project) if isinstance(item, str)] + definitions.problems
        owners = {command.name: "the agent's own" for command in BUILT_IN}
        self._user_commands = list(self._with_free_names(_commands_in(user), owners, "yours"))
        self._project_commands = list(self._with_free_names(_commands_in(project), owners, "the project's"))
        self._skill_commands = skill_commands([*skills.usable.values(), *skills.waiting], owners)

    def offered(self) -> list[OfferedCommand]:
        """The commands as the client is told about them."""
        return [
            (command.name, command.description)
            if command.hint is None
            else (command.name, command.description, command.hint)
            for _, commands in self.groups()
            for command in commands
        ]

    def find(self, name: str) -> SlashCommand | None:
        return next(
            (command for _, commands in self.groups() for command in commands if command.name == name), None
        )

    def groups(self) -> list[tuple[str, Sequence[SlashCommand]]]:
        """The commands by origin, without empty groups."""
        used_names = {
            command.name.casefold()
            for command in (*BUILT_IN, *self._user_commands, *self._project_commands, *self._skill_commands)
        }
        servers = self._runtime.session.mcp
        prompts = [McpPromptCommand(prompt) for prompt in servers.prompts] if servers is not None else []
        groups: list[tuple[str, Sequence[SlashCommand]]] = [
            ("Commands", BUILT_IN),
            ("Your own", self._user_commands),
            ("This project's", self._project_commands),
            ("Skills", self._skill_commands),
            (
                "Prompts of MCP servers",
                [prompt for prompt in prompts if prompt.name.casefold() not in used_names],
            ),
        ]
        return [(title, commands) for title, commands in groups if commands]

    def _with_free_names(
        self, commands: Sequence[FileCommand], owners: dict[str, str], owner: str
    ) -> Iterator[FileCommand]:
        for command in commands:
            name = command.name.casefold()  # /Help beside /help would be confusing
            if name in owners:
                self.problems.append(
                    f"`{command.display_path}`: `/{name}` is {owners[name]}; rename the file"
                )
            else:
                owners[name] = owner
                yield command


def _read_commands(cwd: str) -> tuple[list[FileCommand | str], list[FileCommand | str]]:
    return list(user_commands(config_dir() / "commands")), list(project_commands(cwd))


def _commands_in(items: Sequence[FileCommand | str]) -> list[FileCommand]:
    return [item for item in items if not isinstance(item, str)]
