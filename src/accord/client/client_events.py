"""Events that the client adds to those of a session, and the terminal output it keeps for display."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from accord.errors import ConnectionClosed
from accord.schema import UNSET, AuthAccount, AuthStatusResponse, AuthStatusUpdateNotification
from accord.session import Event, TerminalChanged
from accord.session.terminal_state import decode_output
from accord.workspace.terminals import ExitStatus, OutputBuffer

KnownAuthState: TypeAlias = Literal["authenticated", "unauthenticated", "not_required", "unknown"]


@dataclass(frozen=True, slots=True)
class AuthStatus:
    """Unstable. Whether a user is signed in, as the agent reports it. Base decisions on `state` only."""

    state: KnownAuthState
    """An unfamiliar state of the agent counts as `unknown`."""
    accounts: tuple[AuthAccount, ...] = field(default=(), repr=False)
    """For display only. They are personal data, so the representation leaves them out."""


def auth_status(response: AuthStatusResponse | AuthStatusUpdateNotification) -> AuthStatus:
    """The status that the agent sent."""
    return AuthStatus(_AUTH_STATES.get(response.state, "unknown"), tuple(response.accounts or ()))


_AUTH_STATES: Final[dict[str, KnownAuthState]] = {
    "authenticated": "authenticated",
    "unauthenticated": "unauthenticated",
    "not_required": "not_required",
}


@dataclass(frozen=True, slots=True)
class AgentEnded:
    """The agent ended unexpectedly. In a running turn it comes directly before `TurnEnded`."""

    error: ConnectionClosed

    @property
    def exit_code(self) -> int | None:
        """The exit code of the program, if it exited."""
        return self.error.exit_code

    @property
    def signal(self) -> str | None:
        """The signal that killed the program, if one did."""
        return self.error.signal

    @property
    def stderr(self) -> str:
        """The last lines of the program's stderr."""
        return self.error.stderr


@dataclass(frozen=True, slots=True)
class AgentRestarted:
    """The agent runs again and has answered `initialize`. Follows `AgentEnded` or a manual restart."""

    attempt: int
    """The number of restarts so far, including this one."""


@dataclass(frozen=True, slots=True)
class SessionReattached:
    """The session was reopened after a restart and can be prompted again. Follows `AgentRestarted`."""

    session_id: str
    by: Literal["resume", "load"]


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The session could not be reopened after a restart. Its state stays readable."""

    session_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class AuthStatusChanged:
    """Unstable. The agent reports a changed sign-in status. Can come any time after `initialize`."""

    status: AuthStatus


@dataclass(frozen=True, slots=True)
class TerminalPrinted:
    """A command that runs for the agent printed text. Can come any time between its start and its release.

    A reader that is far behind misses some of these events; the `TerminalView` has the text.
    """

    terminal_id: str
    text: str


AgentEvent: TypeAlias = AgentEnded | AgentRestarted | SessionReattached | SessionLost | AuthStatusChanged
"""The events of `RemoteAgent.events`."""

ClientEvent: TypeAlias = (
    Event | AgentEnded | AgentRestarted | SessionReattached | SessionLost | TerminalPrinted
)
"""The events of a session."""

_MAX_TERMINAL_BYTES: Final = 256 * 1024
"""The output kept of each terminal."""
_MAX_TERMINALS: Final = 200
"""Beyond this number, the oldest released terminals are forgotten."""


@dataclass(slots=True)
class TerminalView:
    """The output of one terminal for display. It outlives the release of the terminal by the agent."""

    terminal_id: str
    command: str = ""
    exit_status: ExitStatus | None = None
    released: bool = False
    _buffer: OutputBuffer = field(default_factory=lambda: OutputBuffer(_MAX_TERMINAL_BYTES), repr=False)

    @property
    def text(self) -> str:
        """The output; the beginning is cut off if it was too long."""
        return self._buffer.text

    def append(self, text: str) -> None:
        """Add output."""
        self._buffer.feed(text.encode())

    def append_bytes(self, data: bytes) -> str:
        """Add output, and return it as text."""
        self._buffer.feed(data)
        return data.decode(errors="replace")

    def clear(self) -> None:
        """Remove all output."""
        self._buffer = OutputBuffer(_MAX_TERMINAL_BYTES)


class TerminalViews(dict[str, TerminalView]):
    """The terminals of a session by id. Show an id that is missing here as unavailable."""

    def __init__(self, publish: Callable[[TerminalPrinted], None]) -> None:
        super().__init__()
        self._publish = publish

    def add_output(self, terminal_id: str, text: str) -> None:
        """Add output, possibly before `terminal/create` was answered. A workspace calls this."""
        self.view(terminal_id).append(text)
        self._publish(TerminalPrinted(terminal_id, text))

    def show(self, event: TerminalChanged) -> None:
        """Show what a terminal of the agent reports."""
        view = self.view(event.terminal_id)
        if event.command:
            view.command = event.command
        if event.output is not UNSET:
            view.clear()
        for data in (event.output, event.append):
            if data:
                text = view.append_bytes(decode_output(data))
                self._publish(TerminalPrinted(event.terminal_id, text))
        if event.exit:
            view.exit_status = ExitStatus(event.exit.exit_code, event.exit.signal)

    def view(self, terminal_id: str) -> TerminalView:
        """The view of this terminal, created on first use."""
        view = self.get(terminal_id)
        if view is None:
            self._forget_released()
            view = self[terminal_id] = TerminalView(terminal_id)
        return view

    def _forget_released(self) -> None:
        if len(self) >= _MAX_TERMINALS:
            for view in [view for view in self.values() if view.released][: _MAX_TERMINALS // 10]:
                del self[view.terminal_id]
