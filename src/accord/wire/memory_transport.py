"""Two transports back to back in one process, for tests and for programs that hold both sides.

Frames cross on the event loop, never inside `send`, a bounded batch a turn, as if one read had brought them.
"""

import asyncio
from collections import deque

from accord.wire.transport import DEFAULT_LIMIT, SHOWN, Frame, OversizedFrame, Receiver, TransportEnd

HIGH_WATER = 256 * 1024
"""Undelivered bytes at which `drain` begins to wait."""

_BATCH = 64 * 1024


def memory_pair(*, limit: int = DEFAULT_LIMIT) -> tuple["MemoryTransport", "MemoryTransport"]:
    """Two connected ends: what one sends, the other receives. Frames over `limit` arrive as `OversizedFrame`."""
    left, right = MemoryTransport(limit), MemoryTransport(limit)
    left.connect(right)
    right.connect(left)
    return left, right


class MemoryTransport:
    """One end of a `memory_pair`. What it has sent lies in the other end's inbox until that one takes it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peer = self
        self._receiver: Receiver | None = None
        self._inbox: deque[bytes] = deque()
        self._waiting = 0  # bytes in the inbox
        self._scheduled = False
        self._paused = False
        self._end: TransportEnd | None = None  # set once nothing more will be put into the inbox
        self._ended = asyncio.Event()
        self._relieved = (
            asyncio.Event()
        )  # the inbox is below the high-water mark; the peer's senders wait for it
        self._relieved.set()

    def connect(self, peer: "MemoryTransport") -> None:
        """Name the end that gets what this one sends."""
        self._peer = peer

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._schedule()

    def send(self, frame: bytes) -> None:
        peer = self._peer
        if self._end is not None or peer._end is not None:
            return
        peer._inbox.append(frame)
        peer._waiting += len(frame)
        if peer._waiting >= HIGH_WATER:
            peer._relieved.clear()
        if not peer._scheduled:
            peer._schedule()

    @property
    def unsent(self) -> int:
        return self._peer._waiting

    async def drain(self) -> None:
        await self._peer._relieved.wait()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._schedule()

    async def aclose(self) -> None:
        if self._end is None:
            self._end = TransportEnd("this side closed the connection")
            self._peer._relieved.set()
            self._relieved.set()  # nobody will take what the peer has sent, so the peer need not wait
            if self._peer._end is None:
                self._peer._end = TransportEnd("the other side closed the connection")
                self._peer._schedule()
        if self._paused:
            # Nobody wants it any more, and the end must not wait for a resume.
            self._paused = False
            self._inbox.clear()
            self._waiting = 0
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
        self._waiting -= size
        if self._waiting < HIGH_WATER:
            self._relieved.set()
        if batch:
            if inbox or self._end is not None:
                self._schedule()
            self._receiver.frames(batch)
        elif self._end is not None and not self._ended.is_set():
            self._ended.set()
            self._receiver.ended(self._end)


def _oversized(frame: bytes) -> OversizedFrame:
    return OversizedFrame(len(frame), frame[:SHOWN], frame[-SHOWN:])
