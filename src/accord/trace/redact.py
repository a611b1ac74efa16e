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
from accord.trace.credentials import REDACTED, TRIVIAL, redact_text
from accord.trace.names import is_secret, is_secret_header, is_secret_variable

_MOST_TOKENS: Final = 1_000_000_000  # a number above this is no count of tokens


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
    return frame if shown is value else msgspec.json.encode(shown)


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
    """A command line without its secrets: `--token x`, `--token=x`, `NAME=x`."""
    return _array(list(words))


def _object(members: dict[str, Any]) -> dict[str, Any]:
    changed: dict[str, Any] | None = None
    for key, value in members.items():
        place = _place(key)
        if place:
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
    return members if changed is None else changed


@lru_cache(4096)
def _place(key: str) -> str:
    """What a member of this name holds: nothing special, a secret, pairs of names and values, or the value of one."""
    if is_secret(key):
        return "secret"
    return {"env": "env", "environment": "env", "headers": "headers", "value": "value"}.get(key, "")


def _in_place(place: str, key: str, value: Any, members: dict[str, Any]) -> Any:
    if place == "env":
        return _pairs(value, is_secret_variable)
    if place == "headers":
        return _pairs(value, is_secret_header)
    if place == "value":
        name = members.get("name", members.get("configId", members.get("key")))
        hidden = isinstance(name, str) and is_secret(name)
    else:
        hidden = not _is_count_or_form(key, value)
    return _hidden(value) if hidden else redact_value(value)


def _is_count_or_form(key: str, value: Any) -> bool:
    """Numbers of tokens are no tokens, and an object under `terminal-auth` describes a way to sign in."""
    lowered = key.lower()
    if isinstance(value, (int, float)):
        return "token" in lowered and abs(value) < _MOST_TOKENS
    return isinstance(value, dict) and lowered.endswith("auth")


def _array(items: list[Any]) -> list[Any]:
    shown = [redact_value(item) if isinstance(item, (str, dict, list)) else item for item in items]
    for place in range(1, len(items)):
        option = items[place - 1]
        if isinstance(option, str) and option[:1] == "-" and isinstance(items[place], str):
            if is_secret(option) and not items[place].startswith("--"):
                shown[place] = _hidden(items[place])
            elif option in ("-u", "--user", "--proxy-user") and ":" in items[place]:
                shown[place] = REDACTED
    for old, new in zip(items, shown, strict=True):
        if old is not new:
            return shown
    return items


def _hidden(value: Any) -> Any:
    """What stands under the name of a secret: its words and numbers go, its form stays."""
    if isinstance(value, str):
        return value if value.lower() in TRIVIAL else REDACTED
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return REDACTED
    if isinstance(value, list):
        return [_hidden(item) for item in cast(list[Any], value)] or cast(Any, value)
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {key: _hidden(item) for key, item in members.items()} or members
    return value


def _pairs(value: Any, secret: Callable[[str], bool]) -> Any:
    """The values of an environment or of headers, given as `{name: value}` or `[{name, value}]` or `["NAME=value"]`."""
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return {name: _hidden(item) if secret(name) else redact_value(item) for name, item in members.items()}
    if isinstance(value, list):
        return [_pair(item, secret) for item in cast(list[Any], value)]
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
