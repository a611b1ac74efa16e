"""`leave_plan_mode`: shows a plan to the user, and leaves plan mode if the user agrees."""

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome, text_outcome
from accord.coder.tools.tool_context import ToolContext
from accord.schema.content import Content, TextContent, ToolCallContent


class LeavePlanModeArguments(ToolArguments):
    plan: Annotated[
        str, Meta(min_length=1, description="What will be done, in Markdown, for the user to agree to.")
    ]


async def prepare(arguments: LeavePlanModeArguments, context: ToolContext) -> PreparedCall:
    async def preview() -> Sequence[ToolCallContent]:
        return (Content(TextContent(arguments.plan)),)

    async def run(report: Report) -> ToolOutcome:
        if context.leave_plan_mode is None:
            raise ToolFailure("the session is not in plan mode", "go on")
        mode = await context.leave_plan_mode(arguments.plan)
        return text_outcome(
            f"The user agreed. The mode is {mode} now: begin with the plan.",
            raw={"mode": mode},
            shown=f"The mode is {mode} now.",
        )

    return PreparedCall(title="Leave plan mode and begin", subject=CallSubject(), run=run, preview=preview)


LEAVE_PLAN_MODE: Final = BuiltInTool(
    "leave_plan_mode", "switch_mode", "write", LeavePlanModeArguments, prepare
)
