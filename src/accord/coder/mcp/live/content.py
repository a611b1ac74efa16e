"""What servers give, as content for the client and as parts for the model; bounded for both."""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import mcp_types as types
import msgspec

from accord.coder.mcp.cleaning import clean_line, clean_result
from accord.coder.messages import ImagePart, Part, TextPart
from accord.coder.output import Capped
from accord.coder.tools.context import ToolContext
from accord.coder.tools.tool import ToolOutcome
from accord.schema.content import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from accord.schema.tools import Content

_PICTURES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_MOST_BLOCKS: Final = 200
_MOST_PICTURES: Final = 20
_LONGEST_NAME: Final = 500

Block: TypeAlias = types.ContentBlock


@dataclass(slots=True)
class Bounds:
    """How much of one answer is passed on."""

    chars: int
    picture_bytes: int
    sees_images: bool

    @classmethod
    def of(cls, context: ToolContext) -> "Bounds":
        return cls(context.limits.output_chars, context.limits.image_bytes, context.sees_images)


@dataclass(slots=True)
class _Passing:
    """What of an answer has been passed on so far."""

    bounds: Bounds
    parts: list[Part] = field(default_factory=list[Part])
    blocks: list[ContentBlock] = field(default_factory=list[ContentBlock])
    chars: int = 0
    taken: int = 0
    pictures: int = 0

    def text(self, text: str, *, show: bool = True) -> str:
        """Pass on text, as far as there is room for it."""
        text = clean_result(text)
        kept = Capped(max(self.bounds.chars - self.chars, 0))
        kept.add(text)
        shown = kept.text()
        self.chars += min(len(text), len(shown))
        if shown:
            self.parts.append(TextPart(shown))
            if show:
                self.blocks.append(TextContent(shown))
        return shown

    def note(self, text: str, *, show: bool = False) -> None:
        """Tell the model, and the client if it gets nothing else, about what is not passed on as it is."""
        self.text(f"[{text}]", show=show)

    def data(self, encoded: str) -> bytes | None:
        """The bytes, if they are such and there is room for them."""
        if self.taken + len(encoded) * 3 // 4 > 2 * self.bounds.picture_bytes:
            return None
        try:
            decoded = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(decoded) > self.bounds.picture_bytes:
            return None
        self.taken += len(decoded)
        return decoded

    def picture(self, decoded: bytes, mime_type: str) -> None:
        """Show the model a picture, if it can see."""
        self.pictures += 1
        if self.bounds.sees_images and mime_type in _PICTURES and self.pictures <= _MOST_PICTURES:
            self.parts.append(ImagePart(decoded, mime_type))
        else:
            self.note(f"image: {mime_type}")


def outcome(result: types.CallToolResult, context: ToolContext) -> ToolOutcome:
    """What came of a call."""
    passing = _passed(result.content, Bounds.of(context))
    structured = result.structured_content
    raw = _bounded_json(structured, context.limits.output_chars)
    if structured is not None and not passing.parts:
        passing.text(msgspec.json.encode(raw).decode())
    if not passing.parts:
        passing.note("no output")
    if raw is None:
        raw = {"content": [_summary(block) for block in passing.blocks]}
    return ToolOutcome(
        tuple(passing.parts), tuple(Content(block) for block in passing.blocks), raw, result.is_error
    )


def contents(
    found: Sequence[types.TextResourceContents | types.BlobResourceContents], context: ToolContext
) -> ToolOutcome:
    """What was read of a resource."""
    passing = _Passing(Bounds.of(context))
    for resource in found[:_MOST_BLOCKS]:
        _resource(passing, resource)
    if not passing.parts:
        passing.note("empty", show=True)
    raw = {"contents": [_summary(block) for block in passing.blocks]}
    return ToolOutcome(tuple(passing.parts), tuple(Content(block) for block in passing.blocks), raw)


def prompt_parts(messages: Iterable[types.PromptMessage], bounds: Bounds) -> tuple[Part, ...]:
    """The messages of a prompt, as parts of one message of the user."""
    passing = _Passing(bounds)
    for message in list(messages)[:_MOST_BLOCKS]:
        if message.role == "assistant":
            passing.note("the assistant said before:")
        _block(passing, message.content)
    return tuple(passing.parts)


def _passed(blocks: Sequence[Block], bounds: Bounds) -> _Passing:
    passing = _Passing(bounds)
    for block in blocks[:_MOST_BLOCKS]:
        _block(passing, block)
    if len(blocks) > _MOST_BLOCKS:
        passing.note(f"{len(blocks) - _MOST_BLOCKS} more blocks left out", show=True)
    return passing


def _block(passing: _Passing, block: Block) -> None:
    match block:
        case types.TextContent():
            passing.text(block.text)
        case types.ImageContent():
            mime_type = _name(block.mime_type)
            decoded = passing.data(block.data)
            if decoded is None:
                passing.note(f"image: {mime_type}, unusable or too large", show=True)
            else:
                passing.blocks.append(ImageContent(block.data, mime_type))
                passing.picture(decoded, mime_type)
        case types.AudioContent():
            mime_type = _name(block.mime_type)
            if passing.data(block.data) is None:
                passing.note(f"audio: {mime_type}, unusable or too large", show=True)
            else:
                passing.blocks.append(AudioContent(block.data, mime_type))
                passing.note(f"audio: {mime_type}")
        case types.ResourceLink():
            link = ResourceLink(_name(block.title or block.name), _name(block.uri))
            if block.mime_type:
                link.mime_type = _name(block.mime_type)
            if block.description:
                link.description = _name(block.description)
            passing.blocks.append(link)
            passing.note(
                f"resource {link.uri}: {link.name}{f', {link.description}' if link.description else ''}"
            )
        case types.EmbeddedResource():
            _resource(passing, block.resource)


def _resource(passing: _Passing, resource: types.TextResourceContents | types.BlobResourceContents) -> None:
    uri, mime_type = _name(resource.uri), _name(resource.mime_type or "")
    if isinstance(resource, types.TextResourceContents):
        passing.note(f"resource {uri}")
        shown = passing.text(resource.text, show=False)
        inside = TextResourceContents(uri, shown)
    else:
        decoded = passing.data(resource.blob)
        if decoded is None:
            passing.note(f"resource {uri}: {mime_type or 'binary'}, unusable or too large", show=True)
            return
        passing.note(f"resource {uri}: {mime_type or 'binary'}, {len(decoded):,} bytes")
        if mime_type in _PICTURES:
            passing.picture(decoded, mime_type)
        inside = BlobResourceContents(uri, resource.blob)
    if mime_type:
        inside.mime_type = mime_type
    passing.blocks.append(EmbeddedResource(inside))


def _name(text: str) -> str:
    return clean_line(text, _LONGEST_NAME)


def _summary(block: ContentBlock) -> dict[str, Any]:
    """A block without its bytes."""
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


def _bounded_json(value: Any, most: int) -> Any:
    if value is None:
        return None
    try:
        text = msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError):
        return {"truncated": "it could not be passed on"}
    return (
        value if len(text) <= 2 * most else {"truncated": clean_result(text[:most].decode("utf-8", "ignore"))}
    )
