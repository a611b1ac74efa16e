"""Sub-agents: a delegated task in its own loop, shown inside the parent's tool call.

A sub-agent has its own history, its own record of the files it read and its own limit of requests. It shares
the permissions of the session. It cannot start sub-agents, so that the user can tell what happens and what it
costs. It cannot ask the user questions or set the plan: it does not know the conversation, and the plan
belongs to its parent.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET
from msgspec.structs import replace as replace_fields

from accord import telemetry
from accord.agent.session_updates import Subagent
from accord.agent.tool_call_scope import Location, PermissionAnswer, ToolCallScope
from accord.agent.turn import Turn
from accord.coder.bounded_text import truncate
from accord.coder.definitions.agents import AgentDefinition
from accord.coder.files.session_files import ReadFiles
from accord.coder.model_history import ModelHistory, TextPart, note_message, user_message
from accord.coder.models.model import Model, ModelError, ModelRequest, RequestUsage
from accord.coder.session.coder_session import UsageTotal
from accord.coder.tools.tool import Report, ToolOutcome, text_outcome
from accord.coder.tools.tool_context import Delegation, ToolContext
from accord.coder.turn.agent_loop import AgentLoop
from accord.coder.turn.background_agents import BackgroundAgents
from accord.coder.turn.subagent_steps import StepState, SubagentStep, SubagentSteps, report_steps
from accord.coder.turn.tool_runner import StoppableTask
from accord.errors import InternalError
from accord.schema.client_requests import PermissionOption
from accord.schema.content import (
    Content,
    StopReason,
    Terminal,
    TextContent,
    ToolCall,
    ToolCallChange,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolKind,
)
from accord.schema.updates import AgentMessageChunk, AgentThoughtChunk

if TYPE_CHECKING:
    from accord.coder.turn.session_runtime import SessionRuntime

__all__ = ["create_delegate"]


READ_KINDS: Final[frozenset[ToolKind]] = frozenset(("read", "search", "fetch", "think"))
"""Calls of these kinds appear only in the list of steps, unless the user is asked for permission."""


class SubagentCall:
    """A tool call of a sub-agent; a `ToolCallOutput`.

    Every call is a step in the list. A call that changes something, or that needs permission, is also a tool
    call of the session: the client then shows the change and knows the call that it is asked about.
    """

    def __init__(
        self,
        turn: Turn,
        child: Subagent,
        steps: SubagentSteps,
        call: ToolCall,
        sender: str,
        cancel: Callable[[], object] | None = None,
    ) -> None:
        """`sender` begins the titles that the session shows; `cancel` is for a user who stops the call."""
        self._turn = turn
        self._child = child
        self._steps = steps
        self._call = call
        self._sender = sender
        self._cancel = cancel
        self._status: ToolCallStatus = "pending"
        self._entered = False
        self._step: SubagentStep | None = None
        self._content: list[ToolCallContent] = []
        self._scope: ToolCallScope | None = None
        """The tool call in the session, if there is one."""

    @property
    def open(self) -> bool:
        """Whether it was shown and has not ended."""
        return self._entered and self._status in ("pending", "in_progress")

    async def __aenter__(self) -> "SubagentCall":
        self._entered = True
        self._step = self._steps.add_call(self._call.title, self._call.locations or ())
        await self._child.update(self._call)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.open:
            return
        if self._scope is not None:
            await self._scope.__aexit__(kind, error, trace)
        await self._end("completed" if error is None else "failed")

    # -- status ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Mark the call as running."""
        if self._call.kind not in READ_KINDS:
            await self._session_call()
        if self._scope is not None:
            await self._scope.start()
        await self._mark_running()

    async def ask_permission(self, options: Sequence[PermissionOption]) -> PermissionAnswer:
        """Ask the user, in a tool call of the session."""
        scope = await self._session_call()
        self._set_step_state("asking")
        await self._child.set_requires_action()
        try:
            answer = await scope.ask_permission(options)
        finally:
            self._set_step_state("running")
        await self._child.set_running()
        if answer:
            await self._mark_running()
        return answer

    async def fail(self, reason: str | None = None) -> None:
        """End the call as failed."""
        if not self.open:
            return
        if self._scope is not None and self._scope.open:
            await self._scope.fail(reason)
        await self._end("failed")

    async def finish(
        self,
        *,
        content: Iterable[ToolCallContent] | None = None,
        raw_output: Any = UNSET,
        locations: Iterable[Location] | None = None,
        failed: bool = False,
    ) -> None:
        """End the call with its result."""
        if content is not None:
            self._content = list(content)
        file_locations = None if locations is None else list(locations)
        if self._scope is not None and self._scope.open:
            shown_content = None if content is None else self._content
            await self._scope.finish(
                content=shown_content, raw_output=raw_output, locations=file_locations, failed=failed
            )
        change = ToolCallChange(self._call.tool_call_id, raw_output=raw_output)
        if content is not None:
            change.content = _without_terminals(self._content)
        await self._end("failed" if failed else "completed", change)

    # -- content ---------------------------------------------------------------------------------------------

    async def replace(self, content: Iterable[ToolCallContent]) -> None:
        """Replace the shown content."""
        self._content = list(content)
        if self._scope is not None:
            await self._scope.replace(self._content)
        await self._update(content=_without_terminals(self._content))

    async def locations(self, *file_locations: Location) -> None:
        """Set the files the call works on."""
        if self._scope is not None:
            await self._scope.locations(*file_locations)
        child_locations = [location for location in file_locations if isinstance(location, ToolCallLocation)]
        await self._update(locations=child_locations)

    async def title(self, title: str) -> None:
        """Change the title."""
        self._call = replace_fields(self._call, title=title)
        if self._scope is not None:
            await self._scope.title(f"{self._sender}: {title}")
        if self._step is not None:
            self._step.title = title
        await self._update(title=title)

    # -- internals -------------------------------------------------------------------------------------------

    async def _session_call(self) -> ToolCallScope:
        """The tool call in the session, created on first use."""
        if self._scope is None:
            call = self._call
            self._scope = self._turn.tool_call(
                f"{self._sender}: {call.title}",
                kind=call.kind or None,
                name=call.name or None,
                locations=call.locations or (),
                raw_input=call.raw_input,
                cancel=self._cancel,
            )
            await self._scope.__aenter__()
            if self._content:
                await self._scope.replace(self._content)
        return self._scope

    async def _mark_running(self) -> None:
        if self._status == "pending":
            self._status = "in_progress"
            await self._update(status="in_progress")

    async def _end(self, status: ToolCallStatus, change: ToolCallChange | None = None) -> None:
        if not self.open:
            return
        if status == "completed":
            await self._mark_running()
        self._status = status
        self._set_step_state("done" if status == "completed" else "failed")
        final_change = change or ToolCallChange(self._call.tool_call_id)
        final_change.status = status
        await self._child.update(final_change)

    async def _update(self, **changed: Any) -> None:
        await self._child.update(ToolCallChange(self._call.tool_call_id, **changed))

    def _set_step_state(self, state: StepState) -> None:
        if self._step is not None:
            self._steps.set_state(self._step, state)


