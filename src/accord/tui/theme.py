"""The colors of text that is drawn line by line, computed from the theme of the app.

Loaded before the first paint: keep the client out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.color import Color
from rich.style import Style
from textual.content import Content

from accord.safe_text import clean_line, one_line

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget


_DIFF_LINE_SHARE: Final = 0.16
"""The share of green or red in the background of a changed line."""
_DIFF_WORD_SHARE: Final = 0.34
"""The same for the words that differ."""


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
    inline_code: Style
    code_block: Style
    """The background of a code block."""
    prompt: Style
    """The background of prompts and selected rows."""
    prompt_bar: Style
    """The bar beside a prompt."""
    added: Style
    removed: Style
    added_words: Style
    removed_words: Style
    code_tokens: Mapping[str, Style]
    """The styles of highlighted code by kind of token: keyword, name, string, number, comment, ..."""
    diffs: str = "auto"
    """How diffs are shown: `beside`, `below`, or `auto` by width."""

    def changed(self, sign: str) -> Style:
        """The style of the words that differ in an added (`+`) or removed line."""
        return self.added_words if sign == "+" else self.removed_words

    @classmethod
    def from_theme(cls, variables: Mapping[str, str], *, dark: bool, diffs: str = "auto") -> "Palette":
        """Return the palette for the color variables of a theme."""

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
        prompt = color("secondary", accent)
        muted, faint = _blend(text, background, 0.62), _blend(text, background, 0.36)
        code_tokens = {
            name: Style(color=value)
            for name, value in (_DARK_CODE_COLORS if dark else _LIGHT_CODE_COLORS).items()
        }
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
            inline_code=Style(color=code_tokens["string"].color, bgcolor=_blend(text, background, 0.09)),
            code_block=Style(bgcolor=_blend(text, background, 0.05)),
            prompt=Style(color=text, bgcolor=_blend(prompt, background, 0.13)),
            prompt_bar=Style(color=prompt, bgcolor=_blend(prompt, background, 0.13)),
            added=Style(bgcolor=_blend(good, background, _DIFF_LINE_SHARE)),
            removed=Style(bgcolor=_blend(bad, background, _DIFF_LINE_SHARE)),
            added_words=Style(bgcolor=_blend(good, background, _DIFF_WORD_SHARE), bold=True),
            removed_words=Style(bgcolor=_blend(bad, background, _DIFF_WORD_SHARE), bold=True),
            code_tokens={
                **code_tokens,
                "comment": Style(color=muted, italic=True),
                "plain": Style(color=text),
            },
            diffs=diffs,
        )


_DARK_CODE_COLORS: Final = {
    "keyword": "#c792ea",
    "name": "#82aaff",
    "string": "#a5d6a7",
    "number": "#f7b267",
    "operator": "#89ddff",
    "type": "#ffcb6b",
}
_LIGHT_CODE_COLORS: Final = {
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


def _blend(color: str, background: str, share: float) -> str:
    """Mix two #rrggbb colors; `share` is that of the first."""
    channels = [
        round(int(color[at : at + 2], 16) * share + int(background[at : at + 2], 16) * (1 - share))
        for at in (1, 3, 5)
    ]
    return "#{:02x}{:02x}{:02x}".format(*channels)


def label(text: str) -> Content:
    """Return text for a border or a choice: cleaned, on one line, and never parsed as markup."""
    return Content(one_line(clean_line(text)))


def set_border(widget: "Widget", *, title: str | None = None, subtitle: str | None = None) -> None:
    """Set the texts in the border of a widget. They are never parsed as markup."""
    if title is not None:
        widget.border_title = label(title)
    if subtitle is not None:
        widget.border_subtitle = label(subtitle)


def app_of(widget: "Widget") -> "App[Any]":
    """Return the app of a widget, with a type that pyright knows."""
    return widget.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def palette_of(widget: "Widget") -> Palette:
    """Return the palette of the current theme."""
    app = app_of(widget)
    return Palette.from_theme(
        app.theme_variables, dark=app.current_theme.dark, diffs=getattr(app, "diffs", "auto")
    )
