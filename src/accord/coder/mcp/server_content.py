"""Converts results of MCP servers to content for the client and parts for the model, within limits.

Imported on first use: it loads mcp.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import mcp_types as types
import msgspec

from accord.coder.bounded_text import TruncatedText
from accord.coder.files.picture import BadPicture, fit_picture, image_type
from accord.coder.mcp.server_interface import clean_line, clean_result
from accord.coder.model_history import ImagePart, Part, TextPart
from accord.coder.tools.tool import ToolOutcome
from accord.coder.tools.tool_context import ToolContext
from accord.schema.content import (
    AudioContent,
    BlobResourceContents,
    Content,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

_IMAGE_TYPES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_MAX_BLOCKS: Final = 200
_MAX_IMAGES: Final = 20
_MAX_FIELD: Final = 500

Block: TypeAlias = types.ContentBlock


@dataclass(slots=True)
class ContentLimits:
    """The limits of one answer."""

    chars: int
    image_bytes: int
    sees_images: bool

    @classmethod
    def of(cls, context: ToolContext) -> "ContentLimits":
        return cls(context.limits.output_chars, context.limits.image_bytes, context.sees_images)


@dataclass(slots=True)
class _ContentBuilder:
    """Collects the parts and blocks of an answer within the limits."""

    limits: ContentLimits
    parts: list[Part] = field(default_factory=list[Part])
    blocks: list[ContentBlock] = field(default_factory=list[ContentBlock])
    chars: int = 0
    data_bytes: int = 0
    images: int = 0

    def text(self, text: str, *, show: bool = True) -> str:
        """Add text up to the limit. Return the added text."""
        text = clean_result(text)
        truncated = TruncatedText(max(self.limits.chars - self.chars, 0))
        truncated.add(text)
        shown = truncated.text()
        self.chars += min(len(text), len(shown))
        if shown:
            self.parts.append(TextPart(shown))
            if show:
                self.blocks.append(TextContent(shown))
        return shown

    def note(self, text: str, *, show: bool = False) -> None:
        """Add a note for the model, and with `show` also for the client."""
        self.text(f"[{text}]", show=show)

    def data(self, encoded: str) -> bytes | None:
        """Decode base64 data. Return None if it is invalid or exceeds the limit."""
        if self.data_bytes + len(encoded) * 3 // 4 > 2 * self.limits.image_bytes:
            return None
        try:
            decoded = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(decoded) > self.limits.image_bytes and image_type(decoded) is None:
            return None
        self.data_bytes += len(decoded)
        return decoded

    def image(self, decoded: bytes, mime_type: str) -> None:
        """Add an image for the model, or a note if the model does not accept it."""
        self.images += 1
        if not self.limits.sees_images or mime_type not in _IMAGE_TYPES or self.images > _MAX_IMAGES:
            self.note(f"image: {mime_type}")
            return
        try:
            picture = fit_picture(decoded, self.limits.image_bytes)
        except BadPicture as error:
            self.note(f"image: {mime_type}, not shown to you: {error}")
        else:
            self.parts.append(ImagePart(picture.data, picture.mime_type))


def tool_outcome(result: types.CallToolResult, context: ToolContext) -> ToolOutcome:
    """Convert the result of a tool call."""
    builder = _build_content(result.content, ContentLimits.of(context))
    structured = result.structured_content
    raw = _bounded_json(structured, context.limits.output_chars)
    if structured is not None and not builder.parts:
        builder.text(msgspec.json.encode(raw).decode())
    if not builder.parts:
        builder.note("no output")
    if raw is None:
        raw = {"content": [_summary(block) for block in builder.blocks]}
    return ToolOutcome(
        tuple(builder.parts), tuple(Content(block) for block in builder.blocks), raw, result.is_error
    )


def resource_outcome(
    found: Sequence[types.TextResourceContents | types.BlobResourceContents], context: ToolContext
) -> ToolOutcome:
    """Convert the contents of a resource."""
    builder = _ContentBuilder(ContentLimits.of(context))
    for resource in found[:_MAX_BLOCKS]:
        _add_resource(builder, resource)
    if not builder.parts:
        builder.note("empty", show=True)
    raw = {"contents": [_summary(block) for block in builder.blocks]}
    return ToolOutcome(tuple(builder.parts), tuple(Content(block) for block in builder.blocks), raw)


def prompt_parts(messages: Iterable[types.PromptMessage], limits: ContentLimits) -> tuple[Part, ...]:
    """Convert the messages of a prompt to parts of one user message."""
    builder = _ContentBuilder(limits)
    for message in list(messages)[:_MAX_BLOCKS]:
        if message.role == "assistant":
            builder.note("the assistant said before:")
        _add_block(builder, message.content)
    return tuple(builder.parts)


def _build_content(blocks: Sequence[Block], limits: ContentLimits) -> _ContentBuilder:
    builder = _ContentBuilder(limits)
    for block in blocks[:_MAX_BLOCKS]:
        _add_block(builder, block)
    if len(blocks) > _MAX_BLOCKS:
        builder.note(f"{len(blocks) - _MAX_BLOCKS} more blocks left out", show=True)
    return builder


def _add_block(builder: _ContentBuilder, block: Block) -> None:
    match block:
        case types.TextContent():
            builder.text(block.text)
        case types.ImageContent():
            mime_type = _clean_field(block.mime_type)
            decoded = builder.data(block.data)
            if decoded is None:
                builder.note(f"image: {mime_type}, unusable or too large", show=True)
            else:
                builder.blocks.append(ImageContent(block.data, mime_type))
                builder.image(decoded, mime_type)
        case types.AudioContent():
            mime_type = _clean_field(block.mime_type)
            if builder.data(block.data) is None:
                builder.note(f"audio: {mime_type}, unusable or too large", show=True)
            else:
                builder.blocks.append(AudioContent(block.data, mime_type))
                builder.note(f"audio: {mime_type}")
        case types.ResourceLink():
            link = ResourceLink(_clean_field(block.title or block.name), _clean_field(block.uri))
            if block.mime_type:
                link.mime_type = _clean_field(block.mime_type)
            if block.description:
                link.description = _clean_field(block.description)
            builder.blocks.append(link)
            builder.note(
                f"resource {link.uri}: {link.name}{f', {link.description}' if link.description else ''}"
            )
        case types.EmbeddedResource():
            _add_resource(builder, block.resource)


def _add_resource(
    builder: _ContentBuilder, resource: types.TextResourceContents | types.BlobResourceContents
) -> None:
    uri, mime_type = _clean_field(resource.uri), _clean_field(resource.mime_type or "")
    if isinstance(resource, types.TextResourceContents):
        builder.note(f"resource {uri}")
        shown = builder.text(resource.text, show=False)
        embedded = TextResourceContents(uri, shown)
    else:
        decoded = builder.data(resource.blob)
        if decoded is None:
            builder.note(f"resource {uri}: {mime_type or 'binary'}, unusable or too large", show=True)
            return
        builder.note(f"resource {uri}: {mime_type or 'binary'}, {len(decoded):,} bytes")
        if mime_type in _IMAGE_TYPES:
            builder.image(decoded, mime_type)
        embedded = BlobResourceContents(uri, resource.blob)
    if mime_type:
        embedded.mime_type = mime_type
    builder.blocks.append(EmbeddedResource(embedded))


def _clean_field(text: str) -> str:
    return clean_line(text, _MAX_FIELD)


def _summary(block: ContentBlock) -> dict[str, Any]:
    """Return a block as JSON without its bytes."""
    match block:
        case TextContent():
            return {"type": "text", "text": block.text}
        case ImageContent() | AudioContent():
            kind = "image" if isinstance(block, ImageContent) else "audio"
            return {"type": kind, "mimeType": block.mime_type}
        case ResourceLink():
            return {"type": "resource_link", "uri": block.uri}
        case _:
            return {"type": "resource", "uri": block.resource.uri}


def _bounded_json(value: Any, limit: int) -> Any:
    if value is None:
        return None
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError):
        return {"error": "it is not valid JSON"}
    # `limit` counts characters of text. Twice as many bytes leave room for JSON syntax and non-ASCII text.
    if len(encoded) <= 2 * limit:
        return value
    return {"truncated": clean_result(encoded[:limit].decode("utf-8", "ignore"))}
