"""A transcript, and the list of sessions, as JSON. The form has a version; what it holds has the shapes of the protocol."""

import json
from typing import Any, Final

from accord import __version__
from accord.client.stored.transcript import Entry, Transcript
from accord.schema import UNSET
from accord.schema.codec import to_builtins
from accord.session import (
    CompactionState,
    Message,
    PlanState,
    SessionMessageState,
    SubagentState,
    ToolCallState,
)
from accord.session import Entry as TimelineEntry

FORMAT: Final = "accord.session"
VERSION: Final = 1
"""Goes up when something that is there changes its meaning or goes; what is added does not change it."""


def transcript_form(transcript: Transcript) -> dict[str, Any]:
    """The document of `accord sessions export --format json`."""
    state = transcript.state
    form: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "exportedBy": f"accord {__version__}",
        **entry_form(transcript.entry),
        "source": transcript.source,
    }
    form["title"] = transcript.title
    form["timeline"] = [_part(entry) for entry in state.timeline]
    if state.usage is not None:
        form["usage"] = _record(state.usage)
    return form


def entry_form(entry: Entry) -> dict[str, Any]:
    """One session of `accord sessions list --json`."""
    return {
        "agent": entry.agent,
        "sessionId": entry.session_id,
        "cwd": entry.cwd,
        "additionalDirectories": list(entry.additional_directories),
        "title": entry.title,
        "updatedAt": entry.updated,
        "archived": entry.archived,
        "source": entry.source,
    }


def json_text(value: Any) -> str:
    """JSON that is safe to look at: what a terminal could act on is written by its number."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if text.replace("\n", "").isprintable():
        return text
    return "".join([char if char == "\n" or char.isprintable() else _escaped(char) for char in text])


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _part(entry: TimelineEntry) -> dict[str, Any]:
    match entry:
        case Message():
            part: dict[str, Any] = {"type": "message", "role": entry.kind}
            if entry.id is not None:
                part["messageId"] = entry.id
            return {**part, "content": [_record(block) for block in entry.blocks]}
        case ToolCallState():
            part = {"type": "tool_call", **_record(entry.whole())}
            part.pop("_meta", None)
            if entry.mark:
                part["endedAs"] = entry.mark
            return part
        case PlanState():
            return {"type": "plan", "planId": entry.plan_id, "plan": _record(entry.body)}
        case CompactionState():
            return {"type": "compaction", **_record(entry.whole())}
        case SubagentState():
            return {"type": "subagent", **_record(entry.whole())}
        case SessionMessageState():
            return {"type": "session_message", **_record(entry.whole())}


def _record(value: Any) -> Any:
    built = to_builtins(value)
    if isinstance(built, dict):
        built.pop("sessionUpdate", None)  # pyright: ignore[reportUnknownMemberType]
    return built if built is not UNSET else None  # pyright: ignore[reportUnknownVariableType]
