"""Sub-agents: a delegated task in its own loop, shown inside the parent's tool call."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace as replace_fields

from accord.agent.session_updates import Subagent
from accord.agent.tool_call_scope import Location, PermissionAnswer, ToolCallScope
from accord.agent.turn import Turn
from accord.coder.bounded_text import capped
from accord.coder.coder_session import UsageTotal
from accord.coder.files.session_files import ReadFiles
from accord.coder.loop import AgentLoop
from accord.coder.model_history import ModelHistory, TextPart, note, user
from accord.coder.models.model import Model, ModelError
from accord.coder.tools.tool import Report, ToolOutcome, ToolProgress, listing
from accord.coder.tools.tool_context import Delegate, Delegation, ToolContext
from accord.errors import InternalError
from accord.safe_text import one_line
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
    from accord.coder.session_runtime import SessionRuntime

__all__ = ["delegate_from"]


# MERGED coder.subagents.steps: What a sub-agent has done so far, as the short list that stands in its parent's tool call.

State: TypeAlias = Literal["running", "asking", "done", "failed", "note"]

SHOWN: Final = 20
"""So many of the latest steps are shown."""
_LONGEST: Final = 150
_MARKS: Final[dict[State, str]] = {"running": "…", "asking": "?", "done": "✓", "failed": "✗", "note": "!"}


class SubagentStep(Struct, eq=False):
    """One thing it did."""

    title: str
    state: State = "running"


class SubagentSteps:
    """All of them; only the latest are kept."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.calls = 0
        self._count = 0
        self._latest: list[SubagentStep] = []
        self._locations: list[ToolCallLocation] | None = None

    def call(self, title: str, locations: Sequence[Location] = ()) -> SubagentStep:
        """A tool call begins."""
        self.calls += 1
        places = [place for place in locations if isinstance(place, ToolCallLocation)]
        self._locations = places or self._locations
        return self._add(SubagentStep(one_line(title, _LONGEST)))

    def note(self, text: str) -> None:
        """Something else that the user should know."""
        self._add(SubagentStep(one_line(text, _LONGEST), "note"))

    def turn_to(self, step: SubagentStep, state: State) -> None:
        """A step is in another state now."""
        step.state = state
        self.changed.set()

    def _add(self, step: SubagentStep) -> SubagentStep:
        self._count += 1
        self._latest.append(step)
        # What still runs stays in the list, however much is done beside it.
        over = [old for old in self._latest if old.state not in ("running", "asking")]
        if len(self._latest) > SHOWN and over:
            self._latest.remove(over[0])
        self.changed.set()
        return step

    def content(self) -> list[ToolCallContent]:
        """The list, for the client; empty as long as nothing was done."""
        if not self._latest:
            return []
        lines = [f"{_MARKS[step.state]} {step.title}" for step in self._latest]
        if (earlier := self._count - len(self._latest)) > 0:
            lines.insert(0, f"({earlier} earlier)")
        return [listing("\n".join(lines))]

    def progress(self) -> ToolProgress:
        """The list, and the files of the latest call, if they are others, for editors that follow along."""
        locations, self._locations = self._locations, None
        return ToolProgress(self.content(), locations)


# MERGED coder.subagents.calls: A tool call of a sub-agent, shown where it belongs.
#
# Every call is a line in the list of steps. One that does more than look, and one that the user is asked about, is also a
# tool call of the session: what was changed stays to be seen, and the question is about something that the client knows.

LOOKING: Final[frozenset[ToolKind]] = frozenset(("read", "search", "fetch", "think"))
"""Calls of these kinds are lines and no more, as long as nobody is asked about them."""


