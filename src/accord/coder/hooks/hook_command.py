"""Runs one hook and reads its answer: exit code, stderr, and the JSON on stdout."""

import asyncio
import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from accord.clock import Clock
from accord.coder.bounded_text import truncate
from accord.coder.helper_process import BoundedBytes, run_helper
from accord.coder.hooks.hook_config import MAX_SECONDS, Hook
from accord.coder.mcp.server_interface import clean_result
from accord.coder.permissions.project_files import open_regular
from accord.errors import NeverStarted
from accord.safe_text import one_line

Permission: TypeAlias = Literal["deny", "ask", "allow"]

MAX_OUTPUT_BYTES: Final = 64 * 1024
MAX_CONTEXT_CHARS: Final = 10_000
_DEFAULT_SECONDS: Final = 600.0
_EVENT_SECONDS: Final = {"UserPromptSubmit": 30.0, "SessionStart": 30.0, "SubagentStart": 30.0}
_END_SECONDS: Final = 3.0
"""The longest time for a hook at the end of a session."""
_MAX_SCRIPT_BYTES: Final = 512 * 1024 * 1024
_BLOCKED: Final = 2
_MAX_REQUEST_CHARS: Final = 1000
"""How far `{"async": true}` is looked for."""
_PROJECT_VARIABLE: Final = re.compile(
    r"\$(?:\{(?:CLAUDE|ACCORD)_PROJECT_DIR\}|(?:CLAUDE|ACCORD)_PROJECT_DIR\b)"
)
_TEXT_IS_CONTEXT: Final = ("UserPromptSubmit", "SessionStart", "SubagentStart", "PreCompact")


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What one hook said."""

    block: str | None = None
    """The reason, if it blocks the action."""
    permission: Permission | None = None
    reason: str = ""
    """The reason of the permission."""
    updated_input: dict[str, Any] | None = None
    updated_output: str | None = None
    """What the model gets instead of the result of a call."""
    context: str = ""
    """Text for the model."""
    stop: str | None = None
    """The reason, if it ends the turn."""
    message: str = ""
    """A line for the user."""
    failure: str = ""
    """Why the hook did not work, for the user."""


def scripts_of(hook: Hook, cwd: str) -> dict[str, bytes]:
    """The digests of the files of the project that a hook's command names. Missing files count as empty."""
    if hook.args is not None:
        words = [hook.command, *hook.args]
    else:
        try:
            words = shlex.split(hook.command)
        except ValueError:
            words = hook.command.split()
    found: dict[str, bytes] = {}
    for word in words:
        path = os.path.realpath(os.path.join(cwd, _PROJECT_VARIABLE.sub(lambda _: cwd, word)))
        is_inside = path.startswith(os.path.realpath(cwd) + os.sep)
        if is_inside and "\0" not in path and (os.sep in word or os.path.isfile(path)):
            found[path] = script_digest(path)
    return found


def script_digest(path: str) -> bytes:
    """The digest of a file; that of no bytes if it cannot be read. Of a huge file: of size and time."""
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            if status.st_size > _MAX_SCRIPT_BYTES:
                return hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode()).digest()
            return hashlib.file_digest(file, "sha256").digest()
    except (OSError, ValueError):
        return hashlib.sha256().digest()


def changed_script(hook: Hook, path: str, cwd: str) -> HookAnswer:
    """The answer in place of a hook whose script has changed: the agent may have changed it."""
    name = one_line(os.path.relpath(path, os.path.realpath(cwd)), 200)
    answer = _failure(hook, f"{name} has changed since the session began, so it was not run")
    if hook.event == "PreToolUse":
        return replace(answer, permission="ask", reason=f"its script {name} has changed")
    return answer


class AsyncRequest:
    """Notices that a hook goes on in the background: `{"async": true}` is the first it prints.

    Hooks of SessionEnd cannot: the session ends what is in the background.
    """

    def __init__(self, hook: Hook) -> None:
        self._may_go_on = hook.event != "SessionEnd"
        self._default_seconds = hook.timeout or _DEFAULT_SECONDS
        self.seconds: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        """How long the hook may take in the background. Done once it is there."""
        self.answer_start: int = 0
        """Where its answer begins in the output, in characters."""
        self._is_read = False
        if hook.runs_beside and self._may_go_on:
            self.seconds.set_result(self._default_seconds)

    def read(self, output: BoundedBytes) -> None:
        """Look at the output so far."""
        if self._is_read:
            return
        text = output.text[:_MAX_REQUEST_CHARS]
        start = len(text) - len(text.lstrip())
        self._is_read = len(text) == _MAX_REQUEST_CHARS or text[start : start + 1] not in ("", "{")
        try:
            value, end = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            return  # the rest may follow
        self._is_read = True
        if not isinstance(value, dict):
            return
        members = cast(dict[str, Any], value)
        if members.get("async") is True and members.keys() <= {"async", "asyncTimeout"}:
            self.answer_start = end
            if self._may_go_on and not self.seconds.done():
                self.seconds.set_result(self._seconds(members.get("asyncTimeout")))

    def _seconds(self, milliseconds: object) -> float:
        if isinstance(milliseconds, int | float) and milliseconds > 0:
            return min(milliseconds / 1000, MAX_SECONDS)
        return self._default_seconds