def _without_terminals(content: Iterable[ToolCallContent]) -> list[ToolCallContent]:
    """Without terminals: they belong to the session, and its child session does not know them."""
    return [item for item in content if not isinstance(item, Terminal)]


class SubagentOutput:
    """Output of a sub-agent: steps in the parent's tool call, and updates of the child session if the client
    shows it.

    Intermediate text goes to the child session only. The last text is the result of the task.
    """

    def __init__(self, turn: Turn, child: Subagent, steps: SubagentSteps, sender: str) -> None:
        """`sender` is the sub-agent's name in questions to the user."""
        self._turn = turn
        self._child = child
        self._steps = steps
        self._sender = sender
        self._message_kind: type[AgentMessageChunk | AgentThoughtChunk] | None = None
        self._message_id = ""

    async def say(self, content: str) -> None:
        """Send a piece of an answer."""
        await self._send(AgentMessageChunk, content)

    async def say_separately(self, text: str) -> None:
        """Send a message of its own."""
        self._message_kind = None
        await self.say(text)
        self._message_kind = None

    async def think(self, content: str) -> None:
        """Send a piece of reasoning."""
        await self._send(AgentThoughtChunk, content)

    async def notice(self, title: str, description: str | None = None, *, severity: str = "info") -> None:
        """Add a note to the list of steps."""
        self._steps.add_note(title if description is None else f"{title}: {description}")

    def tool_call(
        self,
        title: str,
        *,
        kind: ToolKind | None = None,
        name: str | None = None,
        locations: Iterable[Location] = (),
        raw_input: Any = UNSET,
        cancel: Callable[[], object] | None = None,
    ) -> SubagentCall:
        """Start a tool call."""
        self._message_kind = None
        file_locations = [location for location in locations if isinstance(location, ToolCallLocation)]
        call = ToolCall(
            self._turn.session.new_tool_call_id(),
            title,
            UNSET if kind is None else kind,
            "pending",
            locations=file_locations or UNSET,
            raw_input=raw_input,
            name=UNSET if name is None else name,
        )
        return SubagentCall(self._turn, self._child, self._steps, call, self._sender, cancel)

    async def _send(self, kind: type[AgentMessageChunk | AgentThoughtChunk], text: str) -> None:
        if not self._child.shown:
            return
        if self._message_kind is not kind:
            self._message_kind = kind
            self._message_id = self._turn.session.new_message_id()
        await self._child.update(kind(TextContent(text), self._message_id))