class SubagentCall:
    """A `ShownCall`."""

    def __init__(self, turn: Turn, child: Subagent, steps: SubagentSteps, first: ToolCall) -> None:
        self._turn = turn
        self._child = child
        self._steps = steps
        self._first = first
        self._status: ToolCallStatus = "pending"
        self._entered = False
        self._step: SubagentStep | None = None
        self._content: list[ToolCallContent] = []
        self._scope: ToolCallScope | None = None
        """The call of the session, if it is one."""

    @property
    def open(self) -> bool:
        """Whether it was shown and has not ended."""
        return self._entered and self._status in ("pending", "in_progress")

    async def __aenter__(self) -> "SubagentCall":
        self._entered = True
        self._step = self._steps.call(self._first.title, self._first.locations or ())
        await self._child.update(self._first)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.open:
            return
        if self._scope is not None:
            await self._scope.__aexit__(kind, error, trace)
        await self._ended("completed" if error is None else "failed")

    # -- how far it is ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """The work begins."""
        if self._first.kind not in LOOKING:
            await self._of_session()
        if self._scope is not None:
            await self._scope.start()
        await self._running()

    async def ask_permission(
        self, options: Sequence[PermissionOption] | None = None, *, timeout: float | None = None
    ) -> PermissionAnswer:
        """Ask the user, about a tool call of the session."""
        scope = await self._of_session()
        self._mark("asking")
        await self._child.set_requires_action()
        try:
            answer = await scope.ask_permission(options, timeout=timeout)
        finally:
            self._mark("running")
        await self._child.set_running()
        if answer:
            await self._running()
        return answer

    async def fail(self, reason: str | None = None) -> None:
        """It ends as failed."""
        if not self.open:
            return
        if self._scope is not None and self._scope.open:
            await self._scope.fail(reason)
        await self._ended("failed")

    async def finish(
        self,
        *,
        content: Iterable[ToolCallContent] | None = None,
        raw_output: Any = UNSET,
        locations: Iterable[Location] | None = None,
        failed: bool = False,
    ) -> None:
        """It ends with everything that came of it."""
        if content is not None:
            self._content = list(content)
        places = None if locations is None else list(locations)
        if self._scope is not None and self._scope.open:
            shown = None if content is None else self._content
            await self._scope.finish(content=shown, raw_output=raw_output, locations=places, failed=failed)
        change = ToolCallChange(self._first.tool_call_id, raw_output=raw_output)
        if content is not None:
            change.content = _without_terminals(self._content)
        await self._ended("failed" if failed else "completed", change)

    # -- what it shows ---------------------------------------------------------------------------------------

    async def replace(self, content: Iterable[ToolCallContent]) -> None:
        """Show this instead of what is shown."""
        self._content = list(content)
        if self._scope is not None:
            await self._scope.replace(self._content)
        await self._change(content=_without_terminals(self._content))

    async def locations(self, *places: Location) -> None:
        """The files it is about."""
        if self._scope is not None:
            await self._scope.locations(*places)
        known = [place for place in places if isinstance(place, ToolCallLocation)]
        await self._change(locations=known)

    async def title(self, title: str) -> None:
        """Name it differently."""
        self._first = replace_fields(self._first, title=title)
        if self._scope is not None:
            await self._scope.title(_of_subagent(title))
        if self._step is not None:
            self._step.title = title
        await self._change(title=title)

    # -- where it is shown -----------------------------------------------------------------------------------

    async def _of_session(self) -> ToolCallScope:
        """The call as one of the session, announced if it was not."""
        if self._scope is None:
            first = self._first
            self._scope = self._turn.tool_call(
                _of_subagent(first.title),
                kind=first.kind or None,
                name=first.name or None,
                locations=first.locations or (),
                raw_input=first.raw_input,
            )
            await self._scope.__aenter__()
            if self._content:
                await self._scope.replace(self._content)
        return self._scope

    async def _running(self) -> None:
        if self._status == "pending":
            self._status = "in_progress"
            await self._change(status="in_progress")

    async def _ended(self, status: ToolCallStatus, change: ToolCallChange | None = None) -> None:
        if not self.open:
            return
        if status == "completed":
            await self._running()
        self._status = status
        self._mark("done" if status == "completed" else "failed")
        last = change or ToolCallChange(self._first.tool_call_id)
        last.status = status
        await self._child.update(last)

    async def _change(self, **changed: Any) -> None:
        await self._child.update(ToolCallChange(self._first.tool_call_id, **changed))

    def _mark(self, state: Any) -> None:
        if self._step is not None:
            self._steps.turn_to(self._step, state)


