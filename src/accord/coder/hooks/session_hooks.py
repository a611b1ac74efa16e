"""The hooks of one session: runs those of an event in parallel and combines their answers.

A hook can deny a call, ask about it or change its arguments. It never allows what the rules do not allow: the
policy decides on the changed arguments, and an `allow` only means that the hook has no objection.
"""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from accord.clock import Clock
from accord.coder.hooks.hook_command import (
    HookAnswer,
    Permission,
    changed_script,
    run_hook,
    script_digest,
    scripts_of,
)
from accord.coder.hooks.hook_config import TOOL_NAMES, Event, Hook, HookSet
from accord.coder.model_history import Part, TextPart
from accord.coder.tools.tool import PreparedCall, Tool, ToolOutcome
from accord.policy.mode_names import Mode

STOP_LIMIT: Final = 8
"""How many times Stop hooks may prolong one turn."""
_STRICTEST_FIRST: Final[tuple[Permission, ...]] = ("deny", "ask", "allow")
_MODES: Final[Mapping[Mode, str]] = {
    "read-only": "plan",
    "plan": "plan",
    "ask": "default",
    "workspace-write": "acceptEdits",
    "full-access": "bypassPermissions",
}
"""What Claude Code calls our modes."""
_FILE_TOOLS: Final = frozenset(("read_file", "edit_file", "write_file"))
_OTHER_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "edit_file": {"path": "file_path", "old_text": "old_string", "new_text": "new_string"},
    "write_file": {"path": "file_path"},
    "read_file": {"path": "file_path"},
}
"""Claude Code's names of arguments. Hooks get both."""
_MAX_RESPONSE_CHARS: Final = 100_000

Report = Callable[[str, str], Awaitable[None]]
"""Shows a title and a text to the user."""


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """What the PreToolUse hooks say about a call."""

    denied: str | None = None
    ask_reason: str = ""
    """Why the user must be asked, even if the rules allow the call."""
    arguments: dict[str, Any] | None = None
    """The changed arguments."""
    context: str = ""


@dataclass(frozen=True, kw_only=True)
class HookEnvironment:
    """The session that hooks run for."""

    session_id: str
    cwd: str
    mode: Callable[[], Mode]
    clock: Clock
    report: Report
    source: str = "startup"
    """How the session began, for SessionStart hooks."""
    variables: Callable[[], Mapping[str, str]] = dict
    """Variables for child processes, such as the trace context."""


