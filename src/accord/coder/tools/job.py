"""`job`: shows a background command, waits for it, or stops it."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from accord.clock import within
from accord.coder.model_history import TextPart
from accord.coder.tools.bash import steering_notes, with_notes
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.shell_jobs import BackgroundJob
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome, text_outcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import code_block

if TYPE_CHECKING:
    from accord.coder.turn.background_agents import BackgroundAgent


class JobArguments(ToolArguments):
    id: Annotated[str, Meta(min_length=1, description="The job, as bash named it.")]
    wait: Annotated[
        float | None, Meta(description="Seconds to wait for its end before looking; none if left out.")
    ] = None
    stop: Annotated[bool, Meta(description="End it, with everything it started.")] = False


async def prepare(arguments: JobArguments, context: ToolContext) -> PreparedCall:
    if context.background is not None and (agent := context.background.get(arguments.id)) is not None:
        return _agent_call(arguments, agent, context)
    job = context.jobs.get(arguments.id)
    if job is None:
        agents = context.background.ids() if context.background is not None else []
        ids = ", ".join([*context.jobs.ids(), *agents]) or "none"
        raise ToolFailure(f"there is no job {arguments.id!r} in this session; existing jobs: {ids}")
    verb = "Stop" if arguments.stop else "Look at"

    async def run(report: Report) -> ToolOutcome:
        if arguments.stop:
            await job.stop()
        elif arguments.wait and job.status is None:
            await job.wait(min(arguments.wait, context.limits.max_command_seconds))
        state = _state(job)
        text = job.new_output("it was printed since the last look")
        summary = f"{text.rstrip(chr(10)) or '(nothing printed since the last look)'}\n[{job.id} {state}]"
        outcome = ToolOutcome(
            (TextPart(summary),),
            (code_block(summary),),
            {"job": job.id, "state": state, "output": text},
            failed=False,
        )
        if job.status is not None:
            await job.handled()
        return with_notes(outcome, await steering_notes(context))

    return PreparedCall(
        title=f"{verb} {job.id}: {one_line(job.command_line, 120)}", subject=CallSubject(), run=run
    )


def _agent_call(arguments: JobArguments, agent: "BackgroundAgent", context: ToolContext) -> PreparedCall:
    """Look at a sub-agent in the background, wait for it, or stop it."""

    async def run(report: Report) -> ToolOutcome:
        if arguments.stop:
            await agent.stop()
        elif arguments.wait:
            ended = asyncio.ensure_future(agent.ended.wait())
            try:
                await within(context.clock, min(arguments.wait, context.limits.max_command_seconds), ended)
            finally:
                ended.cancel()
        agent.reported = agent.state != "running"
        return text_outcome(agent.summary(), raw={"agent": agent.id, "state": agent.state})

    verb = "Stop" if arguments.stop else "Look at"
    return PreparedCall(title=f"{verb} {agent.id}: {agent.title}", subject=CallSubject(), run=run)


def _state(job: BackgroundJob) -> str:
    status = job.status
    if status is None:
        return "is still running"
    end = f"was ended by {status.signal}" if status.signal else f"ended with exit code {status.exit_code}"
    return f"{end}; the user canceled it" if job.shown is not None and job.shown.cancelled else end


JOB: Final = BuiltInTool("job", "execute", "read-only", JobArguments, prepare)