def _of_subagent(title: str) -> str:
    return f"Sub-agent: {title}"


def _without_terminals(content: Iterable[ToolCallContent]) -> list[ToolCallContent]:
    """A terminal is one of the session, and unknown in a child of it."""
    return [item for item in content if not isinstance(item, Terminal)]


# MERGED coder.subagents.voice: Whom a sub-agent shows itself to: the list in its parent's tool call, and the child session of clients that show such.


class SubagentOutput:
    """A `Voice`. What the sub-agent says on the way is for the child session only; its last words are its result."""

    def __init__(self, turn: Turn, child: Subagent, steps: SubagentSteps) -> None:
        self._turn = turn
        self._child = child
        self._steps = steps
        self._speaking: type[AgentMessageChunk | AgentThoughtChunk] | None = None
        self._message_id = ""

    async def say(self, content: str) -> None:
        """A piece of an answer."""
        await self._speak(AgentMessageChunk, content)

    async def think(self, content: str) -> None:
        """A piece of its reasoning."""
        await self._speak(AgentThoughtChunk, content)

    async def notice(self, title: str, description: str | None = None, *, severity: str = "info") -> None:
        """Something of the moment, as a line of the list."""
        self._steps.note(title if description is None else f"{title}: {description}")

    def tool_call(
        self,
        title: str,
        *,
        kind: ToolKind | None = None,
        name: str | None = None,
        locations: Iterable[Location] = (),
        raw_input: Any = UNSET,
    ) -> SubagentCall:
        """A tool call begins."""
        self._speaking = None
        places = [place for place in locations if isinstance(place, ToolCallLocation)]
        first = ToolCall(
            self._turn.session.new_tool_call_id(),
            title,
            UNSET if kind is None else kind,
            "pending",
            locations=places or UNSET,
            raw_input=raw_input,
            name=UNSET if name is None else name,
        )
        return SubagentCall(self._turn, self._child, self._steps, first)

    async def _speak(self, kind: type[AgentMessageChunk | AgentThoughtChunk], text: str) -> None:
        if not self._child.shown:
            return
        if self._speaking is not kind:
            self._speaking = kind
            self._message_id = self._turn.session.new_message_id()
        await self._child.update(kind(TextContent(text), self._message_id))


# MERGED coder.subagents.delegating: Handing a task to a sub-agent: a run of the loop with a history, a read ledger and a budget of its own.
#
# It passes the same gate as its parent, so it may do what the session may. It has no sub-agents: then nobody could tell who
# does what, and what it costs. It asks the user nothing but permissions and shows no plan: it knows nothing of the
# conversation, and the plan is its parent's.

RULES: Final = (
    "You are a sub-agent: another agent has handed you one task, which follows. You know nothing else of its conversation, "
    "and there is nobody to ask. Do the task with your tools, as far as it goes. Only your last message reaches the other "
    "agent: put everything in it that the task asks for, with paths and line numbers, what you changed, and what you could "
    "not do."
)
_NOT_THEIRS: Final = ("agent", "ask_user", "plan", "leave_plan_mode")
_UNFINISHED: Final[dict[StopReason, str]] = {
    "max_turn_requests": "The sub-agent was stopped before it was done: it used up its requests, or went in circles.",
    "max_tokens": "The sub-agent was stopped before it was done: its last answer was too long.",
    "refusal": "The model of the sub-agent refused the task.",
    "cancelled": "The user stopped the sub-agent.",
}

_LOG = logging.getLogger("accord.coder")


