"""Two connected transports in one process, for tests and for programs that run both sides.

Frames are delivered by the event loop, never inside `send`, in bounded batches, as if each batch were one
read.
"""

import asyncio
from collections import deque

from accord.wire.transport import (
    DEFAULT_LIMIT,
    OVERSIZED_SAMPLE,
    Frame,
    OversizedFrame,
    Receiver,
    TransportEnd,
)

HIGH_WATER = 256 * 1024
"""Undelivered bytes at which `drain` starts to wait."""

_BATCH = 64 * 1024


def memory_pair(*, limit: int = DEFAULT_LIMIT) -> tuple["MemoryTransport", "MemoryTransport"]:
    """Return two connected transports. Frames over `limit` arrive as `OversizedFrame`."""
    left, right = MemoryTransport(limit), MemoryTransport(limit)
    left.connect(right)
    right.connect(left)
    return left, right


class MemoryTransport:
    """One end of a `memory_pair`. Sent frames wait in the inbox of the other end."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peer = self
        self._receiver: Receiver | None = None
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0  # bytes in the inbox
        self._scheduled = False
        self._paused = False
        self._end: TransportEnd | None = None  # set once the inbox gets no more frames
        self._ended = asyncio.Event()
        self._below_high_water = asyncio.Event()  # of the inbox; the peer's `drain` waits for it
        self._below_high_water.set()

    def connect(self, peer: "MemoryTransport") -> None:
        """Set the end that receives what this one sends."""
        self._peer = peer

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._schedule()

    def send(self, frame: bytes) -> None:
        peer = self._peer
        if self._end is not None or peer._end is not None:
            return
        peer._inbox.append(frame)
        peer._inbox_bytes += len(frame)
        if peer._inbox_bytes >= HIGH_WATER:
            peer._below_high_water.clear()
        if not peer._scheduled:
            peer._schedule()

    @property
    def unsent(self) -> int:
        return self._peer._inbox_bytes

    async def drain(self) -> None:
        await self._peer._below_high_water.wait()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._schedule()

    async def aclose(self) -> None:
        if self._end is None:
            self._end = TransportEnd("this side closed the connection")
            self._peer._below_high_water.set()
            self._below_high_water.set()  # the peer must not wait for an inbox that is not read any more
            if self._peer._end is None:
                self._peer._end = TransportEnd("the other side closed the connection")
                self._peer._schedule()
        if self._paused:
            # Drop unread frames, so that the end does not wait for a resume.
            self._paused = False
            self._inbox.clear()
            self._inbox_bytes = 0
        self._schedule()
        if self._receiver is not None:
            await self._ended.wait()

    def _schedule(self) -> None:
        if self._receiver is not None and not (self._scheduled or self._paused):
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._paused or self._receiver is None:
            return
        inbox, batch, size = self._inbox, list[Frame](), 0
        while inbox and size < _BATCH:
            frame = inbox.popleft()
            size += len(frame)
            batch.append(frame if len(frame) <= self._limit else _oversized(frame))
        self._inbox_bytes -= size
        if self._inbox_bytes < HIGH_WATER:
            self._below_high_water.set()
        if batch:
            if inbox or self._end is not None:
                self._schedule()
            self._receiver.frames(batch)
        elif self._end is not None and not self._ended.is_set():
            self._ended.set()
            self._receiver.ended(self._end)


def _oversized(frame: bytes) -> OversizedFrame:
    return OversizedFrame(len(frame), frame[:OVERSIZED_SAMPLE], frame[-OVERSIZED_SAMPLE:])
