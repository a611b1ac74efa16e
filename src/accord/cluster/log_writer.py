"""Appends to one session's log: one commit in flight, each only if nothing came after the one before it.

A commit that was not answered is sent again, the same bytes, until it is known to be written or the node's
lease ends. A writer that was replaced is refused by the stream, however late it wakes up.
"""

import asyncio
import heapq
from collections import deque
from itertools import count
from logging import getLogger
from typing import Final, Protocol

from msgspec import Struct

from accord.clock import Clock, OwnedTasks, Timer, within
from accord.cluster.connection import NatsRefused, NatsUnavailable
from accord.cluster.jetstream import (
    APPENDS_IN_PROGRESS,
    EXPECTED,
    MESSAGE_ID,
    RESOURCE_CODES,
    WRONG_SEQUENCE,
    JetStream,
    StoredMessage,
)
from accord.cluster.log_message import HEADER, CommitHead, encode_commit, is_same_message
from accord.cluster.streams import LogAddress
from accord.errors import StoreError
from accord.gateway.contracts import Fence, Fenced, OnCommit
from accord.store.session_summary import now_micros

LOG = getLogger("accord.cluster")

PACE_SECONDS: Final = 0.02
"""Between commits that only add text."""
MAX_UNWRITTEN: Final = 8 * 1024 * 1024
"""Above this many unwritten bytes the agent is paused, until half of them are written."""
MAX_COMMIT: Final = 16 * 1024 * 1024
WAIT_SECONDS: Final = 2.0
"""Clients are told that the storage waits after this time without an answer."""
_APPEND_SECONDS: Final = 2.0
_PLACES: Final = 1024
"""The latest commits whose places are known, for readers that begin there."""
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class SessionMoved(StoreError):
    """Another node writes to the session now."""


class LogFull(StoreError):
    """The stream of the session refuses records: its limit is reached. The session is read-only."""


class LeaseEnded(StoreError):
    """This node may no longer act for its sessions."""


class LogPosition(Struct, frozen=True):
    """The end of a log: the last message, the last record, and the epoch of its writer."""

    sequence: int = 0
    number: int = 0
    epoch: int = 0
    writer: str = ""


class WriterListener(Protocol):
    """Hears from the writers of a node."""

    def paused(self, paused: bool) -> None:
        """The agent of the session must stop, or may go on, sending."""
        ...

    def waits(self, waits: bool) -> None:
        """The storage does not answer, or answers again."""
        ...

    def failed(self, error: StoreError) -> None:
        """Nothing more can be written: the session moved, its stream is full, or the lease has ended."""
        ...


