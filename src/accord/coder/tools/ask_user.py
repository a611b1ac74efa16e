"""`ask_user`: ask the user a question."""

from typing import Annotated, Final

from msgspec import Meta

from accord.coder.tools.arguments import Arguments
from accord.coder.tools.builtin import BuiltIn
from accord.coder.tools.context import Question, ToolContext
from accord.coder.tools.tool import Call, Report, Subject, ToolOutcome, one_line, said

USER_UNAVAILABLE: Final = "(user unavailable)"
"""What the model reads when nobody answers."""


class AskUserArguments(Arguments):
    question: Annotated[str, Meta(min_length=1, description="The question.")]
    options: Annotated[list[str], Meta(description="Answers to choose from, if there are such.")] = []


async def prepare(arguments: AskUserArguments, context: ToolContext) -> Call:
    async def run(report: Report) -> ToolOutcome:
        question = Question(arguments.question, tuple(arguments.options))
        answer = None if context.ask_user is None else await context.ask_user(question)
        told = USER_UNAVAILABLE if answer is None else answer
        return said(told, raw={"answer": answer})

    return Call(title=f"Ask: {one_line(arguments.question)}", subject=Subject(), run=run)


ASK_USER: Final = BuiltIn("ask_user", "other", "read-only", AskUserArguments, prepare)
