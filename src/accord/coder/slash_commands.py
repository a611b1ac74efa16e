"""The slash command interface and the built-in commands (`/compact`, `/help`, `/init`, `/mcp`, `/mode`,
`/plan`, `/model`, `/tools`, `/usage`).
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from accord.agent.turn import Turn
from accord.coder.context.user_prompt import parts_of
from accord.coder.model_history import Part, TextPart
from accord.coder.tools.tool import Tool
from accord.errors import AccordError, RpcError
from accord.policy.request import DESCRIPTIONS, MODES, Mode
from accord.safe_text import one_line
from accord.schema.content import ContentBlock, TextContent
from accord.schema.session_requests import SessionConfigSelect, SessionConfigSelectOption

if TYPE_CHECKING:
    from accord.coder.mcp.server_features import McpPrompt
    from accord.coder.mcp.server_interface import ServerState
    from accord.coder.session_runtime import SessionRuntime


# MERGED coder.commands.command: The seam between a turn and a slash command.


@dataclass(frozen=True, slots=True)
class CommandReply:
    """What is said to the user, as Markdown. The model is not asked."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """What the model is asked, in place of what was typed."""

    parts: tuple[Part, ...]


class SlashCommand(Protocol):
    """What a name behind a slash stands for."""

    @property
    def name(self) -> str:
        """Without the slash."""
        ...

    @property
    def description(self) -> str: ...
    @property
    def hint(self) -> str | None:
        """What may be typed behind it; None if nothing."""
        ...

    def run(self, text: str, turn: Turn, bench: "SessionRuntime", /) -> Awaitable[CommandReply | ModelPrompt]:
        """Do it, with what was typed behind the name."""
        ...


Runs: TypeAlias = Callable[[str, Turn, "SessionRuntime"], Awaitable[CommandReply | ModelPrompt]]


@dataclass(frozen=True, slots=True)
class BuiltInCommand:
    """A command of the agent itself."""

    name: str
    description: str
    hint: str | None
    run: Runs


async def asked_with(text: str, turn: Turn, bench: "SessionRuntime") -> ModelPrompt:
    """The model is asked this, with everything that the prompt carries beside the command."""
    model = await bench.model()
    return ModelPrompt((TextPart(text), *parts_of(_attached(turn.blocks), sees_images=model.sees_images)))


async def attached(turn: Turn, bench: "SessionRuntime") -> tuple[Part, ...]:
    """What the prompt carries beside the command."""
    model = await bench.model()
    return parts_of(_attached(turn.blocks), sees_images=model.sees_images)


def _attached(blocks: list[ContentBlock]) -> list[ContentBlock]:
    """All blocks but the first text, which is the command."""
    first = next((number for number, block in enumerate(blocks) if isinstance(block, TextContent)), None)
    return [block for number, block in enumerate(blocks) if number != first]


# MERGED coder.commands.compact: `/compact`: make the model's context smaller now.


async def run_compact(text: str, turn: Turn, bench: "SessionRuntime") -> CommandReply:
    """Compact, and keep in particular what the user names."""
    from accord.coder.context.context_budget import told

    history = bench.conversation.history
    if not history.messages:
        return CommandReply("There is nothing to compact: the conversation has not begun.")
    model = await bench.model()
    await bench.briefing.system()
    spent = bench.spent
    request = bench.run(turn, model, history, bench.context(turn, model), requests=1, spent=spent).request()
    done = await bench.room.compact_now(turn, model, spent, request, text)
    if done.how == "nothing":
        return CommandReply("Nothing was compacted: there is nothing to leave out.")
    if turn.client.shows_compaction:
        return CommandReply(f"Context compacted: {told(done)}.")
    return CommandReply(
        "The conversation goes on from there."
    )  # what was done stands above, as a message of its own


COMPACT: Final = BuiltInCommand(
    "compact", "Sum up the conversation so far to make room", "what to keep", run_compact
)


# MERGED coder.commands.help: `/help`: the commands there are, and the files that could be some but are not used.


async def run_help(text: str, turn: Turn, bench: "SessionRuntime") -> CommandReply:
    """List the commands; one that is named is told alone."""
    commands = bench.commands
    if wanted := text.removeprefix("/"):
        found = commands.find(wanted)
        return CommandReply(
            _line(found) if found else f"There is no command `/{wanted[:60]}`; `/help` lists them."
        )
    lines: list[str] = []
    for head, listed in commands.groups():
        lines += [f"{head}:", "", *_lines(listed), ""]
    if commands.problems:
        lines += ["Not used:", "", *(f"- {problem}" for problem in commands.problems), ""]
    lines.append("Anything else that begins with a slash is an ordinary prompt.")
    return CommandReply("\n".join(lines))


def _lines(listed: Iterable[SlashCommand]) -> list[str]:
    return [f"- {_line(command)}" for command in listed]


def _line(command: SlashCommand) -> str:
    hint = command.hint or ""
    if hint and hint[0] not in "[<":
        hint = f"[{hint}]"
    return f"`{f'/{command.name} {hint}'.strip()}`: {command.description}"


HELP: Final = BuiltInCommand("help", "Show the commands", None, run_help)


# MERGED coder.commands.init: `/init`: have the model write `AGENTS.md`, or make it better.


async def run_init(text: str, turn: Turn, bench: "SessionRuntime") -> ModelPrompt:
    """Ask for it, with what the user wants to be in it."""
    task = Path(__file__).with_name("init_command.md").read_text("utf-8").strip()
    wish = f"\n\nThe user wants in particular:\n\n{text}" if text else ""
    return await asked_with(task + wish, turn, bench)


INIT: Final = BuiltInCommand(
    "init", "Write AGENTS.md for this project, or improve it", "what should be in it", run_init
)


# MERGED coder.commands.mcp: `/mcp`: how the MCP servers of the session stand. Their prompts are commands as well.


async def run_mcp(text: str, turn: Turn, bench: "SessionRuntime") -> CommandReply:
    """List the servers."""
    servers = bench.conversation.mcp
    states = servers.states if servers is not None else ()
    if not states:
        return CommandReply("This session has no MCP servers: the client gives them when it opens a session.")
    return CommandReply("\n".join(["MCP servers of this session:", "", *map(_server_line, states)]))


def _server_line(state: "ServerState") -> str:
    line = f"- `{one_line(state.name, 60)}` ({state.transport}): {state.status}"
    if state.why:
        line += f": {one_line(state.why, 300)}"
    counts = ((state.tools, "tool"), (state.prompts, "prompt"), (state.resources, "resource"))
    offered = [f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count]
    return f"{line}; {', '.join(offered)}" if offered else line


@dataclass(frozen=True, slots=True)
class PromptCommand:
    """A prompt of a server as a command."""

    prompt: "McpPrompt"

    @property
    def name(self) -> str:
        return self.prompt.name

    @property
    def description(self) -> str:
        about = one_line(self.prompt.description) or "A prompt without a description"
        return f"{about} ({one_line(self.prompt.server.name, 40)})"

    @property
    def hint(self) -> str | None:
        return one_line(self.prompt.hint) or None

    async def run(self, text: str, turn: Turn, bench: "SessionRuntime", /) -> CommandReply | ModelPrompt:
        """Have the server write the prompt, and ask the model that."""
        model = await bench.model()
        try:
            parts = await self.prompt.parts(text, sees_images=model.sees_images)
        except AccordError as error:
            return CommandReply(f"Nothing was asked: {one_line(str(error), 500)}")
        return ModelPrompt((*parts, *await attached(turn, bench)))


MCP: Final = BuiltInCommand("mcp", "Show how the MCP servers stand", None, run_mcp)


# MERGED coder.commands.mode: `/mode`: which modes there are, or another one. `/plan`: plan mode, and what is to be planned.


async def run_mode(text: str, turn: Turn, bench: "SessionRuntime") -> CommandReply:
    """List the modes, or change to the one that is named."""
    current = bench.conversation.mode
    if not text:
        return CommandReply(_mode_list(current))
    plain = "-".join(text.casefold().replace("_", " ").replace("-", " ").split())
    mode = _mode(plain)
    if mode is None:
        return CommandReply(f"There is no mode `{one_line(text, 60)}`; the modes are {', '.join(MODES)}.")
    if mode == current:
        return CommandReply(f"The mode is `{mode}` already.")
    await _change(mode, turn, bench)
    return CommandReply(f"The mode is `{mode}` now. {DESCRIPTIONS[mode]}")


async def plan(text: str, turn: Turn, bench: "SessionRuntime") -> CommandReply | ModelPrompt:
    """Change to plan mode, then ask for a plan."""
    changed = bench.conversation.mode != "plan"
    if changed:
        await _change("plan", turn, bench)
    if text:
        return await asked_with(text, turn, bench)
    now = "now" if changed else "already"
    return CommandReply(f"The mode is `plan` {now}. {DESCRIPTIONS['plan']} Say what is to be planned.")


async def _change(mode: Mode, turn: Turn, bench: "SessionRuntime") -> None:
    bench.conversation.mode_chosen(mode)  # before the change: it remembers the mode that was
    await turn.set_mode(mode)


def _mode(name: str) -> Mode | None:
    for mode in MODES:
        if mode == name:
            return mode
    return None


def _mode_list(current: Mode) -> str:
    lines = ["Modes (the current one is marked):", ""]
    lines += [
        f"- `{mode}`{' **(current)**' if mode == current else ''}: {DESCRIPTIONS[mode]}" for mode in MODES
    ]
    return "\n".join([*lines, "", "Choose one with `/mode name`."])


MODE: Final = BuiltInCommand("mode", "Show the modes, or change to another one", "name", run_mode)
PLAN: Final = BuiltInCommand(
    "plan", "Change to plan mode, and say what is to be planned", "what to plan", plan
)


# MERGED coder.commands.model: `/model`: which models there are, or another one.

MOST_MODELS_SHOWN: Final = 60


async def run_model(text: str, turn: Turn, bench: "SessionRuntime") -> CommandReply:
    """List the models, or think with the one that is named from the next prompt on."""
    from accord.coder.session_options import ask_for_models, set_model

    conversation = bench.conversation
    if not text:
        await ask_for_models(conversation)
        return CommandReply(_model_list(str(conversation.model), _choices(turn)))
    before = conversation.model
    try:
        name = await set_model(conversation, text, tell=True)
    except RpcError as error:
        return CommandReply(f"The model stays `{before}`: {one_line(error.message, 500)}")
    if name == before:
        return CommandReply(f"The model is `{name}` already.")
    return CommandReply(f"The model is `{name}` now.")


def _choices(turn: Turn) -> list[SessionConfigSelectOption]:
    for option in turn.session.config_options:
        if option.id == "model" and isinstance(option, SessionConfigSelect):
            return [choice for choice in option.options if isinstance(choice, SessionConfigSelectOption)]
    return []


def _model_list(current: str, choices: list[SessionConfigSelectOption]) -> str:
    lines = ["Models (the current one is marked):", ""]
    for choice in choices[:MOST_MODELS_SHOWN]:
        mark = " **(current)**" if choice.value == current else ""
        lines.append(f"- `{choice.value}`{mark}")
    if len(choices) > MOST_MODELS_SHOWN:
        lines.append(f"- and {len(choices) - MOST_MODELS_SHOWN} more")
    lines += ["", "Choose one with `/model provider:name`; names that are not listed are taken as well."]
    return "\n".join(lines)


MODEL: Final = BuiltInCommand(
    "model", "Show the models, or think with another one", "provider:name", run_model
)


# MERGED coder.commands.tools: `/tools`: what the model can use, what each use needs, and what confines commands. Only what is really in force.

MOST_TOOLS_SHOWN: Final = 100
_HEADS: Final = {
    "read-only": "Only looking",
    "write": "Changing files",
    "execute": "Running something",
    "external": "From MCP servers",
}


async def run_tools(text: str, turn: Turn, bench: "SessionRuntime") -> CommandReply:
    """List the tools and what is in force."""
    await bench.confinement.ready()
    tools = bench.tools()
    mode = bench.conversation.mode
    lines = [f"Mode `{mode}`: {DESCRIPTIONS[mode]}", ""]
    for category, head in _HEADS.items():
        if listed := [tool for tool in tools.values() if tool.category == category]:
            lines.append(f"- {head}: {_names(listed)}")
    lines += ["", "What confines commands:", ""]
    lines += [f"- {one_line(line, 500)}" for line in bench.confinement.lines()]
    if rules := _rules(bench):
        lines += ["", rules]
    if bench.project is not None and (unused := bench.project.lines()):
        lines += ["", "Not used:", "", *(f"- {one_line(line, 500)}" for line in unused)]
    return CommandReply("\n".join(lines))


def _names(tools: Iterable[Tool]) -> str:
    names = [f"`{tool.name}`" for tool in tools]
    more = f" and {len(names) - MOST_TOOLS_SHOWN} more" if len(names) > MOST_TOOLS_SHOWN else ""
    return ", ".join(names[:MOST_TOOLS_SHOWN]) + more


def _rules(bench: "SessionRuntime") -> str:
    user, project = bench.gate.policy.user, bench.gate.policy.project
    parts = [
        f"{len(rules)} {word}"
        for rules, word in ((user.allow, "allow"), (user.ask, "ask"), (user.deny, "deny"))
        if rules
    ]
    if not parts and project is None:
        return ""
    yours = f"Your rules in force: {', '.join(parts)}." if parts else "You have set no rules."
    return (
        yours if project is None else f"{yours} The project's rules are in force as well; they only tighten."
    )


TOOLS: Final = BuiltInCommand("tools", "Show the tools, and what confines commands", None, run_tools)


# MERGED coder.commands.usage: `/usage`: what the session has used so far.


async def run_usage(text: str, turn: Turn, bench: "SessionRuntime") -> CommandReply:
    """Tokens, cost, and how full the context is."""
    conversation = bench.conversation
    spent = conversation.spending
    if not spent.requests:
        return CommandReply("Nothing used yet: the model was not asked anything in this session.")
    cached = f" ({spent.cached_read:,} of them from the cache)" if spent.cached_read else ""
    thought = f" ({spent.thought:,} of them thoughts)" if spent.thought else ""
    lines = [
        f"- Requests to the model: {spent.requests:,}",
        f"- Tokens read: {spent.input:,}{cached}",
        f"- Tokens written: {spent.output:,}{thought}",
        f"- Cost: {_cost(spent.cost, spent.priced)}",
    ]
    size = (await bench.model()).context_size
    if size:
        used = conversation.used
        lines.append(f"- Context: {used:,} of {size:,} tokens ({100 * used // size} %)")
    else:
        lines.append(f"- Context: {conversation.used:,} tokens; how many fit is not known")
    return CommandReply("\n".join(["This session so far, sub-agents included:", "", *lines]))


def _cost(amount: float, priced: bool) -> str:
    if priced:
        return f"${amount:,.4f}"
    return f"at least ${amount:,.4f}; the price of some requests is not known" if amount else "not known"


USAGE: Final = BuiltInCommand("usage", "Show what this session has used so far", None, run_usage)
