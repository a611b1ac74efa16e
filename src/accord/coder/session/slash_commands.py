"""The slash command interface and the built-in commands (`/compact`, `/help`, `/init`, `/mcp`, `/mode`,
`/plan`, `/model`, `/tools`, `/usage`, `/undo`, `/redo`, `/rewind`).

A command replies itself, or gives the model a prompt. Replies are in the session's log but not in the model
history.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast, get_args

from accord.agent.turn import Turn
from accord.coder.context.user_prompt import fitted_parts
from accord.coder.model_history import Part, TextPart
from accord.coder.tools.tool import Tool
from accord.errors import AccordError, RpcError
from accord.frontend.checkpoints.file_checkpoints import CHANGED_BETWEEN
from accord.frontend.checkpoints.file_restore import CHANGED_SINCE
from accord.policy.request import MODE_DESCRIPTIONS
from accord.safe_text import one_line
from accord.schema.content import ContentBlock, TextContent, text_of_blocks
from accord.schema.session_requests import SessionConfigSelect, SessionConfigSelectOption, SessionMode
from accord.session.rewind import RewindResult, RewindScope
from accord.text_width import count_text

if TYPE_CHECKING:
    from accord.coder.mcp.server_features import McpPrompt
    from accord.coder.mcp.server_interface import ServerState
    from accord.coder.turn.session_runtime import SessionRuntime


@dataclass(frozen=True, slots=True)
class CommandReply:
    """A reply to the user, as Markdown. The model is not asked."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """A prompt for the model, in place of the typed one."""

    parts: tuple[Part, ...]


class SlashCommand(Protocol):
    """A command that the user types as `/name`."""

    @property
    def name(self) -> str:
        """Without the slash."""
        ...

    @property
    def description(self) -> str: ...
    @property
    def hint(self) -> str | None:
        """A hint for the text after the name; None if the command takes none."""
        ...

    def run(
        self, text: str, turn: Turn, runtime: "SessionRuntime", /
    ) -> Awaitable[CommandReply | ModelPrompt]:
        """Run the command with the text typed after its name."""
        ...


RunCommand: TypeAlias = Callable[[str, Turn, "SessionRuntime"], Awaitable[CommandReply | ModelPrompt]]


@dataclass(frozen=True, slots=True)
class BuiltInCommand:
    """A command of the agent itself."""

    name: str
    description: str
    hint: str | None
    run: RunCommand


async def prompt_with_attachments(text: str, turn: Turn, runtime: "SessionRuntime") -> ModelPrompt:
    """A prompt for the model: this text, with everything attached to the user's prompt."""
    return ModelPrompt((TextPart(text), *await attachments(turn, runtime)))


async def attachments(turn: Turn, runtime: "SessionRuntime") -> tuple[Part, ...]:
    """Everything attached to the prompt besides the command."""
    model = await runtime.model()
    return await fitted_parts(_attached_blocks(turn.blocks), sees_images=model.sees_images)


def _attached_blocks(blocks: list[ContentBlock]) -> list[ContentBlock]:
    """All blocks but the first text, which holds the command."""
    first = next((number for number, block in enumerate(blocks) if isinstance(block, TextContent)), None)
    return [block for number, block in enumerate(blocks) if number != first]


