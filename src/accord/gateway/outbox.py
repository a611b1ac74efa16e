"""Sends frames to clients, each after the records that were logged before it are committed.

Everything that one read of an agent or a client brings is committed together and then sent. Where a commit
takes time, the frames of that log wait in a lane, in order; those of other logs go on. If the records cannot
be committed, the frames of the lane are never sent, and open requests of clients fail with the reason.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from logging import getLogger
from typing import TYPE_CHECKING, NamedTuple

from accord.errors import InternalError, StoreError
from accord.gateway.client_connection import CallFrame, OutgoingFrame
from accord.gateway.contracts import Book, RecordMark, SessionLog
from accord.wire.envelope import encode_failure

if TYPE_CHECKING:
    from accord.gateway.gateway_client import GatewayClient

LOG = getLogger("accord.gateway")


class _QueuedFrames(NamedTuple):
    """Frames for the same clients."""

    clients: "Iterable[GatewayClient]"
    frames: list[OutgoingFrame]
    stream: str | None
    log: SessionLog | None
    """The log that has to be committed first, if any."""
    mark: RecordMark | None
    """The exact place in the log; None for frames that are records of the log themselves."""

    def send(self) -> None:
        frames, stream, mark = self.frames, self.stream, self.mark
        for client in self.clients:
            if client.connected:
                client.connection.send(frames, stream, mark)


class Outbox:
    """The queue of frames to all clients of a gateway."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._queue: list[_QueuedFrames] = []
        self._flush_is_scheduled = False
        self._lanes: dict[str, _Lane] = {}

    @property
    def waiting(self) -> int:
        """The number of logs whose frames wait for a commit."""
        return len(self._lanes)

    def post(
        self,
        clients: "Iterable[GatewayClient]",
        frame: OutgoingFrame,
        stream: str | None,
        log: SessionLog | None = None,
    ) -> None:
        """Send a frame to these clients after everything appended to `log` so far is committed.

        `stream` is the session whose event stream carries the frame.
        """
        mark = None if log is None else RecordMark(log, log.noted)
        self._queue.append(_QueuedFrames(clients, [frame], stream, log, mark))
        if not self._flush_is_scheduled:
            self._flush_is_scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)

    def post_in_batch(
        self,
        clients: "Iterable[GatewayClient]",
        frames: list[OutgoingFrame],
        stream: str,
        log: SessionLog,
    ) -> None:
        """Send updates that were just appended to `log`; takes the list. The end of the batch flushes."""
        if self._queue:
            last = self._queue[-1]
            if last[0] is clients and last[3] is log and last[4] is None:
                last[1].extend(frames)
                return
        self._queue.append(_QueuedFrames(clients, frames, stream, log, None))

    def flush(self) -> None:
        """Commit the logs, then send the queued frames whose records are committed."""
        self._flush_is_scheduled = False
        queue, self._queue = self._queue, []
        self._book.commit()
        if self._lanes or self._book.uncommitted:
            for queued in queue:
                self._send_in_order(queued)
            return
        for clients, frames, stream, _, mark in queue:
            for client in clients:
                if client.connected:
                    client.connection.send(frames, stream, mark)

    def _send_in_order(self, queued: _QueuedFrames) -> None:
        log = queued.log
        if log is None:
            queued.send()
            return
        lane = self._lanes.get(log.id)
        number = log.noted if queued.mark is None else queued.mark.number
        if lane is None:
            if number <= log.committed:
                queued.send()
                return
            lane = self._lanes[log.id] = _Lane(log, self._remove_lane)
        lane.add(number, queued)

    def _remove_lane(self, lane: "_Lane") -> None:
        if self._lanes.get(lane.log.id) is lane:
            del self._lanes[lane.log.id]


class _Lane:
    """The frames that wait for one log, in order."""

    def __init__(self, log: SessionLog, on_empty: "Callable[[_Lane], None]") -> None:
        self.log: SessionLog = log
        self._on_empty = on_empty
        self._is_sending = False
        """Sending a frame can post another one, for example if a client's connection ends by it."""
        self._waiting: deque[tuple[int, _QueuedFrames]] = deque()

    def add(self, number: int, queued: _QueuedFrames) -> None:
        self._waiting.append((number, queued))
        if len(self._waiting) == 1 and not self._is_sending:
            self.log.when(number, self._on_commit)

    def _on_commit(self, error: StoreError | None) -> None:
        """Send what can go now, and wait for the rest."""
        waiting = self._waiting
        self._is_sending = True
        try:
            if error is not None:
                self._discard(error)
            while waiting and waiting[0][0] <= self.log.committed:
                waiting.popleft()[1].send()
        finally:
            self._is_sending = False
        if waiting:
            self.log.when(waiting[0][0], self._on_commit)
        else:
            self._on_empty(self)

    def _discard(self, error: StoreError) -> None:
        """Drop all frames, and answer the requests of clients whose responses are among them."""
        LOG.error("%d messages of a session are not sent, because it cannot be logged: %s",
                  sum(len(queued.frames) for _, queued in self._waiting), error)  # fmt: skip
        failure = InternalError(f"the session cannot be logged: {error}")
        while self._waiting:
            queued = self._waiting.popleft()[1]
            failures: list[OutgoingFrame] = [
                CallFrame(encode_failure(frame.id, failure), id=frame.id)
                for frame in queued.frames
                if isinstance(frame, CallFrame) and not frame.is_request
            ]
            if failures:
                queued._replace(frames=failures, mark=None).send()
