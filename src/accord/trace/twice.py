"""Whether a JSON text says every member once: what is judged is its value, and of two of a name that is the last."""

import json
import re
from typing import Any, Final

import msgspec

_MEMBER: Final = re.compile(rb'"[ \t\r\n]*:')
_WRITTEN_OUT: Final = re.compile(rb"\\u00(?:20|22|3a)", re.IGNORECASE)  # a space, a quote, a colon


def says_once(text: bytes, value: Any) -> bool:
    """Whether the text holds nothing that its value does not."""
    written = msgspec.json.encode(value)
    if written == text:
        return True
    # The same number of names and of what looks like them, unless something is spelled in another way.
    if not _WRITTEN_OUT.search(text) and len(_MEMBER.findall(text)) == len(_MEMBER.findall(written)):
        return True
    try:
        json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return False
    return True


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a member twice")
