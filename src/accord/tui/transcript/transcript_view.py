"""The transcript widget: virtual scroll, selection, folding, copying."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from accord.tui.theme import Palette, palette_of
from accord.tui.transcript.transcript_layout import Item, ItemList, ScrollAnchor

if TYPE_CHECKING:
    from textual import events
    from textual.geometry import Region
    from textual.selection import Selection

    from accord.tui.parts.part import DrawnPart


# MERGED tui.transcript.painting: What lies over a drawn line: the mark of an item, and what the mouse has selected.

_MOST_COPIED: Final = 20_000
"""Lines of a selection that are copied."""


def marked(strip: Strip, style: Style) -> Strip:
    """With the mark at its left edge."""
    return Strip.join([Strip([Segment("▎", style)], 1), strip.crop(1)])


def selected(strip: Strip, span: tuple[int, int] | None, style: Style) -> Strip:
    """With the selected cells, up to -1 for its end, in the style of the selection."""
    if span is None:
        return strip
    start, end = span
    end = strip.cell_length if end == -1 else end
    before, chosen, after = strip.crop(0, start), strip.crop(start, end), strip.crop(end)
    return Strip.join([before, chosen.apply_style(style), after])


def selected_text(selection: "Selection", height: int, text_at: Callable[[int], str]) -> str:
    """What is selected of so many lines."""
    first = 0 if selection.start is None else selection.start.y
    last = height - 1 if selection.end is None else selection.end.y
    lines: list[str] = []
    for line in range(first, min(last, first + _MOST_COPIED) + 1):
        span = selection.get_span(line)
        if span is not None:
            start, end = span
            text = text_at(line)
            lines.append(text[start:] if end == -1 else text[start:end])
    return "\n".join(lines)


# MERGED tui.transcript.paper: A sheet of items on the screen: draws only the lines on the screen, follows its end, and changes at most some thirty times a second.
#
# What changed is gathered and shown together. The more a frame costs, the rarer frames become: keys always come through in between.

FRAME: Final = 1 / 30
"""Seconds between two changes of the screen, at least."""
_SHARE: Final = 3
"""A frame that took so long is followed by a pause so many times as long."""

Older: TypeAlias = Callable[[], Sequence[Item]]
"""Gives some more items, which lie in front of all there are; none when that was all."""


class VirtualScroll(ScrollView):
    """Items from top to bottom."""

    DEFAULT_CSS = """
    VirtualScroll {
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
        self.sheet = ItemList(self.palette)
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

    def redrawn(self, part: "DrawnPart") -> None:
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

    def _anchor(self) -> ScrollAnchor | None:
        """What is at the top of the screen, unless the end is what stays."""
        return None if self.following else self.sheet.anchor(self.scroll_offset.y)

    def _settle(self, anchor: ScrollAnchor | None) -> None:
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
            self.set_reactive(VirtualScroll.virtual_size, size)  # pyright: ignore[reportArgumentType]
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


# MERGED tui.transcript.view: The view of the conversation: what is on the paper can be marked, unfolded and copied, by keys and with the mouse.


class TranscriptView(VirtualScroll, can_focus=True):
    """The conversation."""

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
        self.marked: Item | None = None
        """The item that keys act upon."""

    def show(self, items: "Sequence[Item]", older: Older | None = None) -> None:
        self.marked = None
        super().show(items, older)

    def paint_over(self, strip: Strip, line: int) -> Strip:
        if self.marked is not None and self.has_focus and self.sheet.item_at(line) is self.marked:
            return marked(strip, self.ground + self.palette.accent)
        return strip

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def action_page(self, by: int) -> None:
        self.page(by)

    def action_top(self) -> None:
        self.go_to_top()

    def action_bottom(self) -> None:
        self.go_to_end()

    def action_step(self, by: int) -> None:
        """Mark the item before or behind."""
        items = self.items
        if items:
            at = items.index(self.marked) if self.marked in items else len(items) if by < 0 else -1
            self.mark(items[min(max(at + by, 0), len(items) - 1)])

    def mark(self, item: "Item | None") -> None:
        """Mark an item and bring it into view."""
        self.marked = item
        first = None if item is None else self.sheet.first_line(item)
        if first is not None:
            height = self.scrollable_content_region.height
            if not self.scroll_offset.y <= first < self.scroll_offset.y + height:
                self.following = False
                self.go_to(first - 2)
        self.refresh()

    def action_more(self) -> None:
        """Show more or less of the marked item."""
        self.toggle(self.marked)

    def toggle(self, item: "Item | None") -> None:
        """Show more or less of an item."""
        if item is not None and item.toggle():
            self.following = False
            self.reshape(item)

    def action_copy_item(self) -> None:
        if self.marked is not None and self.marked.text:
            self.post_message(self.Copied(self.marked.text))

    def on_click(self, event: "events.Click") -> None:
        if event.chain != 1 or self.text_selection is not None:
            return
        line = self.scroll_offset.y + event.get_content_offset_capture(self).y
        self.marked = item = self.sheet.item_at(line)
        first = None if item is None else self.sheet.first_line(item)
        if first is not None and line <= first:
            self.toggle(item)
        self.refresh()
