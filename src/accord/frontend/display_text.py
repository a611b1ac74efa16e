"""What people read of a session, in words: blocks that are not text, how far a tool call is, durations, paths."""

import os
from typing import Final

from accord.safe_text import clean_text, one_line
from accord.schema import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from accord.session import ToolCallState, TurnEnded

_ENDINGS: Final = {
    "end_turn": "done",
    "max_tokens": "stopped: the token limit is reached",
    "max_turn_requests": "stopped: the limit of requests in a turn is reached",
    "refusal": "the agent refused to go on",
    "cancelled": "cancelled",
}


def words_of(block: ContentBlock) -> str:
    """A block as a reader gets it."""
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
            return f"[{uri}, {len(text)} characters]"
        case EmbeddedResource(resource=BlobResourceContents(uri=uri, blob=blob)):
            return f"[{uri}, {_bytes(blob)}]"
        case _:
            return "[something this version cannot show]"


def seconds(duration: float) -> str:
    """A duration as one reads it."""
    if duration < 60:
        return f"{duration:.1f} s"
    minutes, rest = divmod(int(duration), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def outcome(call: ToolCallState) -> str:
    """How far it is, in a word."""
    if call.cancelled:
        return "cancelled"
    if call.ended_without_result:
        return "ended without a result"
    return call.status


def ending(ended: TurnEnded | None) -> str:
    """How a turn ended."""
    if ended is None or ended.error is not None:
        return "failed"
    if ended.stop_reason is None:
        return f"stopped: {one_line(clean_text(ended.raw_reason), 60) or 'no reason given'}"
    return _ENDINGS[ended.stop_reason]


def short(path: str, cwd: str) -> str:
    """The path as seen from the session's folder, where it lies in there."""
    inside = cwd and (path == cwd or path.startswith(cwd.rstrip("/") + "/"))
    return os.path.relpath(path, cwd) if inside else path


def _bytes(base64: str) -> str:
    return f"{len(base64) * 3 // 4} bytes"
