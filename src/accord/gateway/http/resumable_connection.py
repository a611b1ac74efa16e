"""A client's connection across dropped sockets, for WebSocket and for HTTP clients.

A connection without a socket waits for its client for the grace time. Frames sent meanwhile are kept, up to
a limit; beyond it, the connection ends. A connected client that does not read is disconnected, and its
connection waits in the same way.

Frames are numbered in streams: a WebSocket connection has one, an HTTP connection has one for itself and one
for each session.
"""

import logging
from abc import ABC, abstractmethod
from asyncio import get_running_loop
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.resource_limits import GatewayLimitReached, LimitLease
from accord.gateway.client_connection import CallFrame, ConnectionHandler, IncomingFrame, OutgoingFrame
from accord.gateway.client_features import asks_for_version_2
from accord.gateway.contracts import RecordMark
from accord.gateway.http.server_config import ServerConfig
from accord.wire.envelope import RequestId

if TYPE_CHECKING:
    from accord.gateway.client_version import ClientTranslation
    from accord.gateway.http.server_state import ClientConnections


LOG = logging.getLogger("accord.gateway.http")

NORMAL, GOING_AWAY, PROTOCOL_ERROR, POLICY = 1000, 1001, 1002, 1008
"""WebSocket close codes. HTTP connections use them as the reason, too."""


BATCH_BYTES = 256 * 1024
"""Bytes passed to an outlet at once, so that a full socket is noticed in between."""


class FrameOutlet(Protocol):
    """The open socket or response that carries a stream."""

    @property
    def ready(self) -> bool:
        """Whether it takes more now. The stream is flushed again when this becomes true."""
        ...

    @property
    def buffered(self) -> int:
        """Bytes written that the peer has not taken."""
        ...

    def write(self, frames: list[OutgoingFrame], first: int) -> None:
        """Write the frames; `first` is the number of the first one."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Close, with a WebSocket close code where the protocol has one."""
        ...


