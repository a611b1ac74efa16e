"""Another ACP agent in place of the model: prompts go to its session, its updates are passed on as ours."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from accord.agent.tool_call_scope import ToolCallScope
from accord.client.client_events import ClientEvent
from accord.client.client_session import ClientSession
from accord.client.prompt_turn import turn_result
from accord.coder.acp_agents.agent_pool import ASKING_MODES, AgentPool, failure_of
from accord.coder.acp_agents.delegated_task import request_usage
from accord.coder.acp_agents.session_consent import SessionConsent
from accord.coder.bounded_text import truncate, wrap_in_tag
from accord.coder.context.history_summary import transcript
from accord.coder.model_history import Part, TextPart, UserMessage, assistant_message
from accord.coder.models.model import ModelError
from accord.coder.session.coder_session import CoderSession, RemoteSession, UsageTotal
from accord.coder.turn.agent_loop import TURN_CANCELLED
from accord.coder.turn.usage_budget import UsageBudget
from accord.errors import AccordError, AuthRequired, NeverStarted, UsageError
from accord.frontend.agent_config import UnknownAgent
from accord.safe_text import one_line
from accord.schema.content import ContentBlock, ImageContent, StopReason, Terminal, TextContent
from accord.schema.updates import AgentMessageChunk, AgentThoughtChunk, Notice, PlanItems, UsageUpdate
from accord.session.events import PlanChanged, ToolCallChanged, TurnEnded

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.permissions.permission_gate import PermissionGate

TakeMessages = Callable[[], Awaitable[Sequence[Part]]]
"""Takes, and logs, what the user has sent during the turn."""

_EARLIER_CHARS: Final = 40_000
"""How much of the conversation before it an agent is told."""
_READING_MODES: Final = ("plan", "read-only", "readonly")
_ENDS: Final = ("completed", "failed")


class AgentModel:
    """The other agent of one session, with its session."""

    def __init__(self, pool: AgentPool, session: CoderSession, gate: "PermissionGate", name: str) -> None:
        self.name: str = name
        self._pool = pool
        self._session = session
        self._consent = SessionConsent(session, gate, name)
        self._remote: ClientSession | None = None
        self._calls: dict[str, ToolCallScope] = {}
        self._ended: TurnEnded | None = None

    async def answer(
        self, turn: "Turn", parts: Sequence[Part], usage: UsageTotal, take_messages: TakeMessages
    ) -> StopReason:
        """Let the agent answer a prompt, and what the user sends meanwhile. Raises ModelError."""
        session, history = self._session, self._session.history
        resources = session.resources
        limits = UsageBudget(resources.options.budgets, resources.config, usage, session.usage)
        questions = self._consent.questions
        questions.turn, questions.find_call = turn, self._calls.get
        questions.note = lambda text: session.spawn(turn.notice("Refused", text, severity="warning"))
        try:
            while True:
                if (limit := limits.reached()) is not None:
                    await turn.notice("Stopped at a limit", limit, severity="warning")
                    return "max_turn_requests"
                remote, blocks = await self._open(turn, parts)
                history.add(UserMessage(tuple(parts)))
                reason = await self._prompt(turn, remote, blocks, usage)
                if reason != "end_turn" or session.steering.close_if_empty(turn):
                    return reason
                parts = await take_messages()
        finally:
            questions.turn = None
            for call in self._calls.values():
                await call.__aexit__(None, None, None)
            self._calls.clear()

    async def _open(self, turn: "Turn", parts: Sequence[Part]) -> tuple[ClientSession, list[ContentBlock]]:
        """The agent's session, and the prompt for it. A new one is told what was said before."""
        blocks = [_block(part) for part in parts]
        shown = one_line(self.name, 60)
        try:
            if self._remote is None or self._remote.closed or not self._remote.agent.connected:
                self._remote = await self._load(turn)
            if self._remote is None:
                self._remote = await self._pool.open(self.name, self._consent)
                self._session.use_remote_session(RemoteSession(self.name, self._remote.id))
                if earlier := transcript(self._session.history.messages):
                    text = wrap_in_tag("earlier-conversation", truncate(earlier, _EARLIER_CHARS))
                    blocks.insert(0, TextContent(f"{text}\nGo on from there."))
            await self._align_mode(self._remote)
            return self._remote, blocks
        except AccordError as error:
            raise ModelError("other", f"acp:{shown}: {failure_of(self.name, error)}") from None

    async def _load(self, turn: "Turn") -> ClientSession | None:
        """The session that the agent had for ours, if it can load it."""
        stored = self._session.remote_session
        if stored is None or stored.agent != self.name:
            return None
        try:
            return await self._pool.open(self.name, self._consent, resume=stored.session_id)
        except (AuthRequired, NeverStarted, UnknownAgent):
            raise
        except AccordError as error:
            shown = one_line(self.name, 60)
            text = f"it begins anew with the conversation as text ({one_line(str(error), 300)})"
            await turn.notice(f"{shown} cannot continue its session", text, severity="warning")
            return None

    async def _align_mode(self, remote: ClientSession) -> None:
        """Choose a mode of the agent that permits no more than that of our session."""
        modes = [mode.id for mode in remote.state.settings.modes or ()]
        current = remote.state.settings.current_mode_id
        if self._session.mode in ("read-only", "plan"):
            reading = next((mode for mode in _READING_MODES if mode in modes), None)
            if reading is None:
                mode = self._session.mode
                raise UsageError(f"it has no mode that only reads, so it cannot work in the mode `{mode}`")
            if current != reading:
                await remote.set_mode(reading)
        elif current in _READING_MODES:
            asking = next((mode for mode in ASKING_MODES if mode in modes), None)
            if asking is not None:
                await remote.set_mode(asking)

    async def _prompt(
        self, turn: "Turn", remote: ClientSession, blocks: list[ContentBlock], usage: UsageTotal
    ) -> StopReason:
        before = remote.state.usage
        self._ended = None
        running = asyncio.ensure_future(self._follow(turn, remote, blocks))
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            await self._pool.stop(self.name, remote, running)
            self._session.history.add(assistant_message(TURN_CANCELLED))
            raise
        finally:
            used = request_usage(remote, self._ended, before)
            usage.add(used)
            self._session.add_usage(used)
        error = None if running.cancelled() else running.exception()
        if error is not None:
            if not isinstance(error, AccordError):
                raise error
            self._session.history.add(assistant_message(f"(It broke off: {one_line(str(error), 300)})"))
            raise ModelError("other", f"acp:{one_line(self.name, 60)}: {failure_of(self.name, error)}")
        if self._ended is None:
            return "cancelled"
        text = turn_result(remote.state, self._ended).text
        self._session.history.add(assistant_message(text or "(no answer)"))
        return self._ended.stop_reason or "end_turn"

    async def _follow(self, turn: "Turn", remote: ClientSession, blocks: list[ContentBlock]) -> None:
        async for event in remote.prompt(blocks):
            await self._pass_on(turn, event)

    async def _pass_on(self, turn: "Turn", event: ClientEvent) -> None:
        """Send an event of the agent as an update of our session."""
        if isinstance(event, TurnEnded):
            self._ended = event
        elif isinstance(event, AgentMessageChunk):
            await turn.say(event.content)
        elif isinstance(event, AgentThoughtChunk):
            await turn.think(event.content)
        elif isinstance(event, ToolCallChanged):
            await self._show_call(turn, event)
        elif isinstance(event, PlanChanged):
            if isinstance(event.plan, PlanItems):
                self._session.plan = list(event.plan.entries)
                await turn.plan(event.plan.entries)
        elif isinstance(event, UsageUpdate):
            self._session.context_tokens = event.used
            await turn.update(UsageUpdate(event.used, event.size, event.cost or UNSET))
        elif isinstance(event, Notice):
            await turn.notice(event.title, event.description or None, severity=event.severity)

    async def _show_call(self, turn: "Turn", event: ToolCallChanged) -> None:
        """Show a tool call of the agent as ours, without its terminals: the client does not know them."""
        call = event.call
        scope = self._calls.get(call.tool_call_id)
        locations = list(call.locations)
        content = [item for item in call.content if not isinstance(item, Terminal)]
        if scope is None:
            scope = turn.tool_call(
                call.label, kind=call.kind, name=call.name, locations=locations, raw_input=call.raw_input
            )
            self._calls[call.tool_call_id] = scope
            await scope.__aenter__()
        elif scope.open and event.patch.title:
            await scope.title(call.label)
        if not scope.open:
            return  # a rejected call: nothing follows
        if call.status in _ENDS:
            await scope.finish(
                content=content or None,
                raw_output=call.raw_output,
                locations=locations or None,
                failed=call.status == "failed",
            )
            return
        if call.status == "in_progress":
            await scope.start()
        if content:
            await scope.replace(content)


def _block(part: Part) -> ContentBlock:
    if isinstance(part, TextPart):
        return TextContent(part.text)
    return ImageContent(base64.b64encode(part.data).decode(), part.mime_type)
