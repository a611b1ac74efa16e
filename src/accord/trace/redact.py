"""Takes secrets out of what is stored: by the name they are under, by their place, and by their shape.

Out comes `[redacted]` wherever a secret stood; everything else stays as it was, and what holds none is returned as the
very same object. Only copies are changed, never what is passed on. A secret that is cut into pieces by streaming, or
that looks like any other word, is not recognised: a recording is still to be treated as private.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from accord.schema.jsontext import NotJson, parse_json
from accord.trace.commands import redact_words
from accord.trace.credentials import REDACTED, TRIVIAL, redact_shapes, redact_text
from accord.trace.names import (
    counts_tokens,
    holds_pairs,
    is_secret,
    is_secret_header,
    is_secret_member,
    is_secret_variable,
    words,
)
from accord.trace.twice import says_once

_MOST_TOKENS: Final = 1_000_000_000  # a number above this is no count of tokens
_LONGEST_NAME: Final = 200
_VALUES: Final = frozenset(
    words("value currentvalue defaultvalue default newvalue oldvalue previousvalue initialvalue rawvalue")
)
_NAMED_BY: Final = words("name key id configId variable header")
_COMMANDS: Final = frozenset(words("args argv arguments command cmd commandline"))
_PRIVATE_PARTS: Final = frozenset(words("d p q dp dq qi k"))  # of a key written as JSON
_SIGNS_IN: Final = "terminal-auth"  # describes a command that signs in; is no secret itself


def redact_frame(frame: bytes) -> bytes:
    """One frame without its secrets: the very same bytes where there were none."""
    try:
        value = parse_json(frame)
        shown = redact_value(value)
    except (NotJson, RecursionError):
        from accord.trace.broken import redact_broken

        text = frame.decode("utf-8", "surrogateescape")
        shown = redact_broken(text)
        return frame if shown == text else shown.encode("utf-8", "surrogateescape")
    return frame if shown is value and says_once(frame, value) else msgspec.json.encode(shown)


def redact_value(value: Any) -> Any:
    """Parsed JSON without its secrets: the very same object where there were none."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return _object(cast(dict[str, Any], value))
    if isinstance(value, list):
        return _array(cast(list[Any], value))
    return value


def redact_command(words: Sequence[str]) -> list[str]:
    """A command line without its secrets."""
    return redact_words(words)


def _object(members: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] | None = None
    hidden_names = False
    for key, value in members.items():
        place = _place(key) if len(key) <= _LONGEST_NAME else _place_of(key)
        if place:
            if place == "name":
                hidden_names = True
            shown = _in_place(place, key, value, members)
        elif isinstance(value, str):
            shown = redact_text(value)
        elif isinstance(value, dict):
            shown = _object(cast(dict[str, Any], value))
        elif isinstance(value, list):
            shown = _array(cast(list[Any], value))
        else:
            continue
        if shown is not value and shown != value:
            if changed is None:
                changed = dict(members)
            changed[key] = shown
    if hidden_names:
        return _renamed(members if changed is None else changed)
    return members if changed is None else changed


def _place_of(key: str) -> str:
    """What a member of this name holds: nothing special, a secret, a command line, pairs of names and values, the value
    of one; or the name is a secret itself.
    """
    if redact_shapes(key) is not key or (len(key) > _LONGEST_NAME and redact_text(key) != key):
        return "name"
    if key == _SIGNS_IN:
        return ""
    lowered = key.lower()
    if is_secret_member(key):
        return "secret"
    if lowered in _VALUES:
        return "value"
    if lowered in _COMMANDS:
        return "command"
    if lowered == "kty":
        return ""
    if lowered in _PRIVATE_PARTS:
        return "part"
    return holds_pairs(key) or {"key": "key", "pin": "pin"}.get(lowered, "")


_place = lru_cache(4096)(_place_of)


