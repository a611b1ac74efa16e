"""Removes secrets from parsed JSON.

A secret is found by the name of its member, by its position (environment, headers, command lines) and by its
shape. It becomes `[redacted]`; everything else stays, and a value without secrets is returned as the same
object. Values are copied before they are changed. A secret that streaming splits into chunks, or that looks
like an ordinary word, is not recognized, so treat a recording as private.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

from accord.trace.command_redaction import redact_command
from accord.trace.secret_names import (
    HARMLESS_VALUES,
    REDACTED,
    counts_tokens,
    is_secret,
    is_secret_header,
    is_secret_member,
    is_secret_variable,
    pair_kind,
    words,
)
from accord.trace.text_redaction import redact_shapes, redact_text

_MAX_TOKEN_COUNT: Final = 1_000_000_000
"""A larger number does not count tokens."""
_MAX_NAME_LENGTH: Final = 200
_VALUE_MEMBERS: Final = frozenset(
    words("value currentvalue defaultvalue default newvalue oldvalue previousvalue initialvalue rawvalue")
)
_NAME_MEMBERS: Final = words("name key id configId variable header")
_COMMAND_MEMBERS: Final = frozenset(words("args argv arguments command cmd commandline"))
_PRIVATE_KEY_MEMBERS: Final = frozenset(words("d p q dp dq qi k"))  # private members of a JSON Web Key
_SIGN_IN_COMMAND: Final = "terminal-auth"  # describes a sign-in command and is not a secret


def redact_value(value: Any) -> Any:
    """Redact parsed JSON; without secrets, return the same object."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return _redact_object(cast(dict[str, Any], value))
    if isinstance(value, list):
        return _redact_array(cast(list[Any], value))
    return value


def _redact_object(members: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] | None = None
    has_secret_names = False
    for key, value in members.items():
        kind = _member_kind(key) if len(key) <= _MAX_NAME_LENGTH else _classify_member(key)
        if kind:
            if kind == "name":
                has_secret_names = True
            redacted = _redact_member(kind, key, value, members)
        elif isinstance(value, str):
            redacted = redact_text(value)
        elif isinstance(value, dict):
            redacted = _redact_object(cast(dict[str, Any], value))
        elif isinstance(value, list):
            redacted = _redact_array(cast(list[Any], value))
        else:
            continue
        if redacted is not value and redacted != value:
            if changed is None:
                changed = dict(members)
            changed[key] = redacted
    if has_secret_names:
        return _redact_member_names(members if changed is None else changed)
    return members if changed is None else changed


def _classify_member(key: str) -> str:
    """Return what a member of this name contains.

    "" is nothing special. "name" means that the name itself is a secret. "env" and "headers" are pairs of
    names and values, "value" is the value of one.
    """
    if redact_shapes(key) is not key or (len(key) > _MAX_NAME_LENGTH and redact_text(key) != key):
        return "name"
    if key == _SIGN_IN_COMMAND:
        return ""
    lowered = key.lower()
    if is_secret_member(key):
        return "secret"
    if lowered in _VALUE_MEMBERS:
        return "value"
    if lowered in _COMMAND_MEMBERS:
        return "command"
    if lowered == "kty":
        return ""
    if lowered in _PRIVATE_KEY_MEMBERS:
        return "private key"
    return pair_kind(key) or {"key": "key", "pin": "pin"}.get(lowered, "")


_member_kind = lru_cache(4096)(_classify_member)


def _redact_member(kind: str, key: str, value: Any, members: dict[str, Any]) -> Any:
    match kind:
        case "secret":
            if _is_directory(key, value):
                return redact_value(value)
            return _redact_secret_value(value, counts_tokens(key) or key.lower() == "pass")
        case "env":
            return _redact_pairs(key, value, is_secret_variable)
        case "headers":
            return _redact_pairs(key, value, is_secret_header)
        case "value":
            return _redact_named_value(value, members)
        case "command":
            if isinstance(value, list) and all(isinstance(word, str) for word in cast(list[Any], value)):
                redacted = redact_command(cast(list[str], value))
                return redacted if redacted != value else cast(Any, value)
        case "private key":
            return REDACTED if "kty" in members and isinstance(value, str) else redact_value(value)
        case "key":
            return REDACTED if isinstance(value, str) and _looks_like_key(value) else redact_value(value)
        case "pin":
            return REDACTED if isinstance(value, str) and value.isdigit() else redact_value(value)
        case _:
            pass
    return redact_value(value)


