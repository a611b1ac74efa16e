"""The settings: their names, what they can be, and what they are where nobody says. Light: read before the first paint."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Diffs: TypeAlias = Literal["auto", "below", "beside"]
Notify: TypeAlias = Literal["auto", "bell", "desktop", "off"]
When: TypeAlias = Literal["away", "always"]

FOLLOW: Final = "auto"
"""The theme that follows the terminal."""
DARK: Final = "dark"
LIGHT: Final = "light"


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them."""

    theme: str = FOLLOW
    diffs: Diffs = "auto"
    notify: Notify = "auto"
    notify_when: When = "away"
    mouse: bool = True
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other keys for actions, by the action's name."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One that is chosen among a few values, or switched."""

    key: str
    """In the file."""
    name: str
    """Of the field of `Settings`."""
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


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("theme", "theme", "Theme", "The colours", {}),
    Setting(
        "diffs",
        "diffs",
        "Changes of files",
        "How they are shown",
        {"auto": "side by side where there is room", "below": "one line after the other", "beside": "side by side"},
    ),
    Setting(
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
    Setting(
        "notifyWhen",
        "notify_when",
        "Notify when",
        "When you are told",
        {"away": "another tab or window has the focus", "always": "always"},
    ),
    Setting("mouse", "mouse", "Mouse", "Whether it is the client's; counts from the next start"),
)  # fmt: skip
"""In the order of the screen."""


def values_of(setting: Setting) -> Mapping[str, str]:
    """What a setting can be; empty for a switch."""
    return themes() if setting.key == "theme" else setting.values
