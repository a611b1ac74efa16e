"""The settings of `accord chat` and their file `chat.json`.

Loaded before the first paint: keep Textual and the client out.
"""

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from accord.errors import UsageError
from accord.file_format import FileFormat
from accord.paths import config_dir

Diffs: TypeAlias = Literal["auto", "below", "beside"]
Notify: TypeAlias = Literal["auto", "bell", "desktop", "off"]
NotifyWhen: TypeAlias = Literal["away", "always"]

AUTO_THEME: Final = "auto"
"""The theme that follows the terminal."""
DARK: Final = "dark"
LIGHT: Final = "light"
FORMAT: Final = FileFormat()
"""The format of `chat.json`."""


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The settings of the user."""

    theme: str = AUTO_THEME
    diffs: Diffs = "auto"
    notify: Notify = "auto"
    notify_when: NotifyWhen = "away"
    terminal_title: bool = True
    mouse: bool = True
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Keys for actions, by the name of the action."""


@dataclass(frozen=True, slots=True)
class ChatSetting:
    """Describes one setting for the settings screen and the file."""

    key: str
    """The key in the file."""
    name: str
    """The name of the field of `ChatSettings`."""
    title: str
    help: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values with their descriptions; empty for a boolean."""


def themes() -> dict[str, str]:
    """Return the available themes with their descriptions."""
    from textual.theme import BUILTIN_THEMES

    own_themes = {
        AUTO_THEME: "light or dark, like the terminal",
        DARK: "light on dark",
        LIGHT: "dark on light",
    }
    others = {
        name: "dark" if theme.dark else "light"
        for name, theme in BUILTIN_THEMES.items()
        if not theme.ansi and name not in ("textual-dark", "textual-light")
    }
    return own_themes | others


SETTINGS: Final[tuple[ChatSetting, ...]] = (
    ChatSetting("theme", "theme", "Theme", "Colors", {}),
    ChatSetting(
        "diffs",
        "diffs",
        "Diffs",
        "How diffs are shown",
        {"auto": "side by side if the screen is wide", "below": "unified", "beside": "side by side"},
    ),
    ChatSetting(
        "notify",
        "notify",
        "Notifications",
        "How to notify you when a turn ends or the agent asks",
        {
            "auto": "desktop notification if the terminal supports it, otherwise the bell",
            "bell": "terminal bell",
            "desktop": "desktop notification",
            "off": "no notifications",
        },
    ),
    ChatSetting(
        "notifyWhen",
        "notify_when",
        "Notify when",
        "When to notify you",
        {"away": "another tab or window has the focus", "always": "always"},
    ),
    ChatSetting(
        "terminalTitle",
        "terminal_title",
        "Terminal title",
        "Show the session and its state in the title of the terminal; applies from the next start",
    ),
    ChatSetting("mouse", "mouse", "Mouse", "Use the mouse; applies from the next start"),
)  # fmt: skip
"""In the order of the settings screen."""


def values_of(setting: ChatSetting) -> Mapping[str, str]:
    """Return the values of a setting with their descriptions; empty for a boolean."""
    return themes() if setting.key == "theme" else setting.values


_MAX_FILE_BYTES: Final = 256 * 1024
_KEYS: Final = "keys"


def settings_file() -> Path:
    """Return the path of `chat.json`."""
    return config_dir() / "chat.json"


def read_settings(actions: Iterable[str], path: Path | None = None) -> ChatSettings:
    """Read the file; return the defaults if there is none. `actions` are the valid action names.

    Raises UsageError for every unknown key and invalid value.
    """
    path = settings_file() if path is None else path
    settings = ChatSettings()
    for key, value in _read_file(path).items():
        setting = next((entry for entry in SETTINGS if entry.key == key), None)
        if key == _KEYS:
            settings = replace(settings, keys=_keys(path, value, list(actions)))
        elif setting is None:
            names = [*(entry.key for entry in SETTINGS), _KEYS]
            raise UsageError(f"{path}: unknown setting {key}{_suggestion(key, names)}")
        else:
            allowed = values_of(setting)
            if allowed and (not isinstance(value, str) or value not in allowed):
                raise UsageError(
                    f"{path}: {key}: invalid value {_short_json(value)}; use one of {', '.join(allowed)}"
                )
            if not allowed and not isinstance(value, bool):
                raise UsageError(f"{path}: {key}: invalid value {_short_json(value)}; use true or false")
            settings = replace(settings, **{setting.name: value})
    return settings


def write_setting(key: str, value: str | bool, path: Path | None = None) -> None:
    """Change one setting in the file. Raises UsageError."""
    from accord.frontend.agent_config.jsonc import edit_lock, read_bytes, replace_file

    path = settings_file() if path is None else path
    with edit_lock(path, private=True):
        before = read_bytes(path)
        members = {"version": FORMAT.version} | _parse(path, before or b"") | {key: value}
        FORMAT.back_up(path)
        replace_file(path, before, json.dumps(members, indent=2, ensure_ascii=False).encode() + b"\n")


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{path}: cannot read the file ({error.strerror})") from None
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(f"{path}: the file is larger than {_MAX_FILE_BYTES} bytes")
    return _parse(path, data)


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    try:
        members: Any = json.loads(data.decode("utf-8-sig")) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: invalid JSON: {error}") from None
    if not isinstance(members, dict):
        raise UsageError(f"{path}: expected an object: {{...}}")
    return FORMAT.upgrade(cast("dict[str, Any]", members), path)


def _keys(path: Path, value: Any, actions: list[str]) -> dict[str, str]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {_KEYS}: expected an object of actions and keys")
    keys = cast("dict[str, Any]", value)
    for action, key in keys.items():
        if action not in actions:
            raise UsageError(f"{path}: {_KEYS}: unknown action {action}{_suggestion(action, actions)}")
        if not isinstance(key, str) or not key.strip():
            raise UsageError(
                f"{path}: {_KEYS}.{action}: invalid key {_short_json(key)}; write it as f9 or ctrl+y"
            )
    return dict(keys)


def _suggestion(key: str, names: list[str]) -> str:
    matches = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
    return f"; did you mean {matches[0]}?" if matches else f"; use one of {', '.join(names)}"


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"
