"""A bucket kept in memory: other nodes' changes arrive by themselves, this node's own are seen at once."""

from collections.abc import Callable
from logging import getLogger
from typing import Generic, TypeVar

from accord.clock import OwnedTasks
from accord.cluster.bucket_follower import BucketFollower
from accord.cluster.connection import NatsRefused
from accord.cluster.jetstream import WRONG_SEQUENCE, Bucket, BucketEntry, with_retries
from accord.cluster.streams import ClusterStreams

LOG = getLogger("accord.cluster")

T = TypeVar("T")


class BucketCopy(Generic[T]):
    """The values of a bucket by key. Reading never waits; changes raise StoreError."""

    def __init__(
        self,
        streams: ClusterStreams,
        name: str,
        tasks: OwnedTasks,
        decode: Callable[[str, bytes], T],
        on_change: Callable[[str, T | None], None] | None = None,
    ) -> None:
        """`decode` turns a key and its bytes into a value, or raises ValueError: then the key has none.

        `on_change` is called with the key and its new value, None for a deleted key.
        """
        self.values: dict[str, T] = {}
        self.bucket: Bucket = streams.bucket(name)
        self._jetstream = streams.jetstream
        self._decode = decode
        self._on_change = on_change
        self._revisions: dict[str, int] = {}
        self._own: dict[str, int] = {}
        """The revisions of this node's changes that have not come back yet."""
        self._follower = BucketFollower(
            streams.jetstream, self.bucket, streams.names.bucket_feed(name), self._receive, tasks
        )

    async def start(self) -> None:
        """Read the bucket and follow it. Raises StoreError."""
        await self._follower.start()

    async def stop(self) -> None:
        await self._follower.stop()

    @property
    def silent_seconds(self) -> float:
        """How long the bucket could not be read, beyond the time between two reads."""
        return self._follower.silent_seconds

    async def refresh(self) -> None:
        """Read what other nodes have written until now. Raises StoreError."""
        await self._follower.refresh()

    async def create(self, key: str, data: bytes) -> bool:
        """Write a key that has no value; return False if it has another one."""
        return await self._put(key, data, 0)

    async def replace(self, key: str, data: bytes) -> bool:
        """Write a key over the value that this node knows; return False if it has changed meanwhile."""
        return await self._put(key, data, self._revisions.get(key, 0))

    async def delete(self, key: str) -> bool:
        """Delete a key; return whether it had a value."""
        while True:
            current = await with_retries(lambda: self.bucket.get(key), self._jetstream)
            if current is None or current.value is None:
                self._apply(key, None, self._follower.sequence)
                return False
            try:
                revision = await with_retries(
                    lambda revision=current.revision: self.bucket.delete(key, revision), self._jetstream
                )
            except NatsRefused as error:
                if error.code != WRONG_SEQUENCE:
                    raise
                continue  # changed meanwhile, or our own answer was lost
            self._change(key, None, revision)
            return True

    async def _put(self, key: str, data: bytes, expected: int) -> bool:
        while True:
            try:
                revision = await with_retries(
                    lambda expected=expected: self.bucket.put(key, data, expected), self._jetstream
                )
                break
            except NatsRefused as error:
                if error.code != WRONG_SEQUENCE:
                    raise
            current = await with_retries(lambda: self.bucket.get(key), self._jetstream)
            if current is not None and current.value == data:
                revision = current.revision  # only the answer was lost
                break
            if current is None or current.value is not None or expected:
                return False
            expected = current.revision  # the key was deleted: it is free
        self._change(key, data, revision)
        return True

    def _change(self, key: str, data: bytes | None, revision: int) -> None:
        """Show a change of this node, unless it has come back already."""
        if revision > self._follower.sequence:
            self._own[key] = revision
            self._apply(key, data, revision)

    def _receive(self, entry: BucketEntry) -> None:
        if self._own.get(entry.key, 0) > entry.revision:
            return  # an earlier state than our own change
        self._own.pop(entry.key, None)
        self._apply(entry.key, entry.value, entry.revision)

    def _apply(self, key: str, data: bytes | None, revision: int) -> None:
        value: T | None = None
        if data is not None:
            try:
                value = self._decode(key, data)
            except ValueError as error:
                LOG.error("the entry %s of bucket %s is not used: %s", key[:80], self.bucket.name, error)
        if value is None:
            self.values.pop(key, None)
            self._revisions.pop(key, None)
        else:
            self.values[key] = value
            self._revisions[key] = revision
        if self._on_change is not None:
            self._on_change(key, value)
