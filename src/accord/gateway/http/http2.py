"""HTTP/2 on one socket, by h2, with flow control.

Imported on first use: it loads h2.
"""

import asyncio
from collections import deque
from typing import Final, cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from accord.gateway.access.authentication import AuthRequest
from accord.gateway.access.request_origin import RequestRefused
from accord.gateway.http.http1 import peer_of
from accord.gateway.http.http_exchange import Headers, HttpExchange, gather, read_target
from accord.gateway.http.server_state import HttpServerState

# MERGED gateway.front.exchange2: One request and its response over HTTP/2: what waits for a window, what is thrown away, when the stream is over.

_READY: Final = 64 * 1024
"""Bytes waiting for a window at which a response takes no more."""
_THROWN_AWAY: Final = 4 * 1024 * 1024
"""Bytes of a request that nobody wants any more at which it is broken off."""
_CODE = h2.errors.ErrorCodes


class Http2Exchange(HttpExchange):
    """An exchange over HTTP/2: one stream of the connection."""

    def __init__(self, http: "Http2", stream: int, request: AuthRequest, declared: int | None) -> None:
        super().__init__(request, declared)
        self._http = http
        self.stream = stream
        self.begun = http.premises.clock.now()
        self.whole = False
        """The request came to its end."""
        self._pending: deque[bytes] = deque()
        self._offset = 0  # of what has left of the first piece
        self._pending_bytes = 0
        self._last = False
        self._said = False  # the response is complete
        self._thrown_away = 0

    @property
    def ready(self) -> bool:
        return not self._http.paused and self._pending_bytes < _READY

    @property
    def buffered(self) -> int:
        transport = self._http.transport
        return self._pending_bytes + (transport.get_write_buffer_size() if transport is not None else 0)

    def accept_body(self) -> None:
        if self.request.headers.get("expect") == ["100-continue"] and not self.whole:
            self._http.h2.send_headers(self.stream, [(":status", "100")])
            self._http.flush()

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        if self.answered:
            return
        if self.request.method == "HEAD" or status in (204, 304):
            length, body = len(body), b""
        else:
            length = len(body)
        if status not in (204, 304):
            headers = [*headers, ("content-length", str(length))]
        self._head(status, headers, last=not body)
        if body:
            self._put(body)
            self.finish()

    def begin(self, status: int, headers: Headers) -> None:
        self._head(status, headers, last=False)

    def _head(self, status: int, headers: Headers, *, last: bool) -> None:
        self.answered = True
        fields = [(":status", str(status)), *((name.lower(), value) for name, value in headers)]
        self._http.h2.send_headers(self.stream, fields, end_stream=last)
        if last:
            self._done()
        self._http.flush()

    def write(self, data: bytes) -> None:
        self._put(data)
        self.pump()

    def _put(self, data: bytes) -> None:
        self._pending.append(data)
        self._pending_bytes += len(data)

    def finish(self) -> None:
        if self._http.exchanges.get(self.stream) is self:
            self._last = True
            self.pump()

    def abort(self) -> None:
        if self._http.exchanges.get(self.stream) is self:
            self._http.h2.reset_stream(self.stream, _CODE.NO_ERROR if self._said else _CODE.CANCEL)
            self._http.closed(self)
            self._http.flush()

    def pump(self) -> None:
        """Send what the windows allow."""
        protocol = self._http
        if protocol.exchanges.get(self.stream) is not self or not self.answered or self._said:
            return
        pending = self._pending
        while pending and not protocol.paused:
            room = min(
                protocol.h2.local_flow_control_window(self.stream), protocol.h2.max_outbound_frame_size
            )
            if room <= 0:
                break
            piece = pending[0][self._offset : self._offset + room]
            self._offset += len(piece)
            if self._offset == len(pending[0]):
                pending.popleft()
                self._offset = 0
            self._pending_bytes -= len(piece)
            protocol.h2.send_data(self.stream, piece)
        if self._last and not pending:
            protocol.h2.end_stream(self.stream)
            self._done()
        protocol.flush()

    def roomier(self) -> None:
        """A window has grown or the socket was drained: go on, and ask for more if there is room for it."""
        self.pump()
        if self.on_ready is not None and self.ready:
            self.on_ready()

    def _done(self) -> None:
        """The response is complete. A request that is still coming is read to its end: many clients take a reset for a failure."""
        self._said = True
        if self.whole:
            self._http.closed(self)

    def took(self, data: bytes) -> None:
        """A piece of the request's body."""
        self.body(data)
        if self.answered:
            self._thrown_away += len(data)
            if self._thrown_away > _THROWN_AWAY:
                self.abort()

    def ended(self) -> None:
        """The request has come to its end."""
        self.whole = True
        self.body_ended()
        if self._said:
            self._http.closed(self)


# MERGED gateway.front.http2: HTTP/2 on one socket, by h2: many requests at a time, each within its flow-control window.

_WINDOW: Final = 1024 * 1024
"""Bytes of a body that a client may send ahead."""
_RESETS: Final = 200
"""Requests that a client may take back, beyond those it let be answered."""


