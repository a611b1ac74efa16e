"""Rename and move members of JSON objects; record in `_meta` what was repaired.

Imported on first use.
"""

import re
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeGuard, get_args

from accord.schema.client_requests import PermissionOptionKind
from accord.schema.content import ToolKind

# Repairs work on parsed JSON and never modify their arguments: a function that changes an object copies it
# first.

Object = dict[str, Any]


class RepairedMessage(NamedTuple):
    """A message after repair. `rows` are the dialect rows that were applied; empty if nothing changed.

    One notification can become several (a chunk with a list of blocks). Then `more` has the parameters of the
    others, in order.
    """

    value: Any
    rows: tuple[int, ...] = ()
    more: tuple[Any, ...] = ()


class DialectRows:
    """The dialect rows that were applied to one message, in order, without duplicates."""

    def __init__(self) -> None:
        self._rows: dict[int, None] = {}

    def add(self, row: int) -> None:
        self._rows[row] = None

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __bool__(self) -> bool:
        return bool(self._rows)


_SNAKE_KEYS_ROW: Final = 301


def is_object(value: Any) -> TypeGuard[Object]:
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


@lru_cache(256)
def _to_snake_case(word: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()


def rename_key(obj: Object, official: str, *other_keys: str, row: int, rows: DialectRows) -> bool:
    """Rename the first of `other_keys` that exists. Does nothing if the official key exists."""
    if official in obj:
        return False
    for other_key in other_keys:
        if other_key in obj:
            obj[official] = obj.pop(other_key)
            rows.add(row)
            return True
    return False


def rename_snake_keys(obj: Object, *keys: str, rows: DialectRows) -> None:
    """Rename the snake_case forms of these keys, if the official keys are missing (row 301)."""
    for key in keys:
        rename_key(obj, key, _to_snake_case(key), row=_SNAKE_KEYS_ROW, rows=rows)


def set_note(obj: Object, key: str, value: Any) -> None:
    """Set a key in the object's `_meta`; a malformed `_meta` is replaced."""
    meta = obj.get("_meta")
    obj["_meta"] = {**meta, key: value} if is_object(meta) else {key: value}


def repair_items(value: Any, repair: Callable[[Object, DialectRows], Any], rows: DialectRows) -> Any:
    """Repair the objects of an array; anything else is returned unchanged."""
    return [repair(item, rows) if is_object(item) else item for item in value] if is_array(value) else value


def repair_member_items(
    obj: Object, key: str, repair: Callable[[Object, DialectRows], Any], rows: DialectRows
) -> None:
    """Repair the objects of the array in one member, if the member exists."""
    if key in obj:
        obj[key] = repair_items(obj[key], repair, rows)


def official_spelling(value: Any, official: Collection[str]) -> str | None:
    """Return the official word for another spelling (`inProgress`, `canceled`); None if there is none."""
    if not isinstance(value, str) or value in official:
        return None
    if len(value) > 64:  # no word of the protocol is that long
        return None
    word = re.sub(r"[\s-]+", "_", _to_snake_case(value.strip()))
    if word == "canceled":
        word = "cancelled"
    return word if word in official else None


def fix_spelling(obj: Object, key: str, official: Collection[str], rows: DialectRows) -> None:
    """Replace another spelling of a member's value by the official one (row 73)."""
    word = official_spelling(obj.get(key), official)
    if word is not None:
        obj[key] = word
        rows.add(73)


def union_tags(union: Any) -> frozenset[str]:
    """Return the tags of a union of message types."""
    return frozenset(variant.__struct_config__.tag for variant in get_args(union))


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

TOOL_KINDS: Final[frozenset[str]] = frozenset(get_args(ToolKind))
OPTION_KINDS: Final[frozenset[str]] = frozenset(get_args(PermissionOptionKind))


def _note(message: Any, key: str) -> Any:
    meta = getattr(message, "meta", None)
    return meta.get(key) if is_object(meta) else None


def official_kind(message: Any) -> str | None:
    """Return the `kind` of a tool call or permission option as sent; None if absent or repaired."""
    kind = getattr(message, "kind", None)
    if not isinstance(kind, str) or kind not in TOOL_KINDS | OPTION_KINDS:
        return None
    meta = getattr(message, "meta", None)
    return None if is_object(meta) and KIND_AS_SENT in meta else kind


def display_kind(tool_call: Any) -> str:
    """Return the kind to show for a tool call: as sent, else as repaired, else `other`.

    Do not base an approval on it.
    """
    kind = getattr(tool_call, "kind", None)
    if isinstance(kind, str) and kind in TOOL_KINDS:
        return kind
    repaired = _note(tool_call, DISPLAY_KIND)
    return repaired if isinstance(repaired, str) and repaired in TOOL_KINDS else "other"


def final_text(prompt_response: Any) -> str | None:
    """Return the text in a prompt's result, to be shown if the agent sent no chunk (row 3)."""
    text = _note(prompt_response, FINAL_TEXT)
    return text if isinstance(text, str) else None


def stop_reason_as_sent(prompt_response: Any) -> str | None:
    """Return the original stop reason if a repair replaced it by `end_turn` (row 4)."""
    reason = _note(prompt_response, STOP_REASON_AS_SENT)
    return reason if isinstance(reason, str) else None


def variables(auth_method: Any) -> list[str] | None:
    """Return the environment variables of an `env_var` method; None for other methods (row 205)."""
    names = _note(auth_method, VARIABLES)
    return names if isinstance(names, list) else None  # pyright: ignore[reportUnknownVariableType]


def set_method_of(config_option: Any) -> str | None:
    """Return the `session/set_model` call for an option made from a `models` object (row 42)."""
    method = _note(config_option, SET_BY)
    return method if method == "session/set_model" else None
