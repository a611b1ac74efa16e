"""Scripts for agents: prompts that make an agent do what rules are about. The format is described in docs/check.md.

Two ship: `accord.json` for `accord agent` on its rehearsal model, `plain.json` in plain English for everybody else.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from msgspec import Struct, field

from accord.check.script import Script, fill, shipped
from accord.trace.exchange import at

ACTS: Final = {
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


class Act(Struct, frozen=True, forbid_unknown_fields=True):
    """One prompt. `shows` is a text the agent says only when it did it."""

    prompt: str
    shows: str = ""

    def filled(self, **values: str) -> str:
        """The prompt with its placeholders filled in."""
        return fill(self.prompt, values)


class AgentScript(Script, frozen=True, rename="camel"):
    """What a checker may ask of an agent, and how it is started in strict mode."""

    ACTS: ClassVar[Mapping[str, str]] = ACTS

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
    acts: dict[str, str | Act] = field(default_factory=dict[str, str | Act])

    def act(self, name: str) -> Act | None:
        """An act, if the script has it."""
        found = self.acts.get(name)
        return Act(found) if isinstance(found, str) else found


def script_for_agent(agent_info: Any) -> AgentScript:
    """The shipped script that fits an agent by its name; the plain one for those nobody knows."""
    ours = shipped("accord", AgentScript)
    return ours if at(agent_info, "name") in ours.agents else shipped("plain", AgentScript)
