"""The list of queued prompts, to edit or remove them."""

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from accord.safe_text import clean_line
from accord.tui.chat_types import Draft, DraftQueue
from accord.tui.theme import palette_of

if TYPE_CHECKING:
    from textual import events


class PromptQueue(Widget, can_focus=True):
    """Shows the queued prompts."""

    DEFAULT_CSS: ClassVar[str] = """
    PromptQueue { display: none; height: auto; max-height: 6; margin: 0 1; padding: 0 1; }
    PromptQueue.some { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("enter,e", "edit", "Edit", show=False),
        Binding("delete,backspace,x", "remove", "Remove", show=False),
    ]

    class Edited(Message):
        """The user wants to edit a prompt."""

        def __init__(self, draft: Draft) -> None:
            super().__init__()
            self.draft = draft

    class Removed(Message):
        """A prompt was removed."""

    def __init__(self, queue: DraftQueue) -> None:
        super().__init__()
        self.queue = queue
        self.selected: int = 0

    def update(self) -> None:
        """Redraw after a change of the queue."""
        self.selected = min(self.selected, max(len(self.queue) - 1, 0))
        self.set_class(len(self.queue) > 0, "some")
        self.refresh(layout=True)

    def render(self) -> Text:
        palette = palette_of(self)
        out = Text(no_wrap=True, overflow="ellipsis")
        paused = self.queue.paused
        for number, draft in enumerate(self.queue.drafts):
            is_selected = self.has_focus and number == self.selected
            if number:
                out.append("\n")
            out.append("▸ " if is_selected else "· ", palette.accent if is_selected else palette.faint)
            out.append("paused  " if paused else "next  " if number == 0 else "then  ", palette.faint)
            out.append(clean_line(draft.line), palette.text if is_selected else palette.muted)
            if is_selected:
                out.append("  Enter edits, x removes", palette.faint)
        return out

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(len(self.queue), 6)

    def action_move(self, by: int) -> None:
        self.selected = min(max(self.selected + by, 0), max(len(self.queue) - 1, 0))
        self.refresh()

    def action_edit(self) -> None:
        draft = self.queue.remove(self.selected)
        if draft is not None:
            self.update()
            self.post_message(self.Edited(draft))

    def action_remove(self) -> None:
        if self.queue.remove(self.selected) is not None:
            self.update()
            self.post_message(self.Removed())

    def on_click(self, event: "events.Click") -> None:
        self.selected = min(event.y, max(len(self.queue) - 1, 0))
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()
