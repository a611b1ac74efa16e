"""A client's prompt as model message parts; a session title from the first prompt.

Content that the model cannot get is replaced by a short mark that says what it was and why, so that the model
can tell the user. A prompt is never refused because of one bad attachment.
"""

import asyncio
import base64
import binascii
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from accord.coder.bounded_text import truncate, wrap_in_tag
from accord.coder.files.picture import (
    MAX_PICTURE_BYTES,
    MAX_SOURCE_BYTES,
    BadPicture,
    fit_picture,
    image_type,
)
from accord.coder.model_history import ImagePart, Part, TextPart
from accord.safe_text import one_line
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
    """How much of the attachments of a prompt the model gets. The user's text is never cut."""

    image_bytes: int = MAX_PICTURE_BYTES
    """Larger images are scaled down."""
    images_bytes: int = 16 * 1024 * 1024
    """For all images of a prompt together."""
    images: int = 20
    resource_chars: int = 200_000
    """For one embedded text; of a longer one the model gets the beginning and the end."""
    resources_chars: int = 600_000
    """For all embedded texts of a prompt together."""


_URI_LIMIT: Final = 2000
_TEXT_LIMIT: Final = 500
_TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")
_TEXT_ENDINGS: Final = ("+json", "+xml", "+yaml", "javascript", "x-sh", "x-yaml")


def parts_of(
    blocks: Sequence[ContentBlock], *, sees_images: bool, limits: PromptLimits | None = None
) -> tuple[Part, ...]:
    """The message parts of a prompt, one for each block, in order."""
    converter = _PartConverter(sees_images, limits or PromptLimits())
    return tuple(converter.part(block) for block in blocks)


async def fitted_parts(blocks: Sequence[ContentBlock], *, sees_images: bool) -> tuple[Part, ...]:
    """The message parts of a prompt. Scales large images in a thread."""
    if sees_images and any(isinstance(block, ImageContent | EmbeddedResource) for block in blocks):
        return await asyncio.to_thread(parts_of, blocks, sees_images=True)
    return parts_of(blocks, sees_images=sees_images)


class _PartConverter:
    """Converts the blocks of one prompt and counts their size."""

    def __init__(self, sees_images: bool, limits: PromptLimits) -> None:
        self._sees_images = sees_images
        self._limits = limits
        self._images = 0
        self._image_bytes_left = limits.images_bytes
        self._text_chars_left = limits.resources_chars

    def part(self, block: Any) -> Part:
        """Convert one block; of an unknown kind only its name."""
        match block:
            case TextContent():
                return TextPart(block.text)
            case ResourceLink():
                return TextPart(_link_text(block))
            case EmbeddedResource(resource=TextResourceContents() as resource):
                return TextPart(self._text(resource.uri, resource.text, resource.mime_type or None))
            case EmbeddedResource(resource=BlobResourceContents() as resource):
                return self._blob(resource)
            case ImageContent():
                return self._image(block.data, block.mime_type)
            case AudioContent():
                return TextPart(f"[audio: {_label(block.mime_type)}]")
            case _:
                kind = getattr(block, "kind", "") or type(block).__name__
                return TextPart(
                    f"[{_label(str(kind))}: a part of the prompt that this agent does not understand]"
                )

    def _text(self, uri: str, text: str, mime_type: str | None) -> str:
        limit = min(self._limits.resource_chars, self._text_chars_left)
        truncated = truncate(text, limit, f"the complete text is at {one_line(uri, 200)}")
        self._text_chars_left -= min(len(text), limit)
        return wrap_in_tag("resource", truncated, uri=uri, type=mime_type)

    def _blob(self, resource: BlobResourceContents) -> Part:
        mime_type = (resource.mime_type or "").partition(";")[0].strip().casefold()
        if mime_type.startswith("image/") and not mime_type.endswith("+xml"):
            return self._image(resource.blob, mime_type)
        data = _decode_base64(resource.blob)
        if data is None:
            name = f"{_escape_address(resource.uri)}, {_label(mime_type)}"
            return TextPart(f"[file: {name}, unreadable: its data is not base64]")
        if image_type(data):
            return self._image(resource.blob, mime_type)
        if mime_type.startswith(_TEXT_TYPES) or mime_type.endswith(_TEXT_ENDINGS):
            try:
                return TextPart(self._text(resource.uri, data.decode("utf-8-sig"), mime_type))
            except UnicodeDecodeError:
                pass  # declared as text but not text: named like any other file
        return TextPart(f"[file: {_escape_address(resource.uri)}, {_label(mime_type)}, {len(data):,} bytes]")

    def _image(self, encoded: str, mime_type: str) -> Part:
        if not self._sees_images:
            return TextPart(f"[image: {_label(mime_type)}]")
        limits = self._limits
        if self._images >= limits.images:
            return _unusable_image(mime_type, f"a prompt carries at most {limits.images} images")
        limit = min(limits.image_bytes, self._image_bytes_left)
        if len(encoded) // 4 * 3 > MAX_SOURCE_BYTES + len(encoded) // 16:  # allows for line ends and a prefix
            return _unusable_image(mime_type, f"about {len(encoded) // 4 * 3:,} bytes are too many")
        data = _decode_base64(encoded)
        if data is None:
            return _unusable_image(mime_type, "its data is not base64")
        try:
            picture = fit_picture(data, limit)
        except BadPicture as error:
            return _unusable_image(mime_type, str(error))
        self._images += 1
        self._image_bytes_left -= len(picture.data)
        return ImagePart(picture.data, picture.mime_type)  # not the declared type: providers check it


