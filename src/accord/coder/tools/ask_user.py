"""`ask_user`: asks the user a question."""

from typing import Annotated, Final

from msgspec import Meta

from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolOutcome, text_outcome
from accord.coder.tools.tool_context import ToolContext, UserQuestion
from accord.safe_text import one_line

USER_UNAVAILABLE: Final = "(user unavailable)"
"""The text for the model if the user does not answer."""


class AskUserArguments(ToolArguments):
    question: Annotated[str, Meta(min_length=1, description="The question.")]
    options: Annotated[list[str], Meta(description="Answers to choose from, if there are such.")] = []


async def prepare(arguments: AskUserArguments, context: ToolContext) -> PreparedCall:
    async def run(report: Report) -> ToolOutcome:
        question = UserQuestion(arguments.question, tuple(arguments.options))
        answer = None if context.ask_user is None else await context.ask_user(question)
        return text_outcome(USER_UNAVAILABLE if answer is None else answer, raw={"answer": answer})

    return PreparedCall(title=f"Ask: {one_line(arguments.question)}", subject=CallSubject(), run=run)


ASK_USER: Final = BuiltInTool("ask_user", "other", "read-only", AskUserArguments, prepare)
