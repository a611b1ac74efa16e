"""One step of a recording in a few words; durations and sizes as text. The texts are safe for terminals."""

import json
import re
from collections.abc import Callable
from typing import Any, Final, cast

from accord.trace.trace_steps import TraceStep, at, listed

_CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_MAX_TEXT: Final = 2000
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def clean(text: str) -> str:
    """Escape control characters and characters that change the text direction."""
    return _CONTROL.sub(lambda found: _ESCAPES.get(found[0], f"\\u{ord(found[0]):04x}"), text)


def clean_lines(text: str) -> str:
    """Clean each line of a text."""
    return "\n".join(map(clean, text.split("\n")))


def cut(text: str, width: int) -> str:
    """Shorten a text to a number of characters."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def duration(seconds: float) -> str:
    """Format a duration."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def size(count: float) -> str:
    """Format a number of bytes."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def summary(step: TraceStep) -> str:
    """Return the content of a step as one line, which may be long."""
    entry = step.entry
    match step.kind:
        case "request" | "notification":
            return _CALLS.get(step.method, _brief)(step.params)
        case "answer":
            return _ANSWERS.get(step.method, _brief)(step.result)
        case "error":
            error = at(step.message, "error")
            code, message = at(error, "code"), at(error, "message")
            return f"error {code}: {message}" if message is not None else f"error {_brief(error)}"
        case "stderr" | "noise":
            return entry.text
        case "cut":
            return f"too long to record, starts with {entry.text[:60]}"
        case "closed":
            return f"the {entry.sender} closed its output{f': {entry.reason}' if entry.reason else ''}"
        case "exit":
            if entry.signal is not None:
                return f"the agent was ended by {entry.signal}"
            return "the agent exited" if entry.code is None else f"the agent exited with code {entry.code}"
        case "lost":
            lost = f"{size(entry.size)} in {entry.count} pieces"
            return f"not recorded: {lost} arrived faster than they could be written"


def _brief(value: Any, omit: str = "sessionId") -> str:
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return ", ".join(f"{key} {_word(item)}" for key, item in members.items() if key != omit)
    return "" if value is None else _word(value)


def _word(value: Any) -> str:
    if isinstance(value, str):
        return (
            value
            if value and len(value) < 60 and not any(map(str.isspace, value))
            else json.dumps(value, ensure_ascii=False)
        )
    return json.dumps(value, ensure_ascii=False)


def _text(block: Any) -> str:
    """Describe a content block."""
    if isinstance(block, list):
        return " ".join(map(_text, cast(list[Any], block)))
    kind = at(block, "type")
    if kind == "text":
        return _word(str(at(block, "text"))[:_MAX_TEXT])
    detail = at(block, "uri") or at(block, "mimeType") or at(block, "resource", "uri") or ""
    return f"[{kind or 'content'} {detail}]".replace(" ]", "]")


def _initialize(params: Any) -> str:
    info = at(params, "clientInfo") or at(params, "agentInfo")
    who = f", {at(info, 'name')} {at(info, 'version') or ''}".rstrip() if info else ""
    return f"version {at(params, 'protocolVersion')}{who}"


def _new_session(params: Any) -> str:
    names = [str(at(one, "name")) for one in listed(params, "mcpServers")]
    return f"in {at(params, 'cwd')}{f', MCP {chr(44).join(names)}' if names else ''}"


def _update(params: Any) -> str:
    update = at(params, "update")
    kind = at(update, "sessionUpdate")
    match kind:
        case "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk":
            return f"{kind} {_text(at(update, 'content'))}"
        case "tool_call" | "tool_call_update":
            parts = [at(update, name) for name in ("toolCallId", "title", "kind", "status")]
            return f"{kind} {' · '.join(str(part) for part in parts if part is not None)}"
        case "plan":
            states = [str(at(one, "status")) for one in listed(update, "entries")]
            return f"plan of {len(states)}, {states.count('completed')} completed"
        case "available_commands_update":
            names = [f"/{at(one, 'name')}" for one in listed(update, "availableCommands")]
            return f"commands {' '.join(names)}"
        case _:
            return f"{kind or ''} {_brief(update, omit='sessionUpdate')}".strip()


def _permission(params: Any) -> str:
    call = at(params, "toolCall")
    kinds = [str(at(one, "kind")) for one in listed(params, "options")]
    return f"{at(call, 'title') or at(call, 'toolCallId')}: {', '.join(kinds)}"


def _outcome(result: Any) -> str:
    outcome = at(result, "outcome")
    chosen = at(outcome, "optionId")
    return f"{at(outcome, 'outcome')}{f' {chosen}' if chosen is not None else ''}"


def _terminal(params: Any) -> str:
    words = [at(params, "command"), *listed(params, "args")]
    return " ".join(map(str, words))


_CALLS: Final[dict[str, Callable[[Any], str]]] = {
    "initialize": _initialize,
    "session/new": _new_session,
    "session/load": _new_session,
    "session/resume": _new_session,
    "session/prompt": lambda params: _text(at(params, "prompt")),
    "session/cancel": lambda params: "",
    "session/update": _update,
    "session/request_permission": _permission,
    "terminal/create": _terminal,
    "fs/read_text_file": lambda params: str(at(params, "path")),
    "fs/write_text_file": lambda params: f"{at(params, 'path')} {_word(at(params, 'content'))}",
}
_ANSWERS: Final[dict[str, Callable[[Any], str]]] = {
    "initialize": _initialize,
    "session/new": lambda result: str(at(result, "sessionId")),
    "session/prompt": lambda result: str(at(result, "stopReason")),
    "session/request_permission": _outcome,
}
