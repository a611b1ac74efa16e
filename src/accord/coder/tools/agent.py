"""`agent`: delegates a task to a sub-agent with its own context."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final

from msgspec import Meta

from accord.coder.tools.builtin_tool import BuiltInTool, ToolArguments
from accord.coder.tools.tool import CallSubject, PreparedCall, Report, ToolFailure, ToolOutcome
from accord.coder.tools.tool_context import Delegation, ToolContext
from accord.safe_text import one_line
from accord.schema.content import Content, TextContent, ToolCallContent


class AgentArguments(ToolArguments):
    prompt: Annotated[
        str,
        Meta(min_length=1, description="The whole task: the sub-agent knows nothing of this conversation."),
    ]
    agent: Annotated[str | None, Meta(description="Which agent does it; one like you, if left out.")] = None
    background: Annotated[bool, Meta(description="Go on meanwhile: you get a message when it has ended.")] = (
        False
    )
    description: Annotated[str | None, Meta(description="The task in a few words, for the user.")] = None


async def prepare(arguments: AgentArguments, context: ToolContext) -> PreparedCall:
    title = one_line(arguments.description or arguments.prompt)

    task = Delegation(title, arguments.prompt, arguments.agent, arguments.background)

    async def run(report: Report) -> ToolOutcome:
        if context.delegate is None:
            raise ToolFailure("there are no sub-agents here", "do the task yourself")
        return await context.delegate(task, report)

    name = "" if arguments.agent is None else f" to {one_line(arguments.agent, 60)}"
    shown = one_line(f"Delegate{name}: {title}")
    if arguments.agent in context.external_agents:
        return PreparedCall(title=shown, subject=CallSubject(), run=run, preview=_external_preview(task))
    return PreparedCall(title=shown, subject=CallSubject(asks_itself=True), run=run)


def _external_preview(task: Delegation) -> Callable[[], Awaitable[Sequence[ToolCallContent]]]:
    """What the user sees before another agent is started."""

    async def preview() -> Sequence[ToolCallContent]:
        note = (
            f"{one_line(task.agent or '', 60)} is a program of its own: it works with your rights, outside "
            "the sandbox. What it asks for is decided here; what it does without asking is not."
        )
        return (Content(TextContent(note)), Content(TextContent(task.prompt)))

    return preview


AGENT: Final = BuiltInTool("agent", "execute", "execute", AgentArguments, prepare)
