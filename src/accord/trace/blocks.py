"""Secrets that stand on several lines: private keys, blocks of YAML, a name with its value on the next line."""

import re
from typing import Final

from accord.trace.names import REDACTED, is_secret

PRIVATE_KEY: Final = "PRIVATE KEY"
_LONGEST_KEY: Final = 160  # lines; a key whose end never comes does not swallow all that follows
_OPENS: Final = re.compile(
    r"""(?m)^([ \t]*+)(?:-[ \t]++)?["']?([A-Za-z_][A-Za-z0-9_.\-]{1,80})["']?[ \t]{0,8}[:=][ \t]{0,8}([|>][+\-0-9]{0,3})?[ \t]{0,8}$"""
)
_NEXT: Final = re.compile(r"\s*")
_BELOW: Final = re.compile(r"""[:=][ \t]{0,8}\r?\n\s{0,400}(?=["'])(?!\"\"\"|''')""")
_NAME_BEFORE: Final = re.compile(r"""([A-Za-z_][A-Za-z0-9_.\-]{1,80})["']?[ \t]{0,8}$""")
_QUOTED: Final = re.compile(r""""[^"\n]*+"?|'[^'\n]*+'?""")


def redact_blocks(text: str) -> str:
    """The text without its private keys, and without the blocks that stand under the name of a secret."""
    if PRIVATE_KEY in text:
        text = _without_private_keys(text)
    if "\n" in text and ":" in text:
        text = _without_blocks(text)
        text = _without_below(text)
    return text


def _without_below(text: str) -> str:
    parts: list[str] = []
    place = 0
    for found in _BELOW.finditer(text):
        name = _NAME_BEFORE.search(text, max(place, found.start() - 96), found.start())
        value = _QUOTED.match(text, found.end())
        if name is not None and value is not None and is_secret(name[1]):
            parts += (text[place : found.end()], REDACTED)
            place = value.end()
    return "".join([*parts, text[place:]]) if parts else text


def _without_private_keys(text: str) -> str:
    parts: list[str] = []
    place = 0
    while (begin := text.find("-----BEGIN ", place)) >= 0:
        head = text.find("-----", begin + 11, begin + 100)
        if head < 0 or PRIVATE_KEY not in text[begin:head]:
            parts.append(text[place : begin + 11])
            place = begin + 11
            continue
        end = text.find("-----END ", head)
        close = text.find("-----", end + 9) if end >= 0 else -1
        parts += (text[place:begin], REDACTED)
        place = close + 5 if close >= 0 else len(text)
    return "".join([*parts, text[place:]])


def _without_blocks(text: str) -> str:
    parts: list[str] = []
    place = 0
    for found in _OPENS.finditer(text):
        indent, name, block = found.groups()
        if found.start() < place or not is_secret(name):
            continue
        below = _NEXT.match(text, found.end())
        start = below.end() if below else len(text)
        if block is None and text[start : start + 1] in ("", "{", "[", "#"):
            continue  # nothing below, or an object whose members are judged one by one
        end = _block_end(text, found.end() + 1, _depth(indent))
        if start >= end:
            continue
        parts += (text[place:start], REDACTED)
        place = end
    return "".join([*parts, text[place:]]) if parts else text


def _block_end(text: str, start: int, indent: int) -> int:
    """Where the lines end that are further in than this; blank ones belong to them where more follows."""
    end = place = start
    while place < len(text):
        newline = text.find("\n", place)
        newline = len(text) if newline < 0 else newline
        line = text[place:newline]
        bare = line.strip()
        if bare and _depth(line) <= indent:
            # JSON may be written with the value below its name, no further in.
            return newline if place == start and bare[0] in "\"'" and ":" not in bare else end
        if bare:
            end = newline
        place = newline + 1
    return min(end, len(text))


def _depth(line: str) -> int:
    """How far in a line begins."""
    return len(line[: len(line) - len(line.lstrip())].expandtabs())


class StderrLines:
    """The same for lines that come one by one: says of each whether it is inside of a secret."""

    def __init__(self) -> None:
        self._left = 0
        self._indent: int | None = None

    def hides(self, line: str) -> bool:
        """Whether nothing of this line may be kept."""
        if self._left:
            self._left = 0 if "-----END " in line else self._left - 1
            return True
        if self._indent is not None:
            if not line.strip() or _depth(line) > self._indent:
                return bool(line.strip())
            self._indent = None
        if PRIVATE_KEY in line:
            begin = line.rfind("-----BEGIN ")
            if begin >= 0 and "-----END " not in line[begin:]:
                self._left = _LONGEST_KEY
        elif ":" in line and (found := _OPENS.match(line)) is not None and is_secret(found[2]):
            self._indent = _depth(found[1])
        return False
