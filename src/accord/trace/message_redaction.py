"""Removes secrets from frames, including broken JSON and duplicate keys.

Broken JSON (cut off, with text around it, nested too deeply) is repaired as far as possible, so that secrets
are found by name and position there too. Parts nested too deeply are replaced. Only copies of frames are
redacted, never the frames that pass through.
"""

import json
import re
from typing import Any, Final, NamedTuple

import msgspec

from accord.schema.codec import NotJson, parse_json
from accord.trace.secret_names import REDACTED, pair_kind
from accord.trace.text_redaction import redact_text
from accord.trace.value_redaction import redact_value

_MEMBER_NAME: Final = re.compile(rb'"[ \t\r\n]*:')
_ESCAPED_CHARACTER: Final = re.compile(rb"\\u00(?:20|22|3a)", re.IGNORECASE)  # space, quote or colon

_MAX_REPAIRED_LENGTH: Final = 4 * 1024 * 1024
_MAX_OBJECTS: Final = 200
_MAX_DEPTH: Final = 100
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.|(?!))*+("?)|[{}\[\]]', re.DOTALL)
_CLOSERS: Final = {"{": "}", "[": "]"}
_CONTAINS_STRING: Final = re.compile(r"""[:\[,{]\s{0,80}["']""")
_QUOTED: Final = re.compile(
    r"""("(?:[^"\\]|\\.|(?!))*+"?|'(?:[^'\\]|\\.|(?!))*+'?)(\s{0,80}:)?|[{}\[\]]""", re.DOTALL
)


def redact_frame(frame: bytes) -> bytes:
    """Redact a frame; without secrets, return the same bytes object."""
    try:
        value = parse_json(frame)
        redacted = redact_value(value)
    except (NotJson, RecursionError):
        text = frame.decode("utf-8", "surrogateescape")
        redacted = redact_broken_json(text)
        return frame if redacted == text else redacted.encode("utf-8", "surrogateescape")
    return frame if redacted is value and has_unique_keys(frame, value) else msgspec.json.encode(redacted)


def redact_broken_json(text: str) -> str:
    """Redact a line that is not valid JSON."""
    if len(text) > _MAX_REPAIRED_LENGTH:
        return redact_text(_redact_unparsed_pairs(text))
    parts: list[str] = []
    position = 0
    for _ in range(_MAX_OBJECTS):
        begin = text.find("{", position)
        if begin < 0:
            break
        end, closers, too_deep = _find_extent(text, begin)
        body = text[begin:end]
        if too_deep:
            body = _replace_deep_parts(text, begin, end, too_deep)
        repaired = _repair_object(body, closers)
        if repaired is None:
            break
        value, json_text, rest = repaired
        redacted = redact_value(value)
        if redacted is value and has_unique_keys(json_text, value):
            redacted_text = body[: len(body) - len(rest)]
        else:
            redacted_text = msgspec.json.encode(redacted).decode()
        parts += (redact_text(text[position:begin]), redacted_text, _redact_unparsed_end(rest))
        position = end
    return "".join([*parts, redact_text(_redact_unparsed_pairs(text[position:]))])


def has_unique_keys(text: bytes, value: Any) -> bool:
    """Tell whether a JSON text has no duplicate keys. Parsing keeps only the last one."""
    encoded = msgspec.json.encode(value)
    if encoded == text:
        return True
    # Fast path: the same number of member names, unless some characters are escaped.
    if not _ESCAPED_CHARACTER.search(text) and len(_MEMBER_NAME.findall(text)) == len(
        _MEMBER_NAME.findall(encoded)
    ):
        return True
    try:
        json.loads(text, object_pairs_hook=_reject_duplicates)
    except (ValueError, RecursionError):
        return False
    return True


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("duplicate key")


class _Extent(NamedTuple):
    """Where an object ends, what closes it if it is cut off, and which parts are nested too deeply."""

    end: int
    closers: str
    too_deep: list[tuple[int, int]]


def _find_extent(text: str, begin: int) -> _Extent:
    stack: list[str] = []
    too_deep: list[tuple[int, int]] = []
    deep_start = begin
    for token in _TOKEN.finditer(text, begin):
        token_text = token[0]
        if token_text in _CLOSERS:
            stack.append(_CLOSERS[token_text])
            if len(stack) == _MAX_DEPTH:
                deep_start = token.start()
        elif token_text in ("}", "]"):
            if not stack or stack.pop() != token_text:
                return _Extent(len(text), "", too_deep)
            if len(stack) == _MAX_DEPTH - 1:
                too_deep.append((deep_start, token.end()))
            if not stack:
                return _Extent(token.end(), "", too_deep)
        elif not token[1]:
            stack.append('"')  # an unterminated string
            break
    if len(stack) >= _MAX_DEPTH:
        too_deep.append((deep_start, len(text)))
        del stack[_MAX_DEPTH - 1 :]
    return _Extent(len(text), "".join(reversed(stack)), too_deep)


def _replace_deep_parts(text: str, begin: int, end: int, too_deep: list[tuple[int, int]]) -> str:
    parts: list[str] = []
    for start, stop in too_deep:
        parts += (text[begin:start], f'"{REDACTED}"')
        begin = stop
    return "".join([*parts, text[begin:end]])


def _repair_object(body: str, closers: str) -> tuple[Any, bytes, str] | None:
    """Return the parsed value, the repaired JSON, and the end of the body that the JSON does not include."""
    raw = body.encode("utf-8", "replace").decode()  # a broken character must not hide a secret
    trimmed = raw.rstrip().rstrip(",")
    closing_brackets = closers.removeprefix('"')
    comma = max(trimmed.rfind(","), 0)
    for attempt, rest in (
        (raw + closers, ""),
        (raw.rstrip("\\") + closers, ""),
        (trimmed + closing_brackets, ""),
        (f"{trimmed}null{closing_brackets}", ""),
        (f"{trimmed}:null{closing_brackets}", ""),
        (f"{raw}{closers[:1]}:null{closing_brackets}", ""),
        (trimmed[:comma] + closing_brackets, raw[comma:]),
    ):
        json_text = attempt.encode()
        try:
            return parse_json(json_text), json_text, rest
        except NotJson:
            continue
    return None


def _redact_unparsed_end(text: str) -> str:
    """Redact the unparsed end of an object. Its member name is unknown, so no string is kept."""
    return f", {REDACTED}" if _CONTAINS_STRING.search(text) else redact_text(text)


def _redact_unparsed_pairs(text: str) -> str:
    """Redact unparsable text: every value below an environment or headers counts as a secret."""
    lowered = text.lower()
    if "env" not in lowered and "headers" not in lowered:
        return text
    parts: list[str] = []
    position = depth = 0
    secret_depth: int | None = None  # values at a greater depth are redacted
    for token in _QUOTED.finditer(text):
        token_text, quoted, named = token[0], token[1], token[2]
        if token_text in _CLOSERS:
            depth += 1
        elif not quoted:
            depth -= 1
            if secret_depth is not None and depth <= secret_depth:
                secret_depth = None
        elif named:
            if secret_depth is None and len(quoted) < 100 and pair_kind(quoted):
                secret_depth = depth
        elif secret_depth is not None and depth > secret_depth:
            parts += (text[position : token.start()], f'"{REDACTED}"')
            position = token.end()
    return "".join([*parts, text[position:]])
