"""The transcript widget: virtual scrolling, selection, folding, copying.

Changes are collected and drawn together, at most about 30 times per second and less often if a frame is slow.
"""

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

from accord.tui.parts.part import soft_wrap
from accord.tui.theme import Palette, palette_of
from accord.tui.transcript.transcript_layout import Item, ItemList, ScrollAnchor

if TYPE_CHECKING:
    from textual import events
    from textual.geometry import Region
    from textual.selection import Selection

    from accord.tui.parts.part import DrawnPart


_MAX_COPIED: Final = 20_000
"""Number of lines of a mouse selection that are copied."""


def with_bar(strip: Strip, style: Style) -> Strip:
    """Return the line with a bar at its left edge."""
    return Strip.join([Strip([Segment("▎", style)], 1), strip.crop(1)])


def with_selection(strip: Strip, span: tuple[int, int] | None, style: Style) -> Strip:
    """Return the line with the selected cells highlighted; -1 is the end of the line."""
    if span is None:
        return strip
    start, end = span
    end = strip.cell_length if end == -1 else end
    before, selected_cells, after = strip.crop(0, start), strip.crop(start, end), strip.crop(end)
    return Strip.join([before, selected_cells.apply_style(style), after])


def selected_text(
    selection: "Selection",
    height: int,
    text_at: Callable[[int], str],
    wrap_at: Callable[[int], tuple[int, str] | None] = lambda _: None,
) -> str:
    """The selected text. `wrap_at` says of a line where it continues the line before, and what joins them."""
    first = 0 if selection.start is None else selection.start.y
    last = height - 1 if selection.end is None else selection.end.y
    lines: list[str] = []
    for line in range(first, min(last, first + _MAX_COPIED) + 1):
        span = selection.get_span(line)
        if span is not None:
            start, end = span
            text = text_at(line)
            wrap = wrap_at(line) if lines else None
            if wrap is not None:
                start = max(start, wrap[0])
            piece = text[start:] if end == -1 else text[start:end]
            if wrap is None:
                lines.append(piece)
            else:
                lines[-1] += wrap[1] + piece
    return "\n".join(lines)


FRAME_SECONDS: Final = 1 / 30
"""Minimum seconds between two frames."""
_PAUSE_FACTOR: Final = 3
"""The pause after a frame, as a multiple of the time that it took."""

LoadOlder: TypeAlias = Callable[[], Sequence[Item]]
"""Returns the next older items; empty if there are no more."""