class Http2(asyncio.Protocol):
    """A socket that speaks HTTP/2."""

    def __init__(self, premises: HttpServerState) -> None:
        self.premises = premises
        self.transport: asyncio.Transport | None = None
        self.paused = False
        """The peer does not read what was written."""
        self._blocked = 0.0
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding=None)
        )
        self.exchanges: dict[int, Http2Exchange] = {}
        self._quiet = premises.clock.now()  # since when no request is open
        self._fresh = True
        self._credit = _RESETS
        self._tls = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's has no such base class
        self._tls = transport.get_extra_info("ssl_object") is not None
        config = self.premises.config
        codes = h2.settings.SettingCodes
        self.h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                codes.MAX_CONCURRENT_STREAMS: config.streams,
                codes.INITIAL_WINDOW_SIZE: _WINDOW,
                codes.MAX_HEADER_LIST_SIZE: config.header_size,
                codes.ENABLE_PUSH: 0,
            },
        )
        self.h2.decoder.max_header_list_size = config.header_size
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(_WINDOW)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.premises.left(self)
        exchanges, self.exchanges = self.exchanges, {}
        for exchange in exchanges.values():
            exchange.gone()

    def pause_writing(self) -> None:
        # Who does not read what was said needs not say more.
        self.paused = True
        self._blocked = self.premises.clock.now()
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.paused = False
        if self.transport is not None:
            self.transport.resume_reading()
        for exchange in list(self.exchanges.values()):
            exchange.roomier()

    def data_received(self, data: bytes) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        try:
            for event in self.h2.receive_data(data):
                if not transport.is_closing():
                    self._event(event)
        except (h2.exceptions.ProtocolError, UnicodeDecodeError):
            self.premises.metrics.refused["malformed"] += 1
            self.flush()
            transport.close()
            return
        self.flush()

    def _event(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                self._request(event)
            case h2.events.DataReceived():
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if (exchange := self.exchanges.get(event.stream_id)) is not None:
                    exchange.took(event.data)
            case h2.events.StreamEnded():
                if (exchange := self.exchanges.get(event.stream_id)) is not None:
                    exchange.ended()
            case h2.events.StreamReset():
                self._reset(event)
            case h2.events.WindowUpdated():
                for stream in [event.stream_id] if event.stream_id else list(self.exchanges):
                    if (exchange := self.exchanges.get(stream)) is not None:
                        exchange.roomier()
            case h2.events.RemoteSettingsChanged():
                for exchange in list(self.exchanges.values()):
                    exchange.roomier()
            case h2.events.ConnectionTerminated():
                self.flush()
                if self.transport is not None and not self.exchanges:
                    self.transport.close()
            case _:
                pass

    def _request(self, event: h2.events.RequestReceived) -> None:
        self._fresh = False
        pseudo: dict[bytes, bytes] = {}
        plain: list[tuple[bytes, bytes]] = []
        for name, value in event.headers:
            if bytes(name).startswith(b":"):
                pseudo[bytes(name)] = bytes(value)
            else:
                plain.append((bytes(name), bytes(value)))
        headers = gather(plain)
        refusal = None
        path, query = "/", ""
        if authority := pseudo.get(b":authority", b"").decode("latin-1"):
            if headers.get("host", [authority]) != [authority]:
                refusal = RequestRefused(400, "Host and :authority differ.")
            headers["host"] = [authority]
        try:
            path, query = read_target(pseudo.get(b":path", b"").decode("latin-1"))
        except RequestRefused as error:
            refusal = error
        request = AuthRequest(
            method=pseudo.get(b":method", b"").decode("latin-1"),
            path=path,
            query=query,
            headers=headers,
            peer=peer_of(self.transport),
            tls=self._tls,
        )
        length = headers.get("content-length", [""])[0]
        declared = int(length) if length.isascii() and length.isdigit() and len(length) < 19 else None
        stream = event.stream_id or 0
        exchange = self.exchanges[stream] = Http2Exchange(self, stream, request, declared)
        exchange.whole = event.stream_ended is not None
        if refusal is not None:
            exchange.respond(refusal.status, [("content-type", "text/plain")], refusal.reason.encode())
        else:
            self.premises.handle(exchange)

    def _reset(self, event: h2.events.StreamReset) -> None:
        if not event.remote_reset:
            return
        exchange = self.exchanges.pop(event.stream_id or 0, None)
        if exchange is not None:
            self._empty()
            exchange.gone()
        self._credit -= 1
        if self._credit < 0:
            self.premises.metrics.refused["resets"] += 1
            self._goodbye(_CODE.ENHANCE_YOUR_CALM)

    def closed(self, exchange: Http2Exchange) -> None:
        """A response is complete."""
        if self.exchanges.pop(exchange.stream, None) is not None:
            self._credit = min(self._credit + 1, _RESETS)
            self._empty()
            if self.premises.stopping and not self.exchanges:
                self._goodbye(_CODE.NO_ERROR)

    def _empty(self) -> None:
        if not self.exchanges:
            self._quiet = self.premises.clock.now()

    def flush(self) -> None:
        """Put on the wire what h2 has made."""
        data = self.h2.data_to_send()
        if data and self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def _goodbye(self, code: h2.errors.ErrorCodes) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        self.h2.close_connection(code)
        self.flush()
        self.transport.close()

    def tick(self, now: float) -> None:
        """See `Watched`."""
        config = self.premises.config
        if self.paused and now - self._blocked >= config.stall and not self.exchanges:
            self.abort()
        if not self.exchanges:
            if now - self._quiet >= (config.header_time if self._fresh else config.idle_time):
                self._goodbye(_CODE.NO_ERROR)
            return
        for exchange in list(self.exchanges.values()):
            if exchange.whole or now - exchange.begun < config.body_time:
                continue
            if exchange.answered:
                exchange.abort()
            else:
                self.premises.metrics.refused["slow"] += 1
                text = b"The body of this request came too slowly."
                exchange.respond(408, [("content-type", "text/plain")], text)

    def leave(self) -> None:
        """See `Socket`."""
        if not self.exchanges:
            self._goodbye(_CODE.NO_ERROR)

    def abort(self) -> None:
        """See `Socket`."""
        if self.transport is not None:
            self.transport.abort()
