"""Events beyond the session: agent ended or restarted, auth status, terminal output."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from accord.errors import ConnectionClosed
from accord.schema import AuthAccount, AuthStatusResponse, AuthStatusUpdateNotification
from accord.session import Event
from accord.workspace.terminals import ExitStatus, OutputBuffer

# MERGED client.authstatus: Unstable. Who is signed in, as far as an agent tells. Act on the state alone; accounts are for showing.

SignedIn: TypeAlias = Literal["authenticated", "unauthenticated", "not_required", "unknown"]

_STATES: Final[dict[str, SignedIn]] = {
    "authenticated": "authenticated",
    "unauthenticated": "unauthenticated",
    "not_required": "not_required",
}


@dataclass(frozen=True, slots=True)
class AuthStatus:
    """One report of the agent. A state that nobody knows counts as unknown."""

    state: SignedIn
    accounts: tuple[AuthAccount, ...] = field(default=(), repr=False)
    """Neither identifiers nor for logs, so they are left out of the representation."""

    @staticmethod
    def of(told: AuthStatusResponse | AuthStatusUpdateNotification) -> "AuthStatus":
        """From what the agent sent."""
        return AuthStatus(_STATES.get(told.state, "unknown"), tuple(told.accounts or ()))


# MERGED client.terminals: The terminals of a session as a user sees them: what each printed, live, and kept after the agent released it.

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


# MERGED client.events: What happens to the agent itself, beside the events of its sessions: it ends, starts again, sessions return or are lost.


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """The agent is gone without having been asked to go. In the running turn it comes right before `TurnEnded`."""

    error: ConnectionClosed

    @property
    def exit_code(self) -> int | None:
        """What the program exited with, where it did."""
        return self.error.exit_code

    @property
    def signal(self) -> str | None:
        """The signal that ended it, where one did."""
        return self.error.signal

    @property
    def stderr(self) -> str:
        """Its last words."""
        return self.error.stderr


@dataclass(frozen=True, slots=True)
class AgentRestarted:
    """After `AgentEnded`, or when asked to: the program runs again and has answered `initialize`."""

    attempt: int
    """How often it was started again, this time included."""


@dataclass(frozen=True, slots=True)
class SessionReattached:
    """After `AgentRestarted`: the session can be prompted again."""

    session_id: str
    by: Literal["resume", "load"]


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The session could not be taken up again, or the agent was not restarted. Its state stays readable."""

    session_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class AuthStatusChanged:
    """Unstable. The agent reports that another one is signed in, or nobody. Any time after `initialize`."""

    status: AuthStatus


AgentEvent: TypeAlias = AgentEnded | AgentRestarted | SessionReattached | SessionLost | AuthStatusChanged
"""What `RemoteAgent.events` yields."""

ClientEvent: TypeAlias = (
    Event | AgentEnded | AgentRestarted | SessionReattached | SessionLost | TerminalPrinted
)
"""What a session's iterators yield."""
