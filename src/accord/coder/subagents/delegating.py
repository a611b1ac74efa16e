"""Handing a task to a sub-agent: a run of the loop with a history, a read ledger and a budget of its own.

It passes the same gate as its parent, so it may do what the session may. It has no sub-agents: then nobody could tell who
does what, and what it costs. It asks the user nothing but permissions and shows no plan: it knows nothing of the
conversation, and the plan is its parent's.
"""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from accord.agent.turn import Turn
from accord.coder.files.ledger import ReadLedger
from accord.coder.history import History
from accord.coder.loop import Run
from accord.coder.messages import TextPart, note, user
from accord.coder.models.model import Model, ModelError
from accord.coder.output import capped
from accord.coder.spending import Spending
from accord.coder.subagents.steps import Steps
from accord.coder.subagents.voice import SubagentVoice
from accord.coder.tools.context import Delegate, Delegation, ToolContext
from accord.coder.tools.tool import Report, ToolOutcome
from accord.errors import InternalError
from accord.schema.content import TextContent
from accord.schema.prompts import StopReason
from accord.schema.tools import Content

if TYPE_CHECKING:
    from accord.coder.workbench import Workbench

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
    bench: "Workbench", turn: Turn, model: Model, context: ToolContext, spent: Spending
) -> Delegate:
    """What hands tasks over in this turn. `context` is that of the turn; what sub-agents use is added to `spent`."""
    return _Delegating(bench, turn, model, context, spent)


class _Delegating:
    def __init__(
        self, bench: "Workbench", turn: Turn, model: Model, context: ToolContext, spent: Spending
    ) -> None:
        self._bench = bench
        self._turn = turn
        self._model = model
        self._context = context
        self._spent = spent

    async def __call__(self, task: Delegation, report: Report) -> ToolOutcome:
        """Have the task done. Whatever goes wrong is an outcome; cancelling this ends the sub-agent."""
        steps = Steps()
        work = _Work()
        child = self._turn.subagent(task.title, cancel=work.stop)
        await child.sent(task.prompt)
        context = replace(
            self._context,
            ledger=ReadLedger(),
            ask_user=None,
            delegate=None,
            set_plan=None,
            leave_plan_mode=None,
        )
        run = self._bench.run(
            SubagentVoice(self._turn, child, steps),
            self._model,
            History(messages=[note(RULES), user(task.prompt)]),
            context,
            requests=self._bench.conversation.coder.config.turn.subagent_requests,
            spent=self._spent,
            without=_NOT_THEIRS,
        )
        showing = asyncio.ensure_future(_show(steps, report, context))
        try:
            reason = await work.done(run)
        except ModelError as error:
            await child.failed(InternalError(str(error)))
            return _outcome(run, steps, context, "error", f"The sub-agent stopped: {error}")
        except asyncio.CancelledError:
            await child.idle("cancelled")
            raise
        except Exception as error:  # noqa: BLE001 - the boundary of a tool's run: a defect must not end the turn
            _LOG.error("a sub-agent failed", exc_info=error)
            await child.failed(InternalError(type(error).__name__))
            return _outcome(run, steps, context, "error", "The sub-agent failed by a defect of its own.")
        finally:
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
        await child.idle(reason)
        return _outcome(run, steps, context, reason, _UNFINISHED.get(reason, ""))


class _Work:
    """The run as a task of its own, so that a client can stop it without stopping the turn."""

    def __init__(self) -> None:
        self._task: asyncio.Task[StopReason] | None = None

    def stop(self) -> None:
        """The user stops the sub-agent; harmless when it is done."""
        if self._task is not None:
            self._task.cancel()

    async def done(self, run: Run) -> StopReason:
        """Run to the end. Raises what the run raises, and CancelledError only where the turn itself is cancelled."""
        self._task = task = asyncio.ensure_future(run.go())
        try:
            await asyncio.wait((task,))
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        return "cancelled" if task.cancelled() else task.result()


async def _show(steps: Steps, report: Report, context: ToolContext) -> None:
    """Keep the parent's call up to date, the whole list each time, but not more often than anybody can read."""
    while True:
        await steps.changed.wait()
        steps.changed.clear()
        await report(steps.progress())
        await context.clock.sleep(context.limits.report_seconds)


def _outcome(run: Run, steps: Steps, context: ToolContext, reason: str, trouble: str) -> ToolOutcome:
    words = capped(run.last.strip(), context.limits.output_chars)
    if not words and not trouble:
        words = f"The sub-agent ended without a word, after {steps.calls} tool calls."
    told = "\n\n".join(filter(None, (words, trouble)))
    raw: Any = {"stopReason": reason, "toolCalls": steps.calls}
    return ToolOutcome(
        (TextPart(told),), [*steps.content(), Content(TextContent(told))], raw, reason != "end_turn"
    )
