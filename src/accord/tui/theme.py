"""Colors for text that is drawn line by line, and small formatting helpers.

Loaded before the first paint: keep the client out.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.color import Color
from rich.style import Style

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget


_TINT: Final = 0.16
"""The share of a color in a tinted background."""


@dataclass(frozen=True, slots=True)
class Palette:
    """Styles for lines that are drawn directly, which CSS cannot reach."""

    text: Style
    strong: Style
    muted: Style
    faint: Style
    accent: Style
    good: Style
    bad: Style
    warn: Style
    heading: Style
    link: Style
    code: Style
    """Inline code."""
    block: Style
    """The background of a code block."""
    user: Style
    """The background of prompts and selected rows."""
    bar: Style
    """The bar beside a prompt."""
    added: Style
    removed: Style
    added_word: Style
    removed_word: Style
    tokens: Mapping[str, Style]
    """Styles of code: keyword, name, string, number, comment, operator, type."""
    diffs: str = "auto"
    """How diffs are shown: `beside`, `below`, or `auto` by width."""

    @classmethod
    def of(cls, variables: Mapping[str, str], *, dark: bool, diffs: str = "auto") -> "Palette":
        """Return the palette for the variables of a theme."""

        def color(name: str, fallback: str) -> str:
            return _hex_color(variables.get(name, ""), fallback)

        background = color("background", "#121212" if dark else "#f5f5f5")
        text = color("foreground", "#e0e0e0" if dark else "#1f1f1f")
        accent = color("primary", "#4aa8ff" if dark else "#0060c0")
        good, bad, warn = (
            color("success", "#4ebf71"),
            color("error", "#e06c75"),
            color("warning", "#e5c07b"),
        )
        user = color("secondary", accent)
        muted, faint = _mix(text, background, 0.62), _mix(text, background, 0.36)
        code = {name: Style(color=value) for name, value in (_DARK if dark else _LIGHT).items()}
        return cls(
            text=Style(color=text),
            strong=Style(color=text, bold=True),
            muted=Style(color=muted),
            faint=Style(color=faint),
            accent=Style(color=accent),
            good=Style(color=good),
            bad=Style(color=bad),
            warn=Style(color=warn),
            heading=Style(color=accent, bold=True),
            link=Style(color=accent, underline=True),
            code=Style(color=code["string"].color, bgcolor=_mix(text, background, 0.09)),
            block=Style(bgcolor=_mix(text, background, 0.05)),
            user=Style(color=text, bgcolor=_mix(user, background, 0.13)),
            bar=Style(color=user, bgcolor=_mix(user, background, 0.13)),
            added=Style(bgcolor=_mix(good, background, _TINT)),
            removed=Style(bgcolor=_mix(bad, background, _TINT)),
            added_word=Style(bgcolor=_mix(good, background, 0.38)),
            removed_word=Style(bgcolor=_mix(bad, background, 0.38)),
            tokens={**code, "comment": Style(color=muted, italic=True), "plain": Style(color=text)},
            diffs=diffs,
        )


_DARK: Final = {
    "keyword": "#c792ea",
    "name": "#82aaff",
    "string": "#a5d6a7",
    "number": "#f7b267",
    "operator": "#89ddff",
    "type": "#ffcb6b",
}
_LIGHT: Final = {
    "keyword": "#8f2fb0",
    "name": "#1d4fc4",
    "string": "#22722b",
    "number": "#a64b00",
    "operator": "#0b6b7d",
    "type": "#8a5a00",
}


def _hex_color(value: str, fallback: str) -> str:
    """Return a color as #rrggbb. Themes may also contain `auto` or terminal colors."""
    try:
        triplet = Color.parse(value.split()[0][:7]).triplet if value.startswith("#") else None
    except Exception:  # noqa: BLE001 - a theme of the user may contain any text
        triplet = None
    return fallback if triplet is None else triplet.hex


def _mix(color: str, background: str, share: float) -> str:
    mixed = [
        round(int(color[at : at + 2], 16) * share + int(background[at : at + 2], 16) * (1 - share))
        for at in (1, 3, 5)
    ]
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def app_of(widget: "Widget") -> "App[Any]":
    """Return the app of a widget, with a type that pyright knows."""
    return widget.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def palette_of(widget: "Widget") -> Palette:
    """Return the palette of the current theme."""
    app = app_of(widget)
    return Palette.of(app.theme_variables, dark=app.current_theme.dark, diffs=getattr(app, "diffs", "auto"))


_MAX_VALUE: Final = 20_000


def count(number: int, one: str, many: str = "") -> str:
    """Format a count: `1 line`, `2 lines`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def tokens(number: int) -> str:
    """Format a number of tokens: `950`, `12.3k`, `1.2M`."""
    if number < 1_000:
        return str(number)
    return (
        f"{number / 1_000:.1f}k".replace(".0k", "k") if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
    )


def format_value(value: Any) -> str:
    """Format any JSON value for reading."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return (
        text
        if len(text) <= _MAX_VALUE
        else f"{text[:_MAX_VALUE]}\n… {len(text) - _MAX_VALUE} more characters"
    )


def first_line(error: Exception) -> str:
    """Return the first line of an error."""
    return str(error).partition("\n")[0] or type(error).__name__


def shorten_home(path: str) -> str:
    """Replace the home folder by `~`."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and (path == home or path.startswith(home + "/")) else path


def path_end(path: str, length: int) -> str:
    """Return the end of a long path."""
    return path if len(path) <= length else f"…{path[1 - length :]}" if length > 1 else ""
