"""The colors of text that is drawn line by line, computed from the theme of the app.

Loaded before the first paint: keep the client out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from rich.color import Color, ColorSystem
from rich.style import Style
from textual.content import Content

from accord.safe_text import clean_line, one_line

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget


MIN_CONTRAST: Final = 4.5
"""The contrast that WCAG AA asks for of text."""
_STEPS: Final = 20
TRUE_COLOR: Final = ColorSystem.TRUECOLOR
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
    def from_theme(
        cls,
        variables: Mapping[str, str],
        *,
        dark: bool,
        diffs: str = "auto",
        colors: ColorSystem = TRUE_COLOR,
    ) -> "Palette":
        """Return the palette for the color variables of a theme, readable with this number of colors."""

        def color(name: str, fallback: str) -> str:
            return _hex_color(variables.get(name, ""), fallback)

        background = color("background", "#121212" if dark else "#f5f5f5")
        text = color("foreground", "#e0e0e0" if dark else "#1f1f1f")
        accent = color("primary", "#4aa8ff" if dark else "#0060c0")
        good, bad = color("success", "#4ebf71"), color("error", "#e06c75")
        warn = color("warning", "#e5c07b")
        prompt = color("secondary", accent)
        code_share, prompt_share = (0.0, 0.0) if colors is ColorSystem.STANDARD else (0.05, 0.13)
        code_color = _blend(text, background, code_share)
        prompt_color = _blend(prompt, background, prompt_share)
        surface, panel = color("surface", background), color("panel", background)
        # With 16 colors, a shade of a background is another color: only the signs tell lines apart.
        shares = (0.0, 0.0) if colors is ColorSystem.STANDARD else (_DIFF_LINE_SHARE, _DIFF_WORD_SHARE)
        changed = tuple(_blend(color, background, share) for share in shares for color in (good, bad))
        backgrounds = (background, surface, panel, code_color, prompt_color, *changed)

        def readable(value: str) -> str:
            return readable_color(value, backgrounds, dark=dark, colors=colors)

        text, accent, prompt, good, bad, warn = map(readable, (text, accent, prompt, good, bad, warn))
        muted, faint = readable(_blend(text, background, 0.62)), readable(_blend(text, background, 0.36))
        added, removed, added_words, removed_words = changed
        code_colors = _DARK_CODE_COLORS if dark else _LIGHT_CODE_COLORS
        code_tokens = {name: Style(color=readable(value)) for name, value in code_colors.items()}
        code_tokens |= {"comment": Style(color=muted, italic=True), "plain": Style(color=text)}
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
            inline_code=Style(color=code_tokens["string"].color, bgcolor=code_color),
            code_block=Style(bgcolor=code_color),
            prompt=Style(color=text, bgcolor=prompt_color),
            prompt_bar=Style(color=prompt, bgcolor=prompt_color),
            added=Style(bgcolor=added),
            removed=Style(bgcolor=removed),
            added_words=Style(bgcolor=added_words, bold=True),
            removed_words=Style(bgcolor=removed_words, bold=True),
            code_tokens=code_tokens,
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


def contrast(color: str, background: str, colors: ColorSystem = TRUE_COLOR) -> float:
    """The contrast of two #rrggbb colors by WCAG 2, as a terminal with so many colors shows them."""
    return _contrast(_luminance(color, colors), _luminance(background, colors))


def _contrast(first: float, second: float) -> float:
    return (max(first, second) + 0.05) / (min(first, second) + 0.05)


@lru_cache(maxsize=4096)
def _luminance(color: str, colors: ColorSystem) -> float:
    shown = Color.parse(color)
    if colors is not TRUE_COLOR:
        shown = shown.downgrade(colors)
    channels = [channel / 255 for channel in shown.get_truecolor()]
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@lru_cache(maxsize=4096)
def readable_color(
    color: str, backgrounds: tuple[str, ...], *, dark: bool, colors: ColorSystem = TRUE_COLOR
) -> str:
    """The color, or one as close to it as needed for text on all these backgrounds (WCAG AA)."""
    end = "#ffffff" if dark else "#000000"
    behind = {_luminance(background, colors) for background in backgrounds}
    for step in range(_STEPS + 1):
        candidate = _blend(end, color, step / _STEPS)
        luminance = _luminance(candidate, colors)
        if all(_contrast(luminance, other) >= MIN_CONTRAST for other in behind):
            return candidate
    return end


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


_COLOR_SYSTEMS: Final = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT}
_TEXT_VARIABLES: Final = ("primary", "warning", "error", "success")
_palettes: dict[tuple[str, str, ColorSystem], Palette] = {}


def palette_of(widget: "Widget") -> Palette:
    """Return the palette of the current theme."""
    app = app_of(widget)
    diffs: str = getattr(app, "diffs", "auto")
    colors = colors_of(app)
    key = (app.theme, diffs, colors)
    palette = _palettes.get(key)
    if palette is None:
        dark = app.current_theme.dark
        palette = Palette.from_theme(app.theme_variables, dark=dark, diffs=diffs, colors=colors)
        _palettes[key] = palette
    return palette


def colors_of(app: "App[Any]") -> ColorSystem:
    """How many colors the terminal has."""
    if app.is_headless:
        return TRUE_COLOR  # there is no terminal
    return _COLOR_SYSTEMS.get(app.console.color_system or "", TRUE_COLOR)


def readable_variables(
    variables: dict[str, str], *, dark: bool, colors: ColorSystem = TRUE_COLOR
) -> dict[str, str]:
    """The color variables of a theme, with readable colors for the text that CSS styles."""
    names = ("background", "surface", "panel")
    if colors is ColorSystem.STANDARD:  # the gray of 16 colors is too close to all others
        variables = variables | dict.fromkeys(names, "#000000" if dark else "#ffffff")
    hexes = (_hex_color(variables.get(name, ""), "") for name in names)
    backgrounds = tuple(filter(None, hexes)) or ("#000000" if dark else "#ffffff",)
    text = _hex_color(variables.get("foreground", ""), "#ffffff" if dark else "#000000")
    found = {name: _hex_color(variables.get(name, ""), "") for name in _TEXT_VARIABLES}
    found |= {"foreground": text, "text-muted": _blend(text, backgrounds[0], 0.62)}
    return variables | {
        name: readable_color(color, backgrounds, dark=dark, colors=colors)
        for name, color in found.items()
        if color
    }
