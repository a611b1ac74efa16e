"""A sheet of items on the screen: draws only the lines on the screen, follows its end, and changes at most some thirty times a second.

What changed is gathered and shown together. The more a frame costs, the rarer frames become: keys always come through in between.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeAlias

from rich.style import Style
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from accord.tui.host import palette_of
from accord.tui.palette import Palette
from accord.tui.transcript.item import Item
from accord.tui.transcript.painting import selected, selected_text
from accord.tui.transcript.sheet import Anchor, Sheet

if TYPE_CHECKING:
    from textual import events
    from textual.geometry import Region
    from textual.selection import Selection

    from accord.tui.parts.part import Part

FRAME: Final = 1 / 30
"""Seconds between two changes of the screen, at least."""
_SHARE: Final = 3
"""A frame that took so long is followed by a pause so many times as long."""

Older: TypeAlias = Callable[[], Sequence[Item]]
"""Gives some more items, which lie in front of all there are; none when that was all."""


class Paper(ScrollView):
    """Items from top to bottom."""

    DEFAULT_CSS = """
    Paper {
        height: 1fr;
        padding: 0;
        scrollbar-size-vertical: 1;
        scrollbar-color: $foreground 20%;
        scrollbar-color-hover: $foreground 40%;
        scrollbar-color-active: $foreground 50%;
        scrollbar-background: $background;
        scrollbar-background-hover: $background;
        scrollbar-background-active: $background;
        scrollbar-gutter: stable;
        background: $background;
        overflow-x: hidden;
    }
    """
    ALLOW_SELECT = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.following = True
        """Whether the end stays in view."""
        self.palette = palette_of(self)
        self.sheet = Sheet(self.palette)
        self._older: Older | None = None
        self._changed: dict[int, Item] = {}
        self._reshaped = False
        self._waiting = False
        self._cost = 0.0
        self.ground = Style()

    # -- what it shows ------------------------------------------------------------------------------------------

    @property
    def items(self) -> list[Item]:
        """From top to bottom. Those that are being fetched from the past are not among them yet."""
        return self.sheet.items

    def add(self, *items: Item) -> None:
        """Put items at the end."""
        self.items.extend(items)
        self._reshape()

    def show(self, items: Sequence[Item], older: Older | None = None) -> None:
        """These and no others; and, little by little, what `older` gives in front of them."""
        self.items[:] = items
        self._older = older
        self._changed.clear()
        self._reshape()
        if older is not None:
            self.set_timer(FRAME, self._fetch)

    def changed(self, item: Item) -> None:
        """The entry of this item has changed."""
        self._changed[id(item)] = item
        self._soon()

    def redrawn(self, part: "Part") -> None:
        """A part can be drawn better now."""
        part.forget()
        self._reshape()

    def fetch_all(self) -> None:
        """Have everything here that is older."""
        while self._older is not None:
            self._fetch_some(self._older)
        self.frame()

    @property
    def drawn_lines(self) -> int:
        """Lines in all, as far as one knows."""
        return self.sheet.layout.height

    def height_for(self, width: int) -> int:
        """The lines that everything takes at a width."""
        if width != self.sheet.layout.width:
            self.sheet.layout.change(width, self.palette)
        self.sheet.measure_all()
        return self.drawn_lines

    def lines(self) -> list[str]:
        """Everything, line by line, as it is drawn. Nothing moves on the screen by that."""
        self.fetch_all()
        anchor = self._anchor()
        self.sheet.measure_all()
        self._settle(anchor)
        return [self.text_at(line) for line in range(self.drawn_lines)]

    def text_at(self, line: int) -> str:
        """What stands on a line."""
        strip = self.sheet.layout.line(line)
        return "" if strip is None else strip.text.rstrip()

    # -- frames -------------------------------------------------------------------------------------------------

    def _reshape(self) -> None:
        self._reshaped = True
        self._soon()

    def _soon(self) -> None:
        if not self._waiting and self.is_attached:
            self._waiting = True
            self.set_timer(max(FRAME, self._cost * _SHARE), self.frame)

    def frame(self) -> None:
        """Show what has changed."""
        self._waiting = False
        if not self.is_attached:
            return
        began = perf_counter()
        refreshed = {key for key, item in self._changed.items() if item.refresh()}
        self._changed.clear()
        if self._reshaped or refreshed:
            self._reshaped = False
            anchor = self._anchor()
            self.sheet.arrange(refreshed)
            self._settle(anchor)
        self._cost = perf_counter() - began

    def reshape(self, item: Item) -> None:
        """Show at once that an item has other parts."""
        anchor = self._anchor()
        self.sheet.arrange({id(item)})
        self._settle(anchor)

    def _fetch(self) -> None:
        """Some more of the past, as long as there is any."""
        if self._older is not None and self.is_attached:
            self._fetch_some(self._older)
            self.frame()
            self.set_timer(max(FRAME, self._cost * _SHARE), self._fetch)

    def _fetch_some(self, older: Older) -> None:
        items = older()
        if items:
            self.items[:0] = items
            self._reshaped = True
        else:
            self._older = None

    def _anchor(self) -> Anchor | None:
        """What is at the top of the screen, unless the end is what stays."""
        return None if self.following else self.sheet.anchor(self.scroll_offset.y)

    def _settle(self, anchor: Anchor | None) -> None:
        """Measure what is on the screen and keep it in its place."""
        sheet, height = self.sheet, self.scrollable_content_region.height
        if self.following:
            sheet.measure_up(height)
            line = self.drawn_lines
        else:
            line = sheet.line_of(anchor) if anchor is not None else None
            line = self.scroll_offset.y if line is None else line
            sheet.measure_down(line, height)
        self._resize()
        self.go_to(line)
        self.refresh()

    def _resize(self) -> None:
        size = Size(self.sheet.layout.width, self.drawn_lines)
        if self.virtual_size == size:
            return
        if self.styles.auto_dimensions:
            self.virtual_size = size
        else:  # nothing else on the screen moves by that: laying it all out again would cost more than the frame
            self.set_reactive(Paper.virtual_size, size)  # pyright: ignore[reportArgumentType]
            self._scroll_update(size)

    def go_to(self, line: int) -> None:
        """Have a line at the top of the screen."""
        self.scroll_to(y=max(line, 0), animate=False, immediate=True, force=True)

    # -- drawing ------------------------------------------------------------------------------------------------

    def render_lines(self, crop: "Region") -> list[Strip]:
        self.ground = self.rich_style  # the same for all the lines, and not cheap to find out
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        line = self.scroll_offset.y + y
        width = self.size.width
        strip = self.sheet.layout.line(line)
        if strip is None:
            return Strip.blank(width, self.ground)
        strip = strip.crop_extend(0, width, self.ground).apply_style(self.ground)
        strip = self.paint_over(strip, line)
        selection = self.text_selection
        if selection is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            strip = selected(strip, selection.get_span(line), style)
        return strip.apply_offsets(0, line)

    def paint_over(self, strip: Strip, line: int) -> Strip:
        """For those who mark something on a line."""
        return strip

    def get_selection(self, selection: "Selection") -> tuple[str, str] | None:
        return selected_text(selection, self.drawn_lines, self.text_at), "\n"

    def selection_updated(self, selection: "Selection | None") -> None:
        self.refresh()

    def palette_now(self) -> Palette:
        """The palette of the theme in force."""
        self.palette = palette_of(self)
        return self.palette

    def restyle(self) -> None:
        """The theme has changed."""
        self._draw_anew(self.sheet.layout.width)

    def on_resize(self, event: "events.Resize") -> None:
        width = self.scrollable_content_region.width
        if width != self.sheet.layout.width:
            self._draw_anew(width)
        else:
            self._settle(self._anchor())

    def _draw_anew(self, width: int) -> None:
        anchor = self._anchor()
        self.sheet.layout.change(width, self.palette_now())
        self._settle(anchor)

    # -- scrolling ----------------------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self.is_attached or not self.sheet.layout.parts:
            return
        top = self.scroll_offset.y
        moved = self.sheet.measure_down(top, self.scrollable_content_region.height)
        if moved:
            self._resize()
        if moved and new_value < old_value:
            self.go_to(top + moved)  # what was on the screen before stays next to what is there now
        self.following = self.scroll_offset.y >= self.max_scroll_y

    def page(self, by: int) -> None:
        """Scroll by a page; two lines of what was seen stay."""
        height = max(self.scrollable_content_region.height - 2, 1)
        self.scroll_relative(y=by * height, animate=False, force=True)

    def go_to_top(self) -> None:
        """To the very beginning."""
        self.fetch_all()
        self.go_to(0)

    def go_to_end(self) -> None:
        """To the end, and stay with it."""
        self.following = True
        self._settle(None)
