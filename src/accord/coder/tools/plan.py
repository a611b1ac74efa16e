"""`plan`: shows the user the steps of the task and their progress."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome, text_outcome
from accord.coder.tools.tool_context import ToolContext
from accord.schema.updates import PlanEntry, PlanEntryPriority, PlanEntryStatus


class PlanStep(Struct, frozen=True, omit_defaults=True):
    """One step of the plan."""

    content: Annotated[str, Meta(min_length=1, description="What is to be done.")]
    status: PlanEntryStatus = "pending"
    priority: PlanEntryPriority = "medium"


class PlanArguments(ToolArguments):
    entries: Annotated[
        list[PlanStep], Meta(description="All steps, every time; the list replaces the one before.")
    ]


async def prepare(arguments: PlanArguments, context: ToolContext) -> PreparedCall:
    entries = arguments.entries
    done = sum(entry.status == "completed" for entry in entries)

    async def run(report: Report) -> ToolOutcome:
        if context.set_plan is None:
            raise ToolFailure("plans cannot be shown here", "go on without one")
        await context.set_plan([PlanEntry(entry.content, entry.priority, entry.status) for entry in entries])
        return text_outcome(
            f"The plan is shown: {done} of {len(entries)} steps completed.", raw={"completed": done}
        )

    return PreparedCall(
        title=f"Plan: {done} of {len(entries)} steps completed", subject=CallSubject(), run=run
    )


PLAN: Final = BuiltInTool("plan", "think", "read-only", PlanArguments, prepare)
