"""Reads hooks in the form of Claude Code from `config.toml`, `hooks.json` and project files."""

import fnmatch
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct

from accord.coder.permissions.project_files import ProjectFile, read_bounded
from accord.errors import BadSettings
from accord.safe_text import one_line

Event: TypeAlias = Literal[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "UserPromptSubmit",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "Notification",
]
EVENTS: Final[tuple[Event, ...]] = Event.__args__

HOOKS_FILE: Final = "hooks.json"
"""The user's own file in the config folder, besides `[hooks]` in `config.toml`."""
_OWN_KEYS: Final = ("format", "disableAllHooks")
_NAME_LIST: Final = re.compile(r"[A-Za-z0-9_|]*")
_CONDITION: Final = re.compile(r"(?P<tool>[A-Za-z0-9_*-]+)(?:\((?P<pattern>.*)\))?", re.DOTALL)
_CONDITION_KEYS: Final = (
    *("command", "file_path", "path", "source", "destination", "url", "query", "pattern"),
)
"""The arguments that a condition is compared with."""
_MAX_HOOKS: Final = 100
MAX_SECONDS: Final = 3600.0
"""The longest time for any hook."""

TOOL_NAMES: Final[Mapping[str, str]] = {
    "bash": "Bash",
    "edit_file": "Edit",
    "write_file": "Write",
    "read_file": "Read",
    "glob": "Glob",
    "grep": "Grep",
    "list_files": "LS",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "agent": "Task",
    "plan": "TodoWrite",
    "leave_plan_mode": "ExitPlanMode",
    "ask_user": "AskUserQuestion",
    "skill": "Skill",
}
"""What Claude Code calls our tools."""
MORE_TOOL_NAMES: Final[Mapping[str, tuple[str, ...]]] = {"agent": ("Agent",)}
"""Other names of Claude Code that a matcher may use."""


class HookHandler(Struct, frozen=True):
    """An entry of `hooks`. Unknown keys are ignored: other programs add their own."""

    type: str = "command"
    """Only `command` runs."""
    command: str = ""
    """A shell line; with `args` a program that is started without a shell."""
    args: tuple[str, ...] | None = None
    """The arguments of the program."""
    timeout: Annotated[float, Meta(gt=0)] | None = None
    """Seconds, 3600 at most. Default: 600; 30 for prompts and the start of a session or sub-agent."""
    condition: str | None = msgspec.field(default=None, name="if")
    """A rule such as `Bash(git *)`: the hook runs only for calls that fit."""
    on_failure: Literal["continue", "block"] = msgspec.field(default="continue", name="onFailure")
    """`block`: a hook that fails blocks the action."""
    runs_beside: bool = msgspec.field(default=False, name="async")
    """Whether it runs in the background; it can decide nothing then."""
    reports_block: bool = msgspec.field(default=False, name="asyncRewake")
    """The same, and with exit code 2 its stderr goes to the model."""
    once: bool = False
    """Whether it runs once per session."""


class HookGroup(Struct, frozen=True):
    """An entry of an event: which calls it is for, and what runs."""

    hooks: list[Any]
    """The commands, see below."""
    matcher: str = ""
    """Names, separated by `|`; with other characters a regular expression. Empty matches all."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One command for one event."""

    event: Event
    matcher: str
    command: str
    args: tuple[str, ...] | None
    """With arguments the command is a program; without, a shell line."""
    timeout: float | None
    condition: str | None
    """A rule such as `Bash(git *)`; other tool calls do not start the hook."""
    blocks_on_failure: bool
    runs_beside: bool
    """Whether it runs in the background from the beginning."""
    reports_block: bool
    """Whether the model gets its stderr when it exits with 2 in the background."""
    once: bool
    source: str
    """The file that names it, for messages."""

    @property
    def line(self) -> str:
        """The command with its arguments, for display."""
        return self.command if self.args is None else shlex.join((self.command, *self.args))

    def matches(self, names: Iterable[str]) -> bool:
        """Whether one of the names fits the matcher. Events without names fit every matcher."""
        names = tuple(names)
        if self.matcher in ("", "*") or not names:
            return True
        if _NAME_LIST.fullmatch(self.matcher):
            return not set(self.matcher.split("|")).isdisjoint(names)
        return any(re.search(self.matcher, name) for name in names)

    def fits_call(self, names: Iterable[str], arguments: Mapping[str, Any], cwd: str) -> bool:
        """Whether a tool call fits the condition: one of the commands of a line, or the path in any form."""
        if self.condition is None:
            return True
        condition = _CONDITION.fullmatch(self.condition.strip())
        if condition is None or not any(fnmatch.fnmatchcase(name, condition["tool"]) for name in names):
            return False
        pattern = condition["pattern"]
        if pattern is None:
            return True
        pattern = re.sub(r":\*$", "*", pattern)  # `Bash(git:*)`
        values = [arguments.get(key) for key in _CONDITION_KEYS]
        subjects = [value for value in values if isinstance(value, str)]
        if isinstance(line := arguments.get("command"), str):
            commands = _commands_of(line)
            if commands is None:
                return True
            subjects += commands
        for path in (arguments.get("file_path"), arguments.get("destination")):
            if isinstance(path, str):
                subjects.append(os.path.relpath(os.path.join(cwd, path), cwd))
        return any(fnmatch.fnmatchcase(subject, pattern) for subject in subjects)


