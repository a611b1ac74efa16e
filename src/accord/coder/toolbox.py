"""The tool calls of one answer: which tool is meant, whether it may run, what is shown of it, and its result.

Calls that only read run side by side, the others one after the other, in the order the model gave. A call is understood only when
its turn has come: what ran before it may have changed where its paths lead.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from msgspec import UNSET

from accord.agent.permission import PermissionAnswer
from accord.coder.messages import INTERRUPTED, ToolResult, ToolUse, result
from accord.coder.models.model import ToolSpec
from accord.coder.repetition import Repetition
from accord.coder.toolnames import find_tool, unknown_tool
from accord.coder.tools.context import ToolContext
from accord.coder.tools.tool import Call, Progress, Report, Tool, ToolFailure, ToolOutcome
from accord.coder.voice import ShownCall, Voice
from accord.errors import AccordError
from accord.policy.request import Decision
from accord.schema.content import TextContent
from accord.schema.permissions import PermissionOption
from accord.schema.tools import Content, ToolCallContent

if TYPE_CHECKING:
    from accord.coder.permissions.gate import Ask, Gate

CANCELLED: Final = "Cancelled by the user before it was done. It may have had effects."
MOST_AT_ONCE: Final = 8

Done = Callable[[ToolResult], None]
"""Takes a result as soon as there is one."""

_LOG = logging.getLogger("accord.coder")


class _Settle(Protocol):
    def __call__(self, use: ToolUse, came: ToolResult, *, ran: bool = True) -> None: ...


class _Ready(NamedTuple):
    use: ToolUse
    tool: Tool
    call: Call


class Toolbox:
    """The tools of one run of the loop, with what they work on and who judges them."""

    def __init__(
        self,
        tools: Callable[[], Mapping[str, Tool]],
        context: Callable[[Tool], Awaitable[ToolContext]],
        gate: "Gate",
    ) -> None:
        """What `tools` gives may change between requests: servers come and go, and modes bring tools of their own. `context`
        gives a tool what it works with; a command's needs the sandbox."""
        self._tools = tools
        self._context = context
        self._gate = gate
        self.touched: list[str] = []
        """The files and folders that calls have read or changed, as they did so; whoever takes note of them empties it."""

    def specs(self) -> list[ToolSpec]:
        """The tools as the model is told of them."""
        return [ToolSpec(tool.name, tool.description, tool.schema) for tool in self._tools().values()]

    async def perform(
        self, uses: Sequence[ToolUse], voice: Voice, repetition: Repetition, done: Done
    ) -> None:
        """Do what an answer asks for. Every use gets one result; a cancel or a failure gives those that are left theirs."""
        left = {id(use): use for use in uses}

        def settle(use: ToolUse, came: ToolResult, *, ran: bool = True) -> None:
            left.pop(id(use), None)
            if ran:
                repetition.done(use, came)
            done(came)

        try:
            await self._in_order(uses, voice, repetition, settle)
        except BaseException as error:
            word = CANCELLED if isinstance(error, asyncio.CancelledError) else INTERRUPTED
            for use in left.values():
                done(result(use, word, failed=True))
            raise

    async def _in_order(
        self,
        uses: Sequence[ToolUse],
        voice: Voice,
        repetition: Repetition,
        settle: "_Settle",
    ) -> None:
        reading: list[_Ready] = []
        for use in uses:
            tool = find_tool(use.name, self._tools())
            if tool is None or tool.category != "read-only":
                await self._together(reading, voice, settle)
                reading = []
            if (word := repetition.notice(use)) is not None:
                settle(use, await _refused(use, word, voice, use.name[:100] or "tool"), ran=False)
                continue
            ready = await self._understood(use, tool, voice)
            if isinstance(ready, ToolResult):
                settle(use, ready)
            elif ready.call.category == "read-only":
                reading.append(ready)
            else:
                await self._together([*reading, ready], voice, settle, at_once=1)
                reading = []
        await self._together(reading, voice, settle)

    async def _together(
        self,
        calls: Sequence[_Ready],
        voice: Voice,
        settle: "_Settle",
        at_once: int = MOST_AT_ONCE,
    ) -> None:
        if len(calls) <= 1 or at_once == 1:
            for ready in calls:
                settle(ready.use, await self._run(ready, voice))
            return
        slots = asyncio.Semaphore(at_once)

        async def one(ready: _Ready) -> None:
            async with slots:
                settle(ready.use, await self._run(ready, voice))

        async with asyncio.TaskGroup() as group:
            for ready in calls:
                group.create_task(one(ready))

    async def _understood(self, use: ToolUse, tool: Tool | None, voice: Voice) -> "_Ready | ToolResult":
        """The call, ready to be judged; or the result of one that cannot be."""
        if tool is None:
            return await _refused(use, unknown_tool(use.name, self._tools()), voice, use.name[:100] or "tool")
        try:
            return _Ready(use, tool, await tool.prepare(use.arguments, await self._context(tool)))
        except ToolFailure as failure:
            return await _refused(use, str(failure), voice, tool.name)
        except AccordError as error:
            return await _refused(use, f"{tool.name} failed: {error}", voice, tool.name)
        except Exception as error:  # noqa: BLE001 - the boundary of a tool: a defect in it must not end the turn
            _LOG.error("%s could not be prepared", tool.name, exc_info=error)
            return await _refused(use, f"{tool.name} failed by a defect of its own.", voice, tool.name)

    async def _run(self, ready: _Ready, voice: Voice) -> ToolResult:
        use, tool, call = ready
        shown = voice.tool_call(
            call.title,
            kind=tool.kind,
            name=tool.name,
            locations=call.locations,
            raw_input=dict(call.arguments) or _raw(use),
        )
        async with shown:
            ruling = await self._gate.ruling(tool, call, _question(shown, call))
            if not ruling.allowed:
                await _failed(shown, ruling.told)
                return result(use, ruling.told, failed=True)
            await shown.start()
            outcome = await self._outcome(tool, call, _report(shown))
            if not outcome.failed:
                self.touched += call.subject.paths
            await shown.finish(
                content=outcome.content,
                raw_output=UNSET if outcome.raw_output is None else outcome.raw_output,
                locations=outcome.locations,
                failed=outcome.failed,
            )
            return result(use, *outcome.parts, failed=outcome.failed)

    async def _outcome(self, tool: Tool, call: Call, report: Report) -> ToolOutcome:
        try:
            return await call.run(report)
        except Exception as error:  # noqa: BLE001 - the boundary of a tool's run, for tools that are not ours
            _LOG.error("%s failed", tool.name, exc_info=error)
            from accord.coder.tools.tool import said

            return said(f"{tool.name} failed by a defect of its own ({type(error).__name__}).", failed=True)


