"""The seam between `accord run` and what it shows: one turn, event by event, to whoever reads stdout."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from accord.client import ClientEvent, ClientSession, RemoteAgent
    from accord.errors import AccordError
    from accord.session import TurnEnded


class Output(Protocol):
    """Shows a turn. Called on the event loop, in this order: `opened`, `event` for each, `finished`; the others between.

    When nobody reads stdout any more, `event` and `opened` raise BrokenPipeError, and nothing else does.
    """

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        """The session is there; its turn is about to begin."""
        ...

    def event(self, event: "ClientEvent") -> None:
        """Something happened."""
        ...

    def note(self, text: str) -> None:
        """Tell people something, on one line, on stderr."""
        ...

    def question(self) -> AbstractContextManager[None]:
        """The terminal belongs to a question meanwhile: no live lines, no half line."""
        ...

    def finished(self, ended: "TurnEnded | None", error: "AccordError | None", exit_code: int) -> None:
        """The turn is over, or never came about. Tells the error as well: nobody else needs to."""
        ...
