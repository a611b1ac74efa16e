"""What servers say about themselves, made harmless: nobody has read it before the model and the user do.

Names and descriptions lose what cannot be seen (controls, marks of direction, invisible tags) and are bounded. Results
keep everything but terminal controls.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from accord.coder.output import capped

_UNSEEN: Final = frozenset(("Cc", "Cf", "Co", "Cs", "Cn"))
_JOINERS: Final = "\u200c\u200d"
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)
_SHORTEST_SECRET: Final = 6
_DEEPEST: Final = 40


def clean(text: str, most: int) -> str:
    """A description: what of it can be seen, line ends kept, so many characters at most."""
    if len(text) > 4 * most:
        text = text[: 2 * most] + text[-2 * most :]
    text = _ESCAPES.sub("", text)
    seen = "".join(c for c in text if c in "\n\t" + _JOINERS or unicodedata.category(c) not in _UNSEEN)
    return capped(seen.strip(), most).strip()


def clean_line(text: str, most: int) -> str:
    """A name or a title: the same on one line."""
    line = " ".join(clean(text, 4 * most).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def clean_result(text: str) -> str:
    """A result: without terminal controls and half characters."""
    return _ESCAPES.sub("", text).encode("utf-8", "replace").decode("utf-8")


def clean_schema(schema: dict[str, Any], most: int) -> dict[str, Any]:
    """A schema of arguments: an object's, its descriptions cleaned. Raises ValueError for one that nests too deep."""
    cleaned = cast(dict[str, Any], _cleaned(schema, most, 0))
    if cleaned.get("type") != "object":
        cleaned["type"] = "object"
    if not isinstance(cleaned.get("properties"), dict):
        cleaned["properties"] = {}
    return cleaned


def _cleaned(value: Any, most: int, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("it nests too deep")
    if isinstance(value, dict):
        found = cast(dict[str, Any], value)
        return {
            name: clean(inner, most)
            if name in ("description", "title") and isinstance(inner, str)
            else _cleaned(inner, most, depth + 1)
            for name, inner in found.items()
        }
    if isinstance(value, list):
        return [_cleaned(inner, most, depth + 1) for inner in cast(list[Any], value)]
    return value


class Secrets:
    """What the client gave for a server and nobody else may read; masks it in text."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        pieces = {
            piece for value in values for piece in (value, *value.split()) if len(piece) >= _SHORTEST_SECRET
        }
        self._pieces = sorted(pieces, key=len, reverse=True)

    def masked(self, text: str) -> str:
        """The text without them."""
        for piece in self._pieces:
            text = text.replace(piece, "***")
        return text


def secrets_of_url(url: str) -> list[str]:
    """What of an address may be a credential: user, password and the values of its query."""
    try:
        parts = urlsplit(url)
        found = [parts.username or "", parts.password or "", *(value for _, value in parse_qsl(parts.query))]
    except ValueError:
        return [url]
    return [*found, *map(unquote, found), parts.query]
