"""`/mcp`: how the MCP servers of the session stand. Their prompts are commands as well."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accord.agent.turn import Turn
from accord.coder.commands.command import Ask, BuiltIn, Reply, attached
from accord.coder.tools.tool import one_line
from accord.errors import AccordError

if TYPE_CHECKING:
    from accord.coder.mcp.hooks import ServerState
    from accord.coder.mcp.prompt import McpPrompt
    from accord.coder.workbench import Workbench


async def run(text: str, turn: Turn, bench: "Workbench") -> Reply:
    """List the servers."""
    servers = bench.conversation.mcp
    states = servers.states if servers is not None else ()
    if not states:
        return Reply("This session has no MCP servers: the client gives them when it opens a session.")
    return Reply("\n".join(["MCP servers of this session:", "", *map(_line, states)]))


def _line(state: "ServerState") -> str:
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

    async def run(self, text: str, turn: Turn, bench: "Workbench", /) -> Reply | Ask:
        """Have the server write the prompt, and ask the model that."""
        model = await bench.model()
        try:
            parts = await self.prompt.parts(text, sees_images=model.sees_images)
        except AccordError as error:
            return Reply(f"Nothing was asked: {one_line(str(error), 500)}")
        return Ask((*parts, *await attached(turn, bench)))


MCP: Final = BuiltIn("mcp", "Show how the MCP servers stand", None, run)