async def run_compact(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/compact`: compact the model's context now. `text` names what to keep."""
    from accord.coder.context.compaction import describe_compaction

    history = runtime.session.history
    if not history.messages:
        return CommandReply("There is nothing to compact: the conversation has not started.")
    model = await runtime.model()
    await runtime.prompt_builder.build(model.context_size)
    usage = runtime.turn_usage
    request = runtime.agent_loop(turn, model, history, runtime.context(turn, model), usage=usage).request()
    result = await runtime.context_budget.compact_now(turn, model, usage, request, text)
    if result.method == "nothing":
        return CommandReply("Nothing was compacted: there is nothing to leave out.")
    if turn.client.shows_compaction:
        return CommandReply(f"Context compacted: {describe_compaction(result)}.")
    # compact_now has sent a notice with the details.
    return CommandReply("The conversation continues from there.")


COMPACT: Final = BuiltInCommand(
    "compact", "Summarize the conversation so far to free context", "what to keep", run_compact
)


async def run_help(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/help`: list the commands and the command files that cannot be used, or explain one command."""
    commands = runtime.commands
    if name := text.removeprefix("/"):
        command = commands.find(name)
        if command is None:
            return CommandReply(f"There is no command `/{name[:60]}`; `/help` lists them.")
        details: list[str] = getattr(command, "details", [])
        return CommandReply("\n".join([_command_line(command), *details]))
    lines: list[str] = []
    for title, group_commands in commands.groups():
        lines += [f"{title}:", "", *_command_lines(group_commands), ""]
    if commands.problems:
        lines += ["Not used:", "", *(f"- {problem}" for problem in commands.problems), ""]
    lines.append("Anything else that begins with a slash is an ordinary prompt.")
    return CommandReply("\n".join(lines))


def _command_lines(commands: Iterable[SlashCommand]) -> list[str]:
    return [f"- {_command_line(command)}" for command in commands]


def _command_line(command: SlashCommand) -> str:
    hint = command.hint or ""
    if hint and hint[0] not in "[<":
        hint = f"[{hint}]"
    return f"`{f'/{command.name} {hint}'.strip()}`: {command.description}"


HELP: Final = BuiltInCommand("help", "Show the commands", None, run_help)


async def run_init(text: str, turn: Turn, runtime: "SessionRuntime") -> ModelPrompt:
    """`/init`: have the model write or improve `AGENTS.md`. `text` says what should be in it."""
    task = Path(__file__).with_name("init_command.md").read_text("utf-8").strip()
    request = f"\n\nThe user wants in particular:\n\n{text}" if text else ""
    return await prompt_with_attachments(task + request, turn, runtime)


INIT: Final = BuiltInCommand(
    "init", "Write AGENTS.md for this project, or improve it", "what should be in it", run_init
)


async def run_mcp(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/mcp`: show the MCP servers of the session, restart one, or sign in to one."""
    servers = runtime.session.mcp
    if servers is None or not servers.states:
        return CommandReply(
            "This session has no MCP servers. The client names them when it opens a session; "
            "your own are in `[mcp.NAME]` of `config.toml`."
        )
    if not text.strip():
        lines = [_server_line(state) for state in servers.states]
        return CommandReply("\n".join(["MCP servers of this session:", "", *lines]))
    from accord.coder.mcp.mcp_command import run_server_command

    return CommandReply(await run_server_command(text, turn, servers, runtime.session.clock))


def _server_line(state: "ServerState") -> str:
    line = f"- `{one_line(state.name, 60)}` ({state.transport}): {state.status}"
    if state.reason:
        line += f": {one_line(state.reason, 300)}"
    counts = ((state.tools, "tool"), (state.prompts, "prompt"), (state.resources, "resource"))
    offered = [count_text(count, what) for count, what in counts if count]
    if offered:
        line += f"; {', '.join(offered)}"
    if state.left_out:
        line += f"; {count_text(state.left_out, 'tool')} left out"
    command = state.command.replace("`", "'")  # the text is within backticks
    return f"{line}; started with `{command}`" if command else line


@dataclass(frozen=True, slots=True)
class McpPromptCommand:
    """A prompt of an MCP server as a slash command."""

    prompt: "McpPrompt"

    @property
    def name(self) -> str:
        return self.prompt.name

    @property
    def description(self) -> str:
        description = one_line(self.prompt.description) or "A prompt without a description"
        return f"{description} ({one_line(self.prompt.server.name, 40)})"

    @property
    def hint(self) -> str | None:
        return one_line(self.prompt.hint) or None

    async def run(self, text: str, turn: Turn, runtime: "SessionRuntime", /) -> CommandReply | ModelPrompt:
        """Get the prompt from the server and give it to the model."""
        model = await runtime.model()
        try:
            parts = await self.prompt.parts(text, sees_images=model.sees_images)
        except AccordError as error:
            return CommandReply(f"The prompt was not sent: {one_line(str(error), 500)}")
        return ModelPrompt((*parts, *await attachments(turn, runtime)))


MCP: Final = BuiltInCommand(
    "mcp", "Show the MCP servers, restart one, or sign in", "[restart | login | logout] [SERVER]", run_mcp
)


async def run_mode(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/mode`: list the modes, or change to the named one."""
    session = runtime.session
    modes = session.agent_session.modes
    offered = modes.available_modes if modes is not None else []
    current = session.agent_session.mode or session.mode
    if not text:
        return CommandReply(_mode_list(current, offered))
    name = "-".join(text.casefold().replace("_", " ").replace("-", " ").split())
    mode = next((mode for mode in offered if mode.id in (name, text.strip())), None)
    if mode is None:
        names = ", ".join(mode.id for mode in offered)
        return CommandReply(f"There is no mode `{one_line(text, 60)}`; the modes are {names}.")
    if mode.id == current:
        return CommandReply(f"The mode is already `{mode.id}`.")
    await _change_mode(mode.id, turn, runtime)
    limit = "" if session.agent is None else f" It works in the mode `{session.mode}`."
    description = str(mode.description or "").rstrip(".")
    return CommandReply(f"The mode is `{mode.id}` now. {description}.{limit}")


async def run_plan(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply | ModelPrompt:
    """`/plan`: change to plan mode, then ask the model for a plan."""
    changed = runtime.session.mode != "plan"
    if changed:
        await _change_mode("plan", turn, runtime)
    if text:
        return await prompt_with_attachments(text, turn, runtime)
    state = "The mode is `plan` now." if changed else "The mode is already `plan`."
    return CommandReply(f"{state} {MODE_DESCRIPTIONS['plan']} Describe what to plan.")


async def _change_mode(mode: str, turn: Turn, runtime: "SessionRuntime") -> None:
    runtime.session.before_mode_change(mode)  # before the change: it saves the previous mode
    await turn.set_mode(mode)


def _mode_list(current: str, offered: Sequence[SessionMode]) -> str:
    lines = ["Modes (the current one is marked):", ""]
    lines += [
        f"- `{mode.id}`{' **(current)**' if mode.id == current else ''}: {mode.description}"
        for mode in offered
    ]
    return "\n".join([*lines, "", "Choose one with `/mode name`."])


MODE: Final = BuiltInCommand("mode", "Show the modes, or change to another one", "name", run_mode)
PLAN: Final = BuiltInCommand("plan", "Change to plan mode", "what to plan", run_plan)


_MAX_LISTED_MODELS: Final = 60


async def run_model(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/model`: list the models, or use the named one from the next prompt on."""
    from accord.coder.session.session_options import ask_for_models, set_model

    session = runtime.session
    if not text:
        await ask_for_models(session, local=True)
        return CommandReply(_model_list(str(session.model), _model_choices(turn)))
    previous, was_named = session.model, session.model_is_named
    try:
        name = await set_model(session, text, notify=True)
    except RpcError as error:
        return CommandReply(f"The model stays `{previous}`: {one_line(error.message, 500)}")
    if name == previous and was_named:
        return CommandReply(f"The model is already `{name}`.")
    return CommandReply(f"The model is `{name}` now.")


def _model_choices(turn: Turn) -> list[SessionConfigSelectOption]:
    for option in turn.session.config_options:
        if option.id == "model" and isinstance(option, SessionConfigSelect):
            return [choice for choice in option.options if isinstance(choice, SessionConfigSelectOption)]
    return []


def _model_list(current: str, choices: list[SessionConfigSelectOption]) -> str:
    lines = ["Models (the current one is marked):", ""]
    for choice in choices[:_MAX_LISTED_MODELS]:
        mark = " **(current)**" if choice.value == current else ""
        details = str(choice.description or "").partition(": ")[2]
        lines.append(f"- `{choice.value}`{mark}{f': {details}' if details else ''}")
    if len(choices) > _MAX_LISTED_MODELS:
        lines.append(f"- and {len(choices) - _MAX_LISTED_MODELS} more")
    lines += ["", "Choose one with `/model provider:name`; names that are not listed work as well."]
    return "\n".join(lines)


MODEL: Final = BuiltInCommand(
    "model", "Show the models, or change to another one", "provider:name", run_model
)


_MAX_LISTED_TOOLS: Final = 100
_CATEGORY_TITLES: Final = {
    "read-only": "Read-only",
    "write": "Changing files",
    "execute": "Running commands",
    "external": "From MCP servers",
}


async def run_tools(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/tools`: list the tools that are available now, the mode, the sandbox and the rules."""
    await runtime.sandbox.ensure_ready()
    tools = runtime.tools()
    mode = runtime.session.mode
    lines = [f"Mode `{mode}`: {MODE_DESCRIPTIONS[mode]}", ""]
    for category, title in _CATEGORY_TITLES.items():
        if category_tools := [tool for tool in tools.values() if tool.category == category]:
            lines.append(f"- {title}: {_tool_names(category_tools)}")
    lines += ["", "The sandbox of commands:", ""]
    lines += [f"- {one_line(line, 500)}" for line in runtime.sandbox.details()]
    if problem := runtime.terminals.problem:
        lines.append(f"- commands do not run in the client's terminals: {problem}")
    if rules := _rules_summary(runtime):
        lines += ["", rules]
    if runtime.project is not None and (warnings := runtime.project.warnings()):
        lines += ["", "Project files:", "", *(f"- {one_line(line, 500)}" for line in warnings)]
    return CommandReply("\n".join(lines))


def _tool_names(tools: Iterable[Tool]) -> str:
    names = [f"`{tool.name}`" for tool in tools]
    more = f" and {len(names) - _MAX_LISTED_TOOLS} more" if len(names) > _MAX_LISTED_TOOLS else ""
    return ", ".join(names[:_MAX_LISTED_TOOLS]) + more


def _rules_summary(runtime: "SessionRuntime") -> str:
    user, project = runtime.gate.policy.user, runtime.gate.policy.project
    parts = [
        f"{len(rules)} {word}"
        for rules, word in ((user.allow, "allow"), (user.ask, "ask"), (user.deny, "deny"))
        if rules
    ]
    if not parts and project is None:
        return ""
    summary = f"Your rules in force: {', '.join(parts)}." if parts else "You have set no rules."
    return summary if project is None else f"{summary} The project's rules apply as well; they only restrict."


TOOLS: Final = BuiltInCommand("tools", "Show the tools and the sandbox of commands", None, run_tools)


async def run_usage(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/usage`: the tokens and cost of the session so far, and how full the context is."""
    session = runtime.session
    usage = session.usage
    if not usage.requests:
        return CommandReply("Nothing used yet: the model has not been asked anything in this session.")
    cached = f" ({usage.cached_read:,} of them from the cache)" if usage.cached_read else ""
    thought = f" ({usage.thought:,} of them thoughts)" if usage.thought else ""
    lines = [
        f"- Requests to the model: {usage.requests:,}",
        f"- Tokens read: {usage.input:,}{cached}",
        f"- Tokens written: {usage.output:,}{thought}",
        f"- Cost: {_format_cost(usage.cost, usage.priced)}",
    ]
    size = (await runtime.model()).context_size
    if size:
        used = session.context_tokens
        lines.append(f"- Context: {used:,} of {size:,} tokens ({100 * used // size} %)")
    else:
        lines.append(f"- Context: {session.context_tokens:,} tokens; the context window is unknown")
    return CommandReply("\n".join(["This session so far, sub-agents included:", "", *lines]))


def _format_cost(amount: float, priced: bool) -> str:
    if priced:
        return f"${amount:,.4f}"
    return f"at least ${amount:,.4f}; the price of some requests is unknown" if amount else "unknown"


USAGE: Final = BuiltInCommand("usage", "Show the tokens and the cost of this session", None, run_usage)


_MAX_LISTED: Final = 20
_MAX_QUOTED_PROMPT: Final = 2000
_FORCE: Final = "force"
_FORCED: Final = (CHANGED_SINCE, CHANGED_BETWEEN)
"""The reasons that `force` overrides."""
_FORCE_ADVICE: Final = (
    "To overwrite what others have changed, type `/redo`, then the same command with `force`; another "
    "`/redo` brings it back."
)


async def run_undo(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/undo`: take the last prompt back, with everything that followed it."""
    scope, force, rest = _rewind_options(text)
    if rest:
        return CommandReply(f"`/undo` takes `files`, `conversation` and `force`, not `{one_line(rest, 60)}`.")
    return await _rewind(None, scope, force, runtime)


async def run_redo(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/redo`: take the last undo or rewind back."""
    _, force, rest = _rewind_options(text)
    if rest:
        return CommandReply(f"`/redo` takes only `force`, not `{one_line(rest, 60)}`.")
    session = runtime.session
    try:
        async with session.rewind_lock:
            result = await session.rewinds.redo(force=force)
    except RpcError as error:
        return CommandReply(f"Nothing was redone: {error.message}.")
    lines = [f"Back as before the undo of “{result.title}”.", *_rewind_details(result, runtime)]
    if any(item.reason in _FORCED for item in result.skipped):
        lines += ["", "To overwrite these files as well, type `/redo force`."]
    return CommandReply("\n".join(lines))


async def run_rewind(text: str, turn: Turn, runtime: "SessionRuntime") -> CommandReply:
    """`/rewind`: list the prompts to go back to, or go back to one of them by its number."""
    scope, force, number = _rewind_options(text)
    points = (await runtime.session.rewinds.points()).points
    if not points:
        return CommandReply("There is no message to go back to yet.")
    if not number:
        lines = ["Prompts to go back to, the latest first:", ""]
        for position, point in enumerate(points[:_MAX_LISTED], 1):
            files = f" ({count_text(point.files, 'changed file')} since)" if point.files else ""
            lines.append(f"{position}. {point.title}{files}")
        if len(points) > _MAX_LISTED:
            lines.append(f"\n{len(points) - _MAX_LISTED} more can be chosen by number as well.")
        lines += [
            "",
            "Go back to before one with `/rewind NUMBER`; add `files` or `conversation` for only that.",
        ]
        return CommandReply("\n".join(lines))
    if not number.isdecimal() or len(number) > 9 or not 1 <= int(number) <= len(points):
        return CommandReply(
            f"`/rewind` takes a number from 1 to {len(points)}, not `{one_line(number, 60)}`; "
            "`/rewind` alone lists them."
        )
    return await _rewind(points[int(number) - 1].message_id, scope, force, runtime)


async def _rewind(
    message_id: str | None, scope: RewindScope, force: bool, runtime: "SessionRuntime"
) -> CommandReply:
    session = runtime.session
    try:
        async with session.rewind_lock:
            result = await session.rewinds.rewind(message_id, scope, force=force)
    except RpcError as error:
        return CommandReply(f"Nothing was undone: {error.message}.")
    lines = [
        f"{_what_is_back(scope, result)} back as before “{result.title}”.",
        *_rewind_details(result, runtime),
    ]
    if prompt := text_of_blocks(result.prompt).strip():
        quoted = "\n".join(f"> {line}" for line in prompt[:_MAX_QUOTED_PROMPT].splitlines())
        lines += ["", "To change the prompt, copy it, edit it and send it again:", "", quoted]
    if any(item.reason in _FORCED for item in result.skipped):
        lines += ["", _FORCE_ADVICE]
    return CommandReply("\n".join([*lines, "", "`/redo` takes this back."]))


def _what_is_back(scope: RewindScope, result: RewindResult) -> str:
    if not result.files_changed and (result.skipped or result.notes):
        return "No file is" if scope == "files" else "The conversation is"
    return {
        "files": "The files are",
        "conversation": "The conversation is",
        "both": "Conversation and files are",
    }[scope]


def _rewind_details(result: RewindResult, runtime: "SessionRuntime") -> list[str]:
    """Which files changed, and which stay as they are and why."""
    cwd = runtime.session.agent_session.cwd
    lines: list[str] = []
    if files := result.files_changed:
        more = f" and {len(files) - _MAX_LISTED} more" if len(files) > _MAX_LISTED else ""
        names = ", ".join(f"`{_shown_path(path, cwd)}`" for path in files[:_MAX_LISTED])
        lines += ["", f"{count_text(len(files), 'file')} restored: {names}{more}."]
    if result.skipped:
        lines += ["", "Not restored:", ""]
        lines += [
            f"- `{_shown_path(item.path, cwd)}`: {item.reason}" for item in result.skipped[:_MAX_LISTED]
        ]
        if len(result.skipped) > _MAX_LISTED:
            lines.append(f"- and {len(result.skipped) - _MAX_LISTED} more")
    return [*lines, *(f"\n{note[0].upper()}{note[1:]}." for note in result.notes)]


def _shown_path(path: str, cwd: str) -> str:
    relative = os.path.relpath(path, cwd)
    return one_line(path if relative.startswith(os.pardir) else relative, 200).replace("`", "'")


def _rewind_options(text: str) -> tuple[RewindScope, bool, str]:
    """The scope, whether to overwrite, and the remaining words."""
    words = text.casefold().split()
    scope = next((word for word in words if word in get_args(RewindScope)), "both")
    rest = [word for word in words if word not in (*get_args(RewindScope), _FORCE)]
    return cast(RewindScope, scope), _FORCE in words, " ".join(rest)


UNDO: Final = BuiltInCommand(
    "undo", "Take the last prompt back: conversation and files", "[files|conversation] [force]", run_undo
)
REDO: Final = BuiltInCommand("redo", "Take the last undo back", "[force]", run_redo)
REWIND: Final = BuiltInCommand(
    "rewind", "Go back to an earlier prompt", "[number] [files|conversation] [force]", run_rewind
)
