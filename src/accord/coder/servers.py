"""The MCP servers of a session: started in its background, and what they want of the session and its user."""

from typing import TYPE_CHECKING, Any

from accord.agent.elicitation import ElicitationAnswer
from accord.coder.mcp.host import McpHost
from accord.errors import AccordError
from accord.schema.codec import Mismatch, read
from accord.schema.elicitation import ElicitationSchema

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.conversation import Conversation


def start_servers(conversation: "Conversation") -> McpHost:
    """Start them all; the session goes on meanwhile."""
    session = conversation.session
    host = McpHost(
        session.mcp_servers,
        cwd=session.cwd,
        roots=session.roots,
        hooks=_Hooks(conversation),
        clock=conversation.clock,
        acp=session.mcp_request,
    )
    host.start()
    return host


class _Hooks:
    """What a session does for its servers."""

    def __init__(self, conversation: "Conversation") -> None:
        self._conversation = conversation

    def changed(self) -> None:
        """Their prompts are slash commands: these may be others now."""
        self._conversation.soon(self._offer())

    async def _offer(self) -> None:
        bench = self._conversation.made_bench
        if bench is not None:
            await bench.offer_commands()

    def failed(self, name: str, why: str) -> None:
        """The user is told; everything else goes on."""
        notice = self._conversation.session.notice(f"MCP server {name} failed", why, severity="warning")
        self._conversation.soon(notice)

    async def elicit_form(self, message: str, schema: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """A server asks by a form; without a turn, or a client that shows forms, nobody is there to be asked."""
        turn = self._turn()
        if turn is None or not turn.client.can_show_forms:
            return "decline", None
        try:
            form = read(ElicitationSchema, schema)
            answer = await turn.elicit(message, form)
        except (Mismatch, AccordError):
            return "decline", None  # a form that cannot be shown, or one that asks for a secret
        return _action(answer), dict(answer.content) if answer else None

    async def elicit_url(self, message: str, url: str) -> str:
        """A server wants a page to be opened."""
        turn = self._turn()
        if turn is None or not turn.client.can_open_urls:
            return "decline"
        try:
            return _action(await turn.elicit_url(message, url))
        except AccordError:
            return "decline"

    def _turn(self) -> "Turn | None":
        turn = self._conversation.session.turn
        return turn if turn is not None and turn.live else None


def _action(answer: ElicitationAnswer) -> str:
    if answer:
        return "accept"
    return "decline" if answer.action == "decline" else "cancel"