class VirtualScroll(ScrollView):
    """Shows items and draws only the visible lines."""

    DEFAULT_CSS: ClassVar[str] = """
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
    ALLOW_SELECT: ClassVar[bool] = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.following: bool = True
        """Whether to stay at the end."""
        self.palette: Palette = palette_of(self)
        self.item_list: ItemList = ItemList(self.palette)
        self._load_older_items: LoadOlder | None = None
        self._changed: dict[int, Item] = {}
        self._needs_layout = False
        self._frame_scheduled = False
        self._frame_seconds = 0.0
        self.background: Style = Style()

    # -- items --

    @property
    def items(self) -> list[Item]:
        """All items, from top to bottom, without older ones that are not loaded yet."""
        return self.item_list.items

    def add(self, *items: Item) -> None:
        """Append items."""
        self.items.extend(items)
        self._schedule_layout()

    def show(self, items: Sequence[Item], load_older: LoadOlder | None = None) -> None:
        """Replace all items; load older ones with `load_older` step by step."""
        self.items[:] = items
        self._load_older_items = load_older
        self._changed.clear()
        self._schedule_layout()
        if load_older is not None:
            self.set_timer(FRAME_SECONDS, self._load_older)

    def changed(self, item: Item) -> None:
        """Refresh an item at the next frame."""
        self._changed[id(item)] = item
        self._schedule_frame()

    def redraw(self, part: "DrawnPart") -> None:
        """Draw a part again."""
        part.invalidate()
        self._schedule_layout()

    def load_all(self) -> None:
        """Load all older items."""
        while self._load_older_items is not None:
            self._load_batch(self._load_older_items)
        self.frame()

    @property
    def drawn_lines(self) -> int:
        """The number of lines, partly estimated."""
        return self.item_list.layout.height

    def height_for(self, width: int) -> int:
        """Return the number of lines at a width."""
        if width != self.item_list.layout.width:
            self.item_list.layout.change(width, self.palette)
        self.item_list.measure_all()
        return self.drawn_lines

    def lines(self) -> list[str]:
        """Return all lines as text, without scrolling."""
        self.load_all()
        anchor = self._anchor()
        self.item_list.measure_all()
        self._restore_position(anchor)
        return [self.text_at(line) for line in range(self.drawn_lines)]

    def text_at(self, line: int) -> str:
        strip = self.item_list.layout.line(line)
        return "" if strip is None else strip.text.rstrip()

    def _wrap_at(self, line: int) -> tuple[int, str] | None:
        strip = self.item_list.layout.line(line)
        return None if strip is None else soft_wrap(strip)

    # -- frames --

    def _schedule_layout(self) -> None:
        self._needs_layout = True
        self._schedule_frame()

    def _schedule_frame(self) -> None:
        if not self._frame_scheduled and self.is_attached:
            self._frame_scheduled = True
            self.set_timer(max(FRAME_SECONDS, self._frame_seconds * _PAUSE_FACTOR), self.frame)

    def frame(self) -> None:
        """Apply all changes now."""
        self._frame_scheduled = False
        if not self.is_attached:
            return
        start = perf_counter()
        refreshed = {key for key, item in self._changed.items() if item.refresh()}
        self._changed.clear()
        if self._needs_layout or refreshed:
            self._needs_layout = False
            anchor = self._anchor()
            self.item_list.arrange(refreshed)
            self._restore_position(anchor)
        self._frame_seconds = perf_counter() - start

    def update_layout(self, item: Item) -> None:
        """Update the layout of an item immediately."""
        anchor = self._anchor()
        self.item_list.arrange({id(item)})
        self._restore_position(anchor)

    def _load_older(self) -> None:
        """Load a batch of older items, then schedule the next."""
        if self._load_older_items is not None and self.is_attached:
            self._load_batch(self._load_older_items)
            self.frame()
            self.set_timer(max(FRAME_SECONDS, self._frame_seconds * _PAUSE_FACTOR), self._load_older)

    def _load_batch(self, load_older: LoadOlder) -> None:
        items = load_older()
        if items:
            self.items[:0] = items
            self._needs_layout = True
        else:
            self._load_older_items = None

    def _anchor(self) -> ScrollAnchor | None:
        """Return the position at the top of the screen, unless the view follows the end."""
        return None if self.following else self.item_list.anchor(self.scroll_offset.y)

    def _restore_position(self, anchor: ScrollAnchor | None) -> None:
        """Measure the visible parts and keep the position."""
        item_list, height = self.item_list, self.scrollable_content_region.height
        if self.following:
            item_list.measure_up(height)
            line = self.drawn_lines
        else:
            line = item_list.line_of(anchor) if anchor is not None else None
            line = self.scroll_offset.y if line is None else line
            item_list.measure_down(line, height)
        self._update_virtual_size()
        self.go_to(line)
        self.refresh()

    def _update_virtual_size(self) -> None:
        size = Size(self.item_list.layout.width, self.drawn_lines)
        if self.virtual_size == size:
            return
        if self.styles.auto_dimensions:
            self.virtual_size = size
        else:  # avoid a layout of the whole screen: nothing else moves
            self.set_reactive(VirtualScroll.virtual_size, size)  # pyright: ignore[reportArgumentType]
            self._scroll_update(size)

    def go_to(self, line: int) -> None:
        """Scroll a line to the top."""
        self.scroll_to(y=max(line, 0), animate=False, immediate=True, force=True)

    # -- drawing --

    def render_lines(self, crop: "Region") -> list[Strip]:
        self.background = self.rich_style  # compute it once for all lines
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        line = self.scroll_offset.y + y
        width = self.size.width
        strip = self.item_list.layout.line(line)
        if strip is None:
            return Strip.blank(width, self.background)
        strip = strip.crop_extend(0, width, self.background).apply_style(self.background)
        strip = self.decorate(strip, line)
        selection = self.text_selection
        if selection is not None:
            style = self.screen.get_component_rich_style("screen--selection")
            strip = with_selection(strip, selection.get_span(line), style)
        return strip.apply_offsets(0, line)

    def decorate(self, strip: Strip, line: int) -> Strip:
        """Change a drawn line; for subclasses."""
        return strip

    def get_selection(self, selection: "Selection") -> tuple[str, str] | None:
        return selected_text(selection, self.drawn_lines, self.text_at, self._wrap_at), "\n"

    def selection_updated(self, selection: "Selection | None") -> None:
        self.refresh()

    def _update_palette(self) -> Palette:
        self.palette = palette_of(self)
        return self.palette

    def restyle(self) -> None:
        """Redraw everything with the current theme."""
        self._redraw_all(self.item_list.layout.width)

    def on_resize(self, event: "events.Resize") -> None:
        width = self.scrollable_content_region.width
        if width != self.item_list.layout.width:
            self._redraw_all(width)
        else:
            self._restore_position(self._anchor())

    def _redraw_all(self, width: int) -> None:
        anchor = self._anchor()
        self.item_list.layout.change(width, self._update_palette())
        self._restore_position(anchor)

    # -- scrolling --

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self.is_attached or not self.item_list.layout.parts:
            return
        top = self.scroll_offset.y
        moved = self.item_list.measure_down(top, self.scrollable_content_region.height)
        if moved:
            self._update_virtual_size()
        if moved and new_value < old_value:
            self.go_to(top + moved)  # keep the lines that were visible next to the new ones
        self.following = self.scroll_offset.y >= self.max_scroll_y

    def page(self, by: int) -> None:
        """Scroll by a page; keeps two lines."""
        height = max(self.scrollable_content_region.height - 2, 1)
        self.scroll_relative(y=by * height, animate=False, force=True)

    def go_to_top(self) -> None:
        """Load all items and scroll to the start."""
        self.load_all()
        self.go_to(0)

    def go_to_end(self) -> None:
        """Scroll to the end and follow it."""
        self.following = True
        self._restore_position(None)


class TranscriptView(VirtualScroll, can_focus=True):
    """The transcript of a session: select, unfold and copy items with keys or mouse."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "top", "Beginning", show=False),
        Binding("end", "bottom", "End", show=False),
        Binding("k,ctrl+up", "step(-1)", "Previous", show=False),
        Binding("j,ctrl+down", "step(1)", "Next", show=False),
        Binding("enter,space", "toggle_item", "Fold or unfold", show=False),
        Binding("c", "copy_item", "Copy", show=False),
    ]

    class CopyRequested(Message):
        """The user wants to copy a text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class SelectionChanged(Message):
        """Another item is selected, or none."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.selected: Item | None = None
        """The item that keys act on."""

    def show(self, items: "Sequence[Item]", load_older: LoadOlder | None = None) -> None:
        self.selected = None
        super().show(items, load_older)

    def decorate(self, strip: Strip, line: int) -> Strip:
        if self.selected is not None and self.has_focus and self.item_list.item_at(line) is self.selected:
            return with_bar(strip, self.background + self.palette.accent)
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
        """Select the previous or next item."""
        items = self.items
        if items:
            at = items.index(self.selected) if self.selected in items else len(items) if by < 0 else -1
            self.select(items[min(max(at + by, 0), len(items) - 1)])

    def select(self, item: "Item | None") -> None:
        """Select an item and scroll to it."""
        self.selected = item
        self.post_message(self.SelectionChanged())
        first = None if item is None else self.item_list.first_line(item)
        if first is not None:
            height = self.scrollable_content_region.height
            if not self.scroll_offset.y <= first < self.scroll_offset.y + height:
                self.following: bool = False
                self.go_to(first - 2)
        self.refresh()

    def action_toggle_item(self) -> None:
        """Fold or unfold the selected item."""
        self.toggle(self.selected)

    def toggle(self, item: "Item | None") -> None:
        """Fold or unfold an item."""
        if item is not None and item.toggle():
            self.following = False
            self.update_layout(item)

    def action_copy_item(self) -> None:
        if self.selected is not None and self.selected.text:
            self.post_message(self.CopyRequested(self.selected.text))

    def on_click(self, event: "events.Click") -> None:
        if event.chain != 1 or self.text_selection is not None:
            return
        line = self.scroll_offset.y + event.get_content_offset_capture(self).y
        self.selected = item = self.item_list.item_at(line)
        self.post_message(self.SelectionChanged())
        first = None if item is None else self.item_list.first_line(item)
        if first is not None and line <= first:
            self.toggle(item)
        self.refresh()