def _in_place(place: str, key: str, value: Any, members: dict[str, Any]) -> Any:
    match place:
        case "secret":
            if _is_folder(key, value):
                return redact_value(value)
            return _hidden(value, counts_tokens(key) or key.lower() == "pass")
        case "env":
            return _pairs(key, value, is_secret_variable)
        case "headers":
            return _pairs(key, value, is_secret_header)
        case "value":
            return _value(value, members)
        case "command":
            if isinstance(value, list) and all(isinstance(word, str) for word in cast(list[Any], value)):
                shown = redact_words(cast(list[str], value))
                return shown if shown != value else cast(Any, value)
        case "part":
            return REDACTED if "kty" in members and isinstance(value, str) else redact_value(value)
        case "key":
            return REDACTED if isinstance(value, str) and _is_random(value) else redact_value(value)
        case "pin":
            return REDACTED if isinstance(value, str) and value.isdigit() else redact_value(value)
        case _:
            pass
    return redact_value(value)


def _value(value: Any, members: dict[str, Any]) -> Any:
    """A value beside its name, as in `{"name": "API_KEY", "value": ...}`."""
    for by in _NAMED_BY:
        name = members.get(by)
        if isinstance(name, str) and is_secret(name):
            return _hidden(value, counts_tokens(name))
    return redact_value(value)


def _is_folder(key: str, value: Any) -> bool:
    return key.lower() == "pwd" and isinstance(value, str) and value[:1] in ("/", "~", ".")


def _is_random(word: str) -> bool:
    """Whether a word has the looks of a key that a program made."""
    signs = (str.isdigit, str.islower, str.isupper)
    return len(word) >= 16 and not any(map(str.isspace, word)) and all(any(map(sign, word)) for sign in signs)


def _renamed(members: dict[str, Any]) -> dict[str, Any]:
    """The members, with names that are secrets themselves taken out; two of them stay two."""
    shown: dict[str, Any] = {}
    for key, value in members.items():
        name = redact_text(key)
        while name in shown and name != key:
            name += "'"
        shown[name] = value
    return shown


def _array(items: list[Any]) -> list[Any]:
    if any(isinstance(item, str) and item[:1] == "-" for item in items):
        return _with_options(items)
    shown = [redact_value(item) if isinstance(item, (str, dict, list)) else item for item in items]
    for old, new in zip(items, shown, strict=True):
        if old is not new:
            return shown
    return items


def _with_options(items: list[Any]) -> list[Any]:
    """An array with options of a command among its items."""
    texts = redact_words([item if isinstance(item, str) else "" for item in items])
    shown = [
        text if isinstance(item, str) else redact_value(item) for item, text in zip(items, texts, strict=True)
    ]
    return items if shown == items else shown


def _hidden(value: Any, counts: bool = False) -> Any:
    """What stands under the name of a secret: its words and numbers go, its form stays. Numbers of tokens do not go."""
    if isinstance(value, str):
        return value if value.lower() in TRIVIAL else REDACTED
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if counts and abs(value) < _MOST_TOKENS else REDACTED
    if isinstance(value, list):
        return [_hidden(item, counts) for item in cast(list[Any], value)] or cast(Any, value)
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {key: _hidden(item, counts) for key, item in members.items()} or members
    return value


def _pairs(key: str, value: Any, secret: Callable[[str], bool]) -> Any:
    """The values of an environment or of headers, given as `{name: value}` or `[{name, value}]` or `["NAME=value"]`."""
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {name: _hidden(item) if secret(name) else redact_value(item) for name, item in members.items()}
    if isinstance(value, list):
        return [_pair(item, secret) for item in cast(list[Any], value)]
    if (
        isinstance(value, str)
        and "=" not in value
        and ":" not in value
        and key.lower() not in ("env", "headers")
    ):
        return redact_text(value)  # `"environment": "production"`
    return _hidden(value)


def _pair(item: Any, secret: Callable[[str], bool]) -> Any:
    if isinstance(item, dict):
        members = cast(dict[str, Any], item)
        name = members.get("name", members.get("key"))
        if isinstance(name, str) and not secret(name):
            return redact_value(members)
        return {
            key: part if part is name and key in ("name", "key") else _hidden(part)
            for key, part in members.items()
        }
    if isinstance(item, str):
        name, sign, _ = item.partition("=")
        return redact_text(item) if sign and not secret(name) else f"{name}={REDACTED}" if sign else REDACTED
    return _hidden(item)
