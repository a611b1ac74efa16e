"""Read single values of agent configurations. Errors name the file, the key and the reason."""

from typing import Any, cast

from accord.errors import UsageError
from accord.frontend.agent_config.agent_environment import reference_problem
from accord.frontend.agent_config.jsonc import BadJson, parse
from accord.safe_text import visible


class BadAgentConfig(UsageError):
    """An invalid agent configuration; the message names the file, the key and the reason."""

    def __init__(self, file: str, key: str, reason: str) -> None:
        super().__init__(visible(": ".join(part for part in (file, key, reason) if part)))


def read_json(content: bytes, file: str) -> Any:
    """Parse the content of a JSON file. Raises BadAgentConfig."""
    try:
        return parse(content.decode("utf-8-sig")).value
    except UnicodeDecodeError:
        raise BadAgentConfig(file, "", "it is not UTF-8 text") from None
    except BadJson as error:
        raise BadAgentConfig(file, "", f"it is not JSON: {error}") from None


def read_text(value: Any, file: str, key: str, what: str | None) -> str:
    """Read a string. If `what` is set, it must not be empty."""
    if not isinstance(value, str) or "\0" in value:
        raise BadAgentConfig(file, key, "it is missing" if value is None and what else "it must be a string")
    if what is not None and not value.strip():
        raise BadAgentConfig(file, key, f"it is empty; it must name {what}")
    return value


def read_texts(value: Any, file: str, key: str) -> tuple[str, ...]:
    """Read a list of strings."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadAgentConfig(file, key, "it must be a list of strings")
    items = cast("list[Any]", value)
    return tuple(read_text(item, file, f"{key}[{number}]", None) for number, item in enumerate(items))


def read_count(value: Any, file: str, key: str, minimum: int, maximum: int) -> int | None:
    """Read a whole number; None if it is missing."""
    if value is None:
        return None
    is_whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1
    if not is_whole or not minimum <= value <= maximum:
        raise BadAgentConfig(file, key, f"it must be a whole number from {minimum} to {maximum}")
    return int(value)


def read_env(value: Any, file: str, key: str, *, removable: bool = False) -> dict[str, str | None]:
    """Read variables: an object, or a list of `{name, value}`. With `removable`, null removes a variable."""
    env: dict[str, str | None] = {}
    for name, text in _name_value_pairs(value, file, key):
        if not name or "=" in name or not name.isprintable():
            raise BadAgentConfig(file, key, f"{name!r} cannot be the name of a variable")
        if not isinstance(text, str) and not (text is None and removable):
            raise BadAgentConfig(
                file, f"{key}.{name}", f"it must be a string{' or null' if removable else ''}"
            )
        if text is not None and ((reason := reference_problem(text)) or "\0" in text):
            raise BadAgentConfig(file, f"{key}.{name}", reason or "it contains a null character")
        env[name] = text
    return env


def _name_value_pairs(value: Any, file: str, key: str) -> list[tuple[str, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).items())
    if not isinstance(value, list):
        raise BadAgentConfig(file, key, "it must be an object with string values")
    pairs: list[tuple[str, Any]] = []
    for number, item in enumerate(cast("list[Any]", value)):
        members = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        name = members.get("name", members.get("key"))
        if not isinstance(name, str) or set(members) not in ({"name", "value"}, {"key", "value"}):
            raise BadAgentConfig(file, f"{key}[{number}]", "it must have `name` and `value`")
        pairs.append((name, members["value"]))
    return pairs