def delegate_from(
    bench: "SessionRuntime", turn: Turn, model: Model, context: ToolContext, spent: UsageTotal
) -> Delegate:
    """What hands tasks over in this turn. `context` is that of the turn; what sub-agents use is added to `spent`."""
    return _Delegating(bench, turn, model, context, spent)


class _Delegating:
    def __init__(
        self, bench: "SessionRuntime", turn: Turn, model: Model, context: ToolContext, spent: UsageTotal
    ) -> None:
        self._bench = bench
        self._turn = turn
        self._model = model
        self._context = context
        self._spent = spent

    async def __call__(self, task: Delegation, report: Report) -> ToolOutcome:
        """Have the task done. Whatever goes wrong is an outcome; cancelling this ends the sub-agent."""
        steps = SubagentSteps()
        work = _Work()
        child = self._turn.subagent(task.title, cancel=work.stop)
        await child.add_message(task.prompt)
        context = replace(
            self._context,
            ledger=ReadFiles(),
            ask_user=None,
            delegate=None,
            set_plan=None,
            leave_plan_mode=None,
        )
        run = self._bench.run(
            SubagentOutput(self._turn, child, steps),
            self._model,
            ModelHistory(messages=[note(RULES), user(task.prompt)]),
            context,
            requests=self._bench.conversation.coder.config.turn.subagent_requests,
            spent=self._spent,
            without=_NOT_THEIRS,
        )
        showing = asyncio.ensure_future(_show(steps, report, context))
        try:
            reason = await work.done(run)
        except ModelError as error:
            await child.set_failed(InternalError(str(error)))
            return _outcome(run, steps, context, "error", f"The sub-agent stopped: {error}")
        except asyncio.CancelledError:
            await child.set_idle("cancelled")
            raise
        except Exception as error:  # noqa: BLE001 - the boundary of a tool's run: a defect must not end the turn
            _LOG.error("a sub-agent failed", exc_info=error)
            await child.set_failed(InternalError(type(error).__name__))
            return _outcome(run, steps, context, "error", "The sub-agent failed by a defect of its own.")
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
        await child.set_idle(reason)
        return _outcome(run, steps, context, reason, _UNFINISHED.get(reason, ""))


class _Work:
    """The run as a task of its own, so that a client can stop it without stopping the turn."""

    def __init__(self) -> None:
        self._task: asyncio.Task[StopReason] | None = None

    def stop(self) -> None:
        """The user stops the sub-agent; harmless when it is done."""
        if self._task is not None:
            self._task.cancel()

    async def done(self, run: AgentLoop) -> StopReason:
        """Run to the end. Raises what the run raises, and CancelledError only where the turn itself is cancelled."""
        self._task = task = asyncio.ensure_future(run.go())
        try:
            await asyncio.wait((task,))
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        return "cancelled" if task.cancelled() else task.result()


async def _show(steps: SubagentSteps, report: Report, context: ToolContext) -> None:
    """Keep the parent's call up to date, the whole list each time, but not more often than anybody can read."""
    while True:
        await steps.changed.wait()
        steps.changed.clear()
        await report(steps.progress())
        await context.clock.sleep(context.limits.report_seconds)


def _outcome(
    run: AgentLoop, steps: SubagentSteps, context: ToolContext, reason: str, trouble: str
) -> ToolOutcome:
    words = capped(run.last.strip(), context.limits.output_chars)
    if not words and not trouble:
        words = f"The sub-agent ended without a word, after {steps.calls} tool calls."
    told = "\n\n".join(filter(None, (words, trouble)))
    raw: Any = {"stopReason": reason, "toolCalls": steps.calls}
    return ToolOutcome(
        (TextPart(told),), [*steps.content(), Content(TextContent(told))], raw, reason != "end_turn"
    )


# MERGED coder.subagents: Sub-agents: a task handed to a run of the loop of its own, shown in the tool call of whoever handed it over.
#
# `delegating.py` hands a task over, `voice.py` and `calls.py` show what comes of it, `steps.py` is the list that is shown.
