"""A numbered stream of frames to one client: recently written frames, waiting frames, and the current
outlet.

A WebSocket connection has one stream. An HTTP connection has one for the connection and one for each
session. Frames are numbered from 1. An outlet takes frames while it is ready; without an outlet, frames
wait.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from accord.gateway.client_connection import OutgoingFrame
from accord.gateway.http.server_config import ServerConfig

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
    """The frames of one stream, in order, each once to each reader."""

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
        while written and (len(written) > frames or self.written_bytes > size):
            self.written_bytes -= len(written.popleft().body)