async def run_hook(
    hook: Hook,
    payload: Mapping[str, Any],
    *,
    cwd: str,
    shell: str,
    env: Mapping[str, str],
    clock: Clock,
    request: AsyncRequest,
) -> HookAnswer:
    """Run a hook to its end. Canceling it ends everything it started.

    `request` is told of what it prints.
    """
    command = [shell, "-c", hook.command] if hook.args is None else [hook.command, *hook.args]
    seconds = hook.timeout or _EVENT_SECONDS.get(hook.event, _DEFAULT_SECONDS)
    if hook.event == "SessionEnd":
        seconds = min(seconds, _END_SECONDS)
    try:
        data = msgspec.json.encode(payload)
    except UnicodeEncodeError:  # half of a surrogate pair
        data = json.dumps(payload).encode()
    try:
        result = await run_helper(
            command,
            data,
            cwd=cwd,
            env=env,
            seconds=seconds,
            limit=MAX_OUTPUT_BYTES,
            clock=clock,
            on_output=request.read,
            new_seconds=request.seconds,
        )
    except NeverStarted as error:
        return _failure(hook, str(error))
    status, output, errors = result.exit, result.output, result.errors
    if status is None:
        if request.seconds.done():
            seconds = request.seconds.result()
        return _failure(hook, f"it did not end within {seconds:g} s")
    if status.code == _BLOCKED:
        text = _clean(errors.text) or f"the hook `{one_line(hook.command, 80)}` blocked it"
        return HookAnswer(block=text)
    if status.code != 0:
        return _failure(hook, f"it {status}", errors.text)
    return read_output(hook, output.text[request.answer_start :], truncated=output.truncated)


def read_output(hook: Hook, text: str, *, truncated: bool = False) -> HookAnswer:
    """Read the stdout of a hook that exited with 0."""
    text = text.strip()
    if not text.startswith("{"):
        return HookAnswer(context=_clean(text) if hook.event in _TEXT_IS_CONTEXT else "")
    if truncated:
        return _failure(hook, f"it printed more than {MAX_OUTPUT_BYTES:,} bytes")
    try:
        value: Any = msgspec.json.decode(text)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return _failure(hook, "it printed invalid JSON")
    return _answer(hook, cast(dict[str, Any], value))


def _answer(hook: Hook, value: dict[str, Any]) -> HookAnswer:
    specific = value.get("hookSpecificOutput")
    members = cast(dict[str, Any], specific) if isinstance(specific, dict) else {}
    if members and members.get("hookEventName", hook.event) != hook.event:
        return _failure(hook, f"its hookSpecificOutput is not for {hook.event}")
    block = _text(value, "reason") or "a hook blocked it" if value.get("decision") == "block" else None
    permission = members.get("permissionDecision")
    reason = _text(members, "permissionDecisionReason")
    if hook.event == "PreToolUse" and permission is None:
        # The older form.
        permission = {"approve": "allow", "block": "deny"}.get(str(value.get("decision")))
        reason, block = _text(value, "reason"), None
    stop = None
    if value.get("continue") is False:
        stop = _text(value, "stopReason") or "a hook ended the turn"
    if hook.event == "PermissionRequest":
        choice = members.get("decision")
        decision = cast(dict[str, Any], choice) if isinstance(choice, dict) else {}
        permission = decision.get("behavior", permission)
        reason = _text(decision, "message") or reason
        if decision.get("interrupt") is True and permission == "deny":
            stop = reason or "a hook denied it"
    if permission == "defer":
        permission = "ask"
    updated = members.get("updatedInput")
    return HookAnswer(
        block=block,
        permission=permission if permission in ("deny", "ask", "allow") else None,
        reason=reason,
        updated_input=cast(dict[str, Any], updated) if isinstance(updated, dict) else None,
        updated_output=_updated_output(members),
        context=_text(members, "additionalContext"),
        stop=stop,
        message=_text(value, "systemMessage"),
    )


def _updated_output(members: Mapping[str, Any]) -> str | None:
    """The text of a new result: a text, or an object like `tool_response`."""
    output = members.get("updatedToolOutput", members.get("updatedMCPToolOutput"))
    if isinstance(output, dict):
        output = cast(dict[str, Any], output).get("content", cast(dict[str, Any], output))
    if output is None:
        return None
    return clean_result(output if isinstance(output, str) else json.dumps(output))


def _text(members: Mapping[str, Any], key: str) -> str:
    value = members.get(key)
    return _clean(value) if isinstance(value, str) else ""


def _clean(text: str) -> str:
    return truncate(clean_result(text).strip(), MAX_CONTEXT_CHARS)


def hook_title(hook: Hook) -> str:
    """What the user is shown as the name of a hook."""
    return f"{hook.event} hook `{one_line(hook.command, 80)}` of {hook.source}"


def _failure(hook: Hook, reason: str, errors: str = "") -> HookAnswer:
    tail = one_line(clean_result(errors).strip().rpartition("\n")[2], 200)
    line = f"{hook_title(hook)}: {reason}" + (f": {tail}" if tail else "")
    return HookAnswer(block=line if hook.blocks_on_failure else None, failure=line)
