"""Secrets in lines that are no JSON: a message that was cut, or one with something before or after it.

As much of the line as can be is read as the JSON it was meant to be, so that names and places count there too.
"""

import re
from typing import Any, Final

import msgspec

from accord.schema.jsontext import NotJson, parse_json
from accord.trace.credentials import REDACTED, redact_text
from accord.trace.redact import redact_value

_MOST: Final = 4 * 1024 * 1024
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*("?)|[{}\[\]]', re.DOTALL)
_CLOSE: Final = {"{": "}", "[": "]"}
_NOTHING: Final = object()


def redact_broken(text: str) -> str:
    """The line without its secrets."""
    begin = text.find("{")
    if begin < 0 or len(text) > _MOST:
        return redact_text(text)
    end, closers = _extent(text, begin)
    before, body, after = text[:begin], text[begin:end], text[end:]
    value = _read(body, closers)
    if value is _NOTHING:
        return redact_text(_without_values(text))
    try:
        shown = redact_value(value)
    except RecursionError:
        return redact_text(_without_values(text))
    middle = body if shown is value else _written(shown)
    return redact_text(before) + middle + (redact_broken(after) if after else "")


def _extent(text: str, begin: int) -> tuple[int, str]:
    """Where the object that begins here ends, and what would close it where it does not."""
    stack: list[str] = []
    for token in _TOKEN.finditer(text, begin):
        mark = token[0]
        if mark in _CLOSE:
            stack.append(_CLOSE[mark])
        elif mark in ("}", "]"):
            if not stack or stack.pop() != mark:
                return len(text), ""
            if not stack:
                return token.end(), ""
        elif not token[1]:
            return len(text), '"' + "".join(reversed(stack))  # a string without its end
    return len(text), "".join(reversed(stack))


def _read(body: str, closers: str) -> Any:
    raw = body.encode("utf-8", "replace").decode()  # half of a character is no reason to miss a secret
    bare = raw.rstrip().rstrip(",")
    ends = closers.removeprefix('"')
    comma = max(bare.rfind(","), 0)
    for attempt in (
        raw + closers,
        raw.rstrip("\\") + closers,
        bare + ends,
        f"{bare}null{ends}",
        f"{bare}:null{ends}",
        f"{raw}{closers[:1]}:null{ends}",
        bare[:comma] + ends,
    ):
        try:
            return parse_json(attempt.encode())
        except NotJson:
            continue
    return _NOTHING


def _written(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_VALUE_MEMBER: Final = re.compile(r"""(["']value["']\s*:\s*)("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)""")


def _without_values(text: str) -> str:
    """What cannot be read at all: what looks like a pair of an environment is taken for one."""
    if '"env"' in text or '"headers"' in text:
        return _VALUE_MEMBER.sub(rf'\1"{REDACTED}"', text)
    return text
