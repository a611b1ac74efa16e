"""A client's prompt as model message parts; a session title from the first prompt."""

import base64
import binascii
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from accord.coder.bounded_text import capped, fenced
from accord.coder.model_history import ImagePart, Part, TextPart
from accord.coder.tools.read_file import picture_type
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

# MERGED coder.context.prompts: A prompt as its client sent it, as the parts that the model reads.
#
# Nothing is dropped without a word: what the model cannot be given stands there as a short mark that says what it was and
# why, so that it can tell the user. A prompt is never refused for one bad attachment.


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


# MERGED coder.context.titles: A title for a session, from its first prompt.

LONGEST: Final = 80
_LOOKED_AT: Final = 4000
"""Characters of a prompt; the title is in its first line."""
_SHORTENED: Final = 24
"""A path or an address longer than this is shortened."""

_LINK: Final = re.compile(r"!?\[([^\[\]\n]{1,300})\]\([^()\n]{0,1000}\)")
_START: Final = re.compile(r"(?:#{1,6}|>|[-*+]|\d{1,3}[.)]|\[[ xX]\])(?:\s+|$)")
_EMPHASIS: Final = re.compile(r"\*{1,3}|~~|`+|(?<!\w)_{1,3}|_{1,3}(?!\w)")
_SENTENCE: Final = re.compile(r"(?<=[.?!])\s|(?<=[。！？])")
_ABBREVIATIONS: Final = ("e.g.", "i.e.", "etc.", "vs.", "cf.", "z.B.", "bzw.", "Mr.", "Dr.", "No.")


def title_of(blocks: Sequence[ContentBlock], *, commands: Collection[str] = ()) -> str | None:
    """A title of one line, `LONGEST` characters at most; None if the prompt gives none, as a bare command of the agent.

    `commands` are the names of the slash commands; with one of them what follows it is the title.
    """
    text = "\n".join(block.text[:_LOOKED_AT] for block in blocks[:20] if isinstance(block, TextContent))[
        :_LOOKED_AT
    ]
    words = text.lstrip()
    name, rest = (*words.split(None, 1), "", "")[:2]
    if words.startswith("/") and name.strip()[1:] in commands:
        words = rest
        if not words.strip():
            return None
    for line in _lines(words):
        if title := _cut(_sentence(line)):
            return title
    return next((title for block in blocks if (title := _name_of(block))), None)


def _lines(text: str) -> Iterable[str]:
    """The lines that say something, cleaned; prose before code."""
    code: list[str] = []
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif cleaned := _clean(line):
            if fenced:
                code.append(cleaned)
            else:
                yield cleaned
    yield from code


def _clean(line: str) -> str:
    visible = "".join(" " if c.isspace() else c for c in line if c.isspace() or _shows(c))
    for _ in range(4):  # a quoted heading in a list, and no deeper
        visible = visible.strip()
        start = _START.match(visible)
        if start is None:
            break
        visible = visible[start.end() :]
    plain = _EMPHASIS.sub("", _LINK.sub(r"\1", visible))
    words = " ".join(map(_shortened, plain.split()))
    return words if any(c.isalnum() for c in words) else ""


def _shows(character: str) -> bool:
    """Neither a control nor a mark that turns the direction of text, nor half a character."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn")


def _shortened(word: str) -> str:
    """A long path or address by its last two parts."""
    if len(word) <= _SHORTENED or "/" not in word:
        return word
    path = word.split("://", 1)[-1].split("?", 1)[0].rstrip("/")
    parts = path.split("/")
    return "…/" + "/".join(parts[-2:]) if len(parts) > 2 else path


def _sentence(line: str) -> str:
    """The first sentence; the whole line if that is no more than an abbreviation or two words."""
    for end in _SENTENCE.finditer(line):
        first = line[: end.start()]
        if len(first) >= (10 if first.isascii() else 5) and not first.endswith(_ABBREVIATIONS):
            return first
    return line


def _cut(text: str) -> str:
    text = text.strip().rstrip(".:;,。")
    if len(text) <= LONGEST:
        return text
    kept = text[: LONGEST - 1]
    blank = kept.rfind(" ")
    return kept[: blank if blank > LONGEST // 2 else len(kept)].rstrip(" .,;:") + "…"


def _name_of(block: Any) -> str:
    """What a prompt without words is about."""
    match block:
        case ResourceLink():
            return _cut(_clean((block.title or block.name)[:_LOOKED_AT]) or _last_part(block.uri))
        case EmbeddedResource():
            return _last_part(block.resource.uri)
        case ImageContent():
            return "Image"
        case AudioContent():
            return "Audio"
        case _:
            return ""


def _last_part(uri: str) -> str:
    try:
        path = urlsplit(uri[:_LOOKED_AT]).path
    except ValueError:
        path = ""
    return _cut(_clean(unquote(path.rstrip("/").rpartition("/")[2])))
