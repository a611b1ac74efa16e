"""Rename and move members of JSON objects; record in `_meta` what was repaired.

Imported on first use.
"""

import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import Any, Final, NamedTuple, TypeGuard

# Repairs work on parsed JSON and never modify their arguments: a function that changes an object copies it
# first.

Object = dict[str, Any]


class RepairedMessage(NamedTuple):
    """A message after repair. `rows` are the dialect rows that were applied; empty if nothing changed.

    `more` holds further parameters where one notification had to become several (a chunk with a list of
    blocks); they follow `value` in order.
    """

    value: Any
    rows: tuple[int, ...] = ()
    more: tuple[Any, ...] = ()


class DialectRows:
    """The rows applied to one message so far, in order, each once."""

    def __init__(self) -> None:
        self._rows: dict[int, None] = {}

    def add(self, row: int) -> None:
        self._rows[row] = None

    def __iter__(self) -> Iterator[int]:
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


def move(obj: Object, official: str, *others: str, row: int, rows: DialectRows) -> bool:
    """Move the first of `others` to the official key, unless that is there: the official key always wins."""
    if official in obj:
        return False
    for other in others:
        if other in obj:
            obj[official] = obj.pop(other)
            rows.add(row)
            return True
    return False


def twins(obj: Object, *keys: str, rows: DialectRows) -> None:
    """Move members with snake_case keys to the official keys that are missing."""
    for key in keys:
        move(obj, key, _twin(key), row=SNAKE_KEYS, rows=rows)


def mark(obj: Object, key: str, value: Any) -> None:
    """Leave a note in the object's `_meta`; a malformed `_meta` counts as absent."""
    meta = obj.get("_meta")
    obj["_meta"] = {**meta, key: value} if is_object(meta) else {key: value}


def each(value: Any, repair: Callable[[Object, DialectRows], Any], rows: DialectRows) -> Any:
    """Repair the objects of an array; anything else stays as it is and meets the official reading."""
    return [repair(item, rows) if is_object(item) else item for item in value] if is_array(value) else value


def each_in(obj: Object, key: str, repair: Callable[[Object, DialectRows], Any], rows: DialectRows) -> None:
    """`each` on one member, where it is there."""
    if key in obj:
        obj[key] = each(obj[key], repair, rows)


def spelled(value: Any, official: Collection[str]) -> str | None:
    """Return the official word for another spelling (`inProgress`, `canceled`); None if there is none."""
    if not isinstance(value, str) or value in official:
        return None
    if len(value) > 64:  # no word of the protocol is that long, and a peer's text may be
        return None
    word = re.sub(r"[\s-]+", "_", _snake(value.strip()))
    if word == "canceled":
        word = "cancelled"
    return word if word in official else None


def spell(obj: Object, key: str, official: Collection[str], rows: DialectRows) -> None:
    """Put the official spelling in place of another one (row 73)."""
    word = spelled(obj.get(key), official)
    if word is not None:
        obj[key] = word
        rows.add(73)


def text_block(text: str) -> Object:
    return {"type": "text", "text": text}


# What a repair records in `_meta`, so that a repaired value is not mistaken for one that was sent. The `kind`
# of a tool call is only what the peer sent in official spelling; a repaired kind goes to `_meta` and is for
# display. The `kind` of a permission option is required, so a repaired one is stored there and the option is
# marked. A policy that approves without the user calls `official_kind`, for the tool call and for the option.

DISPLAY_KIND: Final = "accord/displayKind"
KIND_AS_SENT: Final = "accord/kindAsSent"
FINAL_TEXT: Final = "accord/finalText"
STOP_REASON_AS_SENT: Final = "accord/stopReasonAsSent"
SET_BY: Final = "accord/setBy"
FORMAT_AS_SENT: Final = "accord/formatAsSent"
VARIABLES: Final = "accord/variables"

TOOL_KINDS: Final = frozenset(
    ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other")
)
OPTION_KINDS: Final = frozenset(("allow_once", "allow_always", "reject_once", "reject_always"))


def _mark(carrier: Any, key: str) -> Any:
    meta = getattr(carrier, "meta", None)
    return meta.get(key) if _is_object(meta) else None


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def official_kind(carrier: Any) -> str | None:
    """Return the `kind` of a tool call or permission option as sent; None if absent or repaired."""
    kind = getattr(carrier, "kind", None)
    if not isinstance(kind, str) or kind not in TOOL_KINDS | OPTION_KINDS:
        return None
    meta = getattr(carrier, "meta", None)
    return None if _is_object(meta) and KIND_AS_SENT in meta else kind


def display_kind(tool_call: Any) -> str:
    """The kind to show for a tool call: as sent, else as repaired, else `other`.

    Never a ground for approval.
    """
    kind = getattr(tool_call, "kind", None)
    if isinstance(kind, str) and kind in TOOL_KINDS:
        return kind
    repaired = _mark(tool_call, DISPLAY_KIND)
    return repaired if isinstance(repaired, str) and repaired in TOOL_KINDS else "other"


def final_text(prompt_response: Any) -> str | None:
    """Return the text of a prompt's result, to be shown if no chunk came (row 3)."""
    text = _mark(prompt_response, FINAL_TEXT)
    return text if isinstance(text, str) else None


def stop_reason_as_sent(prompt_response: Any) -> str | None:
    """The peer's own word where the stop reason had to be replaced by `end_turn` (rows 4 and 5)."""
    reason = _mark(prompt_response, STOP_REASON_AS_SENT)
    return reason if isinstance(reason, str) else None


def variables(auth_method: Any) -> list[str] | None:
    """Return the environment variables of an `env_var` method; None for other methods (row 205)."""
    names = _mark(auth_method, VARIABLES)
    return names if isinstance(names, list) else None  # pyright: ignore[reportUnknownVariableType]


def set_by(config_option: Any) -> str | None:
    """Return the `session/set_model` call for an option made from a `models` object (row 42)."""
    method = _mark(config_option, SET_BY)
    return method if method == "session/set_model" else None
