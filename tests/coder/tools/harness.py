"""Uses tools in a project folder, as the agent loop does."""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

from tests.agent.agent_client import Client

from accord.coder.tools import built_in_tools
from accord.coder.tools.tool import PreparedCall, ToolOutcome, ToolProgress
from accord.coder.tools.tool_context import ToolContext
from accord.schema.content import Content, Diff, TextContent, ToolCallContent

TOOLS = built_in_tools()


class ToolHarness:
    """The built-in tools with one context."""

    def __init__(self, cwd: object, **more: Any) -> None:
        self.context = ToolContext(cwd=str(cwd), **more)
        self.shown: list[ToolProgress] = []

    async def prepare(self, tool: str, arguments: Any) -> PreparedCall:
        return await TOOLS[tool].prepare(arguments, self.context)

    async def run(self, call: PreparedCall) -> ToolOutcome:
        async def report(progress: ToolProgress) -> None:
            if progress.output is None:  # which is for the model, and comes before the command starts
                self.shown.append(progress)

        return await call.run(report)

    async def use(self, tool: str, **arguments: Any) -> ToolOutcome:
        return await self.run(await self.prepare(tool, arguments))

    async def done(self, tool: str, **arguments: Any) -> ToolOutcome:
        """Use a tool that must succeed."""
        outcome = await self.use(tool, **arguments)
        assert not outcome.failed, outcome.text
        return outcome

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Use a tool that must fail, and return the text for the model."""
        outcome = await self.use(tool, **arguments)
        assert outcome.failed, outcome.text
        return outcome.text


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop run until the condition holds."""
    while not condition():  # noqa: ASYNC110 - the condition has no event to wait for
        await asyncio.sleep(0)


def only(content: Sequence[ToolCallContent] | None) -> ToolCallContent:
    """Return the only content item that the client is shown."""
    assert content is not None
    assert len(content) == 1
    return content[0]


def diff_in(outcome: ToolOutcome) -> Diff:
    """Return the only diff that the client is shown."""
    diff = only(outcome.content)
    assert isinstance(diff, Diff)
    return diff


def text_in(content: Sequence[ToolCallContent] | None) -> str:
    """Return the only text that the client is shown."""
    shown = only(content)
    assert isinstance(shown, Content)
    assert isinstance(shown.content, TextContent)
    return shown.content.text


async def serve_terminal(client: Client, *, elsewhere: bool = False) -> dict[str, Any]:
    """Serve one terminal, on this machine or as if on another, and return the params of its request."""
    created = await client.asked("terminal/create")
    asked = created["params"]
    env = {"PATH": os.environ["PATH"], "CLIENT_TOKEN": "geheim-3"}
    if elsewhere:
        code, output = 127, "no such program"
    else:
        process = await asyncio.create_subprocess_exec(
            asked["command"], *asked["args"], env=env, cwd=asked["cwd"],
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        printed, _ = await process.communicate()
        code, output = process.returncode, printed.decode()
    client.raw.reply(created, {"terminalId": "t"})
    client.raw.reply(await client.asked("terminal/wait_for_exit"), {"exitCode": code, "signal": None})
    client.raw.reply(await client.asked("terminal/output"), {"output": output, "truncated": False})
    client.raw.reply(await client.asked("terminal/release"), {})
    return asked
