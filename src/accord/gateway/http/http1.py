"""HTTP/1.1 on one socket, with h11: sequential requests, the upgrade to a WebSocket, limits for slow and
large requests.

A request that another server could read differently is refused, and its connection is closed: with both a
length and a transfer coding, with folded header lines, with line ends that are not CRLF, or with trailers. A
proxy in front of the gateway could otherwise be made to forward a request that it did not see.
"""

import asyncio
import itertools
import re
from http import HTTPStatus
from typing import Any, Final, cast

import h11

from accord.gateway.access.authentication import AuthRequest
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.http.http_exchange import Headers, HttpExchange, headers_by_name, read_target
from accord.gateway.http.server_state import HttpServerState, ServerSocket

_LINGER: Final = 5.0
"""Seconds to keep reading a refused upload before closing, so that the client reads the response."""
_SMALL_BODY: Final = 64 * 1024
"""An unwanted body up to this size is read to its end; otherwise the connection closes."""
_REASON_PHRASES: Final = {int(status): status.phrase.encode() for status in HTTPStatus}
_CLOSE_HEADER: Final = ("Connection", "close")
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_AMBIGUOUS_LINE: Final = re.compile(rb"(?<!\r)\n|\n[ \t]")
_MESSAGE_END: Final = b"\r\n\r\n"
"""How a request head and a chunked body end."""


