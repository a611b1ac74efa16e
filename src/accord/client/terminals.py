"""The terminals of a session as a user sees them: what each printed, live, and kept after the agent released it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from accord.workspace.output import OutputBuffer
from accord.workspace.terminal import ExitStatus

KEPT = 256 * 1024
"""Bytes of output kept of each terminal for showing."""


@dataclass(frozen=True, slots=True)
class TerminalPrinted:
    """A command that runs for the agent printed something. Any time between its start and its release."""

    terminal_id: str
    text: str


@dataclass(slots=True)
class TerminalView:
    """One terminal, from its creation on; the agent's release does not end the view."""

    terminal_id: str
    command: str = ""
    exit_status: ExitStatus | None = None
    released: bool = False
    _buffer: OutputBuffer = field(default_factory=lambda: OutputBuffer(KEPT), repr=False)

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
            found = self[terminal_id] = TerminalView(terminal_id)
        return found
