"""The configuration of the HTTP server: addresses, size limits, time limits."""

import ssl
from pathlib import Path

from msgspec import Struct

from accord.errors import UsageError

MIB = 1024 * 1024


class ServerConfig(Struct, frozen=True, kw_only=True):
    """Sizes and times (seconds) of the HTTP server. The limits per token are in `resource_limits`."""

    hosts: tuple[str, ...] = ("127.0.0.1",)
    """Addresses to listen on; all get the same port."""
    port: int = 0
    """0 for any free port."""
    tls: ssl.SSLContext | None = None
    """From `tls_context`; None for plain HTTP and h2c."""
    page: Path | None = None
    """The folder with the built page; None for the one in the package."""
    translates: bool = True
    """Whether clients in version 2 are translated to version 1. False passes their messages on unchanged."""

    message_size: int = 16 * MIB
    """The largest message of a client, in bytes."""
    header_size: int = 32 * 1024
    """The largest request head, in bytes."""
    sockets: int = 4096
    """Open sockets in total. If there are more, those without an authenticated request are closed first."""
    anonymous_sockets: int = 64
    """Sockets of one address without an authenticated request. If there are more, the oldest is closed."""
    streams: int = 1024
    """Event streams of one connection, and concurrent requests on one HTTP/2 connection."""
    id_size: int = 1024
    """The longest connection or session id, in characters."""

    header_time: float = 10.0
    """For the request head, from the start of the connection, and for a WebSocket's first message."""
    body_time: float = 60.0
    """For the request body."""
    idle_time: float = 75.0
    """For a kept-alive connection without a request."""
    initialize_time: float = 60.0
    """For the answer to an `initialize` sent by POST."""
    keep_alive: float = 15.0
    """Between two comments on an idle event stream."""
    ping: float = 20.0
    """Between two WebSocket pings on a silent socket; it counts as dead after twice this time."""
    stall: float = 30.0
    """Without progress while data waits to be read: the socket is closed."""
    grace: float = 120.0
    """How long a connection without a socket waits for its client."""
    stop_time: float = 5.0
    """For clients to close when the server stops."""

    unsent: int = 8 * MIB
    max_unsent_time: float = 2.0
    """A connected client is disconnected when `unsent` bytes wait and none has left for this time.

    A burst alone does not disconnect it.
    """
    resume_bytes: int = 8 * MIB
    resume_frames: int = 4096
    """Written frames kept for a client that has never acknowledged any."""
    max_held_bytes: int = 32 * MIB
    max_held_frames: int = 65536
    """What one connection may hold in all. Beyond it, a connection without its client ends."""
    ack_frames: int = 64
    ack_bytes: int = MIB
    """How many messages or bytes of a resuming client one `_accord/ack` covers."""


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a server context that offers HTTP/2 and HTTP/1.1, from two PEM files. Raises UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"cannot use the certificate {certificate} with the key {key}: {error}; "
            "both must be PEM files of one pair"
        ) from error
    return context