class Http1(asyncio.Protocol):
    """A socket that speaks HTTP/1.1."""

    def __init__(self, server_state: HttpServerState, opened_at: float) -> None:
        self.server_state: HttpServerState = server_state
        self.h11: h11.Connection = h11.Connection(
            h11.SERVER, max_incomplete_event_size=server_state.config.header_size
        )
        self.transport: asyncio.Transport | None = None
        self.paused: bool = False
        """Whether the peer does not read."""
        self._paused_since = 0.0
        self._exchange: Http1Exchange | None = None
        self._phase_began = opened_at
        self._phase = "head"  # head | idle | body | answer | linger
        self._advancing = False
        self._checked_bytes = 0  # of the next head, so that a slow sender causes no repeated work
        self._pipelined_bytes = 0  # received while a response was in progress
        self._recent = b""  # the end of what was received, with everything that h11 has not read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's has no such base class

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.server_state.remove_socket(self)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.disconnected()

    def pause_writing(self) -> None:
        # Take no more requests from a peer that does not read its responses.
        self.paused = True
        self._paused_since = self.server_state.clock.now()
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.paused = False
        if self.transport is not None and not self._pipelined_bytes:
            self.transport.resume_reading()
        if self._exchange is not None and self._exchange.on_ready is not None:
            self._exchange.on_ready()

    def eof_received(self) -> bool | None:
        return None

    def data_received(self, data: bytes) -> None:
        if self._phase == "linger":
            return
        if self._phase == "idle":
            self._set_phase("head")
        elif self._phase == "answer":
            self._pipelined_bytes += len(data)
            if self._pipelined_bytes > self.server_state.config.header_size and self.transport is not None:
                self.transport.pause_reading()
        self._recent = (
            self._recent if self._phase == "answer" else self._recent[-len(_MESSAGE_END) :]
        ) + data
        self.h11.receive_data(data)
        self.advance()

    def advance(self) -> None:
        """Handle the available events.

        Handlers run inside and may end the exchange, so this is one flat loop.
        """
        if self._advancing:
            return
        self._advancing = True
        try:
            while self.transport is not None and self._phase != "linger" and self._handle_next_event():
                pass
        except h11.RemoteProtocolError as error:
            self._refuse(error)
        finally:
            self._advancing = False

    def _handle_next_event(self) -> bool:
        if self.h11.our_state is h11.DONE and self.h11.their_state is h11.DONE:
            self.h11.start_next_cycle()
            self._exchange = None
            self._set_phase("idle")
            if self._pipelined_bytes and self.transport is not None:
                self._pipelined_bytes = 0
                self._set_phase("head")
                if not self.paused:
                    self.transport.resume_reading()
        if self.h11.their_state is h11.IDLE:
            received = self.h11.trailing_data[0]
            _check_head(received, self._checked_bytes)
            self._checked_bytes = len(received)
        event: Any = self.h11.next_event()
        if event is h11.NEED_DATA:
            return False
        if event is h11.PAUSED:
            return False
        if isinstance(event, h11.Request):
            self._checked_bytes = 0
            self._handle_request(event)
        elif isinstance(event, h11.Data):
            if self._exchange is not None:
                self._exchange.receive_body(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            exchange = self._exchange
            if exchange is not None and exchange.is_chunked:
                self._check_chunked_end(event)
            if exchange is not None:
                if self._phase == "body":
                    self._set_phase("answer")
                if exchange.upgrade is not None:
                    self.server_state.handle(exchange)
                exchange.body_ended()
        else:  # the connection ended
            self._close()
            return False
        return True

    def _check_chunked_end(self, event: h11.EndOfMessage) -> None:
        """Raise RemoteProtocolError unless a chunked body ended with CRLF and without trailers."""
        end = len(self._recent) - len(self.h11.trailing_data[0])
        if len(list(event.headers)) or not self._recent[:end].endswith(_MESSAGE_END):
            raise h11.RemoteProtocolError("ambiguous end of a chunked body")

    def _handle_request(self, event: h11.Request) -> None:
        self._set_phase("body")
        headers = headers_by_name(event.headers)
        if "transfer-encoding" in headers and "content-length" in headers:
            raise h11.RemoteProtocolError("both a length and a transfer coding")
        tls = self.transport is not None and self.transport.get_extra_info("ssl_object") is not None
        upgrades = [part.strip().lower() for value in headers.get("upgrade", ()) for part in value.split(",")]
        is_websocket = "websocket" in upgrades and event.method == b"GET"
        target = event.target.decode("latin-1")
        path, query, refusal = "/", "", None
        try:
            path, query = read_target(target)
            if event.http_version not in (b"1.1", b"1.0"):
                refusal = RequestRefused(505, "Only HTTP/1.1 and HTTP/2 are supported.")
            elif (
                len(target) + sum(map(len, itertools.chain(*event.headers)))
                > self.server_state.config.header_size
            ):
                refusal = RequestRefused(431, "The request head is too large.")
        except RequestRefused as error:
            refusal = error
        request = AuthRequest(
            method=event.method.decode("latin-1"),
            path=path,
            query=query,
            headers=headers,
            peer=peer_address(self.transport),
            tls=tls,
            kind="websocket" if is_websocket else "http",
        )
        length = headers.get("content-length", ["0"])[0]
        declared_length = None if "transfer-encoding" in headers else int(length)
        exchange = self._exchange = Http1Exchange(self, request, declared_length)
        if refusal is not None:
            exchange.respond(refusal.status, [("Content-Type", "text/plain")], refusal.reason.encode())
        elif is_websocket:
            # Read a body of the handshake request first: the frames follow it.
            exchange.upgrade = self._upgrade
        else:
            self.server_state.handle(exchange)

    def _upgrade(self, protocol: asyncio.Protocol, extra: Headers) -> None:
        transport, self.transport, self._exchange = self.transport, None, None
        assert transport is not None
        self.server_state.trust_socket(self)
        self.server_state.sockets.discard(self)  # the WebSocket takes its place
        if self._pipelined_bytes and not self.paused:
            transport.resume_reading()
        unread_data, _ = self.h11.trailing_data
        headers = [("Upgrade", "websocket"), ("Connection", "Upgrade"), *extra]
        reply = h11.InformationalResponse(status_code=101, reason=b"Switching Protocols", headers=headers)
        transport.write(self.h11.send(reply) or b"")
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if unread_data:
            protocol.data_received(unread_data)

    def send(self, *events: Any) -> None:
        """Write events of the response with one system call."""
        data: bytes = b"".join(
            [self.h11.send(event) or b"" for event in events]  # pyright: ignore[reportUnknownArgumentType]
        )
        if self.transport is not None and data and not self.transport.is_closing():
            self.transport.write(data)

    def response_ended(self) -> None:
        """Continue with the next request after a complete response, or close."""
        if self.h11.our_state is h11.MUST_CLOSE:
            if self.h11.their_state is h11.SEND_BODY:
                self._linger()
            else:
                self._close()
        else:
            self.advance()

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        """Answer invalid HTTP, unless a response has already started."""
        self.server_state.metrics.refused["malformed"] += 1
        status = error.error_status_hint
        exchange, self._exchange = self._exchange, None
        if self.h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            text = (
                b"The request head is too large." if status == 431 else b"This is not a valid HTTP request."
            )
            headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(text))), _CLOSE_HEADER]
            self.send(
                h11.Response(status_code=status, headers=headers), h11.Data(data=text), h11.EndOfMessage()
            )
        self._linger()
        if exchange is not None:
            exchange.disconnected()

    def _linger(self) -> None:
        """Discard further input for a while: closing at once could reset the response."""
        self._set_phase("linger")
        transport = self.transport
        if transport is not None and transport.can_write_eof():
            transport.write_eof()

    def _close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def _set_phase(self, phase: str) -> None:
        self._phase = phase
        self._phase_began = self.server_state.clock.now()

    def tick(self, now: float) -> None:
        """See `TimedConnection.tick`."""
        config = self.server_state.config
        if (
            self.paused
            and now - self._paused_since >= config.stall
            and not (self._exchange and self._exchange.on_ready)
        ):
            self.abort()
        limit = {
            "head": config.header_time,
            "idle": config.idle_time,
            "body": config.body_time,
            "linger": _LINGER,
        }.get(self._phase)
        if limit is None or now - self._phase_began < limit:
            return
        if self._phase == "body" and self._exchange is not None and not self._exchange.response_started:
            self.server_state.metrics.refused["slow"] += 1
            self._exchange.respond(
                408, [("Content-Type", "text/plain")], b"The request body arrived too slowly."
            )
        elif self._phase == "idle":
            self._close()
        else:
            self.server_state.metrics.refused["slow"] += self._phase == "head"
            self.abort()

    def stop(self) -> None:
        """See `ServerSocket.stop`."""
        if self._exchange is None:
            self._close()

    def abort(self) -> None:
        """See `ServerSocket.abort`."""
        if self.transport is not None:
            self.transport.abort()