SUBAGENT_RULES: Final = (
    "You are a sub-agent: another agent has given you one task, which follows. You know nothing else of its "
    "conversation, and you cannot ask questions. Do the task with your tools, as far as possible. Only your "
    "last message reaches the other agent: put everything in it that the task asks for, with paths and line "
    "numbers, what you changed, and what you could not do."
)
_EXCLUDED_TOOLS: Final = ("agent", "ask_user", "plan", "leave_plan_mode")
_WITHHELD: Final = dict.fromkeys(("ask_user", "delegate", "background", "set_plan", "leave_plan_mode"))
"""The members of the context that a sub-agent does not have."""
_STOP_MESSAGES: Final[dict[StopReason, str]] = {
    "max_turn_requests": (
        "The sub-agent was stopped before it was done: it reached its limit of requests, or repeated itself."
    ),
    "max_tokens": "The sub-agent was stopped before it was done: its last answer was too long.",
    "refusal": "The model of the sub-agent refused the task.",
    "cancelled": "The user stopped the sub-agent.",
}

_LOG = logging.getLogger("accord.coder")


def create_delegate(
    runtime: "SessionRuntime", turn: Turn, model: Model, context: ToolContext, usage: UsageTotal
) -> "TaskDelegate":
    """The function that delegates tasks in this turn. The usage of sub-agents is added to `usage`."""
    return TaskDelegate(runtime, turn, model, context, usage)


