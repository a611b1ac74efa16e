"""The terminals of a session as a user sees them: what each printed, live, and kept after the agent released it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from accord.workspace.output import OutputBuffer
from accord.workspace.terminal import ExitStatus

KEPT_BYTES: Final = 256 * 1024
"""Output kept of each terminal for showing."""
KEPT_VIEWS: Final = 200
"""Of more terminals than this, the oldest that were released are forgotten."""


@dataclass(frozen=True, slots=True)
class TerminalPrinted:
    """A command that runs for the agent printed something. Any time between its start and its release. A reader who is
    far behind misses some; the view has the text.
    """

    terminal_id: str
    text: str


@dataclass(slots=True)
class TerminalView:
    """One terminal, from its creation on; the agent's release does not end the view."""

    terminal_id: str
    command: str = ""
    exit_status: ExitStatus | None = None
    released: bool = False
    _buffer: OutputBuffer = field(default_factory=lambda: OutputBuffer(KEPT_BYTES), repr=False)

    @property
    def text(self) -> str:
        """What it printed, the beginning cut off where it was too much."""
        return self._buffer.text

    def take(self, text: str) -> None:
        """It printed this."""
        self._buffer.feed(text.encode())


class TerminalViews(dict[str, TerminalView]):
    """The views by terminal id. An id that is not here was never made by this client: show it as unavailable."""

    def __init__(self, publish: Callable[[TerminalPrinted], None]) -> None:
        super().__init__()
        self._publish = publish

    def printed(self, terminal_id: str, text: str) -> None:
        """Output arrived; the first of it may come before the terminal's creation was answered."""
        self.view(terminal_id).take(text)
        self._publish(TerminalPrinted(terminal_id, text))

    def view(self, terminal_id: str) -> TerminalView:
        """The view of this terminal, made on first sight."""
        found = self.get(terminal_id)
        if found is None:
            self._forget_some()
            found = self[terminal_id] = TerminalView(terminal_id)
        return found

    def _forget_some(self) -> None:
        if len(self) >= KEPT_VIEWS:
            for view in [view for view in self.values() if view.released][: KEPT_VIEWS // 10]:
                del self[view.terminal_id]
