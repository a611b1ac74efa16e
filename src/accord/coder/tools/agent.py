"""`agent`: hand a task to a sub-agent with a context of its own."""

from typing import Annotated, Final

from msgspec import Meta

from accord.coder.tools.arguments import Arguments
from accord.coder.tools.builtin import BuiltIn
from accord.coder.tools.context import Delegation, ToolContext
from accord.coder.tools.tool import Call, Report, Subject, ToolFailure, ToolOutcome, one_line


class AgentArguments(Arguments):
    prompt: Annotated[
        str,
        Meta(min_length=1, description="The whole task: the sub-agent knows nothing of this conversation."),
    ]
    description: Annotated[str | None, Meta(description="The task in a few words, for the user.")] = None


async def prepare(arguments: AgentArguments, context: ToolContext) -> Call:
    title = one_line(arguments.description or arguments.prompt)

    async def run(report: Report) -> ToolOutcome:
        if context.delegate is None:
            raise ToolFailure("there are no sub-agents here; do the task yourself")
        return await context.delegate(Delegation(title, arguments.prompt), report)

    return Call(title=one_line(f"Delegate: {title}"), subject=Subject(), run=run)


AGENT: Final = BuiltIn("agent", "execute", "execute", AgentArguments, prepare)
