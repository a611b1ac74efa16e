"""A numbered stream of frames to one client: what has been written lately, what waits, and where it goes at the moment.

A WebSocket line has one stream for everything, an HTTP line one for the connection and one for each session. A frame's number
is its place in the stream, from 1. An outlet takes frames while it is ready; without one they wait.
"""

from collections import deque
from typing import Protocol

from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.http.server_config import ServerConfig

BATCH_BYTES = 256 * 1024
"""Bytes handed to an outlet at once, so that a full socket is noticed between two."""


class FrameOutlet(Protocol):
    """The open socket or response that carries a stream."""

    @property
    def ready(self) -> bool:
        """Whether it takes more now; the stream is flushed again when that changes."""
        ...

    @property
    def buffered(self) -> int:
        """Bytes written that the peer's side has not taken."""
        ...

    def write(self, frames: list[OutgoingFrame], first: int) -> None:
        """Put the frames on the wire; `first` is the number of the first one."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Say goodbye with a WebSocket close code, as far as the protocol has one, and close."""
        ...


class FrameStream:
    """The frames of one stream, in order, each once to each reader."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self.outlet: FrameOutlet | None = None
        self.written: deque[OutgoingFrame] = deque()
        """Went out, and is kept for a reader that comes back."""
        self.waiting: deque[OutgoingFrame] = deque()
        self.written_bytes = 0
        self.waiting_bytes = 0
        self.count = 0
        """Frames written so far; the last one's number."""
        self.acknowledges = False
        """The reader acknowledges, so that more is kept for it."""
        self._backlog_bytes = 0  # bytes that waited when the reader came, and still do
        self.last_progress: float | None = None
        """When something last left, or nothing waited; None before anyone looked."""
        self._last_level = (0, 0)

    def put(self, frame: OutgoingFrame) -> None:
        """Queue one frame; `flush` brings it out."""
        self.waiting.append(frame)
        self.waiting_bytes += len(frame.body)

    @property
    def unsent(self) -> int:
        """Bytes that wait here or in the outlet."""
        outlet = self.outlet
        return self.waiting_bytes + (outlet.buffered if outlet is not None else 0)

    @property
    def lag_bytes(self) -> int:
        """Bytes that wait although the reader was there: what it missed before it came is not its slowness."""
        return self.waiting_bytes - self._backlog_bytes if self.outlet is not None else 0

    def flush(self) -> tuple[int, int]:
        """Write what the outlet takes; how many frames and bytes that was."""
        outlet, waiting = self.outlet, self.waiting
        if outlet is None or not waiting:
            return 0, 0
        if len(waiting) == 1:
            return self._flush_one(outlet)
        frames = size = 0
        while waiting and outlet.ready:
            batch: list[OutgoingFrame] = []
            batch_bytes = 0
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
        self._backlog_bytes = min(self._backlog_bytes, self.waiting_bytes)
        self._trim()
        return frames, size

    def _flush_one(self, outlet: FrameOutlet) -> tuple[int, int]:
        """The same for a single frame, which is what most turns of the loop have for a client."""
        if not outlet.ready:
            return 0, 0
        frame = self.waiting.popleft()
        size = self.waiting_bytes
        self.count += 1
        self.waiting_bytes = self._backlog_bytes = 0
        self.written.append(frame)
        self.written_bytes += size
        outlet.write([frame], self.count)
        config = self._config
        if len(self.written) > config.kept_frames or self.written_bytes > config.kept_bytes:
            self._trim()
        return 1, size

    def missing(self, received: int) -> int | None:
        """How many frames behind the number `received` are no longer kept; None for a number that was never reached."""
        if not 0 <= received <= self.count:
            return None
        return max(0, self.count - len(self.written) - received)

    def attach(self, outlet: FrameOutlet, received: int) -> None:
        """Go on behind the frame with the number `received`, into this outlet: what was written behind it waits again."""
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
        """For how long something has waited without any of it leaving; asked once a second."""
        buffered = self.outlet.buffered if self.outlet is not None else 0
        count, level = self._last_level
        if (
            self.last_progress is None
            or not (self.waiting_bytes + buffered)
            or self.count != count
            or buffered < level
        ):
            self.last_progress = now
        self._last_level = self.count, buffered
        return now - self.last_progress

    def acknowledge(self, received: int) -> None:
        """The reader has everything up to this number: it needs not be kept."""
        written = self.written
        oldest = self.count - len(written)
        for _ in range(min(received - oldest, len(written))):
            self.written_bytes -= len(written.popleft().body)

    def _trim(self) -> None:
        config = self._config
        frames, size = (
            (config.held_frames, config.held_bytes)
            if self.acknowledges
            else (config.kept_frames, config.kept_bytes)
        )
        written = self.written
        while written and (len(written) > frames or self.written_bytes > size):
            self.written_bytes -= len(written.popleft().body)
