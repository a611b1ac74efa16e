"""`chat.json` in the config folder: read, checked key by key, and changed one key at a time. A bad one is refused, never guessed at."""

import difflib
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from accord.errors import UsageError
from accord.paths import config_dir
from accord.tui.settings.table import SETTINGS, Settings, values_of

_LARGEST: Final = 256 * 1024
_KEYS: Final = "keys"


def settings_file() -> Path:
    """Where they stand."""
    return config_dir() / "chat.json"


def read_settings(actions: Iterable[str], path: Path | None = None) -> Settings:
    """Those of the file; the usual ones where there is none. `actions` are those that keys can be given. Raises UsageError."""
    path = settings_file() if path is None else path
    found = Settings()
    for key, value in _members(path).items():
        setting = next((one for one in SETTINGS if one.key == key), None)
        if key == _KEYS:
            found = replace(found, keys=_keys(path, value, list(actions)))
        elif setting is None:
            raise UsageError(
                f"{path}: {key}: there is no such setting{_near(key, [one.key for one in SETTINGS] + [_KEYS])}"
            )
        else:
            allowed = values_of(setting)
            if allowed and (not isinstance(value, str) or value not in allowed):
                raise UsageError(f"{path}: {key}: {_shown(value)} is none of {', '.join(allowed)}")
            if not allowed and not isinstance(value, bool):
                raise UsageError(f"{path}: {key}: {_shown(value)} is neither true nor false")
            found = replace(found, **{setting.name: value})
    return found


def write_setting(key: str, value: str | bool, path: Path | None = None) -> None:
    """Change one of them; the others stay as they are. Raises UsageError."""
    from accord.client.servers.saving import held, read_whole, write_whole  # the client is there by now

    path = settings_file() if path is None else path
    with held(path, private=True):
        before = read_whole(path)
        members = _parsed(path, before or b"") | {key: value}
        write_whole(path, before, json.dumps(members, indent=2, ensure_ascii=False).encode() + b"\n")


def _members(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read ({error.strerror})") from None
    if len(data) > _LARGEST:
        raise UsageError(f"{path}: it is longer than {_LARGEST} bytes")
    return _parsed(path, data)


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    try:
        members: Any = json.loads(data.decode("utf-8-sig")) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: it is no JSON: {error}") from None
    if not isinstance(members, dict):
        raise UsageError(f"{path}: it has to be an object: {{...}}")
    return cast("dict[str, Any]", members)


def _keys(path: Path, value: Any, actions: list[str]) -> dict[str, str]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {_KEYS}: it has to be an object of actions and their keys")
    keys = cast("dict[str, Any]", value)
    for action, key in keys.items():
        if action not in actions:
            raise UsageError(f"{path}: {_KEYS}.{action}: there is no such action{_near(action, actions)}")
        if not isinstance(key, str) or not key.strip():
            raise UsageError(f"{path}: {_KEYS}.{action}: {_shown(key)} is no key: write it as f9 or ctrl+y")
    return dict(keys)


def _near(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"
