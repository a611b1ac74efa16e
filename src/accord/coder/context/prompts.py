"""A prompt as its client sent it, as the parts that the model reads.

Nothing is dropped without a word: what the model cannot be given stands there as a short mark that says what it was and
why, so that it can tell the user. A prompt is never refused for one bad attachment.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from accord.coder.context.fence import fenced
from accord.coder.messages import ImagePart, Part, TextPart
from accord.coder.output import capped
from accord.coder.tools.read_file import picture_type
from accord.coder.tools.tool import one_line
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


class PromptLimits(Struct, frozen=True):
    """How much of what a prompt carries is given to the model. The user's own words are given whole."""

    image_bytes: int = 4 * 1024 * 1024
    images_bytes: int = 16 * 1024 * 1024
    """Of all pictures of a prompt together."""
    images: int = 20
    resource_chars: int = 200_000
    """Of one embedded text; of a longer one the beginning and the end are given."""
    resources_chars: int = 600_000
    """Of all embedded texts of a prompt together."""


_LONGEST_URI: Final = 2000
_LONGEST_WORDS: Final = 500
_TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")
_TEXT_ENDINGS: Final = ("+json", "+xml", "+yaml", "javascript", "x-sh", "x-yaml")


def parts_of(
    blocks: Sequence[ContentBlock], *, sees_images: bool, limits: PromptLimits | None = None
) -> tuple[Part, ...]:
    """The parts of a prompt, one for each block, in their order."""
    reader = _Reader(sees_images, limits or PromptLimits())
    return tuple(reader.part(block) for block in blocks)


class _Reader:
    """Keeps count of what the blocks of one prompt bring."""

    def __init__(self, sees_images: bool, limits: PromptLimits) -> None:
        self._sees_images = sees_images
        self._limits = limits
        self._images = 0
        self._image_room = limits.images_bytes
        self._text_room = limits.resources_chars

    def part(self, block: Any) -> Part:
        """One block; of a sort that this version does not know, only its name."""
        match block:
            case TextContent():
                return TextPart(block.text)
            case ResourceLink():
                return TextPart(_link(block))
            case EmbeddedResource(resource=TextResourceContents() as resource):
                return TextPart(self._text(resource.uri, resource.text, resource.mime_type or None))
            case EmbeddedResource(resource=BlobResourceContents() as resource):
                return self._blob(resource)
            case ImageContent():
                return self._image(block.data, block.mime_type)
            case AudioContent():
                return TextPart(f"[audio: {_word(block.mime_type)}]")
            case _:
                kind = getattr(block, "kind", "") or type(block).__name__
                return TextPart(
                    f"[{_word(str(kind))}: a part of the prompt that this agent does not understand]"
                )

    def _text(self, uri: str, text: str, mime_type: str | None) -> str:
        room = min(self._limits.resource_chars, self._text_room)
        kept = capped(text, room, f"the whole is at {one_line(uri, 200)}")
        self._text_room -= min(len(text), room)
        return fenced("resource", kept, uri=uri, type=mime_type)

    def _blob(self, resource: BlobResourceContents) -> Part:
        mime_type = (resource.mime_type or "").partition(";")[0].strip().casefold()
        if mime_type.startswith("image/") and not mime_type.endswith("+xml"):
            return self._image(resource.blob, mime_type)
        data = _bytes(resource.blob)
        if data is None:
            return TextPart(
                f"[file: {_address(resource.uri)}, {_word(mime_type)}, unreadable: its data is not base64]"
            )
        if picture_type(data):
            return self._image(resource.blob, mime_type)
        if mime_type.startswith(_TEXT_TYPES) or mime_type.endswith(_TEXT_ENDINGS):
            try:
                return TextPart(self._text(resource.uri, data.decode("utf-8-sig"), mime_type))
            except UnicodeDecodeError:
                pass  # it is called text, but is none: named like any other file
        return TextPart(f"[file: {_address(resource.uri)}, {_word(mime_type)}, {len(data):,} bytes]")

    def _image(self, encoded: str, mime_type: str) -> Part:
        if not self._sees_images:
            return TextPart(f"[image: {_word(mime_type)}]")
        limits = self._limits
        if self._images >= limits.images:
            return _no_image(mime_type, f"a prompt carries at most {limits.images} pictures")
        most = min(limits.image_bytes, self._image_room)
        if len(encoded) // 4 * 3 > most + len(encoded) // 16:  # line ends and a prefix may come on top
            return _no_image(mime_type, f"about {len(encoded) // 4 * 3:,} bytes are too many")
        data = _bytes(encoded)
        if data is None:
            return _no_image(mime_type, "its data is not base64")
        if len(data) > most:
            return _no_image(mime_type, f"{len(data):,} bytes are too many")
        found = picture_type(data)
        if found is None:
            return _no_image(mime_type, "it is no PNG, JPEG, GIF or WebP")
        self._images += 1
        self._image_room -= len(data)
        return ImagePart(data, found)  # what it is counts, whatever it is called: providers check


def _no_image(mime_type: str, why: str) -> TextPart:
    return TextPart(f"[image: {_word(mime_type)}, not shown to you: {why}; tell the user]")


def _link(link: ResourceLink) -> str:
    """A link on one line. What is behind it is read only when the model wants to."""
    name = one_line(link.title or link.name, _LONGEST_WORDS).replace("[", "(").replace("]", ")")
    facts = [_word(link.mime_type) if link.mime_type else "", f"{link.size:,} bytes" if link.size else ""]
    about = ", ".join(filter(None, facts))
    line = f"[{name or 'link'}]({_address(link.uri)})"
    if about:
        line += f" ({about})"
    return f"{line}: {one_line(link.description, _LONGEST_WORDS)}" if link.description else line


def _address(uri: str) -> str:
    """An address that stays inside the brackets of a link."""
    shown = one_line(uri, _LONGEST_URI).replace(" ", "%20")
    return (
        shown.replace("(", "%28")
        .replace(")", "%29")
        .replace("<", "%3C")
        .replace(">", "%3E")
        .replace("]", "%5D")
    )


def _word(value: str) -> str:
    return one_line(value, 100).replace("[", "(").replace("]", ")") or "unknown type"


def _bytes(encoded: str) -> bytes | None:
    """The bytes; None if it is not base64. Line ends, a data URL, the URL alphabet and missing padding are let pass."""
    if encoded.startswith("data:"):
        encoded = encoded[encoded.find(",") + 1 :]
    if not encoded.isascii():
        return None
    plain = "".join(encoded.split()).rstrip("=").translate(_STANDARD)
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


_STANDARD: Final = str.maketrans("-_", "+/")
