"""The hooks of one session: runs those of an event in parallel and combines their answers.

A hook can deny a call, ask about it or change its arguments. It never allows what the rules do not allow: the
policy decides on the changed arguments, and an `allow` only means that the hook has no objection.
"""

import asyncio
import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from accord.clock import Clock
from accord.coder.hooks.background_hooks import BackgroundHooks, Report
from accord.coder.hooks.hook_command import (
    AsyncRequest,
    HookAnswer,
    Permission,
    changed_script,
    run_hook,
    script_digest,
    scripts_of,
)
from accord.coder.hooks.hook_config import MORE_TOOL_NAMES, TOOL_NAMES, Event, Hook, HookSet
from accord.coder.hooks.transcript_file import TranscriptFile
from accord.coder.model_history import Message, Part, TextPart
from accord.coder.tools.tool import PreparedCall, Tool, ToolOutcome
from accord.paths import explain_file_error
from accord.policy.installed_program import installed_program
from accord.policy.mode_names import Mode

STOP_LIMIT: Final = 8
"""How many times Stop hooks may prolong one turn."""
_GENERAL_AGENT: Final = "general-purpose"
"""What Claude Code calls a sub-agent that is no custom agent."""
_SHOWN_TO_USER: Final[tuple[Event, ...]] = (
    *("SessionStart", "SessionEnd", "SubagentStart", "PostCompact", "Notification"),
)
"""The events that nothing can block: what a hook says against them is for the user."""
_STRICTEST_FIRST: Final[tuple[Permission, ...]] = ("deny", "ask", "allow")
_MODES: Final[Mapping[Mode, str]] = {
    "read-only": "plan",
    "plan": "plan",
    "ask": "default",
    "workspace-write": "acceptEdits",
    "full-access": "bypassPermissions",
}
"""What Claude Code calls our modes."""
_FILE_TOOLS: Final = frozenset(("read_file", "edit_file", "write_file", "delete_file", "move_file"))
_GUARDED_AS_WRITES: Final = frozenset(("delete_file", "move_file"))
"""Tools without a name in Claude Code. Hooks that can refuse a write can refuse them, too."""
_OTHER_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "edit_file": {"path": "file_path", "old_text": "old_string", "new_text": "new_string"},
    "write_file": {"path": "file_path"},
    "read_file": {"path": "file_path"},
    "delete_file": {"path": "file_path"},
    "move_file": {"source": "file_path"},
}
"""Claude Code's names of arguments. Hooks get both."""
_MAX_RESPONSE_CHARS: Final = 100_000


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
    model: Callable[[], str]
    messages: Callable[[], Sequence[Message]]
    """The messages of the session, for the transcript."""
    source: str = "startup"
    """How the session began, for SessionStart hooks."""
    variables: Callable[[], Mapping[str, str]] = dict
    """Variables for child processes, such as the trace context."""


