"""The colours of the conversation, taken from the theme of the app: what is drawn line by line cannot be styled by CSS."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rich.color import Color
from rich.style import Style

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
