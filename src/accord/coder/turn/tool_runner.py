"""Runs the tool calls of one answer: finds the tool, asks for permission, reports progress, stops repeated
calls.

Read-only calls and sub-agents run in parallel, all others one after another in the order of the model.
Arguments are resolved immediately before execution, because earlier calls may have changed where paths lead.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import UNSET

from accord import telemetry
from accord.agent.tool_call_scope import Location, PermissionAnswer
from accord.coder.files.patch_text import BadPatch
from accord.coder.model_history import (
    INTERRUPTED,
    Part,
    TextPart,
    ToolResult,
    ToolUse,
    result_message,
    text_of,
)
from accord.coder.models.model import ToolSpec
from accord.coder.tools.patch_calls import calls_of_patch, patch_of
from accord.coder.tools.tool import PreparedCall, Report, Tool, ToolFailure, ToolOutcome, ToolProgress
from accord.coder.tools.tool_context import ToolContext
from accord.errors import AccordError
from accord.policy.mode_names import Mode
from accord.policy.request import Decision
from accord.schema.client_requests import PermissionOption
from accord.schema.content import Content, TextContent, ToolCallContent, ToolKind

if TYPE_CHECKING:
    from pathlib import Path

    from accord.coder.hooks.session_hooks import SessionHooks
    from accord.coder.permissions.permission_gate import AskPermission, PermissionGate


class ToolCallOutput(Protocol):
    """A tool call as the client sees it. `ToolCallScope` implements it."""

    @property
    def open(self) -> bool: ...
    async def __aenter__(self) -> "ToolCallOutput": ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    async def start(self) -> None: ...
    async def fail(self, reason: str | None = None) -> None: ...
    async def replace(self, content: Iterable[ToolCallContent]) -> None: ...
    async def locations(self, *file_locations: Location) -> None: ...
    async def title(self, title: str) -> None: ...
    async def ask_permission(self, options: Sequence[PermissionOption]) -> PermissionAnswer: ...
    async def finish(
        self,
        *,
        content: Iterable[ToolCallContent] | None = None,
        raw_output: Any = ...,
        locations: Iterable[Location] | None = None,
        failed: bool = False,
    ) -> None: ...


class TurnOutput(Protocol):
    """Where a loop sends its output: the turn of a user (`Turn`), or the parent's tool call."""

    async def say(self, content: str) -> None: ...
    async def think(self, content: str) -> None: ...
    async def say_separately(self, text: str) -> None: ...
    async def notice(self, title: str, description: str | None = None, *, severity: str = "info") -> None: ...
    def tool_call(
        self,
        title: str,
        *,
        kind: ToolKind | None = None,
        name: str | None = None,
        locations: Iterable[Location] = (),
        raw_input: Any = ...,
        cancel: Callable[[], object] | None = None,
    ) -> ToolCallOutput: ...


_OTHER_NAMES: Final = {
    "read_file": "read cat view open_file",
    "write_file": "write create_file",
    "edit_file": "edit multi_edit replace str_replace apply_patch",
    "list_files": "ls list list_directory list_dir",
    "grep": "search search_file_content",
    "glob": "find find_files",
    "bash": "shell sh execute execute_command run_command run_shell_command terminal",
    "web_fetch": "fetch",
    "web_search": "search_web google_web_search",
    "agent": "task delegate",
    "plan": "todo_write update_plan",
    "leave_plan_mode": "exit_plan_mode",
    "ask_user": "ask",
    "skill": "load_skill activate_skill use_skill",
    "delete_file": "rm remove_file",
    "move_file": "mv rename_file",
}
"""The names that other agents give our tools."""
_ALIASES: Final = {other: name for name, others in _OTHER_NAMES.items() for other in others.split()}
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def find_tool(name: str, tools: Mapping[str, Tool]) -> Tool | None:
    """The tool with this name, or the only one it can mean: models often use names from other agents."""
    if name in tools:
        return tools[name]
    short_name = name.strip().rpartition(".")[2][:100]  # `functions.read_file`
    snake_name = _CAMEL.sub("_", short_name).replace("-", "_").replace(" ", "_").lower()
    for candidate in (short_name, snake_name, _ALIASES.get(snake_name, ""), snake_name.removesuffix("_tool")):
        if candidate in tools:
            return tools[candidate]
    matches = [tool for tool_name, tool in tools.items() if tool_name.replace("-", "_").lower() == snake_name]
    return matches[0] if len(matches) == 1 else None


