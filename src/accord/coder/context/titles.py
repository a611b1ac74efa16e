"""A title for a session, from its first prompt."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from accord.schema.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

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