class SessionHooks:
    """Runs the hooks of one session."""

    def __init__(self, hooks: HookSet, environment: HookEnvironment) -> None:
        """Reads the scripts of the project that the hooks name: call it in a thread."""
        self._hooks = hooks
        self._scripts = {id(hook): scripts_of(hook, environment.cwd) for hook in hooks.hooks}
        self._environment = environment
        self._shell = shutil.which("bash") or "/bin/sh"
        self._used: set[int] = set()
        self._started = False
        self._beside: set[asyncio.Task[HookAnswer]] = set()
        self.stop_reason: str | None = None
        """Why the running turn must end: a hook answered `continue: false`."""

    def turn_started(self) -> None:
        self.stop_reason = None

    # -- events of tool calls --------------------------------------------------------------------------------

    async def before_call(self, tool: Tool, call: PreparedCall, call_id: str) -> CallVerdict:
        """Run PreToolUse hooks."""
        names, sent = _names(tool), _tool_input(tool, call)
        answer = await self._run(
            "PreToolUse", names, {"tool_name": names[-1], "tool_input": sent, "tool_use_id": call_id}, sent
        )
        if answer.stop is not None or answer.block is not None or answer.permission == "deny":
            return CallVerdict(answer.stop or answer.block or answer.reason or "a hook denied it")
        ask_reason = (
            f"a hook asks: {answer.reason or 'no reason given'}" if answer.permission == "ask" else ""
        )
        updated = answer.updated_input
        arguments = None if updated is None else _own_arguments(tool.name, sent, updated)
        return CallVerdict(None, ask_reason, arguments, answer.context)

    async def permission_asked(self, tool: Tool, call: PreparedCall) -> str | None:
        """Run PermissionRequest and Notification hooks. Returns why the call is denied, if it is."""
        names, sent = _names(tool), _tool_input(tool, call)
        fields = {"tool_name": names[-1], "tool_input": sent}
        answer = await self._run("PermissionRequest", names, fields, sent)
        if answer.block is not None or answer.permission == "deny" or answer.stop is not None:
            return answer.block or answer.reason or answer.stop or "a hook denied it"
        message = {"message": f"Permission needed: {call.title}", "notification_type": "permission_prompt"}
        await self._run("Notification", ("permission_prompt",), message)
        return None

    async def after_call(
        self, tool: Tool, call: PreparedCall, call_id: str, outcome: ToolOutcome, context: str = ""
    ) -> ToolOutcome:
        """Run PostToolUse or PostToolUseFailure hooks, and add what they say to the outcome.

        `context` is what the PreToolUse hooks said.
        """
        names, sent = _names(tool), _tool_input(tool, call)
        fields: dict[str, Any] = {"tool_name": names[-1], "tool_input": sent, "tool_use_id": call_id}
        text = outcome.text[:_MAX_RESPONSE_CHARS]
        if outcome.failed:
            answer = await self._run("PostToolUseFailure", names, {**fields, "error": text}, sent)
        else:
            response = {"content": text, "success": True}
            answer = await self._run("PostToolUse", names, {**fields, "tool_response": response}, sent)
        return with_context(outcome, context, answer.block, answer.context)

    # -- other events ----------------------------------------------------------------------------------------

    async def check_prompt(self, parts: Iterable[Part]) -> tuple[str | None, tuple[Part, ...]]:
        """Run the hooks of a prompt, and before the first those of SessionStart.

        Returns why it is blocked, and what they add to it.
        """
        contexts: list[str] = []
        if not self._started:
            self._started, source = True, self._environment.source
            contexts.append((await self._run("SessionStart", (source,), {"source": source})).context)
        prompt = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        answer = await self._run("UserPromptSubmit", (), {"prompt": prompt})
        contexts.append(answer.context)
        blocked = answer.stop if answer.stop is not None else answer.block
        return blocked, tuple(TextPart(f"[hook] {text}") for text in contexts if text)

    async def session_ended(self) -> None:
        """Run SessionEnd hooks, and end those that run beside."""
        await self._run("SessionEnd", ("other",), {"reason": "other"})
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)

    async def turn_stopping(self, last_text: str, stops: int, *, subagent: bool) -> str | None:
        """Run Stop or SubagentStop hooks. Returns the next input of the model if it must go on."""
        event: Event = "SubagentStop" if subagent else "Stop"
        fields: dict[str, Any] = {"stop_hook_active": stops > 0, "last_assistant_message": last_text}
        if subagent:
            fields |= {"agent_type": "general", "agent_id": "", "agent_transcript_path": ""}
        answer = await self._run(event, ("general",) if subagent else (), fields)
        if answer.stop is not None or stops >= STOP_LIMIT:
            return None
        return answer.block

    async def compacting(self, focus: str, *, automatic: bool) -> HookAnswer:
        trigger = "auto" if automatic else "manual"
        return await self._run("PreCompact", (trigger,), {"trigger": trigger, "custom_instructions": focus})

    # -- running ---------------------------------------------------------------------------------------------

    async def _run(
        self,
        event: Event,
        names: Sequence[str],
        fields: Mapping[str, Any],
        arguments: Mapping[str, Any] | None = None,
    ) -> HookAnswer:
        due: list[Hook] = []
        for number, hook in enumerate(self._hooks.hooks):
            if hook.event != event or not hook.matches(names) or number in self._used:
                continue
            if arguments is not None and not hook.fits_call(names, arguments, self._environment.cwd):
                continue
            if hook.once:
                self._used.add(number)
            due.append(hook)
        if not due:
            return HookAnswer()
        environment = self._environment
        payload = {
            "session_id": environment.session_id,
            "transcript_path": "",
            "cwd": environment.cwd,
            "permission_mode": _MODES[environment.mode()],
            "hook_event_name": event,
            **fields,
        }
        async with asyncio.TaskGroup() as group:
            waited = [group.create_task(self._start(hook, payload)) for hook in due if not hook.runs_beside]
            for hook in due:
                if hook.runs_beside:
                    task = asyncio.create_task(self._start(hook, payload))
                    self._beside.add(task)
                    task.add_done_callback(self._beside.discard)
        answers = [task.result() for task in waited]
        for answer in answers:
            for text in filter(None, (answer.message, answer.failure)):
                await environment.report("Hook", text)
        combined = _combined(answers)
        if combined.block is not None and event in ("SessionStart", "SessionEnd", "Notification"):
            await environment.report("Hook", combined.block)
        if combined.stop is not None:
            self.stop_reason = combined.stop
        return combined

    async def _start(self, hook: Hook, payload: Mapping[str, Any]) -> HookAnswer:
        environment = self._environment
        variables = {
            **environment.variables(),
            "CLAUDE_PROJECT_DIR": environment.cwd,
            "ACCORD_PROJECT_DIR": environment.cwd,
        }
        if (changed := await asyncio.to_thread(self._changed_script, hook)) is not None:
            return changed_script(hook, changed, environment.cwd)
        return await run_hook(
            hook, payload, cwd=environment.cwd, shell=self._shell, env=variables, clock=environment.clock
        )

    def _changed_script(self, hook: Hook) -> str | None:
        """The script of a hook that is not as it was: what the agent writes must stay in the sandbox."""
        known = self._scripts[id(hook)]
        return next((path for path, digest in known.items() if script_digest(path) != digest), None)