class SessionHooks:
    """Runs the hooks of one session."""

    def __init__(
        self, hooks: HookSet, environment: HookEnvironment, replaced: "SessionHooks | None" = None
    ) -> None:
        """Reads the scripts of the project that the hooks name: call it in a thread.

        `replaced` are the hooks that the session had before.
        """
        self.set: HookSet = hooks
        known: Mapping[Hook, dict[str, bytes]] = {} if replaced is None else replaced._scripts
        self._scripts: Mapping[Hook, dict[str, bytes]] = {
            hook: known.get(hook) or scripts_of(hook, environment.cwd) for hook in hooks.hooks
        }
        self._environment = environment
        self._shell = installed_program("bash", (environment.cwd,)) or "/bin/sh"
        self._used: set[Hook] = set() if replaced is None else replaced._used
        self._started = replaced is not None and replaced._started
        self._transcript = (
            TranscriptFile(environment.session_id, environment.cwd, _with_other_names)
            if replaced is None
            else replaced._transcript
        )
        self._background = BackgroundHooks(environment.report) if replaced is None else replaced._background
        self._stop_reasons: list[str] = []
        self._agent: Mapping[str, str] = {}
        """The members that name the sub-agent."""

    @property
    def stop_reason(self) -> str | None:
        """Why the running turn must end: a hook answered `continue: false`."""
        return self._stop_reasons[-1] if self._stop_reasons else None

    def turn_started(self) -> None:
        self._stop_reasons.clear()

    def of_subagent(self, agent_id: str, agent_type: str) -> "SessionHooks":
        """The same hooks, told that a sub-agent acts. `agent_type` names a custom agent, if it is one."""
        hooks = copy.copy(self)
        hooks._agent = {"agent_id": agent_id, "agent_type": agent_type or _GENERAL_AGENT}
        return hooks

    # -- events of tool calls --------------------------------------------------------------------------------

    async def before_call(self, tool: Tool, call: PreparedCall, call_id: str) -> CallVerdict:
        """Run PreToolUse hooks."""
        names, sent = _guarded_names(tool), _tool_input(tool, call)
        answer = await self._run(
            "PreToolUse", names, {"tool_name": names[-1], "tool_input": sent, "tool_use_id": call_id}, sent
        )
        if answer.stop is not None or answer.block is not None or answer.permission == "deny":
            reasons = (answer.stop, answer.block, answer.reason if answer.permission == "deny" else None)
            return CallVerdict("\n".join(filter(None, reasons)) or "a hook denied it")
        ask_reason = (
            f"a hook asks: {answer.reason or 'no reason given'}" if answer.permission == "ask" else ""
        )
        updated = answer.updated_input
        arguments = None if updated is None else _own_arguments(tool.name, sent, updated)
        return CallVerdict(None, ask_reason, arguments, answer.context)

    async def permission_asked(self, tool: Tool, call: PreparedCall) -> str | None:
        """Run PermissionRequest hooks, and start those of Notification. Returns why the call is denied."""
        names, sent = _guarded_names(tool), _tool_input(tool, call)
        fields = {"tool_name": names[-1], "tool_input": sent}
        answer = await self._run("PermissionRequest", names, fields, sent)
        if answer.block is not None or answer.permission == "deny" or answer.stop is not None:
            return answer.block or answer.reason or answer.stop or "a hook denied it"
        message = {"message": f"Permission needed: {call.title}", "notification_type": "permission_prompt"}
        # The question does not wait.
        self._background.start(self._run("Notification", ("permission_prompt",), message))
        return None

    async def after_call(
        self,
        tool: Tool,
        call: PreparedCall,
        call_id: str,
        outcome: ToolOutcome,
        context: str,
        seconds: float,
    ) -> ToolOutcome:
        """Run PostToolUse or PostToolUseFailure hooks, and add what they say to the outcome.

        `context` is what the PreToolUse hooks said, `seconds` how long the call took.
        """
        names, sent = _names(tool), _tool_input(tool, call)
        fields: dict[str, Any] = {"tool_name": names[-1], "tool_input": sent, "tool_use_id": call_id}
        text = outcome.text[:_MAX_RESPONSE_CHARS]
        if outcome.failed:
            answer = await self._run("PostToolUseFailure", names, {**fields, "error": text}, sent)
        else:
            fields["tool_response"] = {"content": text, "success": True}
            fields["duration_ms"] = round(1000 * seconds)
            answer = await self._run("PostToolUse", names, fields, sent)
            if answer.updated_output is not None:
                outcome = replace(outcome, parts=(TextPart(answer.updated_output),))
        return with_context(outcome, context, answer.block, answer.context)

    # -- other events ----------------------------------------------------------------------------------------

    async def check_prompt(self, parts: Iterable[Part]) -> tuple[str | None, tuple[Part, ...]]:
        """Run the hooks of a prompt, and before the first those of SessionStart.

        Returns why it is blocked, and what they add to it.
        """
        contexts: list[str] = []
        if not self._started:
            self._started = True
            contexts.append(await self._session_started(self._environment.source))
        prompt = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        answer = await self._run("UserPromptSubmit", (), {"prompt": prompt})
        contexts.append(answer.context)
        blocked = answer.stop if answer.stop is not None else answer.block
        if blocked is None:
            contexts.append(self.take_context())
        return blocked, tuple(TextPart(f"[hook] {text}") for text in contexts if text)

    async def _session_started(self, source: str) -> str:
        fields = {"source": source, "model": self._environment.model()}
        return (await self._run("SessionStart", (source,), fields)).context

    def take_context(self) -> str:
        """What hooks in the background have said for the model since."""
        return self._background.take_context()

    async def session_ended(self) -> None:
        """Run SessionEnd hooks, and end those in the background."""
        try:
            await self._run("SessionEnd", ("other",), {"reason": "other"})
        finally:
            await self._background.end()
            await asyncio.to_thread(self._transcript.remove)

    async def subagent_started(self) -> str:
        """Run SubagentStart hooks. Returns text for the sub-agent."""
        return (await self._run("SubagentStart", (self._agent["agent_type"],), {})).context

    async def turn_stopping(self, last_text: str, stops: int) -> str | None:
        """Run Stop or SubagentStop hooks. Returns the next input of the model if it must go on."""
        fields: dict[str, Any] = {"stop_hook_active": stops > 0, "last_assistant_message": last_text}
        if self._agent:
            fields["agent_transcript_path"] = ""
            answer = await self._run("SubagentStop", (self._agent["agent_type"],), fields)
        else:
            answer = await self._run("Stop", (), fields)
        if answer.stop is not None or stops >= STOP_LIMIT:
            return None
        return answer.block

    async def compacting(self, focus: str, *, automatic: bool) -> HookAnswer:
        trigger = "auto" if automatic else "manual"
        return await self._run("PreCompact", (trigger,), {"trigger": trigger, "custom_instructions": focus})

    async def compacted(self, summary: str, *, automatic: bool) -> str:
        """Run PostCompact hooks, and those of SessionStart. Returns text for the model."""
        trigger = "auto" if automatic else "manual"
        await self._run("PostCompact", (trigger,), {"trigger": trigger, "compact_summary": summary})
        return await self._session_started("compact")

    # -- running ---------------------------------------------------------------------------------------------

    async def _run(
        self,
        event: Event,
        names: Sequence[str],
        fields: Mapping[str, Any],
        arguments: Mapping[str, Any] | None = None,
    ) -> HookAnswer:
        due: list[Hook] = []
        for hook in self.set.hooks:
            if hook.event != event or not hook.matches(names) or hook in self._used:
                continue
            if arguments is not None and not hook.fits_call(names, arguments, self._environment.cwd):
                continue
            if hook.once:
                self._used.add(hook)
            due.append(hook)
        if not due:
            return HookAnswer()
        environment = self._environment
        payload = {
            "session_id": environment.session_id,
            "transcript_path": await self._write_transcript(),
            "cwd": environment.cwd,
            "permission_mode": _MODES[environment.mode()],
            "hook_event_name": event,
            **self._agent,
            **fields,
        }
        async with asyncio.TaskGroup() as group:
            waited = [group.create_task(self._answer_of(hook, payload)) for hook in due]
        answers = [task.result() for task in waited]
        for answer in answers:
            for text in filter(None, (answer.message, answer.failure)):
                await environment.report("Hook", text)
        combined = _combined(answers)
        if combined.block is not None and event in _SHOWN_TO_USER:
            await environment.report("Hook", combined.block)
        if combined.stop is not None:
            self._stop_reasons.append(combined.stop)
        return combined

    async def _write_transcript(self) -> str:
        """Bring the transcript up to date. Returns its path, or nothing if it cannot be written."""
        try:
            return await asyncio.to_thread(self._transcript.write, list(self._environment.messages()))
        except OSError as error:
            await self._environment.report("Hook", f"no transcript for hooks: {explain_file_error(error)}")
            return ""

    async def _answer_of(self, hook: Hook, payload: Mapping[str, Any]) -> HookAnswer:
        """What a hook decides; nothing if it goes on in the background."""
        environment = self._environment
        variables = {
            **environment.variables(),
            "CLAUDE_PROJECT_DIR": environment.cwd,
            "ACCORD_PROJECT_DIR": environment.cwd,
        }

        async def start(request: AsyncRequest) -> HookAnswer:
            return await run_hook(
                hook,
                payload,
                cwd=environment.cwd,
                shell=self._shell,
                env=variables,
                clock=environment.clock,
                request=request,
            )

        if (changed := await asyncio.to_thread(self._changed_script, hook)) is not None:
            return changed_script(hook, changed, environment.cwd)
        return await self._background.run(hook, start)

    def _changed_script(self, hook: Hook) -> str | None:
        """The script of a hook that is not as it was: what the agent writes must stay in the sandbox."""
        known = self._scripts[hook]
        return next((path for path, digest in known.items() if script_digest(path) != digest), None)