class FrameStream:
    """The frames of one stream, numbered from 1, in order, each once to each reader.

    An outlet takes frames while it is ready; without an outlet, frames wait.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self.outlet: FrameOutlet | None = None
        self.written: deque[OutgoingFrame] = deque()
        """Written frames, kept for a reader that resumes."""
        self.waiting: deque[OutgoingFrame] = deque()
        self.written_bytes: int = 0
        self.waiting_bytes: int = 0
        self.count: int = 0
        """Number of frames written; the number of the last one."""
        self.acknowledges: bool = False
        """Whether the reader acknowledges frames; then more are kept for it."""
        self._backlog_bytes = 0  # bytes that waited when the reader attached, and still wait
        self.last_progress: float | None = None
        """When a frame last left or none waited; None before the first check."""
        self._last_check = (0, 0)

    def queue(self, frames: Sequence[OutgoingFrame]) -> None:
        """Queue frames; `flush` writes them."""
        self.waiting.extend(frames)
        self.waiting_bytes += sum([len(frame.body) for frame in frames])

    @property
    def unsent(self) -> int:
        """Bytes that wait here or in the outlet."""
        outlet = self.outlet
        return self.waiting_bytes + (outlet.buffered if outlet is not None else 0)

    @property
    def lag_bytes(self) -> int:
        """Bytes that wait although a reader is attached, without those that waited when it attached."""
        return self.waiting_bytes - self._backlog_bytes if self.outlet is not None else 0

    def flush(self) -> tuple[int, int]:
        """Write what the outlet takes. Return the number of frames and bytes."""
        outlet, waiting = self.outlet, self.waiting
        frames = size = 0
        while outlet is not None and waiting and outlet.ready:
            if self.waiting_bytes <= BATCH_BYTES:
                batch, batch_bytes = list(waiting), self.waiting_bytes
                waiting.clear()
            else:
                batch, batch_bytes = list[OutgoingFrame](), 0
                while waiting and batch_bytes < BATCH_BYTES:
                    frame = waiting.popleft()
                    batch_bytes += len(frame.body)
                    batch.append(frame)
            first = self.count + 1
            self.count += len(batch)
            self.waiting_bytes -= batch_bytes
            self.written_bytes += batch_bytes
            self.written.extend(batch)
            frames += len(batch)
            size += batch_bytes
            outlet.write(batch, first)
        if frames:
            self._backlog_bytes = min(self._backlog_bytes, self.waiting_bytes)
            self._trim_written()
        return frames, size

    def missing_count(self, received: int) -> int | None:
        """Return how many frames after `received` are no longer kept; None for an invalid number."""
        if not 0 <= received <= self.count:
            return None
        return max(0, self.count - len(self.written) - received)

    def attach(self, outlet: FrameOutlet, received: int) -> None:
        """Continue after the frame with the number `received`, in this outlet.

        Frames written after it wait again.
        """
        self.acknowledge(received)
        unread = self.written
        self.count -= len(unread)
        unread.extend(self.waiting)
        self.waiting, self.written = unread, deque()
        self.waiting_bytes += self.written_bytes
        self.written_bytes = 0
        self._backlog_bytes = self.waiting_bytes
        self.outlet = outlet
        self.last_progress = None

    def stalled_for(self, now: float) -> float:
        """Return for how long frames have waited without progress. Call it once a second."""
        buffered = self.outlet.buffered if self.outlet is not None else 0
        last_count, last_buffered = self._last_check
        if (
            self.last_progress is None
            or not (self.waiting_bytes + buffered)
            or self.count != last_count
            or buffered < last_buffered
        ):
            self.last_progress = now
        self._last_check = self.count, buffered
        return now - self.last_progress

    def acknowledge(self, received: int) -> None:
        """Drop the kept frames up to this number."""
        written = self.written
        oldest = self.count - len(written)
        for _ in range(min(received - oldest, len(written))):
            self.written_bytes -= len(written.popleft().body)

    def _trim_written(self) -> None:
        config = self._config
        frames, size = (
            (config.max_held_frames, config.max_held_bytes)
            if self.acknowledges
            else (config.resume_frames, config.resume_bytes)
        )
        written = self.written
        for _ in range(len(written) - frames):
            self.written_bytes -= len(written.popleft().body)
        while written and self.written_bytes > size:
            self.written_bytes -= len(written.popleft().body)


class FlushQueue:
    """Flushes connections once per loop turn, all together."""

    def __init__(self) -> None:
        self._loop = get_running_loop()
        self._connections: list[ResumableConnection] = []

    def add(self, connection: "ResumableConnection") -> None:
        """Flush the connection at the end of this loop turn."""
        if not self._connections:
            self._loop.call_soon(self._flush)
        self._connections.append(connection)

    def _flush(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.flush()


class ResumableConnection(ABC):
    """The base of both kinds of client connection. Implements `client_connection.ClientConnection`."""

    def __init__(
        self, connections: "ClientConnections", id: str, rights: TokenRights, agent: str | None
    ) -> None:
        self._connections = connections
        self._config = connections.config
        self.id: str = id
        self.rights: TokenRights = rights
        self.agent: str | None = agent
        self.handler: ConnectionHandler | None = None
        self.translation: ClientTranslation | None = None
        """Set if the client speaks version 2; the gateway speaks version 1."""
        self._is_new = True
        self.lease: LimitLease | None = None
        """Counts it against the token's connection limit."""
        self.token_watch: LimitLease | None = None
        """Watches the token; see `Authenticator.watch_token`."""
        self._buffered = connections.limit_counter.buffered_bytes(rights)
        self.ended: bool = False
        self.needs_flush: bool = False
        """Set when something was sent since the last flush."""
        self.detached_since: float | None = connections.clock.now()
        """Since when no socket carries it; None while one does."""

    @abstractmethod
    def streams(self) -> Iterable[FrameStream]:
        """All its streams."""

    @abstractmethod
    def send(
        self, frames: Sequence[OutgoingFrame], stream: str | None, mark: RecordMark | None = None
    ) -> None:
        """See `ClientConnection.send`."""

    @abstractmethod
    def transmit(self, frames: Sequence[OutgoingFrame], stream: str | None) -> None:
        """Send frames in the client's version, unless the connection has ended."""

    @property
    def unsent(self) -> int:
        """See `ClientConnection.unsent`."""
        return sum(stream.unsent for stream in self.streams())

    def end(self, code: int, reason: str) -> None:
        """See `ClientConnection.end`."""
        if self.ended:
            return
        self.flush()  # frames sent before the end still go out
        self._close(reason)
        for stream in self.streams():
            outlet, stream.outlet = stream.outlet, None
            if outlet is not None:
                outlet.close(code, reason)

    def _close(self, reason: str) -> None:
        self.ended = True
        self._buffered.release()
        for lease in (self.lease, self.token_watch):
            if lease is not None:
                lease.release()
        self._connections.forget(self, reason)

    def deliver(self, frames: list[IncomingFrame]) -> None:
        """Pass messages of the client to the gateway."""
        if self.handler is not None and not self.ended:
            metrics = self._connections.metrics
            metrics.frames_in += len(frames)
            metrics.bytes_in += sum(len(frame.body) for frame in frames)
            if self._is_new and frames:
                self._is_new = False
                self._choose_version(frames[0])
            if self.translation is None:
                self.handler.on_frames(frames)
            else:
                self.translation.receive(frames)

    def _choose_version(self, first: IncomingFrame) -> None:
        """Translate for a client whose first message asks for version 2."""
        if self._config.translates and asks_for_version_2(first.body):
            from accord.gateway.client_version import ClientTranslation

            self.translation = ClientTranslation(self)

    def _flush_soon(self) -> None:
        if not self.needs_flush:
            self.needs_flush = True
            self._connections.flush_queue.add(self)

    def flush(self) -> None:
        """Write what the sockets take, then check the size of the rest."""
        self.needs_flush = False
        if self.ended:
            return
        frames = size = waiting = 0
        for stream in self.streams():
            stream_frames, stream_bytes = stream.flush()
            frames += stream_frames
            size += stream_bytes
            waiting += stream.waiting_bytes
        if frames:
            metrics = self._connections.metrics
            metrics.frames_out += frames
            metrics.bytes_out += size
        if waiting or self._buffered.size:
            self._check_buffer(waiting)

    def _check_buffer(self, waiting: int) -> None:
        """End the connection if too much waits. `tick` finds slow readers, which show only over time."""
        config = self._config
        frames = sum(len(stream.waiting) for stream in self.streams())
        if waiting > config.max_held_bytes or frames > config.max_held_frames:
            self._overflow(
                f"more than {config.max_held_bytes} bytes or {config.max_held_frames} messages are waiting"
            )
            return
        added_bytes = waiting - self._buffered.size
        if added_bytes <= 0:
            self._buffered.remove(-added_bytes)
            return
        try:
            self._buffered.add(added_bytes)
        except GatewayLimitReached as error:
            self._overflow(error.message)

    def _overflow(self, reason: str) -> None:
        self._connections.metrics.lost += 1
        LOG.warning("connection %s of token %s ended: %s", self.id, self.rights.token, reason)
        for stream in self.streams():
            stream.waiting.clear()
            stream.waiting_bytes = 0
        self.end(POLICY, reason)

    def disconnect_reader(self, stream: FrameStream, reason: str) -> None:
        """Close the socket of a reader that does not read; the connection stays."""
        outlet = stream.outlet
        if outlet is None:
            return
        self._connections.metrics.cut_off += 1
        LOG.warning(
            "disconnected a reader of connection %s (token %s): %s", self.id, self.rights.token, reason
        )
        self.detach(stream, outlet)
        outlet.close(POLICY, reason)

    def detach(self, stream: FrameStream, outlet: FrameOutlet) -> None:
        """Handle a socket that closed without ending the connection."""
        if stream.outlet is outlet:
            stream.outlet = None
            if all(other.outlet is None for other in self.streams()):
                self.detached_since = self._connections.clock.now()

    def tick(self, now: float) -> None:
        """Once a second: disconnect stalled readers, end the connection if its client did not resume."""
        config = self._config
        for stream in list(self.streams()):
            if stream.outlet is None:
                continue
            stalled = stream.stalled_for(now)
            if stalled >= config.stall:
                self.disconnect_reader(stream, f"nothing was read for {config.stall:g} seconds")
            elif stalled >= config.max_unsent_time and stream.lag_bytes > config.unsent:
                self.disconnect_reader(stream, f"more than {config.unsent} bytes are unread")
        if self.detached_since is not None and not self.ended and now - self.detached_since >= config.grace:
            self.end(GOING_AWAY, f"the client did not resume within {config.grace:g} seconds")