def _combined(answers: Sequence[HookAnswer]) -> HookAnswer:
    """One answer of several: the strictest permission, every reason and context, the last new input."""
    given = {answer.permission for answer in answers}
    permission: Permission | None = next((value for value in _STRICTEST_FIRST if value in given), None)
    reasons = [answer.reason for answer in answers if answer.permission == permission and answer.reason]
    blocks = [answer.block for answer in answers if answer.block is not None]
    inputs = [answer.updated_input for answer in answers if answer.updated_input is not None]
    return HookAnswer(
        block="\n".join(blocks) if blocks else None,
        permission=permission,
        reason="; ".join(reasons),
        updated_input=inputs[-1] if inputs else None,
        context="\n".join(answer.context for answer in answers if answer.context),
        stop=next((answer.stop for answer in answers if answer.stop is not None), None),
    )


def with_context(outcome: ToolOutcome, *texts: str | None) -> ToolOutcome:
    """The outcome with text for the model after it."""
    parts = [TextPart(f"[hook] {text}") for text in texts if text]
    if not parts:
        return outcome
    return ToolOutcome(
        (*outcome.parts, *parts), outcome.content, outcome.raw_output, outcome.failed, outcome.locations
    )


def _names(tool: Tool) -> tuple[str, ...]:
    """Our name of the tool, then Claude Code's."""
    if tool.category == "external" and "__" in tool.name:
        return (tool.name, f"mcp__{tool.name}")
    other = TOOL_NAMES.get(tool.name)
    return (tool.name,) if other is None else (tool.name, other)


def _tool_input(tool: Tool, call: PreparedCall) -> dict[str, Any]:
    """The arguments with our names and Claude Code's. Paths of files are absolute under Claude Code's."""
    arguments = dict(call.arguments)
    for own, other in _OTHER_KEYS.get(tool.name, {}).items():
        if arguments.get(own) is not None:
            arguments[other] = arguments[own]
    if tool.name in _FILE_TOOLS and call.locations:
        arguments["file_path"] = os.path.abspath(call.locations[0].path)
    return arguments


def _own_arguments(tool_name: str, sent: Mapping[str, Any], updated: Mapping[str, Any]) -> dict[str, Any]:
    """The changed arguments with our names. A member that was changed under either name counts."""
    arguments = dict(updated)
    for own, other in _OTHER_KEYS.get(tool_name, {}).items():
        if other in arguments:
            value = arguments.pop(other)
            if own not in arguments or value != sent.get(other):
                arguments[own] = value
    return arguments