class TaskDelegate:
    """Delegates the tasks of one turn."""

    def __init__(
        self, runtime: "SessionRuntime", turn: Turn, model: Model, context: ToolContext, usage: UsageTotal
    ) -> None:
        self._runtime = runtime
        self._turn = turn
        self._model = model
        self._context = context
        self._usage = usage
        self.background: BackgroundAgents = BackgroundAgents(turn, runtime.session.steering.arrived)

    async def __call__(self, task: Delegation, report: Report) -> ToolOutcome:
        """Run the task, or start it. Failures become the outcome; cancelling this ends the sub-agent."""
        if not task.background:
            return await self._run(task, report)
        agent = self.background.start(task, self._run)
        return text_outcome(
            f"{agent.id} has started. You get a message when it has ended.",
            raw={"agent": agent.id},
            shown=f"Works in the background as {agent.id}.",
        )

    async def _run(self, task: Delegation, report: Report) -> ToolOutcome:
        if task.agent is not None and task.agent in self._context.external_agents:
            return await self._run_external(self._context.external_agents[task.agent], task, report)
        runtime, agent, model = self._runtime, None, self._model
        if task.agent is not None:
            agent = runtime.definitions.subagent(task.agent)
            model = await runtime.definitions.model(agent, await runtime.model(), model)
        rules = [SUBAGENT_RULES, *((agent.instructions(),) if agent is not None else ())]
        steps = SubagentSteps()
        stoppable: StoppableTask[StopReason] = StoppableTask()
        child = self._turn.subagent(task.title, cancel=stoppable.stop)
        await child.add_message(task.prompt)
        context = replace(self._context, read_files=ReadFiles(), sees_images=model.sees_images, **_WITHHELD)
        hooks = None
        if runtime.hooks is not None:
            hooks = runtime.hooks.of_subagent(child.id, "" if agent is None else agent.name)
            try:
                text = await hooks.subagent_started()
            except asyncio.CancelledError:
                await child.set_idle("cancelled")
                raise
            rules += [f"[hook] {text}"] if text else []
        loop = runtime.agent_loop(
            SubagentOutput(self._turn, child, steps, _sender(task)),
            model,
            ModelHistory(messages=[*map(note_message, rules), user_message(task.prompt)]),
            context,
            usage=self._usage,
            excluded_tools=_EXCLUDED_TOOLS,
            agent=agent,
            hooks=hooks,
        )
        reporter = asyncio.ensure_future(report_steps(steps, report, context))
        try:
            reason = await stoppable.run(_recorded(loop, agent, runtime.session.id)) or "cancelled"
        except ModelError as error:
            await child.set_failed(InternalError(str(error)))
            return _outcome(loop, steps, context, "error", f"The sub-agent stopped: {error}")
        except asyncio.CancelledError:
            await child.set_idle("cancelled")
            raise
        except Exception as error:  # noqa: BLE001 - the boundary of a tool: a defect must not end the turn
            _LOG.error("a sub-agent failed", exc_info=error)
            await child.set_failed(InternalError(type(error).__name__))
            return _outcome(
                loop, steps, context, "error", "The sub-agent failed because of an internal error."
            )
        finally:
            reporter.cancel()
            await asyncio.gather(reporter, return_exceptions=True)
        await child.set_idle(reason)
        return _outcome(loop, steps, context, reason, _STOP_MESSAGES.get(reason, ""))

    async def _run_external(self, name: str, task: Delegation, report: Report) -> ToolOutcome:
        """Run the task at another ACP agent."""
        from accord.coder.acp_agents.delegated_task import DelegatedTask

        runtime = self._runtime
        other = DelegatedTask(runtime.definitions.pool(), runtime.session, runtime.gate, self._turn, name)
        return await other.run(task, report, self._context, self._usage)


def _sender(task: Delegation) -> str:
    """How questions to the user name the sub-agent of a task."""
    names = (task.agent or "", f"({task.id})" if task.id and task.agent else task.id)
    return " ".join(("Sub-agent", *filter(None, names)))


async def _recorded(loop: AgentLoop, agent: AgentDefinition | None, session_id: str) -> StopReason:
    """Run the loop in a span of its own. Raises what the loop raises."""
    name = "sub-agent" if agent is None else agent.name
    with telemetry.operation("invoke_agent", name) as span:
        if span is None:
            return await loop.run()
        used, add_to_turn = UsageTotal(), loop.on_usage

        async def on_usage(usage: RequestUsage, request: ModelRequest) -> None:
            used.add(usage)
            span.add_tokens(used)
            await add_to_turn(usage, request)

        loop.on_usage = on_usage
        span.set(agent_name=name, conversation_id=session_id)
        span.set(provider_name=loop.model.provider, request_model=loop.model.name)
        reason = await loop.run()
        span.set(response_finish_reasons=[reason])
        return reason


def _outcome(
    loop: AgentLoop, steps: SubagentSteps, context: ToolContext, reason: str, problem: str
) -> ToolOutcome:
    answer = truncate(loop.last_text.strip(), context.limits.output_chars)
    if not answer and not problem:
        answer = f"The sub-agent ended without an answer, after {steps.calls} tool calls."
    text = "\n\n".join(filter(None, (answer, problem)))
    raw_output: Any = {"stopReason": reason, "toolCalls": steps.calls}
    return ToolOutcome(
        (TextPart(text),), [*steps.content(), Content(TextContent(text))], raw_output, reason != "end_turn"
    )
