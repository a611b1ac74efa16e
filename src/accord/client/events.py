"""What happens to the agent itself, beside the events of its sessions: it ends, starts again, sessions return or are lost."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from accord.client.authstatus import AuthStatus
from accord.client.terminals import TerminalPrinted
from accord.errors import ConnectionClosed
from accord.session import Event


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