def _redact_named_value(value: Any, members: dict[str, Any]) -> Any:
    """Redact a value next to its name, as in `{"name": "API_KEY", "value": ...}`."""
    for name_member in _NAME_MEMBERS:
        name = members.get(name_member)
        if isinstance(name, str) and is_secret(name):
            return _redact_secret_value(value, counts_tokens(name))
    return redact_value(value)


def _is_directory(key: str, value: Any) -> bool:
    return key.lower() == "pwd" and isinstance(value, str) and value[:1] in ("/", "~", ".")


def _looks_like_key(word: str) -> bool:
    """Tell whether a word looks like a generated key: long, with digits, lower and upper case."""
    tests = (str.isdigit, str.islower, str.isupper)
    return len(word) >= 16 and not any(map(str.isspace, word)) and all(any(map(test, word)) for test in tests)


def _redact_member_names(members: dict[str, Any]) -> dict[str, Any]:
    """Redact member names that are secrets themselves; the names stay distinct."""
    redacted: dict[str, Any] = {}
    for key, value in members.items():
        name = redact_text(key)
        while name in redacted and name != key:
            name += "'"
        redacted[name] = value
    return redacted


def _redact_array(items: list[Any]) -> list[Any]:
    if any(isinstance(item, str) and item[:1] == "-" for item in items):
        return _redact_array_with_options(items)
    redacted = [redact_value(item) if isinstance(item, (str, dict, list)) else item for item in items]
    for item, redacted_item in zip(items, redacted, strict=True):
        if item is not redacted_item:
            return redacted
    return items


def _redact_array_with_options(items: list[Any]) -> list[Any]:
    """Redact an array that contains command options."""
    redacted_words = redact_command([item if isinstance(item, str) else "" for item in items])
    redacted = [
        text if isinstance(item, str) else redact_value(item)
        for item, text in zip(items, redacted_words, strict=True)
    ]
    return items if redacted == items else redacted


def _redact_secret_value(value: Any, may_count_tokens: bool = False) -> Any:
    """Redact the value of a secret name: strings and numbers, but not the structure and not token counts."""
    if isinstance(value, str):
        return value if value.lower() in HARMLESS_VALUES else REDACTED
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if may_count_tokens and abs(value) < _MAX_TOKEN_COUNT else REDACTED
    if isinstance(value, list):
        return [_redact_secret_value(item, may_count_tokens) for item in cast(list[Any], value)] or cast(
            Any, value
        )
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {key: _redact_secret_value(item, may_count_tokens) for key, item in members.items()} or members
    return value


def _redact_pairs(key: str, value: Any, is_secret_name: Callable[[str], bool]) -> Any:
    """Redact an environment or headers: `{name: value}`, `[{name, value}]` or `["NAME=value"]`."""
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {
            name: _redact_secret_value(item) if is_secret_name(name) else redact_value(item)
            for name, item in members.items()
        }
    if isinstance(value, list):
        return [_redact_pair(item, is_secret_name) for item in cast(list[Any], value)]
    if (
        isinstance(value, str)
        and "=" not in value
        and ":" not in value
        and key.lower() not in ("env", "headers")
    ):
        return redact_text(value)  # `"environment": "production"`
    return _redact_secret_value(value)


def _redact_pair(item: Any, is_secret_name: Callable[[str], bool]) -> Any:
    if isinstance(item, dict):
        members = cast(dict[str, Any], item)
        name = members.get("name", members.get("key"))
        if isinstance(name, str) and not is_secret_name(name):
            return redact_value(members)
        return {
            key: member if member is name and key in ("name", "key") else _redact_secret_value(member)
            for key, member in members.items()
        }
    if isinstance(item, str):
        name, sign, _ = item.partition("=")
        return (
            redact_text(item)
            if sign and not is_secret_name(name)
            else f"{name}={REDACTED}"
            if sign
            else REDACTED
        )
    return _redact_secret_value(item)
