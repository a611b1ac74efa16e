"""Content blocks, the prompt request that carries them, and tool calls.

Loaded before `initialize` is answered: keep heavy imports out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from accord.schema.base import (
    IN_ORDER,
    UNSET,
    Choice,
    Double,
    Int64,
    Items,
    Kept,
    Object,
    Opt,
    SessionId,
    TerminalId,
    ToolCallId,
    Uint32,
    Uint64,
    Unstable,
    unstable,
)

# The message types of this module, which `accord.schema` exports.
__all__ = [
    "Annotations", "AudioContent", "BlobResourceContents", "CancelNotification", "Content", "ContentBlock",
    "Diff", "EmbeddedResource", "EmbeddedResourceResource", "ImageContent", "PromptRequest", "PromptResponse",
    "ResourceLink", "Role", "StopReason", "Terminal", "TextContent", "TextResourceContents", "ToolCall",
    "ToolCallChange", "ToolCallContent", "ToolCallLocation", "ToolCallStatus", "ToolCallUpdate", "ToolKind",
    "Usage",
]  # fmt: skip


# Content blocks: the parts of prompts, messages, thoughts and tool output.

Role: TypeAlias = Literal["assistant", "user"]
"""Whom a content block is for."""


class Annotations(Object):
    """Hints about the audience and priority of a block."""

    audience: Opt[Items[Role] | None] = UNSET
    last_modified: Opt[str | None] = UNSET
    priority: Opt[Double | None] = UNSET


class TextContent(Object, tag_field="type", tag="text"):
    """Text, possibly Markdown. Every agent accepts it in a prompt."""

    text: str
    annotations: Opt[Annotations | None] = UNSET


class ImageContent(Object, tag_field="type", tag="image"):
    """An image, base64 encoded. In a prompt only if the agent accepts images."""

    data: str
    mime_type: str
    uri: Opt[str | None] = UNSET
    annotations: Opt[Annotations | None] = UNSET


class AudioContent(Object, tag_field="type", tag="audio"):
    """Audio, base64 encoded. In a prompt only if the agent accepts audio."""

    data: str
    mime_type: str
    annotations: Opt[Annotations | None] = UNSET


class ResourceLink(Object, tag_field="type", tag="resource_link"):
    """A link to something that the agent can fetch. Every agent accepts it in a prompt."""

    name: str
    uri: str
    title: Opt[str | None] = UNSET
    description: Opt[str | None] = UNSET
    mime_type: Opt[str | None] = UNSET
    size: Opt[Int64 | None] = UNSET
    annotations: Opt[Annotations | None] = UNSET


class TextResourceContents(Object):
    """The text of an embedded resource."""

    uri: str
    text: str
    mime_type: Opt[str | None] = UNSET


class BlobResourceContents(Object):
    """The bytes of an embedded resource, base64 encoded."""

    uri: str
    blob: str
    mime_type: Opt[str | None] = UNSET


EmbeddedResourceResource: TypeAlias = Choice[TextResourceContents | BlobResourceContents, IN_ORDER]
"""The content of an embedded file: text or base64."""


class EmbeddedResource(Object, tag_field="type", tag="resource"):
    """A resource with its content. In a prompt only if the agent accepts embedded context."""

    resource: EmbeddedResourceResource
    annotations: Opt[Annotations | None] = UNSET


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
"""A part of a prompt or a message: text, image, audio, link or embedded file."""


def text_of_blocks(blocks: Iterable[ContentBlock]) -> str:
    """Concatenate the text blocks; images, links and embedded files add nothing."""
    return "".join([block.text for block in blocks if type(block) is TextContent])


# The prompt turn: the request that starts it, the response that ends it, and its cancellation.

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
"""Why a turn ended."""


@unstable
class Usage(Object):
    """Unstable. Tokens used."""

    total_tokens: Uint64
    input_tokens: Uint64
    output_tokens: Uint64
    thought_tokens: Opt[Uint64 | None] = UNSET
    cached_read_tokens: Opt[Uint64 | None] = UNSET
    cached_write_tokens: Opt[Uint64 | None] = UNSET


class PromptRequest(Object):
    """Starts a turn. Only block types that the agent's prompt capabilities allow."""

    session_id: SessionId
    prompt: list[ContentBlock]


class PromptResponse(Object):
    """Ends a turn. It is the last message of the turn.

    An unknown stop reason is read as `Unknown(kind=reason, raw=reason)`.
    """

    stop_reason: Kept[StopReason]
    usage: Unstable[Opt[Usage | None]] = UNSET


class CancelNotification(Object):
    """Ends the running turn of a session. The prompt is still answered, with `cancelled`."""

    session_id: SessionId


# Tool calls and their progress.

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]
"""The kind of work, for icons and policies. Absent means `other`."""

ToolCallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
"""The progress of a call. Absent on creation means `pending`."""


class Content(Object, tag_field="type", tag="content"):
    """One content block as output of a tool."""

    content: ContentBlock


def code_block(text: str, *, language: str = "") -> Content:
    """Return text in a Markdown code block whose fence does not occur in the text."""
    fence = "```"
    while fence in text:
        fence += "`"
    return Content(
        TextContent(f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}")
    )


class Diff(Object, tag_field="type", tag="diff"):
    """A change of one file. Without old text, the file is new."""

    path: str
    new_text: str
    old_text: Opt[str | None] = UNSET


class Terminal(Object, tag_field="type", tag="terminal"):
    """A terminal of the client, shown inside the tool call, also after its release."""

    terminal_id: TerminalId


ToolCallContent: TypeAlias = Content | Diff | Terminal
"""The content of a tool call: a content block, a diff or a terminal."""


class ToolCallLocation(Object):
    """A file that the call works on, so that an editor can follow. Lines start at 1."""

    path: str
    line: Opt[Uint32 | None] = UNSET


class ToolCall(Object, tag_field="sessionUpdate", tag="tool_call"):
    """A tool call begins. Comes before any change of that call, during a turn or a replay."""

    tool_call_id: ToolCallId
    title: str
    kind: Opt[ToolKind] = UNSET
    status: Opt[ToolCallStatus] = UNSET
    content: Opt[Items[ToolCallContent]] = UNSET
    locations: Opt[Items[ToolCallLocation]] = UNSET
    raw_input: Opt[Any] = UNSET
    raw_output: Opt[Any] = UNSET
    name: Opt[str | None] = UNSET


class ToolCallUpdate(Object):
    """The changes of a tool call. Absent and null both mean unchanged. Lists replace the old ones.

    Permission requests contain this untagged form; the session update is `ToolCallChange`.
    """

    tool_call_id: ToolCallId
    title: Opt[str | None] = UNSET
    kind: Opt[ToolKind | None] = UNSET
    status: Opt[ToolCallStatus | None] = UNSET
    content: Opt[Items[ToolCallContent] | None] = UNSET
    locations: Opt[Items[ToolCallLocation] | None] = UNSET
    raw_input: Opt[Any] = UNSET
    raw_output: Opt[Any] = UNSET
    name: Opt[str | None] = UNSET


class ToolCallChange(ToolCallUpdate, tag_field="sessionUpdate", tag="tool_call_update"):
    """A tool call changed. Comes after its `ToolCall`, until the call is completed or failed."""
