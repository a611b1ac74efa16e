"""Follows a bucket: every node keeps the entries of tokens, sessions and nodes in memory.

Changes come by a subscription, which can miss some. The sequence of the bucket's stream shows a gap, and a
read fills it. A read every few seconds finds what was missed at the end.
"""

import asyncio
from collections.abc import Callable
from logging import getLogger
from typing import Final

from accord.clock import OwnedTasks, Timer
from accord.cluster.connection import NatsMessage, NatsRefused, NatsSubscription, boot_time
from accord.cluster.jetstream import (
    MARKER_SECONDS,
    Bucket,
    BucketEntry,
    JetStream,
    StoredMessage,
    read_message,
)
from accord.errors import StoreError

LOG = getLogger("accord.cluster")

CHECK_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 1.0
"""After a read that failed."""
_STALE_READS: Final = 20
_STALE_PAUSE: Final = 0.05
_MARKERS_SEEN_SECONDS: Final = MARKER_SECONDS / 2
"""A follower that read nothing for longer may have missed deletions: the bucket has forgotten them."""


class BucketFollower:
    """Passes every change of a bucket on, each key in order. `start` passes what is there first."""

    def __init__(
        self,
        jetstream: JetStream,
        bucket: Bucket,
        feed: str,
        receive: Callable[[BucketEntry], None],
        tasks: OwnedTasks,
        now: Callable[[], float] = boot_time,
    ) -> None:
        """`feed` is the subject with the changes, a wildcard for the keys."""
        self.bucket: Bucket = bucket
        self.sequence: int = 0
        """Of the last change that was passed on."""
        self.gaps: int = 0
        """How often changes were missed and read later."""
        self._jetstream = jetstream
        self._feed = feed
        self._receive = receive
        self._tasks = tasks
        self._now = now
        self._seen = 0
        """The highest sequence that came by the feed after a gap."""
        self._keys: set[str] = set()
        """The keys that have a value."""
        self._last_read = now()
        self._early: list[StoredMessage] | None = None
        self._subscription: NatsSubscription | None = None
        self._reading: asyncio.Task[None] | None = None
        self._read_again = False
        self._timer: Timer | None = None
        self._stopped = False

    async def start(self) -> None:
        """Read the bucket and follow it from now on. Raises StoreError."""
        connection = self._jetstream.connection
        self._early = []
        self._subscription = await connection.subscribe(self._feed, self._on_message)
        await connection.flush()
        await self._read()
        early, self._early = self._early, None
        for message in early:
            self._take(message)
        connection.on_change.append(self._on_connection)
        self._check_later()

    async def stop(self) -> None:
        """Follow no longer."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        connection = self._jetstream.connection
        if self._on_connection in connection.on_change:
            connection.on_change.remove(self._on_connection)
        if self._subscription is not None:
            await connection.unsubscribe(self._subscription)

    @property
    def silent_seconds(self) -> float:
        """How long the bucket could not be read, beyond the time between two reads."""
        return max(0.0, self._now() - self._last_read - CHECK_SECONDS)

    async def refresh(self) -> None:
        """Pass on everything that was written until now. Raises StoreError."""
        await self._read()

    def _on_message(self, message: NatsMessage) -> None:
        try:
            stored = read_message(message)
        except NatsRefused as error:
            LOG.warning("%s", error)
            return
        if self._early is not None:
            self._early.append(stored)
        else:
            self._take(stored)

    def _take(self, message: StoredMessage) -> None:
        if message.sequence <= self.sequence:
            return
        if message.sequence != self.sequence + 1:
            self.gaps += 1
            self._seen = max(self._seen, message.sequence)
            self._fill()
            return
        self._pass_on(self.bucket.entry(message))

    def _pass_on(self, entry: BucketEntry) -> None:
        self.sequence = entry.revision
        if entry.value is None:
            self._keys.discard(entry.key)
        else:
            self._keys.add(entry.key)
        self._receive(entry)

    def _fill(self) -> None:
        """Read what was missed; once more if that is under way."""
        self._read_again = True
        if self._reading is None or self._reading.done():
            self._reading = self._tasks.start(self._read_missed())

    async def _read_missed(self) -> None:
        while self._read_again:
            self._read_again = False
            try:
                await self._read()
                for _ in range(_STALE_READS):
                    if self.sequence >= self._seen:
                        break
                    await self._jetstream.connection.clock.sleep(_STALE_PAUSE)  # a replica was behind
                    await self._read()
            except StoreError as error:
                LOG.debug("cannot read bucket %s now: %s", self.bucket.name, error)
                self._check_later(_RETRY_SECONDS)

    async def _read(self) -> None:
        began = self._now()
        everything = began - self._last_read > _MARKERS_SEEN_SECONDS
        missing = set(self._keys) if everything else set[str]()
        async for entry in self.bucket.entries(0 if everything else self.sequence):
            missing.discard(entry.key)
            if entry.revision > self.sequence:
                self._pass_on(entry)
        for key in missing:
            current = await self.bucket.get(key)  # the replica that was read may be behind
            if current is None or current.value is None:
                self._keys.discard(key)
                self._receive(BucketEntry(key, None, self.sequence))
        self._last_read = began

    def _on_connection(self, connected: bool) -> None:
        if connected:
            self._fill()

    def _check_later(self, seconds: float = CHECK_SECONDS) -> None:
        """Read the bucket after some seconds, and then again and again."""

        def check() -> None:
            self._check_later()
            self._fill()

        if self._stopped:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._jetstream.connection.clock.call_later(seconds, check)
