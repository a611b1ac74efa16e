"""What servers list and return, bounded, as content for the client and parts for the model.

Imported on first use: it loads mcp.
"""

import base64
import binascii
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

import mcp_types as types
import msgspec
from mcp.client import Client

from accord.coder.bounded_text import TruncatedText
from accord.coder.mcp.server_interface import (
    OfferedFeatures,
    OfferedPrompt,
    OfferedResource,
    OfferedTool,
    PromptArgument,
    ServerContext,
    clean,
    clean_line,
    clean_result,
    clean_schema,
)
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

# MERGED coder.mcp.live.content: What servers give, as content for the client and as parts for the model; bounded for both.

_PICTURES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_MOST_BLOCKS: Final = 200
_MOST_PICTURES: Final = 20
_LONGEST_NAME: Final = 500

Block: TypeAlias = types.ContentBlock


@dataclass(slots=True)
class ContentLimits:
    """How much of one answer is passed on."""

    chars: int
    picture_bytes: int
    sees_images: bool

    @classmethod
    def of(cls, context: ToolContext) -> "ContentLimits":
        return cls(context.limits.output_chars, context.limits.image_bytes, context.sees_images)


@dataclass(slots=True)
class _Passing:
    """What of an answer has been passed on so far."""

    bounds: ContentLimits
    parts: list[Part] = field(default_factory=list[Part])
    blocks: list[ContentBlock] = field(default_factory=list[ContentBlock])
    chars: int = 0
    taken: int = 0
    pictures: int = 0

    def text(self, text: str, *, show: bool = True) -> str:
        """Pass on text, as far as there is room for it."""
        text = clean_result(text)
        kept = TruncatedText(max(self.bounds.chars - self.chars, 0))
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
    passing = _passed(result.content, ContentLimits.of(context))
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
    passing = _Passing(ContentLimits.of(context))
    for resource in found[:_MOST_BLOCKS]:
        _resource(passing, resource)
    if not passing.parts:
        passing.note("empty", show=True)
    raw = {"contents": [_summary(block) for block in passing.blocks]}
    return ToolOutcome(tuple(passing.parts), tuple(Content(block) for block in passing.blocks), raw)


def prompt_parts(messages: Iterable[types.PromptMessage], bounds: ContentLimits) -> tuple[Part, ...]:
    """The messages of a prompt, as parts of one message of the user."""
    passing = _Passing(bounds)
    for message in list(messages)[:_MOST_BLOCKS]:
        if message.role == "assistant":
            passing.note("the assistant said before:")
        _block(passing, message.content)
    return tuple(passing.parts)


def _passed(blocks: Sequence[Block], bounds: ContentLimits) -> _Passing:
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


# MERGED coder.mcp.live.listing: What a server lists, page by page, taken over as far as it is usable and fits.

T = TypeVar("T")
_LOG: Final = logging.getLogger("accord.coder.mcp")
_MOST_PAGES: Final = 50
_LONGEST_TITLE: Final = 120
_LONGEST_LISTED_NAME: Final = 256  # of a name that is sent back to the server; a longer one is no honest name
_LONGEST_URI: Final = 2000
_MOST_ARGUMENTS: Final = 20


class FeatureListing:
    """Asks one server for all its lists."""

    def __init__(self, client: Client, terms: ServerContext) -> None:
        self._client = client
        self._terms = terms
        self._limits = terms.limits

    async def offers(self) -> OfferedFeatures:
        """Everything. Only a failing list of tools is a failure: without the others a server is still of use."""
        can = self._client.server_capabilities
        client, limits = self._client, self._limits
        tools = prompts = resources = templates = ()
        if can.tools is not None:
            tools = await self._paged(client.list_tools, lambda page: page.tools, limits.tools)
        if can.prompts is not None:
            prompts = await self._if_any(client.list_prompts, lambda page: page.prompts, limits.prompts)
        if can.resources is not None:
            resources = await self._if_any(
                client.list_resources, lambda page: page.resources, limits.resources
            )
            templates = await self._if_any(
                client.list_resource_templates, lambda page: page.resource_templates, limits.resources
            )
        return OfferedFeatures(
            tuple(found for tool in tools if (found := self._tool(tool)) is not None),
            tuple(self._prompt(prompt) for prompt in prompts if len(prompt.name) <= _LONGEST_LISTED_NAME),
            tuple(found for one in (*resources, *templates) if (found := self._resource(one)) is not None),
            clean(client.instructions or "", limits.description_chars),
            can.resources is not None,
        )

    async def _if_any(
        self, ask: Callable[..., Awaitable[Any]], items: Callable[[Any], Iterable[T]], most: int
    ) -> tuple[T, ...]:
        try:
            return await self._paged(ask, items, most)
        except Exception as error:  # noqa: BLE001  (many servers announce lists that they do not have)
            _LOG.debug("%s did not give a list it announced (%s)", self._terms.name, type(error).__name__)
            return ()

    async def _paged(
        self, ask: Callable[..., Awaitable[Any]], items: Callable[[Any], Iterable[T]], most: int
    ) -> tuple[T, ...]:
        found: list[T] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await ask(cursor=cursor)
            found += items(page)
            if page.next_cursor is None or page.next_cursor == cursor or len(found) > most:
                break
            cursor = page.next_cursor
        if len(found) > most:
            _LOG.warning("%s lists more than %d of a kind; the rest is left out", self._terms.name, most)
        return tuple(found[:most])

    def _tool(self, tool: types.Tool) -> OfferedTool | None:
        hints = tool.annotations
        shown = clean_line(tool.name, _LONGEST_TITLE)
        try:
            if len(tool.name) > _LONGEST_LISTED_NAME:
                raise ValueError("its name is too long")
            schema = clean_schema(tool.input_schema, self._limits.description_chars)
            if len(msgspec.json.encode(schema)) > self._limits.schema_bytes:
                raise ValueError("its schema is too large")
            tool.name.encode()
        except (ValueError, RecursionError) as error:
            _LOG.warning("tool %s of %s is left out: %s", shown, self._terms.name, error)
            return None
        title = tool.title or (hints.title if hints is not None else None) or tool.name
        return OfferedTool(
            tool.name,
            clean_line(title, _LONGEST_TITLE) or shown or "tool",
            clean(tool.description or "", self._limits.description_chars)
            or clean_line(title, _LONGEST_TITLE),
            schema,
            hints is not None and hints.read_only_hint is True,
        )

    def _prompt(self, prompt: types.Prompt) -> OfferedPrompt:
        arguments = tuple(
            PromptArgument(one.name, clean_line(one.description or "", _LONGEST_TITLE), bool(one.required))
            for one in (prompt.arguments or ())[:_MOST_ARGUMENTS]
        )
        title = clean_line(prompt.title or prompt.name, _LONGEST_TITLE)
        described = clean_line(prompt.description or "", self._limits.description_chars) or title
        return OfferedPrompt(prompt.name, title, described, arguments)

    def _resource(self, resource: types.Resource | types.ResourceTemplate) -> OfferedResource | None:
        template = isinstance(resource, types.ResourceTemplate)
        uri = resource.uri_template if template else resource.uri
        if len(uri) > _LONGEST_URI or not uri.isprintable():
            return None
        return OfferedResource(
            uri,
            clean_line(resource.title or resource.name, _LONGEST_TITLE),
            clean_line(resource.description or "", 2 * _LONGEST_TITLE),
            clean_line(resource.mime_type or "", _LONGEST_TITLE),
            template,
        )
