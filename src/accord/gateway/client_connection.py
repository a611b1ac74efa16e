"""The contract between the HTTP server and the gateway: an outgoing frame, and the two ends of a client's
connection.

The HTTP server knows sockets, streams and resumption, but of ACP only the envelope. The `ConnectionHandler`
knows ACP but not sockets: a connection that drops and resumes is one connection to it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from msgspec import Struct

from accord.gateway.access.access_tokens import TokenRights
from accord.wire.envelope import Envelope, RequestId

if TYPE_CHECKING:
    from accord.gateway.contracts import RecordMark

MAX_UNSENT_HISTORY: Final = 1 << 20
"""Bytes of a replayed history that may be unsent to a client before the replay pauses."""


class IncomingFrame(NamedTuple):
    """One message of a client. The HTTP server has decoded its envelope."""

    body: bytes
    envelope: Envelope


class OutgoingFrame(Struct, eq=False, gc=False):
    """One frame for any number of clients. Each wire form is encoded once, on first use."""

    body: bytes
    """The JSON-RPC object without a line end."""
    websocket_form: bytes = b""
    """The frame as one unmasked WebSocket text frame; empty before it is sent to the first WebSocket."""
    _event_form: bytes = b""

    @property
    def event(self) -> bytes:
        """The frame as the data of a server-sent event, without an id line."""
        if not self._event_form:
            # A bare CR is whitespace in JSON but ends a line in an event stream.
            self._event_form = b"data: " + self.body.replace(b"\r", b" ") + b"\n\n"
        return self._event_form


class LoggedFrame(OutgoingFrame, eq=False, gc=False):
    """An update that is also a record of the session's log.

    A connection whose client gets the records of the log in another way leaves it out.
    """


class CallFrame(OutgoingFrame, eq=False, gc=False, kw_only=True):
    """A request to clients, or a response to one."""

    id: RequestId
    is_request: bool = False


class ClientConnection(Protocol):
    """The HTTP server's end of one connection. It outlives the sockets that carry it."""

    @property
    def id(self) -> str:
        """The value of `Acp-Connection-Id`."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes passed to `send` that have not been written yet."""
        ...

    def send(
        self, frames: Sequence[OutgoingFrame], stream: str | None, mark: "RecordMark | None" = None
    ) -> None:
        """Queue frames. Never blocks, never raises.

        `stream` is the session whose event stream carries the frames; None is the connection's own stream. A
        WebSocket carries all of them.

        `mark` is the committed record that the frames follow. Only a connection that leaves out
        each `LoggedFrame` needs it.
        """
        ...

    def end(self, code: int, reason: str) -> None:
        """Close for good, with a WebSocket close code and a short reason. `ConnectionHandler.on_closed`
        follows.
        """
        ...


class ConnectionHandler(Protocol):
    """The gateway's end of a connection."""

    def on_frames(self, frames: list[IncomingFrame]) -> None:
        """Handle frames that arrived, in order. Never raises."""

    def on_closed(self, reason: str) -> None:
        """Handle the end of the connection; called once."""


class ConnectionOpener(Protocol):
    """Creates the gateway's end of a new connection."""

    def open(self, connection: ClientConnection, rights: TokenRights, agent: str | None) -> ConnectionHandler:
        """Open a connection to an agent; None is the default agent.

        Raises NotFound for an unknown agent, and GatewayLimitReached.
        """
        ...
