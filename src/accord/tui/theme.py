"""Theme colors for parts that are drawn line by line; the typed app of a widget; small values as labels."""

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


# MERGED tui.palette: The colours of the conversation, taken from the theme of the app: what is drawn line by line cannot be styled by CSS.

_MIX: Final = 0.16
"""How much of a colour is in a background that only hints at it."""


@dataclass(frozen=True, slots=True)
class Palette:
    """Every style that parts of the conversation use."""

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
    """Code within a line."""
    block: Style
    """The ground of a block of code."""
    user: Style
    """The ground of what the user said."""
    bar: Style
    """The bar beside it."""
    added: Style
    removed: Style
    added_word: Style
    removed_word: Style
    tokens: Mapping[str, Style]
    """Code by what it is: keyword, name, string, number, comment, operator, type."""
    diffs: str = "auto"
    """How changes of files are shown: `beside` each other, `below`, or as there is room."""

    @classmethod
    def of(cls, variables: Mapping[str, str], *, dark: bool, diffs: str = "auto") -> "Palette":
        """The palette of a theme, given the variables it computes."""

        def colour(name: str, otherwise: str) -> str:
            return _plain(variables.get(name, ""), otherwise)

        ground = colour("background", "#121212" if dark else "#f5f5f5")
        text = colour("foreground", "#e0e0e0" if dark else "#1f1f1f")
        accent = colour("primary", "#4aa8ff" if dark else "#0060c0")
        good, bad, warn = (
            colour("success", "#4ebf71"),
            colour("error", "#e06c75"),
            colour("warning", "#e5c07b"),
        )
        user = colour("secondary", accent)
        muted, faint = _mix(text, ground, 0.62), _mix(text, ground, 0.36)
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
            code=Style(color=code["string"].color, bgcolor=_mix(text, ground, 0.09)),
            block=Style(bgcolor=_mix(text, ground, 0.05)),
            user=Style(color=text, bgcolor=_mix(user, ground, 0.13)),
            bar=Style(color=user, bgcolor=_mix(user, ground, 0.13)),
            added=Style(bgcolor=_mix(good, ground, _MIX)),
            removed=Style(bgcolor=_mix(bad, ground, _MIX)),
            added_word=Style(bgcolor=_mix(good, ground, 0.38)),
            removed_word=Style(bgcolor=_mix(bad, ground, 0.38)),
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


def _plain(value: str, otherwise: str) -> str:
    """A colour as #rrggbb; a theme may also say `auto`, or leave the ground to the terminal."""
    try:
        triplet = Color.parse(value.split()[0][:7]).triplet if value.startswith("#") else None
    except Exception:  # noqa: BLE001 - whatever a theme of the user's holds, there is a colour to fall back on
        triplet = None
    return otherwise if triplet is None else triplet.hex


def _mix(colour: str, ground: str, share: float) -> str:
    mixed = [
        round(int(colour[at : at + 2], 16) * share + int(ground[at : at + 2], 16) * (1 - share))
        for at in (1, 3, 5)
    ]
    return "#{:02x}{:02x}{:02x}".format(*mixed)


# MERGED tui.host: The app that a widget lives in, with a type that says so, and the colours of its theme.


def app_of(widget: "Widget") -> "App[Any]":
    """The app of a widget."""
    return widget.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def palette_of(widget: "Widget") -> Palette:
    """The palette of the theme in force."""
    app = app_of(widget)
    return Palette.of(app.theme_variables, dark=app.current_theme.dark, diffs=getattr(app, "diffs", "auto"))


# MERGED tui.words: Small things in words, for the screen: counts, tokens, values, errors.

_LONGEST: Final = 20_000


def count(number: int, one: str, many: str = "") -> str:
    """`1 line`, `2 lines`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def tokens(number: int) -> str:
    """`950`, `12.3k`, `1.2M`."""
    if number < 1_000:
        return str(number)
    return (
        f"{number / 1_000:.1f}k".replace(".0k", "k") if number < 1_000_000 else f"{number / 1_000_000:.1f}M"
    )


def shown(value: Any) -> str:
    """Any JSON value, readable."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… {len(text) - _LONGEST} characters more"


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return str(error).partition("\n")[0] or type(error).__name__


def at_home(path: str) -> str:
    """A path, that of the user's own folder written short."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and (path == home or path.startswith(home + "/")) else path


def end_of(path: str, longest: int) -> str:
    """A path, of a long one the end."""
    return path if len(path) <= longest else f"…{path[1 - longest :]}" if longest > 1 else ""
