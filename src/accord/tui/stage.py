"""The contract between a conversation and where it is shown: a screen, or paper."""

from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from accord.client import ClientEvent, ClientSession, RemoteAgent
    from accord.errors import AccordError
    from accord.session import TurnEnded
    from accord.tui.parts.note import Tone

Phase: TypeAlias = Literal["connecting", "ready", "running", "cancelling", "dead", "failed", "closed"]


class Stage(Protocol):
    """Where the conversation is shown. Called on the event loop."""

    def phase_changed(self, phase: Phase) -> None:
        """Something else goes on now."""
        ...

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        """The session is there, its history in its state."""
        ...

    def happened(self, event: "ClientEvent") -> None:
        """An event of the session."""
        ...

    def note(self, text: str, tone: "Tone" = "quiet", details: str = "") -> None:
        """Tell the user something."""
        ...

    def failed(self, error: "AccordError", details: str) -> None:
        """It could not be connected, or its session not opened; `details` say what to do."""
        ...

    def turn_over(self, ended: "TurnEnded | None", error: "AccordError | None") -> None:
        """A turn is over, or could not begin; all its events have been shown."""
        ...

    def queue_changed(self) -> None:
        """A prompt left the queue, or returned to it."""
        ...
