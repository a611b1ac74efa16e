"""The view of the conversation: draws only the lines on the screen, follows its end, and changes at most some thirty times a second.

What changed is gathered and shown together. The more a frame costs, the rarer frames become: keys always come through in between.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from accord.tui.host import palette_of
from accord.tui.palette import Palette
from accord.tui.transcript.layout import Layout

if TYPE_CHECKING:
    from textual import events
    from textual.selection import Selection

    from accord.tui.parts.part import Part
    from accord.tui.transcript.item import Item

FRAME: Final = 1 / 30
"""Seconds between two changes of the screen, at least."""
_SHARE: Final = 3
"""A frame that took so long is followed by a pause so many times as long."""
_MEASURING: Final = 0.006
"""Seconds at a time for measuring what is not on the screen."""
_MOST_COPIED: Final = 20_000


class Transcript(ScrollView, can_focus=True):
    """Items from top to bottom."""

    DEFAULT_CSS = """
    Transcript {
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
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "top", "Beginning", show=False),
        Binding("end", "bottom", "End", show=False),
        Binding("k,ctrl+up", "step(-1)", "Previous", show=False),
        Binding("j,ctrl+down", "step(1)", "Next", show=False),
        Binding("enter,space", "more", "Show more or less", show=False),
        Binding("c", "copy_item", "Copy", show=False),
    ]

    class Copied(Message):
        """Somebody wants this text on the clipboard."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items: list[Item] = []
        self.marked: Item | None = None
        """The item that keys act upon."""
        self.following = True
        """Whether the end stays in view."""
        self._owners: list[Item] = []  # of each part
        self._lines = Layout(self.palette_now())
        self._changed: dict[int, Item] = {}
        self._reshaped = False
        self._waiting = False
        self._cost = 0.0

    # -- what it shows ------------------------------------------------------------------------------------------

    def add(self, *items: "Item") -> None:
        """Put items at the end."""
        self.items.extend(items)
        self._reshaped = True
        self._soon()

    def insert(self, before: int, item: "Item") -> None:
        """Put an item in front of another."""
        self.items.insert(before, item)
        self._reshaped = True
        self._soon()

    def take_out(self, item: "Item") -> None:
        """Take an item out."""
        if item in self.items:
            self.items.remove(item)
            self._reshaped = True
            self._soon()

    def show(self, items: "Sequence[Item]") -> None:
        """These and no others."""
        self.items = list(items)
        self.marked = None
        self._changed.clear()
        self._reshaped = True
        self._soon()

    def changed(self, item: "Item") -> None:
        """The entry of this item has changed."""
        self._changed[id(item)] = item
        self._soon()

    def redrawn(self, part: "Part") -> None:
        """A part can be drawn better now."""
        part.forget()
        self._reshaped = True
        self._soon()

    @property
    def drawn_lines(self) -> int:
        """Lines in all."""
        return self._lines.height

    def height_for(self, width: int) -> int:
        """The lines that everything takes at a width."""
        if width != self._lines.width:
            self._lines.change(width, self._palette)
        for index in range(len(self._lines.parts)):
            self._lines.measure(index)
        return self._lines.height

    def lines(self) -> list[str]:
        """Everything, line by line, as it is drawn. Nothing moves on the screen by that."""
        anchor = None if self.following else self._anchor()
        for index in range(len(self._lines.parts)):
            self._lines.measure(index)
        self._settle(anchor)
        return [self.text_at(line) for line in range(self._lines.height)]

    def text_at(self, line: int) -> str:
        """What stands on a line."""
        strip = self._lines.line(line)
        return "" if strip is None else strip.text.rstrip()

    # -- frames -------------------------------------------------------------------------------------------------

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
        changed, self._changed = self._changed, {}
        for item in changed.values():
            if item.refresh():
                self._reshaped = True
        if self._reshaped:
            self._reshaped = False
            self._arrange()
        self._cost = perf_counter() - began

    def _arrange(self) -> None:
        layout = self._lines
        anchor = None if self.following else self._anchor()
        parts: list[Part] = []
        owners: list[Item] = []
        for item in self.items:
            parts += item.parts
            owners += [item] * len(item.parts)
        self._owners = owners
        layout.show(parts)
        self._settle(anchor)
        if layout.unmeasured() is not None:
            self.set_timer(FRAME, self._measure_some)

    def _anchor(self) -> "tuple[Part, int] | None":
        """The part at the top of the screen, and how far it is scrolled out of it."""
        layout = self._lines
        if not layout.parts:
            return None
        top = self.scroll_offset.y
        index = layout.at(top)
        return layout.parts[index], top - layout.top(index)

    def _settle(self, anchor: "tuple[Part, int] | None" = None) -> None:
        """Measure what is on the screen and keep it in its place."""
        layout = self._lines
        height = self.scrollable_content_region.height
        if self.following or anchor is None:
            self._measure_up(len(layout.parts) - 1, height)
            self._resize()
            if self.following:
                self.scroll_to(y=layout.height, animate=False, immediate=True, force=True)
        else:
            part, within = anchor
            index = next((at for at, other in enumerate(layout.parts) if other is part), None)
            self._resize()
            if index is not None:
                self.scroll_to(y=layout.top(index) + within, animate=False, immediate=True, force=True)
        self.refresh()

    def _measure_up(self, index: int, height: int) -> None:
        """Measure parts from this one upwards until the screen is full."""
        layout = self._lines
        filled = 0
        while index >= 0 and filled < height:
            layout.measure(index)
            part = layout.parts[index]
            filled += (part.height or 0) + part.gap
            index -= 1

    def _resize(self) -> None:
        size = Size(self._lines.width, self._lines.height)
        if self.virtual_size != size:
            self.virtual_size = size

    def _measure_some(self) -> None:
        """Measure what is still guessed, a little at a time, without anything moving on the screen."""
        layout = self._lines
        if not self.is_attached or self._waiting:
            return
        until = perf_counter() + _MEASURING
        anchor = self._anchor()
        moved = False
        while (index := layout.unmeasured()) is not None and perf_counter() < until:
            moved = layout.measure(index) != 0 or moved
        if moved:
            self._settle(anchor)
        if index is not None:
            self.set_timer(FRAME * 2, self._measure_some)

    # -- drawing ------------------------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        layout = self._lines
        line = self.scroll_offset.y + y
        width = self.size.width
        strip = layout.line(line)
        base = self.rich_style
        if strip is None:
            return Strip.blank(width, base)
        strip = strip.crop_extend(0, width, base).apply_style(base)
        if self.marked is not None and self.has_focus and self._owner(line) is self.marked:
            strip = self._with_mark(strip)
        return self._selected(strip, line).apply_offsets(0, line)

    def _with_mark(self, strip: Strip) -> Strip:
        mark = Style.combine([self.rich_style, self._palette.accent])
        rest = strip.crop(1)
        return Strip.join([Strip([Segment("▎", mark)], 1), rest])

    def _selected(self, strip: Strip, line: int) -> Strip:
        selection = self.text_selection
        span = None if selection is None else selection.get_span(line)
        if span is None:
            return strip
        start, end = span
        end = strip.cell_length if end == -1 else end
        style = self.screen.get_component_rich_style("screen--selection")
        before, chosen, after = strip.crop(0, start), strip.crop(start, end), strip.crop(end)
        return Strip.join([before, chosen.apply_style(style), after])

    def get_selection(self, selection: "Selection") -> tuple[str, str] | None:
        first = 0 if selection.start is None else selection.start.y
        last = self.drawn_lines - 1 if selection.end is None else selection.end.y
        lines: list[str] = []
        for line in range(first, min(last, first + _MOST_COPIED) + 1):
            text = self.text_at(line)
            span = selection.get_span(line)
            if span is not None:
                start, end = span
                lines.append(text[start:] if end == -1 else text[start:end])
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: "Selection | None") -> None:
        self.refresh()

    # -- scrolling ----------------------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self.is_attached or not self._lines.parts:
            return
        if new_value < old_value:
            self._measure_here()
        self.following = self.scroll_offset.y >= self.max_scroll_y

    def _measure_here(self) -> None:
        """Somebody scrolled up to what was only guessed: what they saw stays where it is."""
        layout = self._lines
        top = self.scroll_offset.y
        first, last = layout.at(top), layout.at(top + self.scrollable_content_region.height)
        shift = sum(layout.measure(index) for index in range(last, first - 1, -1))
        if shift:
            self._resize()
            self.scroll_to(y=max(top + shift, 0), animate=False, immediate=True, force=True)

    def on_resize(self, event: "events.Resize") -> None:
        width = self.scrollable_content_region.width
        layout = self._lines
        anchor = None if self.following else self._anchor()
        if width != layout.width:
            layout.change(width, self._palette)
        self._settle(anchor)
        if layout.unmeasured() is not None:
            self.set_timer(FRAME, self._measure_some)

    # -- colours ------------------------------------------------------------------------------------------------

    def palette_now(self) -> Palette:
        """The palette of the theme in force."""
        self._palette = palette_of(self)
        return self._palette

    def restyle(self) -> None:
        """The theme has changed."""
        anchor = None if self.following else self._anchor()
        self._lines.change(self._lines.width, self.palette_now())
        self._settle(anchor)

    # -- keys and the mouse -------------------------------------------------------------------------------------

    def page(self, by: int) -> None:
        """Scroll by a page; two lines of what was seen stay."""
        height = max(self.scrollable_content_region.height - 2, 1)
        self.scroll_relative(y=by * height, animate=False, force=True)

    def action_page(self, by: int) -> None:
        self.page(by)

    def action_top(self) -> None:
        self.scroll_home(animate=False)

    def action_bottom(self) -> None:
        self.following = True
        self.scroll_end(animate=False)

    def action_step(self, by: int) -> None:
        """Mark the item before or behind."""
        if not self.items:
            return
        at = self.items.index(self.marked) if self.marked in self.items else len(self.items) if by < 0 else -1
        self.mark(self.items[min(max(at + by, 0), len(self.items) - 1)])

    def mark(self, item: "Item | None") -> None:
        """Mark an item and bring it into view."""
        self.marked = item
        if item is not None and item in self._owners:
            layout = self._lines
            top = layout.top(self._owners.index(item))
            height = self.scrollable_content_region.height
            if not self.scroll_offset.y <= top < self.scroll_offset.y + height:
                self.following = False
                self.scroll_to(y=max(top - 1, 0), animate=False, force=True)
        self.refresh()

    def action_more(self) -> None:
        """Show more or less of the marked item, else of the last that has something to show."""
        self.toggle(self.marked)

    def toggle(self, item: "Item | None") -> None:
        """Show more or less of an item."""
        if item is None or not item.toggle():
            return
        self.following = False
        self._reshaped = True
        self.frame()

    def action_copy_item(self) -> None:
        if self.marked is not None and self.marked.text:
            self.post_message(self.Copied(self.marked.text))

    def _owner(self, line: int) -> "Item | None":
        layout = self._lines
        if not layout.parts or line >= layout.height:
            return None
        index = layout.at(line)
        return self._owners[index] if index < len(self._owners) else None

    def on_click(self, event: "events.Click") -> None:
        if event.chain != 1 or self.text_selection is not None:
            return
        line = self.scroll_offset.y + event.get_content_offset_capture(self).y
        item = self._owner(line)
        self.marked = item
        if item is not None and line - self._first_line(item) <= 0:
            self.toggle(item)
        self.refresh()

    def _first_line(self, item: "Item") -> int:
        index = self._owners.index(item)
        layout = self._lines
        return layout.top(index) + (layout.parts[index].gap if index else 0)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()
