"""All text is readable in every theme, also with 256 and with 16 colors."""

from typing import Any

import pytest
from rich.color import ColorSystem
from textual.theme import BUILTIN_THEMES

from accord.tui.chat_settings import AUTO_THEME, DARK, LIGHT, themes
from accord.tui.theme import MIN_CONTRAST, Palette, contrast, readable_variables

TEXTS = ("text", "strong", "muted", "faint", "accent", "good", "bad", "warn", "heading", "link")
BACKGROUNDS = ("code_block", "prompt", "added", "removed", "added_words", "removed_words", "inline_code")
NAMES = sorted((set(themes()) - {AUTO_THEME, DARK, LIGHT}) | {"textual-dark", "textual-light"})


@pytest.mark.parametrize("colors", [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD])
@pytest.mark.parametrize("name", NAMES)
def test_text_has_the_contrast_of_wcag_aa(name: str, colors: ColorSystem) -> None:
    theme = BUILTIN_THEMES[name]
    generated = theme.to_color_system().generate()
    variables = readable_variables(generated, dark=theme.dark, colors=colors)
    palette = Palette.from_theme(variables, dark=theme.dark, colors=colors)
    texts: dict[str, Any] = {style: getattr(palette, style).color for style in TEXTS}
    texts |= {f"code {kind}": style.color for kind, style in palette.code_tokens.items()}
    backgrounds = [getattr(palette, style).bgcolor.triplet.hex for style in BACKGROUNDS]
    backgrounds += [variables[variable][:7] for variable in ("background", "surface", "panel")]
    low = {
        (text, background): round(contrast(color.triplet.hex, background, colors), 1)
        for text, color in texts.items()
        for background in backgrounds
        if contrast(color.triplet.hex, background, colors) < MIN_CONTRAST
    }
    assert low == {}


@pytest.mark.parametrize("colors", [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD])
@pytest.mark.parametrize("name", NAMES)
def test_titles_and_hints_of_frames_are_readable(name: str, colors: ColorSystem) -> None:
    theme = BUILTIN_THEMES[name]
    variables = readable_variables(theme.to_color_system().generate(), dark=theme.dark, colors=colors)
    for text in ("foreground", "primary", "warning", "error", "success", "text-muted"):
        for background in ("background", "surface", "panel"):
            shown = contrast(variables[text][:7], variables[background][:7], colors)
            assert shown >= MIN_CONTRAST, (text, background)
