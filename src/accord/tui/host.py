"""The app that a widget lives in, with a type that says so, and the colours of its theme."""

from typing import TYPE_CHECKING, Any

from accord.tui.palette import Palette

if TYPE_CHECKING:
    from textual.app import App
    from textual.widget import Widget


def app_of(widget: "Widget") -> "App[Any]":
    """The app of a widget."""
    return widget.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def palette_of(widget: "Widget") -> Palette:
    """The palette of the theme in force."""
    app = app_of(widget)
    return Palette.of(app.theme_variables, dark=app.current_theme.dark, diffs=getattr(app, "diffs", "auto"))