def _commands_of(line: str) -> list[str] | None:
    """The commands that a shell line runs, also inside other commands. None if that is not certain."""
    from accord.policy.programs.executed_commands import executed_commands
    from accord.policy.shell.command_line import parse_line

    found = executed_commands(parse_line(line))
    if not found.parsed or any(command.program is None for command in found.commands):
        return None
    return [" ".join(word.unquoted or "?" for word in command.words) for command in found.commands]


@dataclass(slots=True)
class HookSet:
    """The hooks of a session."""

    hooks: list[Hook] = field(default_factory=list[Hook])
    problems: list[str] = field(default_factory=list[str])
    """One line for each entry that is not used."""
    formats: bool = False
    """Whether edited files are formatted."""

    def add(self, value: Any, source: str) -> None:
        """Add the hooks of one file: an object with events, each with a list of groups."""
        if not isinstance(value, dict):
            self._report(f"{source}: hooks: not an object")
            return
        events = cast(dict[str, Any], value)
        unknown = [name for name in events if name not in EVENTS and name not in _OWN_KEYS]
        if unknown:
            self._report(f"{source}: there is no hook event {', '.join(map(str, unknown))[:200]}")
        for event in EVENTS:
            for number, group in enumerate(_items(events.get(event, []))):
                self._add_group(event, group, source, f"hooks.{event}[{number}]")

    def _add_group(self, event: Event, value: Any, source: str, key: str) -> None:
        try:
            group = msgspec.convert(value, HookGroup)
            if not _NAME_LIST.fullmatch(group.matcher):
                re.compile(group.matcher if group.matcher != "*" else "")
        except re.error as error:
            self._report(f"{source}: {key}.matcher: not a regular expression: {error}")
            return
        except msgspec.ValidationError as error:
            self._report(f"{source}: {key}: {error}")
            return
        for item in group.hooks:
            try:
                handler = msgspec.convert(item, HookHandler)
            except msgspec.ValidationError as error:
                self._report(f"{source}: {key}: {error}")
                continue
            if handler.type != "command" or not handler.command.strip():
                kind = f"type {handler.type!r}" if handler.type != "command" else "an empty command"
                self._report(f"{source}: {key}: {kind[:80]} is not supported; use type 'command'")
            elif handler.condition is not None and not _CONDITION.fullmatch(handler.condition.strip()):
                self._report(f"{source}: {key}.if: {handler.condition[:80]!r} is not like `Bash(git *)`")
            elif len(self.hooks) >= _MAX_HOOKS:
                self._report(f"{source}: {key}: there are more than {_MAX_HOOKS} hooks")
            else:
                self.hooks.append(_hook(event, group.matcher, handler, source))

    def _report(self, problem: str) -> None:
        self.problems.append(one_line(problem, 500))


def _hook(event: Event, matcher: str, handler: HookHandler, source: str) -> Hook:
    return Hook(
        event=event,
        matcher=matcher,
        command=handler.command,
        args=handler.args,
        timeout=None if handler.timeout is None else min(handler.timeout, MAX_SECONDS),
        condition=handler.condition,
        blocks_on_failure=handler.on_failure == "block",
        runs_beside=handler.runs_beside or handler.reports_block,
        reports_block=handler.reports_block,
        once=handler.once,
        source=source,
    )


def _items(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]


def load_hooks(config: Mapping[str, Any], folder: Path, project: Iterable[ProjectFile]) -> HookSet:
    """The hooks of the user and of the trusted project files. Reads the disk; never raises.

    `config` is the content of the user's config file. `disableAllHooks` of the user switches everything off,
    that of a project file only that file.
    """
    found = HookSet()
    own: Any = config.get("hooks", {})
    own_hooks = cast(dict[str, Any], own) if isinstance(own, dict) else {}
    user_files: list[tuple[Any, str]] = [(own, "config.toml")]
    file = folder / HOOKS_FILE
    try:
        user_files.append((_hooks_in(read_bounded(file)), str(file)))
    except FileNotFoundError:
        pass
    except OSError as error:
        found.problems.append(f"{file}: cannot be read ({error.strerror})")
    except BadSettings as error:
        found.problems.append(f"{file}: {error}")
    if any(_is_disabled(value) for value, _ in user_files):
        return HookSet()
    for value, source in user_files:
        found.add(value, source)
    found.formats = own_hooks.get("format") is True
    for project_file in project:
        try:
            found.add(_hooks_in(project_file.content), project_file.name)
        except BadSettings as error:
            found.problems.append(f"{project_file.name}: {error}")
    return found


def _is_disabled(value: Any) -> bool:
    return isinstance(value, dict) and cast(dict[str, Any], value).get("disableAllHooks") is True


def _hooks_in(content: bytes) -> Any:
    """The `hooks` of a settings file. Raises BadSettings."""
    try:
        value: Any = msgspec.json.decode(content)
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise BadSettings(f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadSettings("not an object")
    settings = cast(dict[str, Any], value)
    if settings.get("disableAllHooks") is True:
        return {"disableAllHooks": True}
    return settings.get("hooks", {})
