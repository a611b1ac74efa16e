"""The first bytes of a socket decide what it speaks: HTTP/2 by its preface or by ALPN, HTTP/1.1 otherwise."""

import asyncio
import socket
import ssl
from typing import Final, cast

from accord.gateway.front.http1 import Http1
from accord.gateway.front.http2 import Http2
from accord.gateway.front.premises import Premises

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HIGH_WATER: Final = 256 * 1024
_DEAD_AFTER: Final = 60_000  # milliseconds that the kernel waits for an acknowledgement


class Listener(asyncio.Protocol):
    """A socket that has said nothing yet."""

    def __init__(self, premises: Premises) -> None:
        self._premises = premises
        self._transport: asyncio.Transport | None = None
        self._begun = premises.clock.now()
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's has no such base class
        if not self._premises.entered(self):
            transport.abort()
            self._transport = None
            return
        transport.set_write_buffer_limits(high=HIGH_WATER)
        _notice_death(transport)
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._become(transport, Http2(self._premises))

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        self._data += data
        if self._data.startswith(PREFACE):
            self._become(transport, Http2(self._premises))
        elif not PREFACE.startswith(self._data):
            self._become(transport, Http1(self._premises, self._begun))

    def _become(self, transport: asyncio.Transport, protocol: Http1 | Http2) -> None:
        self._transport = None
        self._premises.replaced(self, protocol)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if self._data:
            protocol.data_received(self._data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._premises.left(self)

    def tick(self, now: float) -> None:
        """A socket that says nothing is no use to anybody."""
        if now - self._begun >= self._premises.config.header_time:
            self.abort()

    def leave(self) -> None:
        """See `Socket`."""
        self.abort()

    def abort(self) -> None:
        """See `Socket`."""
        if self._transport is not None:
            self._transport.abort()


def _notice_death(transport: asyncio.Transport) -> None:
    """Let the kernel give up on a peer that acknowledges nothing, where it can."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if sock is not None and option is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, option, _DEAD_AFTER)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
