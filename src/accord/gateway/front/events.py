"""An event stream: the response that carries one stream of an HTTP line, with event ids, and comments while it is quiet."""

from accord.gateway.front.exchange import Exchange, Headers
from accord.gateway.front.line import POLICY
from accord.gateway.front.premises import Premises
from accord.gateway.front.reply import common_headers
from accord.gateway.front.stream import Stream
from accord.gateway.front.streamline import StreamLine
from accord.gateway.line import Outgoing


class EventOutlet:
    """The open GET of one stream. The id of an event is its number in the stream."""

    def __init__(self, premises: Premises, exchange: Exchange, line: StreamLine, stream: Stream) -> None:
        self._premises = premises
        self._exchange = exchange
        self._line = line
        self._stream = stream
        self._written = premises.clock.now()
        self._open = True

    def begin(self, headers: Headers) -> None:
        """Send the head, so that the client knows its stream is open."""
        premises, exchange = self._premises, self._exchange
        exchange.on_gone = self._gone
        exchange.on_ready = self._line.flush
        own = [("Cache-Control", "no-cache, no-transform"), ("X-Accel-Buffering", "no"), *headers]
        exchange.begin(200, common_headers(premises, exchange, "text/event-stream", own))
        premises.metrics.requests["200"] += 1
        premises.metrics.streams += 1
        premises.watched.add(self)

    @property
    def ready(self) -> bool:
        return self._open and self._exchange.ready

    @property
    def buffered(self) -> int:
        return self._exchange.buffered if self._open else 0

    def write(self, frames: list[Outgoing], first: int) -> None:
        self._written = self._premises.clock.now()
        self._exchange.write(
            b"".join([b"id: %d\n%b" % (number, frame.event) for number, frame in enumerate(frames, first)])
        )

    def comment(self, text: str) -> None:
        """Something that is no event; clients skip it."""
        self._exchange.write(b": " + text.encode() + b"\n\n" if text else b":\n\n")

    def close(self, code: int, reason: str) -> None:
        if self._open:
            self._shut()
            if code == POLICY:
                self._exchange.abort()
            else:
                self._exchange.finish()

    def _shut(self) -> None:
        self._open = False
        self._premises.metrics.streams -= 1
        self._premises.watched.discard(self)
        self._exchange.on_gone = self._exchange.on_ready = None

    def _gone(self) -> None:
        self._shut()
        self._line.detach(self._stream, self)

    def tick(self, now: float) -> None:
        """See `Watched`."""
        if now - self._written >= self._premises.config.keep_alive and self.ready:
            self._written = now
            self.comment("")