def _unusable_image(mime_type: str, reason: str) -> TextPart:
    return TextPart(f"[image: {_label(mime_type)}, not shown to you: {reason}; tell the user]")


def _link_text(link: ResourceLink) -> str:
    """A link on one line. The model reads the target only if it wants to."""
    name = one_line(link.title or link.name, _TEXT_LIMIT).replace("[", "(").replace("]", ")")
    details = [_label(link.mime_type) if link.mime_type else "", f"{link.size:,} bytes" if link.size else ""]
    detail_text = ", ".join(filter(None, details))
    line = f"[{name or 'link'}]({_escape_address(link.uri)})"
    if detail_text:
        line += f" ({detail_text})"
    return f"{line}: {one_line(link.description, _TEXT_LIMIT)}" if link.description else line


def _escape_address(uri: str) -> str:
    """An address that stays inside the brackets of a link."""
    address = one_line(uri, _URI_LIMIT).replace(" ", "%20")
    return (
        address.replace("(", "%28")
        .replace(")", "%29")
        .replace("<", "%3C")
        .replace(">", "%3E")
        .replace("]", "%5D")
    )


def _label(value: str) -> str:
    return one_line(value, 100).replace("[", "(").replace("]", ")") or "unknown type"


def _decode_base64(encoded: str) -> bytes | None:
    """Decode base64; None if it is invalid.

    Accepts line ends, a data URL, the URL alphabet and missing padding.
    """
    if encoded.startswith("data:"):
        encoded = encoded[encoded.find(",") + 1 :]
    if not encoded.isascii():
        return None
    standard = "".join(encoded.split()).rstrip("=").translate(_URL_ALPHABET)
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


_URL_ALPHABET: Final = str.maketrans("-_", "+/")


TITLE_LIMIT: Final = 80
_SEARCHED_CHARS: Final = 4000
"""The number of characters of a prompt that are searched for a title."""
_PATH_LIMIT: Final = 24
"""Longer paths and addresses are shortened."""

