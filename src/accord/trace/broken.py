"""Secrets in lines that are no JSON, or none that can be judged: a message that was cut, one with something before or
after it, one nested too deep.

As much of the line as can be is read as the JSON it was meant to be, so that names and places count there too. What is
nested too deep to be judged is not kept.
"""

import re
from typing import Any, Final, NamedTuple

import msgspec

from accord.schema.jsontext import NotJson, parse_json
from accord.trace.credentials import REDACTED, redact_text
from accord.trace.names import holds_pairs
from accord.trace.redact import redact_value
from accord.trace.twice import says_once

_MOST: Final = 4 * 1024 * 1024
_MOST_OBJECTS: Final = 200
_DEEPEST: Final = 100
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.|(?!))*+("?)|[{}\[\]]', re.DOTALL)
_CLOSE: Final = {"{": "}", "[": "]"}
_HOLDS_STRING: Final = re.compile(r"""[:\[,{]\s{0,80}["']""")


class _Extent(NamedTuple):
    """Where an object ends, what would close it where it does not, and what is nested too deep in it."""

    end: int
    closers: str
    too_deep: list[tuple[int, int]]


def redact_broken(text: str) -> str:
    """The line without its secrets."""
    if len(text) > _MOST:
        return redact_text(_without_pairs(text))
    parts: list[str] = []
    place = 0
    for _ in range(_MOST_OBJECTS):
        begin = text.find("{", place)
        if begin < 0:
            break
        end, closers, too_deep = _extent(text, begin)
        body = text[begin:end]
        if too_deep:
            body = _pruned(text, begin, end, too_deep)
        read = _read(body, closers)
        if read is None:
            break
        value, meant, rest = read
        shown = redact_value(value)
        if shown is value and says_once(meant, value):
            kept = body[: len(body) - len(rest)]
        else:
            kept = msgspec.json.encode(shown).decode()
        parts += (redact_text(text[place:begin]), kept, _rest(rest))
        place = end
    return "".join([*parts, redact_text(_without_pairs(text[place:]))])


def _extent(text: str, begin: int) -> _Extent:
    stack: list[str] = []
    too_deep: list[tuple[int, int]] = []
    opened = begin
    for token in _TOKEN.finditer(text, begin):
        mark = token[0]
        if mark in _CLOSE:
            stack.append(_CLOSE[mark])
            if len(stack) == _DEEPEST:
                opened = token.start()
        elif mark in ("}", "]"):
            if not stack or stack.pop() != mark:
                return _Extent(len(text), "", too_deep)
            if len(stack) == _DEEPEST - 1:
                too_deep.append((opened, token.end()))
            if not stack:
                return _Extent(token.end(), "", too_deep)
        elif not token[1]:
            stack.append('"')  # a string without its end
            break
    if len(stack) >= _DEEPEST:
        too_deep.append((opened, len(text)))
        del stack[_DEEPEST - 1 :]
    return _Extent(len(text), "".join(reversed(stack)), too_deep)


def _pruned(text: str, begin: int, end: int, too_deep: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    for start, stop in too_deep:
        parts += (text[begin:start], f'"{REDACTED}"')
        begin = stop
    return "".join([*parts, text[begin:end]])


def _read(body: str, closers: str) -> tuple[Any, bytes, str] | None:
    """The value that was meant, the JSON it is read from, and the last part of the body where that is not in it."""
    raw = body.encode("utf-8", "replace").decode()  # half of a character is no reason to miss a secret
    bare = raw.rstrip().rstrip(",")
    ends = closers.removeprefix('"')
    comma = max(bare.rfind(","), 0)
    for attempt, rest in (
        (raw + closers, ""),
        (raw.rstrip("\\") + closers, ""),
        (bare + ends, ""),
        (f"{bare}null{ends}", ""),
        (f"{bare}:null{ends}", ""),
        (f"{raw}{closers[:1]}:null{ends}", ""),
        (bare[:comma] + ends, raw[comma:]),
    ):
        meant = attempt.encode()
        try:
            return parse_json(meant), meant, rest
        except NotJson:
            continue
    return None


def _rest(text: str) -> str:
    """The last part, of which nobody knows under which name it stands: no string of it is kept."""
    return f", {REDACTED}" if _HOLDS_STRING.search(text) else redact_text(text)


_QUOTED: Final = re.compile(
    r"""("(?:[^"\\]|\\.|(?!))*+"?|'(?:[^'\\]|\\.|(?!))*+'?)(\s{0,80}:)?|[{}\[\]]""", re.DOTALL
)


def _without_pairs(text: str) -> str:
    """What cannot be read at all: every value below the name of an environment or of headers is taken for a secret."""
    lowered = text.lower()
    if "env" not in lowered and "headers" not in lowered:
        return text
    parts: list[str] = []
    place = depth = 0
    hidden: int | None = None  # below which depth values are taken out
    for token in _QUOTED.finditer(text):
        mark, quoted, named = token[0], token[1], token[2]
        if mark in _CLOSE:
            depth += 1
        elif not quoted:
            depth -= 1
            if hidden is not None and depth <= hidden:
                hidden = None
        elif named:
            if hidden is None and len(quoted) < 100 and holds_pairs(quoted):
                hidden = depth
        elif hidden is not None and depth > hidden:
            parts += (text[place : token.start()], f'"{REDACTED}"')
            place = token.end()
    return "".join([*parts, text[place:]])
