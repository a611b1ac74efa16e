"""Custom agents: a prompt with fewer tools, another model or a narrower mode, in a Markdown file.

The files of Claude Code and opencode are read as well. A custom agent is used for sub-agents, and as a mode
of the session. Its file only restricts: tools that the session does not have, and a mode that permits more
than that of the session, are not granted.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, cast

from accord.coder.bounded_text import wrap_in_tag
from accord.coder.definitions.definition_files import (
    DefinitionFile,
    DefinitionSet,
    UnusableDefinition,
    unreadable_header,
)
from accord.coder.definitions.definition_folders import agent_folders
from accord.coder.definitions.front_matter import MarkdownFile, Value, read_markdown
from accord.coder.hooks.hook_config import TOOL_NAMES
from accord.coder.mcp.server_interface import clean, clean_line
from accord.coder.permissions.project_files import ProjectFile
from accord.policy.mode_names import MODES, Mode, narrower

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DESCRIPTION_CHARS: Final = 1024
SMALL_MODEL: Final = "haiku"
"""The name that stands for the small model of the config."""
_CLAUDE_MODELS: Final = ("sonnet", "opus", "fable", "opusplan", "best")
_CLAUDE_MODES: Final[Mapping[str, Mode | None]] = {
    "default": "ask",
    "acceptedits": "workspace-write",
    "plan": "read-only",
    "dontask": "ask",
    "auto": "workspace-write",
    "bypasspermissions": None,
}
_NO_TOOL_NAME: Final = re.compile(r"[\[\]{}&!|>\"'`]")
"""Characters of a list that could not be read: what a file denies must not be lost."""
_UNUSED_KEYS: Final = ("hooks", "mcpServers", "skills")
"""Keys of Claude Code without which an agent may do something else than its author expects."""
_USES: Final = ("subagent", "primary", "all")
_OTHER_TOOL_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "edit_file": ("Edit", "MultiEdit", "NotebookEdit", "edit", "patch", "apply_patch"),
    "write_file": ("Write", "write", "edit"),
    "delete_file": ("Write", "write", "edit"),
    "move_file": ("Write", "write", "edit"),
    "read_file": ("Read", "NotebookRead", "read"),
    "list_files": ("LS", "list"),
    "bash": ("Bash", "bash"),
    "job": ("Bash", "BashOutput", "KillShell", "bash"),
    "web_fetch": ("WebFetch", "webfetch"),
    "web_search": ("WebSearch", "websearch"),
    "agent": ("Task", "Agent", "task"),
    "plan": ("TodoWrite", "TodoRead", "todowrite", "todoread"),
    "skill": ("Skill", "skill"),
    "ask_user": ("AskUserQuestion", "question"),
}
"""The names of our tools in the files of other agents. Deleting and moving files needs what writing needs."""


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """Which tools an agent has, by patterns of names. None for `allowed` means all."""

    allowed: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()

    def keeps(self, name: str) -> bool:
        """Whether the agent has the tool, if the session has it."""
        names = tool_names(name)
        if any(fnmatchcase(one, pattern) for pattern in self.denied for one in names):
            return False
        return self.allowed is None or any(fnmatchcase(one, p) for p in self.allowed for one in names)


def tool_names(name: str) -> tuple[str, ...]:
    """The names of a tool in files of agents: ours, and those of Claude Code and opencode."""
    own = _OTHER_TOOL_NAMES.get(name, ()) + ((TOOL_NAMES[name],) if name in TOOL_NAMES else ())
    if "__" in name:  # of an MCP server
        server, _, tool = name.partition("__")
        own += (f"mcp__{name}", f"mcp__{server}", f"{server}_{tool}")
    return (name, *own)


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """One custom agent."""

    name: str
    description: str
    prompt: str
    path: str
    display_path: str
    project: bool
    tools: ToolFilter = ToolFilter()
    model: str | None = None
    """The model as the file names it; None for that of the session."""
    mode: Mode | None = None
    """The widest mode it works in."""
    requests: int | None = None
    """The most model requests of one task."""
    as_subagent: bool = True
    as_mode: bool = True
    remarks: tuple[str, ...] = ()
    """What the file says and is not used."""
    untrusted: ProjectFile | None = None
    """The file, if the user has to trust it first."""

    def effective_mode(self, session_mode: Mode) -> Mode:
        """The mode it works in: never wider than that of the session."""
        if session_mode == "plan":
            session_mode = "read-only"  # a custom agent has no plan to put to the user
        return session_mode if self.mode is None else narrower(session_mode, self.mode)

    def instructions(self) -> str:
        """Its prompt, as the model reads it."""
        return wrap_in_tag("agent", self.prompt, name=self.name)


def parse_agent(file: DefinitionFile) -> AgentDefinition:
    """Parse an agent. Raises UnusableDefinition."""
    content = read_markdown(file.text)
    name = clean_line(content.text("name"), 80) if file.untrusted is None else ""
    name = name or file.name
    if not _NAME.fullmatch(name):
        raise UnusableDefinition("its name may only have letters, digits, `-` and `_`, 64 at most")
    if name in MODES:
        raise UnusableDefinition(f"`{name}` is a mode of Accord; rename the agent")
    if file.untrusted is not None:
        return AgentDefinition(name, "", "", file.path, file.display_path, True, untrusted=file.untrusted)
    if content.is_true("disable"):
        raise UnusableDefinition("its header disables it")
    description = " ".join(clean(content.text("description"), _DESCRIPTION_CHARS).split())
    if not description:
        raise UnusableDefinition("its header has no description", content.problem)
    remarks: list[str] = []
    if content.problem:
        remarks.append(unreadable_header(content.problem))
    remarks += [f"its `{key}` are not used" for key in _UNUSED_KEYS if content.values.get(key.casefold())]
    mode, use = _modes(content, remarks)
    tools, mode = _tools(content, mode, remarks)
    model = _model(content, remarks)
    return AgentDefinition(
        name,
        description,
        content.body,
        file.path,
        file.display_path,
        file.project,
        tools,
        model,
        mode,
        _requests(content),
        use != "primary",
        use != "subagent" and not content.is_true("hidden"),
        tuple(remarks),
    )


def _modes(content: MarkdownFile, remarks: list[str]) -> tuple[Mode | None, str]:
    """The widest mode, and how the agent may be used."""
    mode: Mode | None = None
    use = "all"
    for key in ("mode", "permissionmode", "permission-mode"):
        text = content.text(key).strip()
        own: Mode | None = next((one for one in MODES if one == text), None)
        if own is not None:
            mode = "read-only" if own == "plan" else own
        elif text.casefold() in _USES:
            use = text.casefold()
        elif text.casefold() in _CLAUDE_MODES:
            mode = _CLAUDE_MODES[text.casefold()]
            if mode is None or text.casefold() == "dontask":
                remarks.append(f"`{text}` is not granted: the permissions of the session apply")
        elif text:
            remarks.append(f"its mode `{clean_line(text, 60)}` is unknown: it works in `read-only`")
            mode = "read-only"
    return mode, use


def _tools(content: MarkdownFile, mode: Mode | None, remarks: list[str]) -> tuple[ToolFilter, Mode | None]:
    """The tools, and the widest mode that the permissions of the file leave. Raises UnusableDefinition."""
    value = content.values.get("tools")
    denied: list[str] = []
    for key in ("disallowedtools", "disallowed-tools"):
        denied += _names(content.names(key), remarks)
    allowed: tuple[str, ...] | None = None
    if isinstance(value, dict):  # opencode: a map of names to true and false
        off = [name for name, flag in value.items() if str(flag).casefold() not in ("true", "yes", "on")]
        denied += [name for name in off if name != "*"]
        if "*" in off:
            allowed = tuple(name for name in value if name not in off)
    elif (names := content.names("tools")) is not None and names != ["*"]:
        allowed = tuple(_names(names, remarks))
    for name in denied:
        if _NO_TOOL_NAME.search(name):
            raise UnusableDefinition(f"it denies the tool `{clean_line(name, 60)}`, which is not a name")
    permission = content.values.get("permission") or {}
    rules: Mapping[str, Value] = permission if isinstance(permission, dict) else {"*": permission}
    for tool, rule in rules.items():
        answer = _strictest(rule)
        if answer == "deny":
            denied.append(tool)
        elif answer == "ask":
            mode = "ask" if mode is None else narrower(mode, "ask")
        elif answer != "allow":
            shown = clean_line(tool, 60)
            raise UnusableDefinition(f"its permission of `{shown}` is not one of allow, ask, deny")
    return ToolFilter(allowed, tuple(denied)), mode


def _names(names: Iterable[str] | None, remarks: list[str]) -> Iterable[str]:
    """The tools of a list. `Bash(git *)` becomes `Bash`: each command needs its permission anyway."""
    for name in names or ():
        tool, bracket, _ = name.strip().partition("(")
        if bracket:
            remarks.append(f"`{clean_line(name, 60)}`: the part in brackets is not used")
        yield tool.strip()


def _strictest(rule: Value) -> str:
    """What opencode's permission of one tool means here. Patterns of commands mean that you are asked."""
    if isinstance(rule, dict):
        answers = {str(answer).strip().casefold() for answer in cast(dict[str, Value], rule).values()}
        if str(rule.get("*", "")).strip().casefold() == "deny":
            return "deny"
        return "allow" if answers <= {"allow"} else "ask"
    return str(rule).strip().casefold()


def _model(content: MarkdownFile, remarks: list[str]) -> str | None:
    text = clean_line(content.text("model"), 200)
    text = text.removesuffix("[1m]")  # Claude Code's mark for a large context
    if text.casefold() in _CLAUDE_MODELS:
        remarks.append(f"its model `{text}` has no version: it works with the model of the session")
        return None
    return None if not text or text.casefold() in ("inherit", "default") else text


def _requests(content: MarkdownFile) -> int | None:
    for key in ("maxturns", "max-turns", "steps", "maxsteps", "max-steps"):
        text = content.text(key).strip()
        if text.isdecimal() and int(text[:6]) > 0:
            return int(text[:6])
    return None


class AgentSet(DefinitionSet[AgentDefinition]):
    """The custom agents that can be used in one session."""

    def __init__(self) -> None:
        super().__init__(agent_folders(), parse_agent)

    @property
    def modes(self) -> list[AgentDefinition]:
        """The agents that are modes of the session."""
        return [agent for agent in self.usable.values() if agent.as_mode]

    @property
    def subagents(self) -> list[AgentDefinition]:
        """The agents for sub-agents."""
        return [agent for agent in self.usable.values() if agent.as_subagent]
