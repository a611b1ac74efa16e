"""One task for another ACP agent: its session, shown in our tool call or as a child session."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from accord.agent.session_updates import Subagent
from accord.client.client_events import ClientEvent
from accord.client.client_session import ClientSession
from accord.client.prompt_turn import turn_result
from accord.coder.acp_agents.agent_pool import AgentPool, failure_of
from accord.coder.acp_agents.session_consent import SessionConsent
from accord.coder.bounded_text import truncate, wrap_in_tag
from accord.coder.model_history import TextPart
from accord.coder.models.model import RequestUsage
from accord.coder.session.coder_session import CoderSession, UsageTotal
from accord.coder.tools.tool import Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import Delegation, ToolContext
from accord.coder.turn.subagent_steps import StepState, SubagentStep, SubagentSteps, report_steps
from accord.errors import AccordError, InternalError, RpcError
from accord.safe_text import clean_text, one_line
from accord.schema.content import (
    Content,
    StopReason,
    Terminal,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallContent,
)
from accord.schema.updates import AgentMessageChunk, AgentThoughtChunk, Notice, UsageUpdate
from accord.session.events import ToolCallChanged, TurnEnded
from accord.session.tool_calls import ToolCallState

if TYPE_CHECKING:
    from accord.agent.turn import Turn
    from accord.coder.permissions.permission_gate import PermissionGate

_STEP_STATES: Final[dict[str, StepState]] = {"completed": "done", "failed": "failed"}


class DelegatedTask:
    """A task that another agent works on."""

    def __init__(
        self, pool: AgentPool, session: CoderSession, gate: "PermissionGate", turn: "Turn", name: str
    ) -> None:
        self._pool = pool
        self._session = session
        self._turn = turn
        self._name = name
        self._steps = SubagentSteps()
        self._calls: dict[str, SubagentStep] = {}
        self._consent = SessionConsent(session, gate, name)
        self._consent.questions.turn = turn
        self._consent.questions.note = self._steps.add_note
        self._ended: TurnEnded | None = None

    async def run(
        self, task: Delegation, report: Report, context: ToolContext, usage: UsageTotal
    ) -> ToolOutcome:
        """Run the task. Cancelling this stops the agent. Raises ToolFailure if it cannot be started."""
        shown = one_line(self._name, 60)
        reporter = asyncio.ensure_future(report_steps(self._steps, report, context))
        try:
            try:
                remote = await self._pool.open(self._name, self._consent)
            except AccordError as error:
                raise ToolFailure(
                    f"the agent {shown} cannot be used: {failure_of(self._name, error)}"
                ) from None
            child = self._turn.subagent(f"{shown}: {task.title}", cancel=remote.cancel)
            await child.add_message(task.prompt)
            try:
                return await self._prompt(remote, child, task.prompt, context)
            finally:
                used = request_usage(remote, self._ended)
                usage.add(used)
                self._session.add_usage(used)
                await self._pool.close(remote)
        finally:
            reporter.cancel()
            await asyncio.gather(reporter, return_exceptions=True)

    async def _prompt(
        self, remote: ClientSession, child: Subagent, prompt: str, context: ToolContext
    ) -> ToolOutcome:
        turn = asyncio.ensure_future(self._follow(remote, child, prompt))
        try:
            await asyncio.wait((turn,))
        except asyncio.CancelledError:
            await self._pool.stop(self._name, remote, turn)
            await child.set_idle("cancelled")
            raise
        error = None if turn.cancelled() else turn.exception()
        if error is not None and not isinstance(error, AccordError):
            raise error
        problem = ""
        if error is not None:
            problem = f"The agent {one_line(self._name, 60)} stopped: {failure_of(self._name, error)}"
            await child.set_failed(error if isinstance(error, RpcError) else InternalError(problem))
            return self._outcome(remote, "error", problem, context)
        reason = self._ended.raw_reason if self._ended is not None else "error"
        await child.set_idle(reason)
        if reason == "cancelled":
            problem = "The user stopped the agent."
        elif reason != "end_turn":
            problem = f"The agent stopped before it was done: {one_line(reason, 100)}."
        return self._outcome(remote, reason, problem, context)

    async def _follow(self, remote: ClientSession, child: Subagent, prompt: str) -> None:
        async for event in remote.prompt(prompt):
            await self._show(event, child)

    async def _show(self, event: ClientEvent, child: Subagent) -> None:
        """Show an event of the agent: as a step, and in the child session."""
        if isinstance(event, TurnEnded):
            self._ended = event
        elif isinstance(event, AgentMessageChunk | AgentThoughtChunk):
            await child.update(type(event)(event.content, event.message_id))
        elif isinstance(event, ToolCallChanged):
            self._show_step(event.call)
            await child.update(tool_call_update(event))
        elif isinstance(event, Notice):
            self._steps.add_note(event.text)

    def _show_step(self, call: ToolCallState) -> None:
        step = self._calls.get(call.tool_call_id)
        if step is None:
            step = self._calls[call.tool_call_id] = self._steps.add_call(call.label, call.locations)
        step.title = one_line(call.label, 150)
        self._steps.set_state(step, _STEP_STATES.get(call.status, "running"))

    def _outcome(
        self, remote: ClientSession, reason: StopReason | str, problem: str, context: ToolContext
    ) -> ToolOutcome:
        answer = ""
        if self._ended is not None:
            messages = [m.text for m in turn_result(remote.state, self._ended).messages if m.text.strip()]
            answer = (
                truncate(clean_text(messages[-1]).strip(), context.limits.output_chars) if messages else ""
            )
        if not answer and not problem:
            answer = f"The agent ended without an answer, after {self._steps.calls} tool calls."
        used = usage_line(remote, self._ended)
        content: list[ToolCallContent] = [*self._steps.content()]
        content += [Content(TextContent(text)) for text in (answer, problem, used) if text]
        told = wrap_in_tag("agent-output", answer) if answer else ""
        raw: Any = {"agent": self._name, "stopReason": reason, "toolCalls": self._steps.calls}
        text = "\n\n".join(filter(None, (told, problem)))
        return ToolOutcome((TextPart(text),), content, raw, reason != "end_turn")


def tool_call_update(event: ToolCallChanged) -> ToolCall | ToolCallChange:
    """The update of a child session for an event. Terminals of the agent are unknown to the client."""
    call = event.call
    content: list[ToolCallContent] = [item for item in call.content if not isinstance(item, Terminal)]
    if event.new:
        return ToolCall(
            call.tool_call_id,
            call.label,
            call.kind,
            call.status,
            content=content or UNSET,
            locations=call.locations or UNSET,
            raw_input=call.raw_input,
            name=call.name or UNSET,
        )
    return ToolCallChange(
        call.tool_call_id,
        title=call.label,
        status=call.status,
        content=content,
        locations=call.locations or UNSET,
        raw_output=call.raw_output,
    )


def request_usage(
    remote: ClientSession, ended: TurnEnded | None, before: UsageUpdate | None = None
) -> RequestUsage:
    """The tokens and the cost that the agent reports. A cost that it does not report is unknown.

    `before` is what it had reported in its session before.
    """
    counted = ended.usage if ended is not None else None
    total = remote.state.usage
    cost = total.cost if total is not None else None
    amount = cost.amount if cost and cost.currency == "USD" else None
    if amount is not None and before is not None and before.cost:
        amount = max(amount - before.cost.amount, 0.0)
    if not counted:
        return RequestUsage(0, 0, cost=amount)
    return RequestUsage(
        counted.input_tokens,
        counted.output_tokens,
        counted.cached_read_tokens or 0,
        counted.cached_write_tokens or 0,
        counted.thought_tokens or 0,
        amount,
    )


def usage_line(remote: ClientSession, ended: TurnEnded | None) -> str:
    """What the agent used, for the user; empty if it does not say."""
    used = request_usage(remote, ended)
    tokens = used.input + used.output
    parts = [f"{tokens:,} tokens"] if tokens else []
    if used.cost is not None:
        parts.append(f"${used.cost:,.4f}")
    return f"Used: {', '.join(parts)}" if parts else ""
