"""HTTP/2 on one socket, with h2: concurrent requests and flow control.

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
from accord.gateway.access.resource_limits import TokenBucket
from accord.gateway.http.http1 import peer_address
from accord.gateway.http.http_exchange import Headers, HttpExchange, headers_by_name, read_target
from accord.gateway.http.server_state import HttpServerState, ServerSocket

_MAX_PENDING: Final = 64 * 1024
"""Bytes waiting for a flow-control window at which a response takes no more."""
_MAX_DISCARDED: Final = 4 * 1024 * 1024
"""Bytes of an unwanted request body after which the stream is reset."""
_ErrorCodes = h2.errors.ErrorCodes


class Http2Exchange(HttpExchange):
    """One request and its response over HTTP/2: one stream of the connection."""

    @property
    def socket(self) -> ServerSocket:
        return self._http

    def __init__(self, http: "Http2", stream: int, request: AuthRequest, declared_length: int | None) -> None:
        super().__init__(request, declared_length)
        self._http = http
        self.stream: int = stream
        self.start_time: float = http.server_state.clock.now()
        self.request_complete: bool = False
        """Whether the whole request was received."""
        self._pending: deque[bytes] = deque()
        self._offset = 0  # bytes of the first pending item that were sent
        self._pending_bytes = 0
        self._end_after_pending = False
        self._response_complete = False
        self._discarded_bytes = 0

    @property
    def ready(self) -> bool:
        return not self._http.paused and self._pending_bytes < _MAX_PENDING

    @property
    def buffered(self) -> int:
        transport = self._http.transport
        return self._pending_bytes + (transport.get_write_buffer_size() if transport is not None else 0)

    def send_continue(self) -> None:
        if self.request.headers.get("expect") == ["100-continue"] and not self.request_complete:
            self._http.h2.send_headers(self.stream, [(":status", "100")])
            self._http.flush()

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        if self.response_started:
            return
        if self.request.method == "HEAD" or status in (204, 304):
            length, body = len(body), b""
        else:
            length = len(body)
        if status not in (204, 304):
            headers = [*headers, ("content-length", str(length))]
        self._send_head(status, headers, end_stream=not body)
        if body:
            self._queue(body)
            self.finish()

    def start(self, status: int, headers: Headers) -> None:
        self._send_head(status, headers, end_stream=False)

    def _send_head(self, status: int, headers: Headers, *, end_stream: bool) -> None:
        self.response_started = True
        fields = [(":status", str(status)), *((name.lower(), value) for name, value in headers)]
        self._http.h2.send_headers(self.stream, fields, end_stream=end_stream)
        if end_stream:
            self._complete_response()
        self._http.flush()

    def write(self, data: bytes) -> None:
        self._queue(data)
        self.send_pending()

    def _queue(self, data: bytes) -> None:
        self._pending.append(data)
        self._pending_bytes += len(data)

    def finish(self) -> None:
        if self._http.exchanges.get(self.stream) is self:
            self._end_after_pending = True
            self.send_pending()

    def abort(self) -> None:
        if self._http.exchanges.get(self.stream) is self:
            self._http.h2.reset_stream(
                self.stream, _ErrorCodes.NO_ERROR if self._response_complete else _ErrorCodes.CANCEL
            )
            self._http.remove_exchange(self)
            self._http.flush()

    def send_pending(self) -> None:
        """Send what the flow-control windows allow."""
        protocol = self._http
        if (
            protocol.exchanges.get(self.stream) is not self
            or not self.response_started
            or self._response_complete
        ):
            return
        pending = self._pending
        while pending and not protocol.paused:
            allowed = min(
                protocol.h2.local_flow_control_window(self.stream), protocol.h2.max_outbound_frame_size
            )
            if allowed <= 0:
                break
            part = pending[0][self._offset : self._offset + allowed]
            self._offset += len(part)
            if self._offset == len(pending[0]):
                pending.popleft()
                self._offset = 0
            self._pending_bytes -= len(part)
            protocol.h2.send_data(self.stream, part)
        if self._end_after_pending and not pending:
            protocol.h2.end_stream(self.stream)
            self._complete_response()
        protocol.flush()

    def on_window_open(self) -> None:
        """Continue sending after a window grew or the socket drained."""
        self.send_pending()
        if self.on_ready is not None and self.ready:
            self.on_ready()

    def _complete_response(self) -> None:
        """Mark the response complete.

        The rest of the request is still read: many clients take a reset for a failure.
        """
        self._response_complete = True
        if self.request_complete:
            self._http.remove_exchange(self)

    def receive_data(self, data: bytes) -> None:
        """Take a part of the request body."""
        self.receive_body(data)
        if self.response_started:
            self._discarded_bytes += len(data)
            if self._discarded_bytes > _MAX_DISCARDED:
                self.abort()

    def end_request(self) -> None:
        """Handle the end of the request."""
        self.request_complete = True
        self.body_ended()
        if self._response_complete:
            self._http.remove_exchange(self)


_WINDOW_BYTES: Final = 1024 * 1024
"""Bytes of a body that a client may send ahead."""
_MAX_RESETS: Final = 200
"""Requests that a client may reset, in addition to one for each answered request."""
_CONTROL_FRAMES: Final = 1000
_CONTROL_FRAMES_PER_SECOND: Final = 50
"""Frames that a client may send at once, and on average, that cost work and carry nothing: pings, settings,
priorities, unknown frames, empty data.
"""


class Http2(asyncio.Protocol):
    """A socket that speaks HTTP/2."""

    def __init__(self, server_state: HttpServerState) -> None:
        self.server_state: HttpServerState = server_state
        self.transport: asyncio.Transport | None = None
        self.paused: bool = False
        """Whether the peer does not read."""
        self._paused_since = 0.0
        self.h2: h2.connection.H2Connection = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding=None)
        )
        self.exchanges: dict[int, Http2Exchange] = {}
        self._idle_since = server_state.clock.now()  # since when no request is open
        self._no_request_yet = True
        self._resets_left = _MAX_RESETS
        self._control_frames = TokenBucket(server_state.clock, _CONTROL_FRAMES_PER_SECOND, _CONTROL_FRAMES)
        self._tls = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's has no such base class
        self._tls = transport.get_extra_info("ssl_object") is not None
        config = self.server_state.config
        codes = h2.settings.SettingCodes
        self.h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                codes.MAX_CONCURRENT_STREAMS: config.streams,
                codes.INITIAL_WINDOW_SIZE: _WINDOW_BYTES,
                codes.MAX_HEADER_LIST_SIZE: config.header_size,
                codes.ENABLE_PUSH: 0,
            },
        )
        self.h2.decoder.max_header_list_size = config.header_size
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(_WINDOW_BYTES)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.server_state.remove_socket(self)
        exchanges, self.exchanges = self.exchanges, {}
        for exchange in exchanges.values():
            exchange.disconnected()

    def pause_writing(self) -> None:
        # Take no more requests from a peer that does not read its responses.
        self.paused = True
        self._paused_since = self.server_state.clock.now()
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.paused = False
        if self.transport is not None:
            self.transport.resume_reading()
        for exchange in list(self.exchanges.values()):
            exchange.on_window_open()

    def data_received(self, data: bytes) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        try:
            for event in self.h2.receive_data(data):
                if not transport.is_closing():
                    self._handle_event(event)
        except (h2.exceptions.ProtocolError, UnicodeDecodeError):
            self.server_state.metrics.refused["malformed"] += 1
            self.flush()
            transport.close()
            return
        self.flush()

    def _handle_event(self, event: h2.events.Event) -> None:
        if _is_control(event) and self._control_frames.take(1):
            self.server_state.metrics.refused["control_frames"] += 1
            self._close(_ErrorCodes.ENHANCE_YOUR_CALM)
            return
        match event:
            case h2.events.RequestReceived():
                self._handle_request(event)
            case h2.events.DataReceived():
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if (exchange := self.exchanges.get(event.stream_id)) is not None:
                    exchange.receive_data(event.data)
            case h2.events.StreamEnded():
                if (exchange := self.exchanges.get(event.stream_id)) is not None:
                    exchange.end_request()
            case h2.events.StreamReset():
                self._handle_reset(event)
            case h2.events.WindowUpdated():
                for stream in [event.stream_id] if event.stream_id else list(self.exchanges):
                    if (exchange := self.exchanges.get(stream)) is not None:
                        exchange.on_window_open()
            case h2.events.RemoteSettingsChanged():
                for exchange in list(self.exchanges.values()):
                    exchange.on_window_open()
            case h2.events.ConnectionTerminated():
                self.flush()
                if self.transport is not None and not self.exchanges:
                    self.transport.close()
            case _:
                pass

    def _handle_request(self, event: h2.events.RequestReceived) -> None:
        self._no_request_yet = False
        pseudo: dict[bytes, bytes] = {}
        regular: list[tuple[bytes, bytes]] = []
        for name, value in event.headers:
            if bytes(name).startswith(b":"):
                pseudo[bytes(name)] = bytes(value)
            else:
                regular.append((bytes(name), bytes(value)))
        headers = headers_by_name(regular)
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
            peer=peer_address(self.transport),
            tls=self._tls,
        )
        length = headers.get("content-length", [""])[0]
        declared_length = int(length) if length.isascii() and length.isdigit() and len(length) < 19 else None
        stream = event.stream_id or 0
        exchange = self.exchanges[stream] = Http2Exchange(self, stream, request, declared_length)
        exchange.request_complete = event.stream_ended is not None
        if refusal is not None:
            exchange.respond(refusal.status, [("content-type", "text/plain")], refusal.reason.encode())
        else:
            self.server_state.handle(exchange)

    def _handle_reset(self, event: h2.events.StreamReset) -> None:
        if not event.remote_reset:
            return
        exchange = self.exchanges.pop(event.stream_id or 0, None)
        if exchange is not None:
            self._update_idle_time()
            exchange.disconnected()
        self._resets_left -= 1
        if self._resets_left < 0:
            self.server_state.metrics.refused["resets"] += 1
            self._close(_ErrorCodes.ENHANCE_YOUR_CALM)

    def remove_exchange(self, exchange: Http2Exchange) -> None:
        """Remove a completed exchange."""
        if self.exchanges.pop(exchange.stream, None) is not None:
            self._resets_left = min(self._resets_left + 1, _MAX_RESETS)
            self._update_idle_time()
            if self.server_state.stopping and not self.exchanges:
                self._close(_ErrorCodes.NO_ERROR)

    def _update_idle_time(self) -> None:
        if not self.exchanges:
            self._idle_since = self.server_state.clock.now()

    def flush(self) -> None:
        """Write the bytes that h2 has produced."""
        data = self.h2.data_to_send()
        if data and self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def _close(self, code: h2.errors.ErrorCodes) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        self.h2.close_connection(code)
        self.flush()
        self.transport.close()

    def tick(self, now: float) -> None:
        """See `TimedConnection.tick`."""
        config = self.server_state.config
        if self.paused and now - self._paused_since >= config.stall and not self.exchanges:
            self.abort()
        if not self.exchanges:
            if now - self._idle_since >= (config.header_time if self._no_request_yet else config.idle_time):
                self._close(_ErrorCodes.NO_ERROR)
            return
        for exchange in list(self.exchanges.values()):
            if exchange.request_complete or now - exchange.start_time < config.body_time:
                continue
            if exchange.response_started:
                exchange.abort()
            else:
                self.server_state.metrics.refused["slow"] += 1
                text = b"The request body arrived too slowly."
                exchange.respond(408, [("content-type", "text/plain")], text)

    def stop(self) -> None:
        """See `ServerSocket.stop`."""
        if not self.exchanges:
            self._close(_ErrorCodes.NO_ERROR)

    def abort(self) -> None:
        """See `ServerSocket.abort`."""
        if self.transport is not None:
            self.transport.abort()


def _is_control(event: h2.events.Event) -> bool:
    """Whether a frame only costs work. Window updates do not count: a fast reader sends many."""
    match event:
        case h2.events.DataReceived():
            return not event.data and event.stream_ended is None
        case (
            h2.events.PingReceived()
            | h2.events.PingAckReceived()
            | h2.events.RemoteSettingsChanged()
            | h2.events.SettingsAcknowledged()
            | h2.events.PriorityUpdated()
            | h2.events.UnknownFrameReceived()
        ):
            return True
        case _:
            return False