class WebSocketClientConnection(ResumableConnection):
    """The connection of a WebSocket client: one stream, resumed by `_accord/resume`, trimmed by
    `_accord/ack`.

    Counts the messages of both directions, so that a resuming client can say where it stopped.
    """

    def __init__(
        self, connections: "ClientConnections", id: str, rights: TokenRights, agent: str | None
    ) -> None:
        super().__init__(connections, id, rights, agent)
        self._stream = FrameStream(self._config)
        self._all_streams = (self._stream,)
        self.initialized: bool = False
        """Whether the client's first message was `initialize`."""
        self.received: int = 0
        """Number of messages received from the client."""
        self._unacknowledged = 0
        self._unacknowledged_bytes = 0

    def streams(self) -> Iterable[FrameStream]:
        return self._all_streams

    @property
    def unsent(self) -> int:
        return self._stream.unsent

    @property
    def outlet(self) -> FrameOutlet | None:
        """The socket that carries it."""
        return self._stream.outlet

    @property
    def acknowledges(self) -> bool:
        """Whether the client acknowledges or has resumed."""
        return self._stream.acknowledges

    def send(
        self, frames: Sequence[OutgoingFrame], stream: str | None, mark: RecordMark | None = None
    ) -> None:
        if self.translation is not None:
            self.translation.send_frames(frames)
        else:
            self.transmit(frames, stream)

    def transmit(self, frames: Sequence[OutgoingFrame], stream: str | None) -> None:
        if not self.ended:
            self._stream.queue(frames)
            self._flush_soon()

    def attach(self, outlet: FrameOutlet, received: int) -> None:
        """Carry the connection on this socket, after the client's last received message."""
        self.detached_since: float | None = None
        self._stream.attach(outlet, received)

    def missing_count(self, received: int) -> int | None:
        """Return how many messages after this number are no longer kept; None for an invalid number."""
        return self._stream.missing_count(received)

    def detach_outlet(self, outlet: FrameOutlet) -> None:
        """Handle a closed socket; the client may resume."""
        self.detach(self._stream, outlet)

    def acknowledge(self, received: int) -> bool:
        """Drop the messages that the client has; return False for more than it was sent."""
        if not 0 <= received <= self._stream.count:
            return False
        self._stream.acknowledges = True
        self._stream.acknowledge(received)
        return True

    def mark_resumed(self) -> None:
        """The client can resume: keep more for it and acknowledge its messages."""
        self._stream.acknowledges = True
        self._unacknowledged = self._unacknowledged_bytes = 0

    def count_message(self, size: int) -> bool:
        """Count one message of the client; return whether an acknowledgment is due."""
        self.received += 1
        if not self._stream.acknowledges:
            return False
        self._unacknowledged += 1
        self._unacknowledged_bytes += size
        config = self._config
        if self._unacknowledged < config.ack_frames and self._unacknowledged_bytes < config.ack_bytes:
            return False
        self._unacknowledged = self._unacknowledged_bytes = 0
        return True


