"""A desk to work at: a project folder, a context over it, and the tools in reach."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from accord.coder.tools import built_in_tools
from accord.coder.tools.context import ToolContext
from accord.coder.tools.tool import Call, Progress, ToolOutcome
from accord.schema.content import TextContent
from accord.schema.tools import Content, Diff, ToolCallContent

TOOLS = built_in_tools()


class Desk:
    """Uses tools as the loop does."""

    def __init__(self, cwd: object, **more: Any) -> None:
        self.context = ToolContext(cwd=str(cwd), **more)
        self.shown: list[Progress] = []

    async def prepare(self, tool: str, arguments: Any) -> Call:
        return await TOOLS[tool].prepare(arguments, self.context)

    async def run(self, call: Call) -> ToolOutcome:
        async def report(progress: Progress) -> None:
            self.shown.append(progress)

        return await call.run(report)

    async def use(self, tool: str, **arguments: Any) -> ToolOutcome:
        return await self.run(await self.prepare(tool, arguments))

    async def done(self, tool: str, **arguments: Any) -> ToolOutcome:
        """A use that must succeed."""
        outcome = await self.use(tool, **arguments)
        assert not outcome.failed, outcome.text
        return outcome

    async def refused(self, tool: str, **arguments: Any) -> str:
        """A use that must fail: what the model reads."""
        outcome = await self.use(tool, **arguments)
        assert outcome.failed, outcome.text
        return outcome.text


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop run until this is so."""
    while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
        await asyncio.sleep(0)


def only(content: Sequence[ToolCallContent] | None) -> ToolCallContent:
    """The one thing that the client is shown."""
    assert content is not None
    assert len(content) == 1
    return content[0]


def diff_in(outcome: ToolOutcome) -> Diff:
    """The one diff that the client is shown."""
    diff = only(outcome.content)
    assert isinstance(diff, Diff)
    return diff


def text_in(content: Sequence[ToolCallContent] | None) -> str:
    """The one text that the client is shown."""
    shown = only(content)
    assert isinstance(shown, Content)
    assert isinstance(shown.content, TextContent)
    return shown.content.text
