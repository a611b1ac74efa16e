"""The contract between the HTTP server and the gateway: an outgoing frame, and the two ends of a client's
connection.

The HTTP server knows sockets, streams and resumption, but of ACP only the envelope. The `ConnectionHandler`
knows ACP but not sockets: a connection that drops and resumes is one connection to it.
"""

from typing import Final, NamedTuple, Protocol

from accord.gateway.access.access_tokens import TokenRights
from accord.wire.envelope import Envelope, RequestId

# A WebSocket frame has a length field of 7, 16 or 64 bits.
_MIN_16_BIT_LENGTH: Final = 126
_MIN_64_BIT_LENGTH: Final = 1 << 16


MAX_UNSENT_HISTORY: Final = 1 << 20
"""Bytes of a replayed history that may be unsent to a client before the replay pauses."""


class IncomingFrame(NamedTuple):
    """One message of a client. The HTTP server has decoded its envelope."""

    body: bytes
    envelope: Envelope


class OutgoingFrame:
    """One frame for any number of clients. Each wire form is encoded once, on first use."""

    __slots__ = ("_event_form", "_websocket_form", "body")

    def __init__(self, body: bytes) -> None:
        self.body: bytes = body
        """The JSON-RPC object without a line end."""
        self._websocket_form: bytes | None = None
        self._event_form: bytes | None = None

    @property
    def websocket(self) -> bytes:
        """The frame as one unmasked WebSocket text frame."""
        encoded = self._websocket_form
        if encoded is None:
            encoded = self._websocket_form = _text_frame(self.body)
        return encoded

    @property
    def event(self) -> bytes:
        """The frame as the data of a server-sent event, without an id line."""
        encoded = self._event_form
        if encoded is None:
            # A bare CR is whitespace in JSON but ends a line in an event stream.
            encoded = self._event_form = b"data: " + self.body.replace(b"\r", b" ") + b"\n\n"
        return encoded


class CallFrame(OutgoingFrame):
    """A request to clients, or a response to one."""

    __slots__ = ("id", "is_request")

    def __init__(self, body: bytes, id: RequestId, *, is_request: bool = False) -> None:
        super().__init__(body)
        self.id: RequestId = id
        self.is_request: bool = is_request


def _text_frame(body: bytes) -> bytes:
    size = len(body)
    if size < _MIN_16_BIT_LENGTH:
        return bytes((0x81, size)) + body
    if size < _MIN_64_BIT_LENGTH:
        return b"\x81\x7e" + size.to_bytes(2, "big") + body
    return b"\x81\x7f" + size.to_bytes(8, "big") + body


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

    def send(self, frame: OutgoingFrame, stream: str | None) -> None:
        """Queue a frame. Never blocks, never raises.

        `stream` is the session whose event stream carries the frame; None is the connection's own stream. A
        WebSocket carries all of them.
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
        ...

    def on_closed(self, reason: str) -> None:
        """Handle the end of the connection; called once."""
        ...


class ConnectionOpener(Protocol):
    """Creates the gateway's end of a new connection."""

    def open(self, connection: ClientConnection, rights: TokenRights, agent: str | None) -> ConnectionHandler:
        """Open a connection to an agent; None is the default agent.

        Raises NotFound for an unknown agent, and GatewayLimitReached.
        """
        ...