_MAX_OPEN_REQUESTS: Final = 4096
"""Requests of the agent whose stream is remembered until the client answers."""


class HttpStreamConnection(ResumableConnection):
    """The connection of an HTTP client: a stream for the connection and one for each session.

    Each stream is read by one GET at a time. A stream is created when something is sent to it or a client
    reads it. The answer to the first `initialize` goes into the response of its POST instead.
    """

    def __init__(
        self, connections: "ClientConnections", id: str, rights: TokenRights, agent: str | None
    ) -> None:
        super().__init__(connections, id, rights, agent)
        self._streams: OrderedDict[str | None, FrameStream] = OrderedDict()
        self._streams[None] = FrameStream(self._config)
        self._request_streams: OrderedDict[RequestId, str | None] = OrderedDict()
        self._initialize: tuple[RequestId, Callable[[bytes | None], None]] | None = None

    def streams(self) -> Iterable[FrameStream]:
        return self._streams.values()

    def initialize(self, id: RequestId, on_answer: Callable[[bytes | None], None]) -> None:
        """Pass the answer to this id to the callback; None if the connection ends before."""
        self._initialize = id, on_answer

    def give_up_initialize(self) -> None:
        """Stop waiting for the answer to `initialize`."""
        self._initialize = None

    def send(
        self, frames: Sequence[OutgoingFrame], stream: str | None, mark: RecordMark | None = None
    ) -> None:
        if self.translation is not None:
            self.translation.send_frames(frames)
        else:
            self.transmit(frames, stream)

    def transmit(self, frames: Sequence[OutgoingFrame], stream: str | None) -> None:
        for frame in frames:
            self._transmit_one(frame, stream)

    def _transmit_one(self, frame: OutgoingFrame, stream: str | None) -> None:
        if self.ended:
            return
        if isinstance(frame, CallFrame):
            if frame.is_request:
                self._request_streams[frame.id] = stream
                if len(self._request_streams) > _MAX_OPEN_REQUESTS:
                    self._request_streams.popitem(last=False)
            elif self._initialize is not None and frame.id == self._initialize[0]:
                _, on_answer = self._initialize
                self._initialize = None
                on_answer(frame.body)
                return
        target = self.stream(stream)
        if target is None:
            self._overflow(f"more than {self._config.streams} unread event streams")
            return
        target.queue((frame,))
        self._flush_soon()

    def stream(self, session: str | None) -> FrameStream | None:
        """Return the stream of a session, created if needed; None if there are too many."""
        found = self._streams.get(session)
        if found is None:
            if len(self._streams) > self._config.streams and not self._drop_unused_stream():
                return None
            found = self._streams[session] = FrameStream(self._config)
        return found

    def _drop_unused_stream(self) -> bool:
        """Drop the oldest session stream without a reader or waiting frames."""
        for session, stream in self._streams.items():
            if session is not None and stream.outlet is None and not stream.waiting:
                del self._streams[session]
                return True
        return False

    def request_stream(self, id: RequestId) -> tuple[bool, str | None]:
        """Return whether a request of the agent with this id is open, and its stream."""
        return id in self._request_streams, self._request_streams.get(id)

    def forget_request(self, id: RequestId) -> None:
        """Forget a request that the client has answered."""
        self._request_streams.pop(id, None)

    def attach(self, stream: FrameStream, outlet: FrameOutlet, received: int) -> None:
        """Carry the stream on this response."""
        self.detached_since = None
        stream.attach(outlet, received)
        self._flush_soon()

    def mark_active(self) -> None:
        """Restart the grace time of a client without an open stream."""
        if self.detached_since is not None:
            self.detached_since = self._connections.clock.now()

    def _close(self, reason: str) -> None:
        initialize, self._initialize = self._initialize, None
        super()._close(reason)
        if initialize is not None:
            initialize[1](None)
