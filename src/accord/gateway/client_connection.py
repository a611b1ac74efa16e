"""The seam between sockets and sessions: a frame on its way out, the two ends of a client's connection.

The front knows sockets, streams and resumption, and nothing of ACP beyond an envelope. The other end, the `ConnectionHandler`, knows
ACP and nothing of sockets: a line that drops and comes back is one line to it.
"""

from typing import Final, Protocol

from accord.gateway.access.access_tokens import TokenRights

_SHORT_FRAME = 126
_MEDIUM_FRAME = 1 << 16


MAX_UNSENT_HISTORY: Final = 1 << 20
"""Bytes of a history that may lie unsent to a client before the rest waits."""


class OutgoingFrame:
    """One frame for any number of clients. Each wire form is made once, whoever asks first."""

    __slots__ = ("_event_form", "_websocket_form", "body")

    def __init__(self, body: bytes) -> None:
        self.body = body
        """The JSON-RPC object, without a line end."""
        self._websocket_form: bytes | None = None
        self._event_form: bytes | None = None

    @property
    def websocket(self) -> bytes:
        """As an unmasked text frame, whole."""
        encoded = self._websocket_form
        if encoded is None:
            encoded = self._websocket_form = _text_frame(self.body)
        return encoded

    @property
    def event(self) -> bytes:
        """As the data of a server-sent event; an id line may be put before it."""
        encoded = self._event_form
        if encoded is None:
            # A bare CR, which is white space in JSON, would end the line there.
            encoded = self._event_form = b"data: " + self.body.replace(b"\r", b" ") + b"\n\n"
        return encoded


def _text_frame(body: bytes) -> bytes:
    size = len(body)
    if size < _SHORT_FRAME:
        return bytes((0x81, size)) + body
    if size < _MEDIUM_FRAME:
        return b"\x81\x7e" + size.to_bytes(2, "big") + body
    return b"\x81\x7f" + size.to_bytes(8, "big") + body


class ClientConnection(Protocol):
    """The front's end of one connection. It outlives the sockets that carry it."""

    @property
    def id(self) -> str:
        """What `Acp-Connection-Id` says."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes taken by `send` that have not left."""
        ...

    def send(self, frame: OutgoingFrame, stream: str | None) -> None:
        """Queue a frame behind those before it; never blocks, never raises. `stream` is the session whose event stream
        carries it, None the connection's own; a WebSocket carries them all.
        """
        ...

    def end(self, code: int, reason: str) -> None:
        """Close for good, with a WebSocket close code and a short reason; `ConnectionHandler.gone` follows."""
        ...


class ConnectionHandler(Protocol):
    """The other end of a line."""

    def frames(self, frames: list[bytes]) -> None:
        """What arrived, in order; never raises."""
        ...

    def closed(self, reason: str) -> None:
        """The line is over for good; called once."""
        ...


class ConnectionOpener(Protocol):
    """Where the front asks for the other end of a new line."""

    def open(self, connection: ClientConnection, rights: TokenRights, agent: str | None) -> ConnectionHandler:
        """`agent` is the name in the address, None for the default one. Raises NotFound for an unknown name, LimitReached."""
        ...
