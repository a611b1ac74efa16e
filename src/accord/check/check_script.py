"""Script files: prompts or arguments that make the program under test do what a rule is about."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import Struct, field

from accord.errors import UsageError
from accord.file_format import FileFormat
from accord.schema.validation import explain_setting_error
from accord.trace.trace_steps import at


class CheckScript(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A script. `ACTIONS` says what each action makes the program do; the JSON member is `acts`."""

    ACTIONS: ClassVar[Mapping[str, str]] = {}
    SHIPPED: ClassVar[tuple[str, str]] = ("", "")
    """The scripts that ship: for Accord's own program, and for others."""

    name: str
    ours: bool = False
    """Whether the program belongs to Accord, so that Accord's own choices apply to it."""
    environment: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def programs(self) -> tuple[str, ...]:
        """The names (`agentInfo.name`, `clientInfo.name`) of the programs it is for."""
        return ()

    def accepts_code(self, code: Any, accords: int) -> bool:
        """Whether an error has an acceptable code, where the protocol names none.

        Accord's own programs use the code `accords`; others may use any.
        """
        return code == accords if self.ours else code is not None


ScriptT = TypeVar("ScriptT", bound=CheckScript)


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace each `{name}` by its value; other braces stay."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def read_script(path: Path, script_type: type[ScriptT]) -> ScriptT:
    """Read a script file. Raises `UsageError`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror}") from None
    return _parse_script(data, str(path), script_type)


def shipped_script(name: str, script_type: type[ScriptT]) -> ScriptT:
    """A script that ships with Accord."""
    file = f"{name}.json"
    return _parse_script(files("accord.check").joinpath("scripts", file).read_bytes(), file, script_type)


def script_for(info: Any, script_type: type[ScriptT]) -> ScriptT:
    """The shipped script for a program's name, or the one for other programs."""
    own, others = script_type.SHIPPED
    script = shipped_script(own, script_type)
    return script if at(info, "name") in script.programs else shipped_script(others, script_type)


def _parse_script(data: bytes, source: str, script_type: type[ScriptT]) -> ScriptT:
    try:
        script = FileFormat().decode(data, script_type, source)
    except msgspec.ValidationError as error:
        reason, position = explain_setting_error(error, script_type)
        raise UsageError(f"invalid script {source}: {position.lstrip('.')}: {reason}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"invalid script {source}: {error}") from None
    actions: Mapping[str, Any] = getattr(script, "acts", {})
    unknown = [name for name in actions if name not in script_type.ACTIONS]
    if unknown:
        raise UsageError(
            f"the script {source} has an unknown act {unknown[0]!r}; "
            f"known acts: {', '.join(script_type.ACTIONS)}"
        )
    return script


AGENT_ACTIONS: Final = {
    "talk": "answer with some text",
    "lines": "answer with text of several lines",
    "echo": "answer with {text}, which contains non-ASCII characters",
    "think": "send a thought",
    "plan": "make a plan of several entries, and then change it",
    "read": "read the file {file}, a relative path, and tell what is in it",
    "read_path": "read the file {path}, an absolute path, and tell what is in it",
    "search": "search its files for the text {text}, and tell the line number",
    "write": "create the file {file} with the text {text}",
    "permission": "create the file {file}; the agent must ask for permission to do this",
    "run": "run a short command",
    "busy": "be busy until it is canceled",
    "ask": "ask the user for a text in a form",
    "ask_url": "send the user to a web page",
    "change_mode": "switch to another mode by itself",
    "command": "a prompt that starts with one of its slash commands",
    "tell": "remember the word {word}",
    "recall": "tell the word it was told earlier",
    "notice": "send a notice",
    "compact": "compact the context",
    "delegate": "let a sub-agent do something",
    "mcp": "use a tool of the MCP server `check`",
    "obey": "answer in a way that shows its system prompt",
}
"""What each action makes an agent do.

Two scripts ship: `accord.json` for `accord agent` with the rehearsal model, `plain.json` for other agents.
"""


class ScriptedPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """One prompt. `shows` is a text that appears only if the agent did what the prompt asks."""

    prompt: str
    shows: str = ""

    def prompt_text(self, **values: str) -> str:
        """The prompt with its placeholders filled in."""
        return fill_placeholders(self.prompt, values)


class AgentCheckScript(CheckScript, frozen=True, rename="camel"):
    """A script for an agent; docs/check.md describes the format."""

    ACTIONS: ClassVar[Mapping[str, str]] = AGENT_ACTIONS
    SHIPPED: ClassVar[tuple[str, str]] = ("accord", "plain")

    agents: tuple[str, ...] = ()
    """The names (`agentInfo.name`) of the agents it is for."""
    strict: tuple[str, ...] = ()
    """Arguments that start the agent in strict mode; empty if it has none."""
    login: str = ""
    """The id of an auth method that works without a user."""
    provider: str = ""
    """The provider that may be set and disabled."""
    forbidden_root: str = ""
    """A folder that the agent refuses as an additional root."""
    acts: dict[str, str | ScriptedPrompt] = field(default_factory=dict[str, str | ScriptedPrompt])

    @property
    def programs(self) -> tuple[str, ...]:
        return self.agents

    def action(self, name: str) -> ScriptedPrompt | None:
        action = self.acts.get(name)
        return ScriptedPrompt(action) if isinstance(action, str) else action


CLIENT_ACTIONS: Final = {
    "allow": "allow everything, without a user",
    "reject": "allow nothing",
    "reads": "allow only reading, without a user",
    "ask": "ask the user at a terminal about everything",
    "deadline": "give up after a second or two",
    "strict": "validate messages as sent, without repairs",
    "session": "continue the session {session}",
    "newest": "continue the newest session",
    "roots": "also work in the folder {extra}",
    "servers": "give the agent MCP servers of every kind",
    "attach": "attach the file {file}",
    "mode": "choose the mode {mode}",
    "option": "set the option {option} to {value}",
    "delete": "delete the session {session}",
}
"""What each action makes a client do.

Two scripts ship: `run.json` for `accord run`, `none.json` for other clients.
"""


class ScriptedCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments, environment and files that make a client do something."""

    words: tuple[str, ...] = ()
    terminal: bool = False
    """Whether the client needs a terminal."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, Any] = field(default_factory=dict[str, Any])
    """Files to create: path (starting with `{home}` or `{folder}`) to text or JSON."""


class ClientCheckScript(CheckScript, frozen=True, rename="camel"):
    """A script for a client; docs/check.md describes the format."""

    ACTIONS: ClassVar[Mapping[str, str]] = CLIENT_ACTIONS
    SHIPPED: ClassVar[tuple[str, str]] = ("run", "none")

    clients: tuple[str, ...] = ()
    """The names (`clientInfo.name`) of the clients it is for."""
    cancels: bool = False
    """Whether an interrupt (Ctrl-C) cancels the turn."""
    acts: dict[str, tuple[str, ...] | ScriptedCommand] = field(default_factory=dict[str, Any])

    @property
    def programs(self) -> tuple[str, ...]:
        return self.clients

    def action(self, name: str) -> ScriptedCommand | None:
        action = self.acts.get(name)
        return ScriptedCommand(words=action) if isinstance(action, tuple) else action


def write_files(action: ScriptedCommand, values: Mapping[str, str]) -> None:
    """Create the files of an action."""
    for name, content in action.files.items():
        path = Path(fill_placeholders(name, values))
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, str) else msgspec.json.encode(content).decode()
        path.write_text(fill_placeholders(data, values), "utf-8")
