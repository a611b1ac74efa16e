"""Values of a settings file, checked: texts, lists of texts, variables. Raises BadServers with file, key and reason."""

from typing import Any, cast

from accord.client.servers.environment import problem
from accord.client.servers.forms import BadServers


def read_text(value: Any, file: str, key: str, what: str | None) -> str:
    """A text; `what` says what it has to name, where it cannot be empty."""
    if not isinstance(value, str) or "\0" in value:
        raise BadServers(file, key, "it is missing" if value is None and what else "it must be a text")
    if what is not None and not value.strip():
        raise BadServers(file, key, f"it is empty; it must name {what}")
    return value


def read_texts(value: Any, file: str, key: str) -> tuple[str, ...]:
    """A list of texts."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadServers(file, key, "it must be a list of texts")
    items = cast("list[Any]", value)
    return tuple(read_text(item, file, f"{key}[{number}]", None) for number, item in enumerate(items))


def read_count(value: Any, file: str, key: str, least: int, most: int) -> int | None:
    """A whole number, or None where there is none."""
    if value is None:
        return None
    whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
    if not whole or not least <= value <= most:
        raise BadServers(file, key, f"it must be a whole number from {least} to {most}")
    return int(value)


def read_env(value: Any, file: str, key: str, *, removable: bool = False) -> dict[str, str | None]:
    """Variables as an object, or as a list of `{name, value}`; null takes one away where that makes sense."""
    env: dict[str, str | None] = {}
    for name, text in _pairs(value, file, key):
        if not name or "=" in name or not name.isprintable():
            raise BadServers(file, key, f"{name!r} cannot be the name of a variable")
        if not isinstance(text, str) and not (text is None and removable):
            raise BadServers(file, f"{key}.{name}", f"it must be a text{', or null' if removable else ''}")
        if text is not None and ((why := problem(text)) or "\0" in text):
            raise BadServers(file, f"{key}.{name}", why or "it has a zero character in it")
        env[name] = text
    return env


def _pairs(value: Any, file: str, key: str) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).items())
    if not isinstance(value, list):
        raise BadServers(file, key, "it must be an object of texts by name")
    pairs: list[tuple[str, Any]] = []
    for number, item in enumerate(cast("list[Any]", value)):
        pair = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        name = pair.get("name", pair.get("key"))
        if not isinstance(name, str) or set(pair) not in ({"name", "value"}, {"key", "value"}):
            raise BadServers(file, f"{key}[{number}]", "it must have `name` and `value`")
        pairs.append((name, pair["value"]))
    return pairs
