"""`plan`: show the user what is to be done, and how far it is."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from accord.coder.tools.arguments import Arguments
from accord.coder.tools.builtin import BuiltIn
from accord.coder.tools.context import ToolContext
from accord.coder.tools.tool import Call, Report, Subject, ToolFailure, ToolOutcome, said
from accord.schema.plans import PlanEntry, PlanEntryPriority, PlanEntryStatus


class Entry(Struct, frozen=True, omit_defaults=True):
    """A step."""

    content: Annotated[str, Meta(min_length=1, description="What is to be done.")]
    status: PlanEntryStatus = "pending"
    priority: PlanEntryPriority = "medium"


class PlanArguments(Arguments):
    entries: Annotated[
        list[Entry], Meta(description="All steps, every time; the list replaces the one before.")
    ]


async def prepare(arguments: PlanArguments, context: ToolContext) -> Call:
    entries = arguments.entries
    done = sum(entry.status == "completed" for entry in entries)

    async def run(report: Report) -> ToolOutcome:
        if context.set_plan is None:
            raise ToolFailure("plans cannot be shown here; go on without one")
        await context.set_plan([PlanEntry(entry.content, entry.priority, entry.status) for entry in entries])
        return said(f"The plan is shown: {done} of {len(entries)} steps completed.", raw={"completed": done})

    return Call(title=f"Plan: {done} of {len(entries)} steps completed", subject=Subject(), run=run)


PLAN: Final = BuiltIn("plan", "think", "read-only", PlanArguments, prepare)
