"""One request and its response over HTTP/2: what waits for a window, what is thrown away, when the stream is over."""

from collections import deque
from typing import TYPE_CHECKING, Final

import h2.errors

from accord.gateway.access.door import Request
from accord.gateway.front.exchange import Exchange, Headers

if TYPE_CHECKING:
    from accord.gateway.front.http2 import Http2

_READY: Final = 64 * 1024
"""Bytes waiting for a window at which a response takes no more."""
_THROWN_AWAY: Final = 4 * 1024 * 1024
"""Bytes of a request that nobody wants any more at which it is broken off."""
_CODE = h2.errors.ErrorCodes


class Exchange2(Exchange):
    """An exchange over HTTP/2: one stream of the connection."""

    def __init__(self, http: "Http2", stream: int, request: Request, declared: int | None) -> None:
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
