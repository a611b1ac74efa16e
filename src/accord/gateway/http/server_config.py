"""What can be set about the front: where it listens, how much it takes, how long it waits."""

import ssl
from pathlib import Path

from msgspec import Struct

from accord.errors import UsageError

MIB = 1024 * 1024


class ServerConfig(Struct, frozen=True, kw_only=True):
    """Every bound of the front. Times are seconds on the front's clock."""

    hosts: tuple[str, ...] = ("127.0.0.1",)
    """Addresses to listen on; all get the same port."""
    port: int = 0
    """0 lets the system choose one."""
    tls: ssl.SSLContext | None = None
    """From `tls_context`; without it the front speaks plain HTTP and h2c."""
    page: Path | None = None
    """The folder with the built page; None is the one in the package."""

    message_size: int = 16 * MIB
    """The largest message a client may send."""
    header_size: int = 32 * 1024
    """The largest head of a request."""
    sockets: int = 4096
    """Open sockets in total, before anyone has shown a token."""
    streams: int = 1024
    """Event streams of one line; also the requests at a time on one HTTP/2 connection are bounded by it."""
    id_size: int = 1024
    """The longest connection or session id, in characters."""

    header_time: float = 10.0
    """For the head of a request, from the first moment of the connection; also for a WebSocket's first message."""
    body_time: float = 60.0
    """For the body of a request."""
    idle_time: float = 75.0
    """For a kept-alive connection without a request."""
    initialize_time: float = 60.0
    """For the answer to an `initialize` that came by POST."""
    keep_alive: float = 15.0
    """Between two comments on a quiet event stream."""
    ping: float = 20.0
    """Between two WebSocket pings on a silent socket; twice this long without a sign of life and it counts as dead."""
    stall: float = 30.0
    """Without progress while something waits to be read: the socket is closed."""
    grace: float = 120.0
    """That a line without a socket waits for its client."""
    stop_time: float = 5.0
    """For clients to take note of the end."""

    unsent: int = 8 * MIB
    unsent_time: float = 2.0
    """Bytes waiting for a connected client at which it is cut off, once nothing has left for so long: however fast a client
    reads, a burst is longer than its socket.
    """
    kept_bytes: int = 8 * MIB
    kept_frames: int = 4096
    """Written frames kept for a client that has never acknowledged any."""
    held_bytes: int = 32 * MIB
    held_frames: int = 65536
    """What one line may hold in all; beyond it, a line without its client is over."""
    ack_frames: int = 64
    ack_bytes: int = MIB
    """How much of a resuming client's messages one `_accord/ack` covers."""


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """A server's context that offers HTTP/2 and HTTP/1.1, from two PEM files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2", "http/1.1"])
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"cannot use the certificate {certificate} with the key {key}: {error}; both must be PEM files of one pair"
        ) from error
    return context