def _question(shown: ShownCall, call: Call) -> "Ask":
    """Puts the question to the user, with what the call would do."""

    async def ask(
        options: Sequence[PermissionOption], decision: Decision, seconds: float | None
    ) -> PermissionAnswer:
        content: list[ToolCallContent] = []
        if not decision.rule.startswith("mode "):
            content.append(Content(TextContent(f"Asked because {decision.reason}.")))
        try:
            content += await call.preview()
        except AccordError as error:
            content.append(Content(TextContent(f"What it would do cannot be shown: {error}")))
        if content:
            await shown.replace(content)
        return await shown.ask_permission(options, timeout=seconds)

    return ask


def _report(shown: ShownCall) -> Report:
    async def report(progress: Progress) -> None:
        if progress.title is not None:
            await shown.title(progress.title)
        if progress.locations is not None:
            await shown.locations(*progress.locations)
        if progress.content is not None:
            await shown.replace(progress.content)

    return report


async def _refused(use: ToolUse, why: str, voice: Voice, title: str) -> ToolResult:
    """A call that never ran, shown as failed."""
    async with voice.tool_call(
        title, kind="other", name=use.name[:100] or None, raw_input=_raw(use)
    ) as shown:
        await shown.fail(why)
    return result(use, why, failed=True)


async def _failed(shown: ShownCall, why: str) -> None:
    if shown.open:
        await shown.fail(why)


def _raw(use: ToolUse) -> Any:
    return use.arguments if isinstance(use.arguments, dict) else {"arguments": use.arguments}
