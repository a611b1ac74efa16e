"""Short texts for display: content blocks, the state of tool calls and turns, errors, durations, paths."""

import os
from typing import Final

from accord.errors import ConnectionClosed
from accord.safe_text import clean_text, one_line
from accord.schema import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Notice,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from accord.session import ToolCallState, TurnEnded
from accord.text_width import count_text

_TURN_STATUS: Final = {
    "end_turn": "done",
    "max_tokens": "stopped: the token limit was reached",
    "max_turn_requests": "stopped: the agent reached a limit",
    "refusal": "the agent refused to continue",
    "cancelled": "cancelled",
}


def block_text(block: ContentBlock) -> str:
    """The text of a content block, or a description of it in brackets."""
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return f"[image {block.mime_type}, {_bytes(block.data)}]"
        case AudioContent():
            return f"[audio {block.mime_type}, {_bytes(block.data)}]"
        case ResourceLink():
            return f"[{block.title or block.name}]({block.uri})"
        case EmbeddedResource(resource=TextResourceContents(uri=uri, text=text)):
            return f"[{uri}, {count_text(len(text), 'character')}]"
        case EmbeddedResource(resource=BlobResourceContents(uri=uri, blob=blob)):
            return f"[{uri}, {_bytes(blob)}]"
        case _:
            return "[unsupported content]"


def duration_text(duration: float) -> str:
    """A duration in seconds as text."""
    if duration < 60:
        return f"{duration:.1f} s"
    minutes, rest = divmod(int(duration), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def tool_status(call: ToolCallState) -> str:
    """The status of a tool call for display."""
    if call.cancelled:
        return "cancelled"
    if call.ended_without_result:
        return "ended without a result"
    return call.status


_KIND_VERBS: Final = {
    "read": "read open view show cat load list",
    "edit": "edit write update change create modify add insert append replace patch apply save rewrite fix",
    "delete": "delete remove",
    "move": "move rename",
    "search": "search find grep glob list look query",
    "execute": "execute run bash shell start",
    "think": "think plan consider reason",
    "fetch": "fetch get download load open",
    "switch_mode": "switch mode change",
}
"""First words of titles that already say what kind of call it is."""


def kind_to_show(kind: str, title: str) -> str:
    """The kind of a tool call to show before its title; empty if the title begins with such a verb."""
    if kind in ("", "other"):
        return ""
    first = title.split(maxsplit=1)[0].strip("`'\"():.,…").lower() if title.strip() else ""
    verbs = _KIND_VERBS.get(kind, kind).split()
    endings = ("s", "es", "ing")
    stems = {first, first.removesuffix("ing") + "e", *(first.removesuffix(ending) for ending in endings)}
    doubled = {stem[:-1] for stem in stems if len(stem) > 3 and stem[-1] == stem[-2]}  # running, getting
    return "" if not (stems | doubled).isdisjoint(verbs) else kind


def turn_status(ended: TurnEnded | None) -> str:
    """How a turn ended, for display."""
    if ended is None or ended.error is not None:
        return "failed"
    if ended.stop_reason is None:
        return f"stopped: {one_line(clean_text(ended.raw_reason), 60) or 'no reason given'}"
    return _TURN_STATUS[ended.stop_reason]


def notice_line(notice: Notice) -> str:
    """A notice of the agent in one line: its title, then its description."""
    text = f"{notice.title}: {notice.description}" if notice.description else notice.title
    return one_line(clean_text(text))


def error_line(error: Exception) -> str:
    """Return the first line of an error, without the stderr lines of an agent."""
    text = error.message if isinstance(error, ConnectionClosed) else str(error)
    return text.partition("\n")[0] or type(error).__name__


def short_path(path: str, cwd: str) -> str:
    """The path relative to the session's directory if it is inside it, otherwise unchanged."""
    inside = cwd and (path == cwd or path.startswith(cwd.rstrip("/") + "/"))
    return os.path.relpath(path, cwd) if inside else path


def location_text(call: ToolCallState, cwd: str, title: str, *, max_locations: int) -> str:
    """The first locations of a tool call that its title does not name, separated by spaces."""
    names: list[str] = []
    for location in call.locations[:max_locations]:
        name = one_line(clean_text(short_path(location.path, cwd)))
        if location.line:
            name += f":{location.line}"
        if name not in title and name not in names and os.path.basename(location.path) not in title:
            names.append(name)
    hidden_count = len(call.locations) - max_locations
    if names and hidden_count > 0:
        names.append(f"+{hidden_count}")
    return " ".join(names)


def _bytes(base64: str) -> str:
    return f"{len(base64) * 3 // 4} bytes"