def unknown_tool(name: str, tools: Mapping[str, Tool]) -> str:
    """The error text for a model that named an unknown tool."""
    return f"There is no tool {name[:100]!r}. The tools are: {', '.join(tools)}."


REPEAT_LIMIT: Final = 3
"""After this many identical calls with identical results the call is refused."""
WARNING_LIMIT: Final = 3
"""After this many refusals the turn ends."""

REPEATED_CALL_TEXT: Final = (
    "Not run: the same call was made {count} times in a row with the same result, and would give it again. "
    "Do something else, or say what prevents you from it."
)


class RepeatedCalls:
    """Detects calls with the same arguments and the same result within one loop.

    Calls that only read are never held up: looking again at a log or a status is normal.
    """

    def __init__(self) -> None:
        self._call: bytes = b""
        self._result: bytes = b""
        self._count = 0
        self.warnings: int = 0

    def is_repeated(self, use: ToolUse) -> bool:
        """Whether the call was made `REPEAT_LIMIT` times in a row with the same result."""
        return self._count >= REPEAT_LIMIT and _digest([use.name, use.arguments]) == self._call

    def warn(self) -> str:
        """Count a warning and return the text for the model instead of running the call."""
        self.warnings += 1
        return REPEATED_CALL_TEXT.format(count=self._count)

    def record(self, use: ToolUse, result: ToolResult) -> None:
        """Record the result of a call."""
        call, digest = _digest([use.name, use.arguments]), _digest([result.parts, result.failed])
        if (call, digest) == (self._call, self._result):
            self._count += 1
        else:
            self._call, self._result, self._count = call, digest, 1

    @property
    def limit_reached(self) -> bool:
        """Whether the model ignored `WARNING_LIMIT` warnings."""
        return self.warnings >= WARNING_LIMIT


