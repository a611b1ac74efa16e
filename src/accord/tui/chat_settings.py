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
from accord.paths import config_dir

# MERGED tui.settings.table: The settings: their names, what they can be, and what they are where nobody says. Light: read before the first paint.

Diffs: TypeAlias = Literal["auto", "below", "beside"]
Notify: TypeAlias = Literal["auto", "bell", "desktop", "off"]
When: TypeAlias = Literal["away", "always"]

FOLLOW: Final = "auto"
"""The theme that follows the terminal."""
DARK: Final = "dark"
LIGHT: Final = "light"


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """All of them."""

    theme: str = FOLLOW
    diffs: Diffs = "auto"
    notify: Notify = "auto"
    notify_when: When = "away"
    mouse: bool = True
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other keys for actions, by the action's name."""


@dataclass(frozen=True, slots=True)
class ChatSetting:
    """One that is chosen among a few values, or switched."""

    key: str
    """In the file."""
    name: str
    """Of the field of `ChatSettings`."""
    title: str
    help: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """What it can be, and what that means; empty for a switch."""


def themes() -> dict[str, str]:
    """The themes there are."""
    from textual.theme import BUILTIN_THEMES

    own = {
        FOLLOW: "light or dark, as the terminal is",
        DARK: "light on dark",
        LIGHT: "dark on light",
    }
    others = {
        name: "dark" if theme.dark else "light"
        for name, theme in BUILTIN_THEMES.items()
        if not theme.ansi and name not in ("textual-dark", "textual-light")
    }
    return own | others


SETTINGS: Final[tuple[ChatSetting, ...]] = (
    ChatSetting("theme", "theme", "Theme", "The colours", {}),
    ChatSetting(
        "diffs",
        "diffs",
        "Changes of files",
        "How they are shown",
        {"auto": "side by side where there is room", "below": "one line after the other", "beside": "side by side"},
    ),
    ChatSetting(
        "notify",
        "notify",
        "Notifications",
        "How you are told that a turn is over or the agent asks",
        {
            "auto": "by the desktop where the terminal can do that, else by the bell",
            "bell": "by the bell of the terminal",
            "desktop": "by the desktop",
            "off": "not at all",
        },
    ),
    ChatSetting(
        "notifyWhen",
        "notify_when",
        "Notify when",
        "When you are told",
        {"away": "another tab or window has the focus", "always": "always"},
    ),
    ChatSetting("mouse", "mouse", "Mouse", "Whether it is the client's; counts from the next start"),
)  # fmt: skip
"""In the order of the screen."""


def values_of(setting: ChatSetting) -> Mapping[str, str]:
    """What a setting can be; empty for a switch."""
    return themes() if setting.key == "theme" else setting.values


# MERGED tui.settings.file: `chat.json` in the config folder: read, checked key by key, and changed one key at a time. A bad one is refused, never guessed at.

_LARGEST: Final = 256 * 1024
_KEYS: Final = "keys"


def settings_file() -> Path:
    """Where they stand."""
    return config_dir() / "chat.json"


def read_settings(actions: Iterable[str], path: Path | None = None) -> ChatSettings:
    """Those of the file; the usual ones where there is none. `actions` are those that keys can be given. Raises UsageError."""
    path = settings_file() if path is None else path
    found = ChatSettings()
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
    from accord.frontend.agent_config.jsonc import held, read_whole, write_whole  # the client is there by now

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