class LogWriter:
    """The writer of one session's log in one epoch. No method raises, except those that say so."""

    def __init__(
        self,
        jetstream: JetStream,
        address: LogAddress,
        position: LogPosition,
        writer: str,
        fence: Fence,
        listener: WriterListener,
        tasks: OwnedTasks,
    ) -> None:
        """`position` is the end of the log, with the epoch in which this writer writes."""
        self.address: LogAddress = address
        self.epoch: int = position.epoch
        self.noted: int = position.number
        """The number of the last record added."""
        self.committed: int = position.number
        """The number of the last record that a majority of the servers has."""
        self.sequence: int = position.sequence
        self.failure: StoreError | None = None
        self.ready: asyncio.Future[None] | None = None
        """What the first commit waits for. If it fails with a StoreError, nothing is written."""
        self._jetstream = jetstream
        self._clock: Clock = jetstream.connection.clock
        self._writer = writer
        self._fence = fence
        self._listener = listener
        self._tasks = tasks
        self._pending: list[tuple[str, bytes]] = []
        self._in_flight: list[tuple[str, bytes]] = []
        self._authors: dict[int, str] = {}
        self._unwritten = 0
        self._urgent = False
        self._paused = False
        self._hurry: asyncio.Future[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._last_commit = -PACE_SECONDS
        self._waiting: list[tuple[int, int, OnCommit]] = []
        self._order = count()
        self._places: deque[tuple[int, int]] = deque([(position.number, position.sequence)], maxlen=_PLACES)

    # -- adding

    def add(self, kind: str, payload: bytes, *, text: bool = False, author: str | None = None) -> int:
        """Note a record and return its number. `text`: it may wait for the next paced commit."""
        self.noted += 1
        if self.failure is not None:
            return self.noted
        self._pending.append((kind, payload))
        self._unwritten += len(payload)
        if author is not None:
            self._authors[self.noted] = author
        if not text:
            self._urgent = True
            if self._hurry is not None and not self._hurry.done():
                self._hurry.set_result(None)
        if self._unwritten > MAX_UNWRITTEN and not self._paused:
            self._paused = True
            self._listener.paused(True)
        return self.noted

    def commit(self) -> None:
        """Begin to write what was added, unless a commit is in flight: then it follows."""
        if self._pending and self._running is None and self.failure is None:
            self._running = self._tasks.start(self._run())

    def when(self, number: int, then: OnCommit) -> None:
        """Call back when the record with this number is committed, or with the error if it never will be."""
        if number <= self.committed:
            then(None)
        elif self.failure is not None:
            then(self.failure)
        else:
            heapq.heappush(self._waiting, (number, next(self._order), then))

    async def written(self) -> None:
        """Wait until everything added so far is committed. Raises StoreError."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle(error: StoreError | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        self.commit()
        self.when(self.noted, settle)
        await done

    def close(self, error: StoreError) -> None:
        """Write nothing more; what is not committed fails with this error."""
        if self.failure is None:
            self._fail(error, tell=False)
        if self._running is not None:
            self._running.cancel()

    def unwritten(self) -> list[tuple[int, str, bytes]]:
        """The records that are not committed yet: number, kind and payload."""
        records = [*self._in_flight, *self._pending]
        first = self.noted - len(records) + 1
        return [(number, *record) for number, record in enumerate(records, first)]

    @property
    def unwritten_bytes(self) -> int:
        """The size of the records that are not committed yet."""
        return self._unwritten

    def place_before(self, number: int) -> tuple[int, int]:
        """A place in the log not after this record: the number of a record and the message it ends with."""
        return max((place for place in self._places if place[0] <= number), default=(0, 0))

    # -- writing

    async def _run(self) -> None:
        try:
            if self.ready is not None:
                await asyncio.shield(self.ready)
                self.ready = None
            while self._pending:
                await self._pace()
                await self._write(*self._take())
                self._last_commit = self._clock.now()
        except StoreError as error:
            self._fail(error, tell=True)
        finally:
            self._running = None

    async def _pace(self) -> None:
        remaining = self._last_commit + PACE_SECONDS - self._clock.now()
        if remaining > 0 and not self._urgent:
            self._hurry = asyncio.get_running_loop().create_future()
            await within(self._clock, remaining, self._hurry)
            self._hurry = None

    def _take(self) -> tuple[list[tuple[CommitHead, bytes]], int, int]:
        """Take the next records, as messages, with the number of the last one and their size."""
        size = end = 0
        for _, payload in self._pending:
            if size and size + len(payload) > MAX_COMMIT:
                break
            size += len(payload)
            end += 1
        records, self._pending = self._pending[:end], self._pending[end:]
        self._in_flight = records
        self._urgent = self._urgent and bool(self._pending)
        first = self.noted - len(self._pending) - len(records) + 1
        last = first + end - 1
        authors = {number: self._authors.pop(number) for number in sorted(self._authors) if number <= last}
        messages = encode_commit(self.epoch, first, self._writer, records, now_micros(), authors)
        return messages, last, size

    async def _write(self, messages: list[tuple[CommitHead, bytes]], last: int, size: int) -> None:
        told: list[bool] = []

        def tell() -> None:
            told.append(True)
            self._listener.waits(True)

        timer: Timer = self._clock.call_later(WAIT_SECONDS, tell)
        try:
            for head, body in messages:
                self.sequence = await self._append(head, body)
        finally:
            timer.cancel()
            if told:
                self._listener.waits(False)
        self.committed, self._in_flight = last, []
        self._places.append((last, self.sequence))
        self._unwritten -= size
        if self._unwritten <= MAX_UNWRITTEN // 2:
            self._resume_agent()
        self._check_lease()  # what a node without a lease wrote is shown by its successor
        while self._waiting and self._waiting[0][0] <= last:
            heapq.heappop(self._waiting)[2](None)

    async def _append(self, head: CommitHead, body: bytes) -> int:
        """Append one message by the retry rule and return its sequence. Raises StoreError."""
        headers = {
            HEADER: head.text,
            EXPECTED: str(self.sequence),
            MESSAGE_ID: head.message_id(self.address.log),
        }
        pause = _FIRST_PAUSE
        while True:
            self._check_lease()
            counts, began = self._jetstream.append_counts, self._clock.now()
            try:
                sequence = await self._jetstream.append(
                    self.address.subject, body, headers, seconds=_APPEND_SECONDS
                )
                counts.appends += 1
                counts.seconds += self._clock.now() - began
                return sequence
            except NatsUnavailable:
                counts.retries["unavailable"] += 1
                await self._clock.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            except NatsRefused as error:
                if error.code in APPENDS_IN_PROGRESS:
                    counts.retries[str(error.code)] += 1
                    await self._clock.sleep(_FIRST_PAUSE)
                    continue
                if error.code == WRONG_SEQUENCE:
                    last = await self._read_last()
                    if last is not None and is_same_message(last, self.address.log, head):
                        return last.sequence
                    raise _moved(self.address) from None
                if error.code in RESOURCE_CODES:
                    raise LogFull(
                        f"stream {self.address.stream} is full, so the session is read-only: {error}; raise "
                        "its max_bytes, or delete sessions"
                    ) from None
                raise

    def _check_lease(self) -> None:
        try:
            self._fence.check()
        except Fenced as error:
            raise LeaseEnded(str(error)) from None

    async def _read_last(self) -> StoredMessage | None:
        pause = _FIRST_PAUSE
        while True:
            self._check_lease()
            try:
                return await self._jetstream.last(self.address.stream, self.address.subject)
            except NatsUnavailable:
                await self._clock.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    def _resume_agent(self) -> None:
        """Read from the agent again. It has other sessions, also when this one failed."""
        if self._paused:
            self._paused = False
            self._listener.paused(False)

    def _fail(self, error: StoreError, *, tell: bool) -> None:
        self.failure = error
        self._pending, self._in_flight, self._authors = [], [], {}
        self._unwritten = 0
        self._resume_agent()
        if tell:
            LOG.error("cannot write to session log %s: %s", self.address.log, error)
            self._listener.failed(error)
        waiting, self._waiting = self._waiting, []
        for _, _, then in sorted(waiting, key=lambda entry: entry[:2]):
            then(error)


def _moved(address: LogAddress) -> SessionMoved:
    return SessionMoved(f"another node writes to session log {address.log} now")