def _digest(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (ValueError, OverflowError, RecursionError):
        # Not JSON, such as lone surrogates, but still comparable.
        return repr(value).encode(errors="backslashreplace")


CANCELLED: Final = "Cancelled by the user before it was done. It may have had effects."
_CALL_CANCELLED: Final = "The user canceled this call; it was not run."
_RUN_CANCELLED: Final = "The user canceled this call before it was done. It may have had effects."
PARALLEL_LIMIT: Final = 8
_DESCRIPTION_CHARS: Final = 500
"""How much of a tool's description a span has."""
_PARALLEL_TOOLS: Final = ("agent",)
"""Tools whose calls run in parallel although they may change something: each act asks for itself."""

OnResult = Callable[[ToolResult], None]
"""Called with each result as soon as it is there."""

_LOG = logging.getLogger("accord.coder")


class _FinishCall(Protocol):
    def __call__(self, use: ToolUse, tool_result: ToolResult, *, ran: bool = True) -> None: ...


class _PreparedUse(NamedTuple):
    use: ToolUse
    tool: Tool
    call: PreparedCall


@dataclass(slots=True)
class _ShownUse:
    use: ToolUse
    tool: Tool
    call: PreparedCall
    output: ToolCallOutput
    begun: bool = False
    """Whether it may have had effects."""
    text: Callable[[], str] | None = None
    """Returns what it has put out so far."""

    @property
    def cancelled_result(self) -> ToolResult:
        """What the model gets when the user has ended the call."""
        if not self.begun:
            return result_message(self.use, _CALL_CANCELLED, failed=True)
        text = "" if self.text is None else self.text().rstrip()
        shown = f" Its output until then:\n{text}" if text else ""
        return result_message(self.use, f"{_RUN_CANCELLED}{shown}", failed=True)


_T = TypeVar("_T")


class StoppableTask(Generic[_T]):
    """Runs a coroutine in a task of its own, so that it can be stopped without stopping the turn."""

    def __init__(self) -> None:
        self.stopped: bool = False
        self._task: asyncio.Task[_T] | None = None

    def stop(self) -> None:
        """Stop it, once: a second cancellation would disturb its cleanup. Does nothing if it has ended."""
        if self._task is not None and not self._task.done() and not self.stopped:
            self.stopped = True
            self._task.cancel()

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T | None:
        """Return the result; None if it was stopped.

        Raises what the work raises. Canceling this cancels the work and waits for its end.
        """
        self._task = task = asyncio.create_task(work)
        try:
            await asyncio.wait((task,))
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        return None if task.cancelled() and self.stopped else task.result()


class ToolRunner:
    """The tools of one loop, with their context and the permission gate."""

    def __init__(
        self,
        tools: Callable[[], Mapping[str, Tool]],
        context: Callable[[Tool], Awaitable[ToolContext]],
        gate: "PermissionGate",
        before_run: Callable[[Tool, PreparedCall], Awaitable[None]] | None = None,
        after_run: Callable[[Tool, PreparedCall, ToolOutcome], Awaitable[ToolOutcome]] | None = None,
        hooks: "SessionHooks | None" = None,
        mode_limit: Mode | None = None,
    ) -> None:
        """`tools` returns the current tools: they may change between requests.

        `context` returns the context of a tool; for commands that includes the sandbox. `before_run` is
        called before each allowed call, `after_run` after it: it may add to the outcome. `mode_limit` is the
        widest mode for these calls.
        """
        self._before_run = before_run
        self._after_run = after_run
        self._hooks = hooks
        self._mode_limit = mode_limit
        self._tools = tools
        self._context = context
        self._gate = gate
        self.touched_paths: list[str] = []
        """The paths that calls have read or changed. The system prompt builder takes and clears them."""

    @property
    def stop_reason(self) -> str | None:
        """Why the turn must end: a hook said so."""
        return None if self._hooks is None else self._hooks.stop_reason

    def specs(self) -> list[ToolSpec]:
        """The tools as described to the model."""
        return [ToolSpec(tool.name, tool.description, tool.schema) for tool in self._tools().values()]

    async def run_calls(
        self, uses: Sequence[ToolUse], output: TurnOutput, repeated_calls: RepeatedCalls, on_result: OnResult
    ) -> None:
        """Run the tool calls of an answer.

        Every call gets one result, also after a cancellation or a failure.
        """
        open_uses = {id(use): use for use in uses}

        def finish(use: ToolUse, tool_result: ToolResult, *, ran: bool = True) -> None:
            open_uses.pop(id(use), None)
            if ran:
                repeated_calls.record(use, tool_result)
            on_result(tool_result)

        try:
            await self._run_in_order(uses, output, repeated_calls, finish)
        except BaseException as error:
            text = CANCELLED if isinstance(error, asyncio.CancelledError) else INTERRUPTED
            for use in open_uses.values():
                on_result(result_message(use, text, failed=True))
            raise

    async def _run_in_order(
        self,
        uses: Sequence[ToolUse],
        output: TurnOutput,
        repeated_calls: RepeatedCalls,
        finish: "_FinishCall",
    ) -> None:
        parallel_calls: list[_PreparedUse] = []
        for use in uses:
            tool = find_tool(use.name, self._tools())
            if tool is None or not (tool.category == "read-only" or tool.name in _PARALLEL_TOOLS):
                await self._run_batch(parallel_calls, output, finish)
                parallel_calls = []
            if repeated_calls.is_repeated(use) and not await self._only_reads(use, tool):
                warning = repeated_calls.warn()
                finish(use, await _refuse(use, warning, output, use.name[:100] or "tool"), ran=False)
                continue
            if (patch := patch_of(use, tool.name if tool else None)) is not None:
                finish(use, await self._run_patch(use, patch, output))
                continue
            prepared = await self._prepare(use, tool, output)
            if isinstance(prepared, ToolResult):
                finish(use, prepared)
            elif prepared.call.category == "read-only" or prepared.tool.name in _PARALLEL_TOOLS:
                parallel_calls.append(prepared)
            else:
                await self._run_batch([*parallel_calls, prepared], output, finish, limit=1)
                parallel_calls = []
        await self._run_batch(parallel_calls, output, finish)

    async def _only_reads(self, use: ToolUse, tool: Tool | None) -> bool:
        """Whether a call changes nothing, as far as can be told."""
        if tool is None or tool.category == "read-only":
            return tool is not None
        try:
            call = await tool.prepare(use.arguments, await self._context(tool))
        except Exception:  # noqa: BLE001 - it is prepared again, and then the failure is reported
            return False
        return await self._gate.only_reads(tool, call)

    async def _run_batch(
        self,
        calls: Sequence[_PreparedUse],
        output: TurnOutput,
        finish: "_FinishCall",
        limit: int = PARALLEL_LIMIT,
    ) -> None:
        if len(calls) <= 1 or limit == 1:
            for prepared in calls:
                finish(prepared.use, await self._run(prepared, output))
            return
        slots = asyncio.Semaphore(limit)

        async def run_in_slot(prepared: _PreparedUse) -> None:
            async with slots:
                finish(prepared.use, await self._run(prepared, output))

        async with asyncio.TaskGroup() as group:
            for prepared in calls:
                group.create_task(run_in_slot(prepared))

    async def _run_patch(self, use: ToolUse, patch: str, output: TurnOutput) -> ToolResult:
        """Run the calls that a patch stands for, up to the first that fails."""
        try:
            calls = calls_of_patch(patch)
        except BadPatch as error:
            return await _refuse(use, f"apply_patch was not run: {error}", output, "apply_patch")
        parts: list[Part] = []
        for number, (name, arguments) in enumerate(calls):
            call = ToolUse(use.id, name, arguments)
            prepared = await self._prepare(call, self._tools().get(name), output)
            result = prepared if isinstance(prepared, ToolResult) else await self._run(prepared, output)
            parts += result.parts
            if result.failed:
                if len(calls) > 1:
                    rest = f"The patch stopped here: {number} of its {len(calls)} changes were made."
                    parts.append(TextPart(rest))
                return result_message(use, *parts, failed=True)
        return result_message(use, *parts)

    async def _prepare(
        self, use: ToolUse, tool: Tool | None, output: TurnOutput
    ) -> "_PreparedUse | ToolResult":
        """The prepared call, or the result of a call that cannot be prepared."""
        if tool is None:
            return await _refuse(use, unknown_tool(use.name, self._tools()), output, use.name[:100] or "tool")
        try:
            call = await tool.prepare(use.arguments, await self._context(tool))
            if self._mode_limit is not None:
                call = replace(call, subject=replace(call.subject, mode_limit=self._mode_limit))
            return _PreparedUse(use, tool, call)
        except ToolFailure as failure:
            return await _refuse(use, str(failure), output, tool.name, failure.shown)
        except AccordError as error:
            return await _refuse(use, f"{tool.name} failed: {error}", output, tool.name)
        except Exception as error:  # noqa: BLE001 - the boundary of a tool: a defect must not end the turn
            _LOG.error("%s could not be prepared", tool.name, exc_info=error)
            return await _refuse(use, f"{tool.name} failed because of an internal error.", output, tool.name)

    async def _run(self, prepared: _PreparedUse, output: TurnOutput) -> ToolResult:
        """Run a call, in a span of its own."""
        use, tool = prepared.use, prepared.tool
        with telemetry.operation("execute_tool", tool.name) as operation:
            result = await self._run_prepared(prepared, output)
            if operation is not None:
                is_external = tool.category == "external"
                tool_type = "extension" if is_external else "function"
                operation.set(tool_name=tool.name, tool_call_id=use.id, tool_type=tool_type)
                operation.set(tool_description=tool.description[:_DESCRIPTION_CHARS])
                operation.set_content("tool_call_arguments", lambda: use.arguments)
                operation.set_content("tool_call_result", lambda: text_of(result))
                if result.failed:
                    operation.end("tool_error")
        return result

    async def _run_prepared(self, prepared: _PreparedUse, output: TurnOutput) -> ToolResult:
        use, tool, call = prepared
        hook_context = ""
        if self._hooks is not None:
            verdict = await self._hooks.before_call(tool, call, use.id)
            if verdict.denied is not None:
                reason = f"{tool.name} was not run: {verdict.denied}"
                return await _refuse(use, reason, output, call.title)
            if verdict.arguments is not None:
                changed = await self._prepare(ToolUse(use.id, use.name, verdict.arguments), tool, output)
                if isinstance(changed, ToolResult):
                    return changed
                call = changed.call
            if verdict.ask_reason:
                call = replace(call, subject=replace(call.subject, ask_reason=verdict.ask_reason))
            hook_context = verdict.context
        stoppable: StoppableTask[ToolResult] = StoppableTask()
        call_output = output.tool_call(
            call.title,
            kind=tool.kind,
            name=tool.name,
            locations=call.locations,
            raw_input=dict(call.arguments) or _raw_input(use),
            cancel=stoppable.stop,
        )
        shown = _ShownUse(use, tool, call, call_output)
        result = await stoppable.run(self._run_shown(shown, hook_context))
        return shown.cancelled_result if result is None else result

    async def _run_shown(self, shown: "_ShownUse", hook_context: str) -> ToolResult:
        """Ask for permission and run the call."""
        use, tool, call, call_output = shown.use, shown.tool, shown.call, shown.output
        async with call_output:
            ask = _permission_asker(call_output, tool, call, self._hooks, self._gate.directories.cwd)
            ruling = await self._gate.ruling(tool, call, ask)
            if not ruling.allowed:
                await _show_failure(call_output, ruling.shown)
                return result_message(use, ruling.message, failed=True)
            await call_output.start()
            if self._before_run is not None:
                await self._before_run(tool, call)
            shown.begun = True
            began = time.monotonic()
            outcome = await self._outcome(tool, call, _progress_reporter(shown))
            seconds = time.monotonic() - began
            if not outcome.failed:
                self.touched_paths += call.subject.paths
            if self._after_run is not None:
                outcome = await self._after_run(tool, call, outcome)
            if self._hooks is not None:
                outcome = await self._hooks.after_call(tool, call, use.id, outcome, hook_context, seconds)
            await call_output.finish(
                content=outcome.content,
                raw_output=UNSET if outcome.raw_output is None else outcome.raw_output,
                locations=outcome.locations,
                failed=outcome.failed,
            )
            return result_message(use, *outcome.parts, failed=outcome.failed)

    async def _outcome(self, tool: Tool, call: PreparedCall, report: Report) -> ToolOutcome:
        try:
            return await call.run(report)
        except Exception as error:  # noqa: BLE001 - the boundary of a tool: a defect must not end the turn
            _LOG.error("%s failed", tool.name, exc_info=error)
            from accord.coder.tools.tool import text_outcome

            failure = f"{tool.name} failed because of an internal error ({type(error).__name__})."
            return text_outcome(failure, failed=True)


def _permission_asker(
    call_output: ToolCallOutput, tool: Tool, call: PreparedCall, hooks: "SessionHooks | None", cwd: "Path"
) -> "AskPermission":
    """Asks the user for permission and shows what the call would do. A hook can refuse it first."""

    async def ask(options: Sequence[PermissionOption], decision: Decision) -> PermissionAnswer:
        if hooks is not None and (denied := await hooks.permission_asked(tool, call)) is not None:
            return PermissionAnswer(message=f"{denied} (a hook)")
        content: list[ToolCallContent] = []
        if not decision.rule.startswith("mode "):
            reason = decision.reason_beside(call.subject.paths, cwd)
            content.append(Content(TextContent(f"Asked because {reason}.")))
        try:
            content += await call.preview()
        except AccordError as error:
            content.append(Content(TextContent(f"no preview: {error}")))
        if content:
            await call_output.replace(content)
        return await call_output.ask_permission(options)

    return ask


def _progress_reporter(shown: _ShownUse) -> Report:
    call_output = shown.output

    async def report(progress: ToolProgress) -> None:
        if progress.output is not None:
            shown.text = progress.output
        if progress.title is not None:
            await call_output.title(progress.title)
        if progress.locations is not None:
            await call_output.locations(*progress.locations)
        if progress.content is not None:
            await call_output.replace(progress.content)

    return report


async def _refuse(
    use: ToolUse, reason: str, output: TurnOutput, title: str, shown: str | None = None
) -> ToolResult:
    """Show a call that never ran as failed. `shown` is the text for the user, if it differs."""
    async with output.tool_call(
        title, kind="other", name=use.name[:100] or None, raw_input=_raw_input(use)
    ) as call_output:
        await call_output.fail(reason if shown is None else shown)
    return result_message(use, reason, failed=True)


async def _show_failure(call_output: ToolCallOutput, reason: str) -> None:
    if call_output.open:
        await call_output.fail(reason)


def _raw_input(use: ToolUse) -> Any:
    return use.arguments if isinstance(use.arguments, dict) else {"arguments": use.arguments}
