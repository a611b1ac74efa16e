"""`leave_plan_mode`: put a plan to the user, and begin with it if the user agrees."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.tools.arguments import Arguments
from accord.coder.tools.builtin import BuiltIn
from accord.coder.tools.context import ToolContext
from accord.coder.tools.tool import Call, Report, Subject, ToolFailure, ToolOutcome, said
from accord.schema.content import TextContent
from accord.schema.tools import Content, ToolCallContent


class LeavePlanModeArguments(Arguments):
    plan: Annotated[
        str, Meta(min_length=1, description="What will be done, in Markdown, for the user to agree to.")
    ]


async def prepare(arguments: LeavePlanModeArguments, context: ToolContext) -> Call:
    async def preview() -> Sequence[ToolCallContent]:
        return (Content(TextContent(arguments.plan)),)

    async def run(report: Report) -> ToolOutcome:
        if context.leave_plan_mode is None:
            raise ToolFailure("the session is not in plan mode; go on")
        mode = await context.leave_plan_mode(arguments.plan)
        return said(f"The user agreed. The mode is {mode} now: begin with the plan.", raw={"mode": mode})

    return Call(title="Leave plan mode and begin", subject=Subject(), run=run, preview=preview)


LEAVE_PLAN_MODE: Final = BuiltIn("leave_plan_mode", "switch_mode", "write", LeavePlanModeArguments, prepare)
