"""`skill`: gives the model the text of a skill."""

from typing import Annotated, Final

from msgspec import Meta

from accord.coder.model_history import TextPart
from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import Content, TextContent


class SkillArguments(ToolArguments):
    name: Annotated[str, Meta(min_length=1, description="The skill.")]
    arguments: Annotated[str, Meta(description="What the skill is to be applied to, if it takes that.")] = ""


async def prepare(arguments: SkillArguments, context: ToolContext) -> PreparedCall:
    async def run(report: Report) -> ToolOutcome:
        if context.use_skill is None:
            raise ToolFailure("there are no skills here")
        text = await context.use_skill(arguments.name, arguments.arguments)
        shown = f"The text of the skill, {len(text):,} characters."
        return ToolOutcome((TextPart(text),), (Content(TextContent(shown)),))

    return PreparedCall(title=f"Load skill {one_line(arguments.name, 80)}", subject=CallSubject(), run=run)


SKILL: Final = BuiltInTool("skill", "read", "read-only", SkillArguments, prepare)
