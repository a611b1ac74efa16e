"""Summarizes steps of a recording, and formats durations and sizes. Escapes control characters."""

import json
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final, cast

from accord.trace.trace_steps import TraceStep, at, listed

_CONTROL: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_MAX_TEXT: Final = 2000
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}


def escape_controls(text: str) -> str:
    """Escape control characters and characters that change the text direction."""
    return _CONTROL.sub(lambda match: _ESCAPES.get(match[0], f"\\u{ord(match[0]):04x}"), text)


def escape_lines(text: str) -> str:
    """Escape each line of a text; keep the line ends."""
    return "\n".join(map(escape_controls, text.split("\n")))


def format_duration(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def format_size(count: float) -> str:
    """Format a number of bytes."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def summarize_step(step: TraceStep) -> str:
    """Return the content of a step as one line, which may be long."""
    entry = step.entry
    match step.kind:
        case "request" | "notification":
            return _CALL_SUMMARIES.get(step.method, _summarize_members)(step.params)
        case "answer":
            return _ANSWER_SUMMARIES.get(step.method, _summarize_members)(step.result)
        case "error":
            error = at(step.message, "error")
            code, message = at(error, "code"), at(error, "message")
            return f"error {code}: {message}" if message is not None else f"error {_summarize_members(error)}"
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
            lost_data = f"{format_size(entry.size)} in {entry.count} pieces"
            return f"not recorded: {lost_data} arrived faster than they could be written"


def _summarize_members(value: Any, omit: str = "sessionId") -> str:
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return ", ".join(f"{key} {_quote(item)}" for key, item in members.items() if key != omit)
    return "" if value is None else _quote(value)


def _quote(value: Any) -> str:
    if isinstance(value, str):
        return (
            value
            if value and len(value) < 60 and not any(map(str.isspace, value))
            else json.dumps(value, ensure_ascii=False)
        )
    return json.dumps(value, ensure_ascii=False)


def _summarize_content(block: Any) -> str:
    """Describe a content block."""
    if isinstance(block, list):
        return " ".join(map(_summarize_content, cast(list[Any], block)))
    kind = at(block, "type")
    if kind == "text":
        return _quote(str(at(block, "text"))[:_MAX_TEXT])
    detail = at(block, "uri") or at(block, "mimeType") or at(block, "resource", "uri") or ""
    return f"[{kind or 'content'} {detail}]".replace(" ]", "]")


def _summarize_initialize(params: Any) -> str:
    info = at(params, "info") or at(params, "clientInfo") or at(params, "agentInfo")
    peer = f", {at(info, 'name')} {at(info, 'version') or ''}".rstrip() if info else ""
    return f"version {at(params, 'protocolVersion')}{peer}"


def _summarize_new_session(params: Any) -> str:
    names = [str(at(server, "name")) for server in listed(params, "mcpServers")]
    return f"in {at(params, 'cwd')}{f', MCP {chr(44).join(names)}' if names else ''}"


def _summarize_update(params: Any) -> str:
    update = at(params, "update")
    kind = at(update, "sessionUpdate")
    match kind:
        case (
            "agent_message_chunk"
            | "agent_thought_chunk"
            | "user_message_chunk"
            | "agent_message"
            | "agent_thought"
            | "user_message"
        ):
            return f"{kind} {_summarize_content(at(update, 'content') or [])}".rstrip()
        case "tool_call" | "tool_call_update":
            return f"{kind} {_join_members(update, 'toolCallId', 'title', 'kind', 'status')}"
        case "tool_call_content_chunk":
            content = at(update, "content")
            return (
                f"{kind} {at(update, 'toolCallId')} {_summarize_content(at(content, 'content') or content)}"
            )
        case "terminal_update":
            ended = at(update, "exitStatus")
            outcome = "" if ended is None else f" · ended, {_summarize_members(ended)}"
            return f"{kind} {_join_members(update, 'terminalId', 'command', 'cwd')}{outcome}"
        case "terminal_output_chunk":
            return f"{kind} {at(update, 'terminalId')} {_quote(_decode_output(at(update, 'data')))}"
        case "state_update":
            words = [_join_members(update, "state", "stopReason")]
            if at(update, "background"):
                words.append(f"{len(listed(update, 'background'))} in the background")
            if (message := at(update, "error", "message")) is not None:
                words.append(str(message))
            return f"{kind} {', '.join(words)}"
        case "plan" | "plan_update" if at(update, "plan") is None or at(update, "plan", "entries"):
            entries = listed(update, "entries") or listed(update, "plan", "entries")
            states = [str(at(entry, "status")) for entry in entries]
            return f"plan of {len(states)}, {states.count('completed')} completed"
        case "available_commands_update":
            names = [f"/{at(command, 'name')}" for command in listed(update, "availableCommands")]
            return f"commands {' '.join(names)}"
        case _:
            return f"{kind or ''} {_summarize_members(update, omit='sessionUpdate')}".strip()


def _join_members(value: Any, *names: str) -> str:
    return " · ".join(str(part) for name in names if (part := at(value, name)) is not None)


def _decode_output(data: Any) -> str:
    try:
        return b64decode(str(data), validate=True).decode(errors="replace")[:_MAX_TEXT]
    except ValueError:
        return str(data)


def _summarize_permission(params: Any) -> str:
    call = at(params, "toolCall") or at(params, "subject", "toolCall")
    title = at(params, "title") or at(call, "title") or at(call, "toolCallId")
    command = at(params, "subject", "command")
    kinds = [str(at(option, "kind")) for option in listed(params, "options")]
    return f"{title}{f' {_quote(command)}' if command else ''}: {', '.join(kinds)}"


def _summarize_inner(params: Any) -> str:
    """A message that carries another one."""
    inner = at(params, "params")
    summarize = _CALL_SUMMARIES.get(str(at(params, "method")), _summarize_members)
    server = at(params, "serverId")
    return f"{f'{server} ' if server else ''}{at(params, 'method')} {summarize(inner)}".rstrip()


def _summarize_outcome(result: Any) -> str:
    outcome = at(result, "outcome")
    chosen = at(outcome, "optionId")
    return f"{at(outcome, 'outcome')}{f' {chosen}' if chosen is not None else ''}"


def _summarize_terminal(params: Any) -> str:
    words = [at(params, "command"), *listed(params, "args")]
    return " ".join(map(str, words))


_CALL_SUMMARIES: Final[dict[str, Callable[[Any], str]]] = {
    "initialize": _summarize_initialize,
    "session/new": _summarize_new_session,
    "session/load": _summarize_new_session,
    "session/resume": _summarize_new_session,
    "session/prompt": lambda params: _summarize_content(at(params, "prompt")),
    "session/cancel": lambda params: "",
    "session/update": _summarize_update,
    "mcp/message": _summarize_inner,
    "proxy/initialize": _summarize_initialize,
    "proxy/successor": _summarize_inner,
    "session/request_permission": _summarize_permission,
    "terminal/create": _summarize_terminal,
    "fs/read_text_file": lambda params: str(at(params, "path")),
    "fs/write_text_file": lambda params: f"{at(params, 'path')} {_quote(at(params, 'content'))}",
}
_ANSWER_SUMMARIES: Final[dict[str, Callable[[Any], str]]] = {
    "initialize": _summarize_initialize,
    "session/new": lambda result: str(at(result, "sessionId")),
    "session/prompt": lambda result: str(at(result, "stopReason") or _summarize_members(result)),
    "session/request_permission": _summarize_outcome,
}
