"""One thing in the conversation: an entry of the session, or something of this client's own, and the parts it is drawn of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accord.clock import SYSTEM_CLOCK, Clock
from accord.tui.parts.note import NotePart, Tone
from accord.tui.parts.part import Part

if TYPE_CHECKING:
    from accord.client import TerminalView


@dataclass(slots=True)
class Surroundings:
    """What items look at beside their own entry."""

    cwd: str = ""
    terminals: "Mapping[str, TerminalView] | None" = None
    clock: Clock = SYSTEM_CLOCK
    live: bool = False
    """Whether what appears now happens now: only then is it known how long it takes."""
    later: Callable[[Any], None] | None = None
    """Compares a large change in a thread."""


class Item:
    """Something in the conversation."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def refresh(self) -> bool:
        """Look at the entry again; whether anything changed. Parts that changed have forgotten their lines."""
        return False

    def toggle(self) -> bool:
        """Show more, or less again; whether there is anything to show."""
        return False

    @property
    def going_on(self) -> bool:
        """Whether it changes with time alone."""
        return False

    @property
    def text(self) -> str:
        """What copying it gives."""
        return ""


class NoteItem(Item):
    """A note of this client."""

    def __init__(self, text: str, tone: Tone = "quiet", details: str = "") -> None:
        super().__init__()
        self.note = NotePart(text, tone, details)
        self.parts = [self.note]

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (self.note.text, self.note.details)))
