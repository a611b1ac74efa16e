"""Script files that say how to make the program under test do what rules are about."""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from msgspec import Struct, field

from accord.errors import UsageError
from accord.trace.trace_steps import at

# MERGED check.script: Scripts: what a checker must know of one program so that it does what rules are about. What both kinds have in common.


class CheckScript(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A script; `ACTS` says what each act of its kind makes a program do."""

    ACTS: ClassVar[Mapping[str, str]] = {}

    name: str
    ours: bool = False
    """It is for one of Accord's own programs, which Accord's choices bind."""
    environment: dict[str, str] = field(default_factory=dict[str, str])


ScriptT = TypeVar("ScriptT", bound=CheckScript)


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with `{name}` replaced; other braces stay."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def read_script(path: Path, kind: type[ScriptT]) -> ScriptT:
    """The script in a file; raises `UsageError` where it is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the script {path}: {error.strerror}") from None
    return _parse(data, str(path), kind)


def shipped(name: str, kind: type[ScriptT]) -> ScriptT:
    """A script of the package."""
    file = f"{name}.json"
    return _parse(files("accord.check").joinpath("scripts", file).read_bytes(), file, kind)


def _parse(data: bytes, where: str, kind: type[ScriptT]) -> ScriptT:
    try:
        script = msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the script {where} cannot be used: {error}") from None
    acts: Mapping[str, Any] = getattr(script, "acts", {})
    unknown = [name for name in acts if name not in kind.ACTS]
    if unknown:
        raise UsageError(
            f"the script {where} has an unknown act {unknown[0]!r}; there are: {', '.join(kind.ACTS)}"
        )
    return script


# MERGED check.agent.script: Scripts for agents: prompts that make an agent do what rules are about. The format is described in docs/check.md.
#
# Two ship: `accord.json` for `accord agent` on its rehearsal model, `plain.json` in plain English for everybody else.

AGENT_ACTIONS: Final = {
    "talk": "answer with some text",
    "lines": "answer with text of several lines",
    "echo": "answer with {text}, which holds what is not ASCII",
    "think": "think aloud",
    "plan": "make a plan of several entries, and then change it",
    "read": "read the file {file}, a relative path, and tell what is in it",
    "read_path": "read the file {path}, an absolute path, and tell what is in it",
    "search": "look for the text {text} in its files, and say in which line it is",
    "write": "make the file {file} with the text {text}",
    "permission": "make the file {file}; it has to be something that the agent asks permission for",
    "run": "run a short command",
    "busy": "be busy until somebody cancels",
    "ask": "ask the user for a piece of text in a form",
    "ask_url": "send the user to a web page",
    "change_mode": "change to another mode by itself",
    "command": "a prompt that begins with one of its slash commands",
    "tell": "learn the word {word}",
    "recall": "tell the word it has learned earlier",
    "notice": "give a notice",
    "compact": "compact the context",
    "delegate": "let a sub-agent do something",
    "mcp": "use a tool of the MCP server `check`",
    "obey": "answer so that its system prompt shows",
}
"""What each act makes an agent do."""


class ScriptedPrompt(Struct, frozen=True, forbid_unknown_fields=True):
    """One prompt. `shows` is a text the agent says only when it did it."""

    prompt: str
    shows: str = ""

    def filled(self, **values: str) -> str:
        """The prompt with its placeholders filled in."""
        return fill(self.prompt, values)


class AgentCheckScript(CheckScript, frozen=True, rename="camel"):
    """What a checker may ask of an agent, and how it is started in strict mode."""

    ACTS: ClassVar[Mapping[str, str]] = AGENT_ACTIONS

    agents: tuple[str, ...] = ()
    """The names (`agentInfo.name`) of the agents it is for."""
    strict: tuple[str, ...] = ()
    """The words that are added to the command for strict mode; none: it has no such mode."""
    login: str = ""
    """The auth method that may be tried: it signs in without a person."""
    provider: str = ""
    """The provider that may be set and disabled."""
    forbidden_root: str = ""
    """A folder that the agent refuses as an additional root."""
    acts: dict[str, str | ScriptedPrompt] = field(default_factory=dict[str, str | ScriptedPrompt])

    def act(self, name: str) -> ScriptedPrompt | None:
        """An act, if the script has it."""
        found = self.acts.get(name)
        return ScriptedPrompt(found) if isinstance(found, str) else found


def script_for_agent(agent_info: Any) -> AgentCheckScript:
    """The shipped script that fits an agent by its name; the plain one for those nobody knows."""
    ours = shipped("accord", AgentCheckScript)
    return ours if at(agent_info, "name") in ours.agents else shipped("plain", AgentCheckScript)


# MERGED check.client.script: Scripts for clients: which words make a client do what rules are about. The format is described in docs/check.md.
#
# Two ship: `run.json` for `accord run`, `none.json` for everybody else.

CLIENT_ACTIONS: Final = {
    "allow": "allow everything that an agent asks for, without a person",
    "reject": "allow nothing",
    "reads": "allow reading by itself, and nothing else",
    "ask": "ask a person at a terminal about everything",
    "deadline": "give up after a second or two",
    "strict": "judge messages as they are sent, without repairs",
    "session": "go on with the session {session}",
    "newest": "go on with the newest session",
    "roots": "work in the folder {extra} too",
    "servers": "give the agent MCP servers of every kind",
    "attach": "send the file {file} along with the prompt",
    "mode": "choose the mode {mode}",
    "option": "set the option {option} to {value}",
    "delete": "delete the session {session}",
}
"""What each act makes a client do."""


class ScriptedCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """Words of the command line, and what goes with them."""

    words: tuple[str, ...] = ()
    terminal: bool = False
    """Whether the client needs a terminal for it."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, Any] = field(default_factory=dict[str, Any])
    """Files by their path, which begins with `{home}` or `{folder}`: text, or JSON."""


class ClientCheckScript(CheckScript, frozen=True, rename="camel"):
    """What a checker may ask of a client."""

    ACTS: ClassVar[Mapping[str, str]] = CLIENT_ACTIONS

    clients: tuple[str, ...] = ()
    """The names (`clientInfo.name`) of the clients it is for."""
    cancels: bool = False
    """Whether an interrupt (Ctrl-C) cancels the turn."""
    acts: dict[str, tuple[str, ...] | ScriptedCommand] = field(default_factory=dict[str, Any])

    def act(self, name: str) -> ScriptedCommand | None:
        """An act, if the script has it."""
        found = self.acts.get(name)
        return (
            found
            if found is None or isinstance(found, ScriptedCommand)
            else ScriptedCommand(words=tuple(found))
        )


def write_files(act: ScriptedCommand, values: Mapping[str, str]) -> None:
    """The files that go with an act."""
    for name, content in act.files.items():
        path = Path(fill(name, values))
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, str) else msgspec.json.encode(content).decode()
        path.write_text(fill(data, values), "utf-8")


def script_for_client(client_info: Any) -> ClientCheckScript:
    """The shipped script that fits a client by its name; one without acts for those nobody knows."""
    ours = shipped("run", ClientCheckScript)
    return ours if at(client_info, "name") in ours.clients else shipped("none", ClientCheckScript)
