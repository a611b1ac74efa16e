"""Members of JSON objects: moving one to its official key, official spelling, and which rows that took.

Repairs work on parsed JSON and never change what they are given: whoever alters an object copies it first.
"""

import re
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, Final, NamedTuple, TypeGuard

Object = dict[str, Any]


class Repaired(NamedTuple):
    """A message after repair. `rows` are the dialect rows that were applied; empty means that nothing was changed.

    `more` holds further parameters where one notification had to become several (a chunk with a list of blocks); they
    follow `value` in order.
    """

    value: Any
    rows: tuple[int, ...] = ()
    more: tuple[Any, ...] = ()


class Rows:
    """The rows applied to one message so far, in order, each once."""

    def __init__(self) -> None:
        self._rows: dict[int, None] = {}

    def add(self, row: int) -> None:
        self._rows[row] = None

    def __iter__(self):
        return iter(self._rows)

    def __bool__(self) -> bool:
        return bool(self._rows)


SNAKE_KEYS: Final = 301


def is_object(value: Any) -> TypeGuard[Object]:
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _snake(word: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()


@cache
def _twin(key: str) -> str:
    return _snake(key)


def move(obj: Object, official: str, *others: str, row: int, rows: Rows) -> bool:
    """Move the first of `others` to the official key, unless that is there: the official key always wins."""
    if official in obj:
        return False
    for other in others:
        if other in obj:
            obj[official] = obj.pop(other)
            rows.add(row)
            return True
    return False


def twins(obj: Object, *keys: str, rows: Rows) -> None:
    """Move members with snake_case keys to the official keys that are missing."""
    for key in keys:
        move(obj, key, _twin(key), row=SNAKE_KEYS, rows=rows)


def mark(obj: Object, key: str, value: Any) -> None:
    """Leave a note in the object's `_meta`; a malformed `_meta` counts as absent."""
    meta = obj.get("_meta")
    obj["_meta"] = {**meta, key: value} if is_object(meta) else {key: value}


def each(value: Any, repair: Callable[[Object, Rows], Any], rows: Rows) -> Any:
    """Repair the objects of an array; anything else stays as it is and meets the official reading."""
    return [repair(item, rows) if is_object(item) else item for item in value] if is_array(value) else value


def each_in(obj: Object, key: str, repair: Callable[[Object, Rows], Any], rows: Rows) -> None:
    """`each` on one member, where it is there."""
    if key in obj:
        obj[key] = each(obj[key], repair, rows)


def spelled(value: Any, official: Collection[str]) -> str | None:
    """The official word for another spelling of it (`inProgress`, `In-Progress`, `canceled`); None if there is none."""
    if not isinstance(value, str) or value in official:
        return None
    if len(value) > 64:  # no word of the protocol is that long, and a peer's text may be
        return None
    word = re.sub(r"[\s-]+", "_", _snake(value.strip()))
    if word == "canceled":
        word = "cancelled"
    return word if word in official else None


def spell(obj: Object, key: str, official: Collection[str], rows: Rows) -> None:
    """Put the official spelling in place of another one (row 73)."""
    word = spelled(obj.get(key), official)
    if word is not None:
        obj[key] = word
        rows.add(73)


def text_block(text: str) -> Object:
    return {"type": "text", "text": text}