def _combined(answers: Sequence[HookAnswer]) -> HookAnswer:
    """One answer of several: the strictest permission, every reason and context, the last new input."""
    given = {answer.permission for answer in answers}
    permission: Permission | None = next((value for value in _STRICTEST_FIRST if value in given), None)
    reasons = [answer.reason for answer in answers if answer.permission == permission and answer.reason]
    blocks = [answer.block for answer in answers if answer.block is not None]
    inputs = [answer.updated_input for answer in answers if answer.updated_input is not None]
    outputs = [answer.updated_output for answer in answers if answer.updated_output is not None]
    return HookAnswer(
        block="\n".join(blocks) if blocks else None,
        permission=permission,
        reason="; ".join(reasons),
        updated_input=inputs[-1] if inputs else None,
        updated_output=outputs[-1] if outputs else None,
        context="\n".join(answer.context for answer in answers if answer.context),
        stop=next((answer.stop for answer in answers if answer.stop is not None), None),
    )


def with_context(outcome: ToolOutcome, *texts: str | None) -> ToolOutcome:
    """The outcome with text for the model after it."""
    parts = [TextPart(f"[hook] {text}") for text in texts if text]
    if not parts:
        return outcome
    return replace(outcome, parts=(*outcome.parts, *parts))


def _names(tool: Tool) -> tuple[str, ...]:
    """The names of the tool that a matcher may use; the last is Claude Code's."""
    if tool.category == "external" and "__" in tool.name:
        return (tool.name, f"mcp__{tool.name}")
    other = TOOL_NAMES.get(tool.name)
    more = MORE_TOOL_NAMES.get(tool.name, ())
    return (tool.name, *more) if other is None else (tool.name, *more, other)


def _guarded_names(tool: Tool) -> tuple[str, ...]:
    """The same before a call."""
    names = _names(tool)
    return ("Write", *names) if tool.name in _GUARDED_AS_WRITES else names


def _tool_input(tool: Tool, call: PreparedCall) -> dict[str, Any]:
    """The arguments with our names and Claude Code's. Paths of files are absolute under Claude Code's."""
    arguments = _with_other_names(tool.name, call.arguments)
    if tool.name in _FILE_TOOLS and call.locations:
        arguments["file_path"] = os.path.abspath(call.locations[0].path)
    return arguments


def _with_other_names(tool_name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(arguments)
    for own, other in _OTHER_KEYS.get(tool_name, {}).items():
        if both.get(own) is not None:
            both[other] = both[own]
    return both


def _own_arguments(tool_name: str, sent: Mapping[str, Any], updated: Mapping[str, Any]) -> dict[str, Any]:
    """The changed arguments with our names. A member that was changed under either name counts."""
    arguments = dict(updated)
    for own, other in _OTHER_KEYS.get(tool_name, {}).items():
        if other in arguments:
            value = arguments.pop(other)
            if own not in arguments or value != sent.get(other):
                arguments[own] = value
    return arguments
