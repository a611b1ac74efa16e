"""The view of the conversation: what is on the paper can be marked, unfolded and copied, by keys and with the mouse."""

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from accord.tui.transcript.painting import marked
from accord.tui.transcript.paper import Older, Paper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events

    from accord.tui.transcript.item import Item


class Transcript(Paper, can_focus=True):
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