_LINK: Final = re.compile(r"!?\[([^\[\]\n]{1,300})\]\([^()\n]{0,1000}\)")
_LINE_START: Final = re.compile(r"(?:#{1,6}|>|[-*+]|\d{1,3}[.)]|\[[ xX]\])(?:\s+|$)")
_EMPHASIS: Final = re.compile(r"\*{1,3}|~~|`+|(?<!\w)_{1,3}|_{1,3}(?!\w)")
_SENTENCE_END: Final = re.compile(r"(?<=[.?!])\s|(?<=[。！？])")
_ABBREVIATIONS: Final = ("e.g.", "i.e.", "etc.", "vs.", "cf.", "z.B.", "bzw.", "Mr.", "Dr.", "No.")


def title_of(blocks: Sequence[ContentBlock], *, commands: Collection[str] = ()) -> str | None:
    """A title of one line, at most `TITLE_LIMIT` characters; None if the prompt has no text for one.

    `commands` are the names of the slash commands. The title of such a prompt is the text after the command.
    """
    text = "\n".join(block.text[:_SEARCHED_CHARS] for block in blocks[:20] if isinstance(block, TextContent))[
        :_SEARCHED_CHARS
    ]
    words = text.lstrip()
    name, rest = (*words.split(None, 1), "", "")[:2]
    if words.startswith("/") and name.strip()[1:] in commands:
        words = rest
        if not words.strip():
            return None
    for line in _title_candidates(words):
        if title := _shorten_title(_first_sentence(line)):
            return title
    return next((title for block in blocks if (title := _title_of_block(block))), None)


def _title_candidates(text: str) -> Iterable[str]:
    """The non-empty lines, cleaned; prose before code."""
    code: list[str] = []
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif cleaned := _clean_line(line):
            if fenced:
                code.append(cleaned)
            else:
                yield cleaned
    yield from code


def _clean_line(line: str) -> str:
    visible = "".join(" " if c.isspace() else c for c in line if c.isspace() or _is_visible(c))
    for _ in range(4):  # at most a quoted heading in a list
        visible = visible.strip()
        start = _LINE_START.match(visible)
        if start is None:
            break
        visible = visible[start.end() :]
    text = _EMPHASIS.sub("", _LINK.sub(r"\1", visible))
    words = " ".join(map(_short_path, text.split()))
    return words if any(c.isalnum() for c in words) else ""


def _is_visible(character: str) -> bool:
    """Whether a character is visible: no control, no direction mark, no lone surrogate."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn")


def _short_path(word: str) -> str:
    """A long path or address, shortened to its last two parts."""
    if len(word) <= _PATH_LIMIT or "/" not in word:
        return word
    path = word.split("://", 1)[-1].split("?", 1)[0].rstrip("/")
    parts = path.split("/")
    return "…/" + "/".join(parts[-2:]) if len(parts) > 2 else path


def _first_sentence(line: str) -> str:
    """The first sentence; the whole line if the sentence is only an abbreviation or a few letters."""
    for end in _SENTENCE_END.finditer(line):
        first = line[: end.start()]
        if len(first) >= (10 if first.isascii() else 5) and not first.endswith(_ABBREVIATIONS):
            return first
    return line


def _shorten_title(text: str) -> str:
    text = text.strip().rstrip(" .:;,。")
    if len(text) <= TITLE_LIMIT:
        return text
    start = text[: TITLE_LIMIT - 1]
    last_space = start.rfind(" ")
    return start[: last_space if last_space > TITLE_LIMIT // 2 else len(start)].rstrip(" .,;:") + "…"


def _title_of_block(block: Any) -> str:
    """A title for a prompt without text."""
    match block:
        case ResourceLink():
            return _shorten_title(
                _clean_line((block.title or block.name)[:_SEARCHED_CHARS]) or _file_name(block.uri)
            )
        case EmbeddedResource():
            return _file_name(block.resource.uri)
        case ImageContent():
            return "Image"
        case AudioContent():
            return "Audio"
        case _:
            return ""


def _file_name(uri: str) -> str:
    try:
        path = urlsplit(uri[:_SEARCHED_CHARS]).path
    except ValueError:
        path = ""
    return _shorten_title(_clean_line(unquote(path.rstrip("/").rpartition("/")[2])))
