"""The tabs of several sessions, on one line: what each is about, and a mark where one wants the user."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from rich.cells import cell_len
from rich.text import Text
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.message import Message
from textual.widget import Widget

from accord.cleaning import clean_line, one_line
from accord.tui.attention import Mark
from accord.tui.host import palette_of

if TYPE_CHECKING:
    from textual import events

SIGNS: Final[dict[Mark, str]] = {"": "", "busy": " …", "asks": " ?", "done": " ●", "dead": " ✗"}
_NARROWEST: Final = 12
_WIDEST: Final = 32


def know_alt_digits() -> None:
    """Textual takes Alt and a digit for a sign of some keyboards; here it is the number of a tab."""
    known = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    for number in range(1, 10):
        known.pop(f"\x1b{number}", None)


@dataclass(frozen=True, slots=True)
class Tab:
    """One of them."""

    id: str
    name: str
    mark: Mark = ""
    current: bool = False


class TabBar(Widget):
    """All of them; nothing while there is only one."""

    DEFAULT_CSS = """
    TabBar { height: 1; display: none; background: $panel; }
    TabBar.some { display: block; }
    """

    class Chosen(Message):
        """One was clicked."""

        def __init__(self, id: str, *, close: bool = False) -> None:
            super().__init__()
            self.id = id
            self.close = close

    class Wanted(Message):
        """Another session is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.tabs: list[Tab] = []
        self._places: list[tuple[int, int, str, bool]] = []  # from, to, the id, whether it closes

    def show(self, tabs: Sequence[Tab]) -> None:
        """These are the tabs now."""
        if list(tabs) != self.tabs:
            self.tabs = list(tabs)
            self.set_class(len(tabs) > 1, "some")
            self.refresh()

    def render(self) -> Text:
        palette = palette_of(self)
        width = self.size.width
        room = max(min((width - 3) // max(len(self.tabs), 1), _WIDEST), _NARROWEST)
        first = self._first(max((width - 3) // room, 1))
        styles = {"asks": palette.warn, "done": palette.good, "dead": palette.bad}
        out = Text(no_wrap=True, overflow="crop")
        self._places = []
        for number, tab in enumerate(self.tabs):
            if number < first or cell_len(out.plain) + room > width - 3:
                continue
            start = cell_len(out.plain)
            sign = SIGNS[tab.mark]
            name = Text(
                f" {number + 1} {one_line(clean_line(tab.name))}",
                palette.strong if tab.current else palette.muted,
            )
            name.truncate(room - cell_len(sign) - 3, overflow="ellipsis", pad=True)
            name.append(sign, styles.get(tab.mark, palette.faint))
            if tab.current:
                name.append(" ×", palette.muted).append(" ")
                name.stylize_before(palette.user)
            else:
                name.append("   ")
            out.append_text(name)
            end = cell_len(out.plain)
            self._places.append((start, end - 3, tab.id, False))
            self._places.append((end - 3, end, tab.id, tab.current))
        hidden = len(self.tabs) - len(self._places) // 2
        self._places.append((cell_len(out.plain), width, "", False))
        return out.append(f" +{hidden}" if hidden else " +", palette.accent)

    def _first(self, shown: int) -> int:
        """The first that is shown, so that the current one is."""
        at = next((number for number, tab in enumerate(self.tabs) if tab.current), 0)
        return max(min(at - shown // 2, len(self.tabs) - shown), 0)

    def on_click(self, event: "events.Click") -> None:
        for start, end, id, close in self._places:
            if start <= event.x < end:
                self.post_message(self.Chosen(id, close=close) if id else self.Wanted())
                return
