"""The line at the bottom of the screen with the keys of the moment.

Loaded before the first paint: keep the client out.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, TypeAlias

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from accord.tui.theme import palette_of

KeyHint: TypeAlias = tuple[str, str]
"""A key and what it does now. The most important ones are first."""
_GAP = "  "


class KeyFooter(Widget):
    """Shows as many keys as fit, the most important ones first."""

    DEFAULT_CSS: ClassVar[str] = "KeyFooter { height: 1; padding: 0 2; }"

    def __init__(self, hints: Callable[[], Sequence[KeyHint]]) -> None:
        super().__init__()
        self._hints = hints

    def render(self) -> Text:
        palette = palette_of(self)
        line = Text(no_wrap=True, overflow="crop")
        for key, meaning in fitting_hints(self._hints(), self.content_size.width):
            line.append(_GAP if line else "").append(key, palette.strong).append(f" {meaning}", palette.muted)
        return line


def fitting_hints(hints: Iterable[KeyHint], width: int) -> list[KeyHint]:
    """The first hints that fit into a line."""
    fitting: list[KeyHint] = []
    for key, meaning in hints:
        width -= cell_len(key) + 1 + cell_len(meaning) + (len(_GAP) if fitting else 0)
        if width < 0:
            break
        fitting.append((key, meaning))
    return fitting


def key_name(key: str) -> str:
    """A key in Textual's notation as people write it: `ctrl+pageup` as `Ctrl+PgUp`."""
    names = {"escape": "Esc", "pageup": "PgUp", "pagedown": "PgDn", "question_mark": "?"}
    first = key.split(",")[0]
    *modifiers, last = first.split("+")
    shown = names.get(last, last.upper() if len(last) == 1 and modifiers else last)
    if len(last) > 1 and last not in names:
        shown = last.capitalize()
    return "+".join([*(modifier.capitalize() for modifier in modifiers), shown])
