"""Runs the tool calls of one answer: finds the tool, asks for permission, reports progress, stops repeated
calls.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from accord.agent.tool_call_scope import PermissionAnswer
from accord.coder.model_history import INTERRUPTED, ToolResult, ToolUse, result
from accord.coder.models.model import ToolSpec
from accord.coder.tools.tool import PreparedCall, Report, Tool, ToolFailure, ToolOutcome, ToolProgress
from accord.coder.tools.tool_context import ToolContext
from accord.coder.turn_output import ToolCallOutput, TurnOutput
from accord.errors import AccordError
from accord.policy.request import Decision
from accord.schema.client_requests import PermissionOption
from accord.schema.content import Content, TextContent, ToolCallContent

if TYPE_CHECKING:
    from accord.coder.permissions.permission_gate import Ask, PermissionGate


# MERGED coder.toolnames: The tool that a model means by a name: models write what they learnt elsewhere, or bend what they were told.

_KNOWN_AS: Final = {
    "read": "read_file",
    "cat": "read_file",
    "view": "read_file",
    "open_file": "read_file",
    "write": "write_file",
    "create_file": "write_file",
    "edit": "edit_file",
    "replace": "edit_file",
    "str_replace": "edit_file",
    "ls": "list_files",
    "list": "list_files",
    "list_directory": "list_files",
    "list_dir": "list_files",
    "search": "grep",
    "search_file_content": "grep",
    "find": "glob",
    "find_files": "glob",
    "shell": "bash",
    "sh": "bash",
    "execute": "bash",
    "execute_command": "bash",
    "run_command": "bash",
    "run_shell_command": "bash",
    "terminal": "bash",
    "fetch": "web_fetch",
    "task": "agent",
    "delegate": "agent",
    "todo_write": "plan",
    "update_plan": "plan",
    "exit_plan_mode": "leave_plan_mode",
    "ask": "ask_user",
    "rm": "delete_file",
    "remove_file": "delete_file",
    "mv": "move_file",
    "rename_file": "move_file",
}
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def find_tool(name: str, tools: Mapping[str, Tool]) -> Tool | None:
    """The tool of this name, or the only one it can mean."""
    if name in tools:
        return tools[name]
    bare = name.strip().rpartition(".")[2][:100]  # `functions.read_file`
    plain = _CAMEL.sub("_", bare).replace("-", "_").replace(" ", "_").lower()
    for guess in (bare, plain, _KNOWN_AS.get(plain, ""), plain.removesuffix("_tool")):
        if guess in tools:
            return tools[guess]
    alike = [tool for other, tool in tools.items() if other.replace("-", "_").lower() == plain]
    return alike[0] if len(alike) == 1 else None


def unknown_tool(name: str, tools: Mapping[str, Tool]) -> str:
    """What a model is told that named no tool."""
    return f"There is no tool {name[:100]!r}. The tools are: {', '.join(tools)}."


# MERGED coder.repetition: Going in circles: the same call with the same arguments and the same result, again and again.

OFTEN: Final = 3
"""So many calls that changed nothing are enough."""
PATIENCE: Final = 3
"""So often the model is told; then its turn is over."""

STOPPED: Final = (
    "Not run: the same call was made {count} times in a row with the same result. It would give it again. "
    "Do something else, or say what keeps you from it."
)


class RepeatedCalls:
    """The calls of one run of the loop, as far as they repeat."""

    def __init__(self) -> None:
        self._call: bytes = b""
        self._result: bytes = b""
        self._count = 0
        self.warnings = 0

    def notice(self, use: ToolUse) -> str | None:
        """What to tell the model instead of running the call; None if it may run."""
        if self._count < OFTEN or _digest([use.name, use.arguments]) != self._call:
            return None
        self.warnings += 1
        return STOPPED.format(count=self._count)

    def done(self, use: ToolUse, result: ToolResult) -> None:
        """A call has run, with this result."""
        call, came = _digest([use.name, use.arguments]), _digest([result.parts, result.failed])
        if (call, came) == (self._call, self._result):
            self._count += 1
        else:
            self._call, self._result, self._count = call, came, 1

    @property
    def hopeless(self) -> bool:
        """Whether the model was told so often that telling it again is of no use."""
        return self.warnings >= PATIENCE


def _digest(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (ValueError, OverflowError, RecursionError):
        # Half characters and the like: no JSON, but they can be compared all the same.
        return repr(value).encode(errors="backslashreplace")


# MERGED coder.toolbox: The tool calls of one answer: which tool is meant, whether it may run, what is shown of it, and its result.
#
# Calls that only read run side by side, the others one after the other, in the order the model gave. A call is understood only when
# its turn has come: what ran before it may have changed where its paths lead.

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
    call: PreparedCall


class ToolRunner:
    """The tools of one run of the loop, with what they work on and who judges them."""

    def __init__(
        self,
        tools: Callable[[], Mapping[str, Tool]],
        context: Callable[[Tool], Awaitable[ToolContext]],
        gate: "PermissionGate",
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
        self, uses: Sequence[ToolUse], voice: TurnOutput, repetition: RepeatedCalls, done: Done
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
        voice: TurnOutput,
        repetition: RepeatedCalls,
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
        voice: TurnOutput,
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

    async def _understood(self, use: ToolUse, tool: Tool | None, voice: TurnOutput) -> "_Ready | ToolResult":
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

    async def _run(self, ready: _Ready, voice: TurnOutput) -> ToolResult:
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

    async def _outcome(self, tool: Tool, call: PreparedCall, report: Report) -> ToolOutcome:
        try:
            return await call.run(report)
        except Exception as error:  # noqa: BLE001 - the boundary of a tool's run, for tools that are not ours
            _LOG.error("%s failed", tool.name, exc_info=error)
            from accord.coder.tools.tool import said

            return said(f"{tool.name} failed by a defect of its own ({type(error).__name__}).", failed=True)


def _question(shown: ToolCallOutput, call: PreparedCall) -> "Ask":
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


def _report(shown: ToolCallOutput) -> Report:
    async def report(progress: ToolProgress) -> None:
        if progress.title is not None:
            await shown.title(progress.title)
        if progress.locations is not None:
            await shown.locations(*progress.locations)
        if progress.content is not None:
            await shown.replace(progress.content)

    return report


async def _refused(use: ToolUse, why: str, voice: TurnOutput, title: str) -> ToolResult:
    """A call that never ran, shown as failed."""
    async with voice.tool_call(
        title, kind="other", name=use.name[:100] or None, raw_input=_raw(use)
    ) as shown:
        await shown.fail(why)
    return result(use, why, failed=True)


async def _failed(shown: ToolCallOutput, why: str) -> None:
    if shown.open:
        await shown.fail(why)


def _raw(use: ToolUse) -> Any:
    return use.arguments if isinstance(use.arguments, dict) else {"arguments": use.arguments}