class Http1Exchange(HttpExchange):
    """One request and its response over HTTP/1.1."""

    def __init__(self, http: Http1, request: AuthRequest, declared_length: int | None) -> None:
        super().__init__(request, declared_length)
        self._http = http

    @property
    def socket(self) -> ServerSocket:
        return self._http

    @property
    def is_chunked(self) -> bool:
        """Whether the body is chunked: its length is not declared."""
        return self._declared_length is None

    @property
    def ready(self) -> bool:
        return not self._http.paused

    @property
    def buffered(self) -> int:
        transport = self._http.transport
        return transport.get_write_buffer_size() if transport is not None else 0

    def send_continue(self) -> None:
        if self._http.h11.they_are_waiting_for_100_continue:
            self._http.send(h11.InformationalResponse(status_code=100, headers=[]))

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        if self.response_started:
            return
        self.response_started: bool = True
        if status not in (204, 304):
            headers = [*headers, ("Content-Length", str(len(body)))]
        events: list[Any] = [self._response_head(status, headers)]
        if body and self.request.method != "HEAD" and status not in (204, 304):
            events.append(h11.Data(data=body))
        self._http.send(*events, h11.EndOfMessage())
        self._http.response_ended()

    def _response_head(self, status: int, headers: Headers) -> h11.Response:
        """Return the response head; closes the connection if the body is unread or the server stops."""
        http = self._http.h11
        unread = http.their_state is h11.SEND_BODY and (
            http.they_are_waiting_for_100_continue
            or self._declared_length is None
            or self._declared_length > _SMALL_BODY
        )
        if unread or self._http.server_state.stopping:
            headers = [*headers, _CLOSE_HEADER]
        return h11.Response(status_code=status, reason=_REASON_PHRASES.get(status, b""), headers=headers)

    def start(self, status: int, headers: Headers) -> None:
        self.response_started = True
        self._http.send(self._response_head(status, headers))

    def write(self, data: bytes) -> None:
        self._http.send(h11.Data(data=data))

    def finish(self) -> None:
        if self._http.transport is not None:
            self._http.send(h11.EndOfMessage())
            self._http.response_ended()

    def abort(self) -> None:
        self._http.abort()


def _check_head(received: bytes, checked: int) -> None:
    """Raise RemoteProtocolError if the next head has a folded line or a line end that is not CRLF.

    Its first `checked` bytes were checked before.
    """
    start = max(0, checked - len(_MESSAGE_END))
    end = _HEAD_END.search(received, start)
    if _AMBIGUOUS_LINE.search(received, start, len(received) if end is None else end.end()):
        raise h11.RemoteProtocolError("ambiguous line end in the request head")


def peer_address(transport: asyncio.Transport | None) -> str:
    """Return the address of the other end."""
    name: tuple[str, int] | str | None = (
        transport.get_extra_info("peername") if transport is not None else None
    )
    return name[0] if isinstance(name, tuple) else ""
