"""The list of all sessions of a cluster: the bucket `acc_index`, followed into memory.

The owner of a session writes its entry when a turn begins or ends, not at each record.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from hashlib import blake2s
from logging import getLogger
from typing import Final

import msgspec
from msgspec import Struct

from accord.clock import OwnedTasks
from accord.cluster.bucket_follower import BucketFollower
from accord.cluster.connection import NatsRefused
from accord.cluster.jetstream import WRONG_SEQUENCE, BucketEntry, with_retries
from accord.cluster.placement import Placement
from accord.cluster.settings import SubjectToken
from accord.cluster.streams import ClusterStreams
from accord.errors import StoreError
from accord.frontend.recording import RecordedSession
from accord.schema.codec import encode
from accord.store.session_summary import SessionSummary, normalized_folder

LOG = getLogger("accord.cluster")

_MAX_ENTRY: Final = 256 * 1024


class IndexEntry(Struct, frozen=True, omit_defaults=True):
    """One session: where its log is, who wrote to it last, and its entry in the session list."""

    agent: str
    session_id: str
    log: SubjectToken
    stream: SubjectToken
    node: SubjectToken
    incarnation: SubjectToken
    epoch: int
    number: int
    """The number of the last record when the entry was written."""
    summary: SessionSummary
    """Its `session_id` is the id of the log."""
    placement: Placement = Placement()
    agent_id: str = ""
    """The agent's own id of the session, if it is another one."""
    state: str = "idle"
    """What the session does at its node: `running`, `waiting` or `idle`."""

    @property
    def recorded(self) -> RecordedSession:
        return RecordedSession(self.agent, self.session_id, self.summary)


class IndexTaken(StoreError):
    """Another node has changed the entry."""


class SessionDeleted(IndexTaken):
    """The session was deleted; its log may still have records."""


def index_key(agent: str, session_id: str) -> str:
    """The key of a session: ids are as long as agents like, and contain any character."""
    digest = blake2s(f"{agent}\0{session_id}".encode("utf-8", "replace"), digest_size=18).digest()
    return urlsafe_b64encode(digest).decode()


class SessionIndex:
    """All sessions, by agent and id. Reading never waits."""

    def __init__(self, streams: ClusterStreams, tasks: OwnedTasks) -> None:
        self._jetstream = streams.jetstream
        self._bucket = streams.bucket("index")
        self._follower = BucketFollower(
            streams.jetstream, self._bucket, streams.names.bucket_feed("index"), self._on_entry, tasks
        )
        self.on_change: Callable[[IndexEntry, bool], None] | None = None
        """Called with an entry that any node has changed, and whether it is still there."""
        self.is_own: Callable[[IndexEntry], bool] = lambda entry: False
        """Whether this node alone writes the entry now: what it shows is then newer than what it wrote."""
        self._entries: dict[str, IndexEntry] = {}

    async def start(self) -> None:
        """Read the index and follow it. Raises StoreError."""
        await self._follower.start()

    async def stop(self) -> None:
        await self._follower.stop()

    async def refresh(self) -> None:
        """Read what other nodes have written until now. Raises StoreError."""
        await self._follower.refresh()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[IndexEntry]:
        return iter(tuple(self._entries.values()))

    def find(self, agent: str, session_id: str) -> IndexEntry | None:
        return self._entries.get(index_key(agent, session_id))

    def find_log(self, log: str) -> IndexEntry | None:
        """The session whose log has this id."""
        return next((entry for entry in self._entries.values() if entry.log == log), None)

    def list(self, agent: str | None, cwd: str | None, before: int | None = None) -> list[RecordedSession]:
        """The sessions of an agent and a folder, or all, used last at a time or earlier; most recently used
        first.
        """
        folder = None if cwd is None else normalized_folder(cwd)
        found = [
            entry
            for entry in self._entries.values()
            if (agent is None or entry.agent == agent)
            and (folder is None or normalized_folder(entry.summary.cwd) == folder)
            and (before is None or entry.summary.updated <= before)
        ]
        found.sort(key=lambda entry: (entry.summary.updated, entry.log), reverse=True)
        return [entry.recorded for entry in found]

    def show(self, entry: IndexEntry) -> None:
        """Show an entry on this node before it is written."""
        self._entries[index_key(entry.agent, entry.session_id)] = entry

    def update(self, entry: IndexEntry) -> None:
        """Show a change before it is written, unless the session was deleted or has another log now."""
        key = index_key(entry.agent, entry.session_id)
        shown = self._entries.get(key)
        if shown is not None and shown.log == entry.log:
            self._entries[key] = entry

    async def exists(self, entry: IndexEntry) -> bool:
        """Whether the session of a log is in the list, by the leader. Raises StoreError."""
        key = index_key(entry.agent, entry.session_id)
        current = await with_retries(lambda: self._bucket.get(key), self._jetstream)
        known = None if current is None or current.value is None else _decoded(current)
        return known is not None and known.log == entry.log

    async def write(self, entry: IndexEntry, *, new: bool = False) -> None:
        """Write the entry of a session. `new`: only if the id is free.

        Raises IndexTaken if another log has the id, and StoreError.
        """
        key = index_key(entry.agent, entry.session_id)
        value = encode(entry)
        if len(value) > _MAX_ENTRY:
            raise StoreError(f"the list entry of session {entry.session_id[:80]} is too large")
        while True:
            current = await with_retries(lambda: self._bucket.get(key), self._jetstream)
            known = None if current is None or current.value is None else _decoded(current)
            if known == entry:
                break  # an answer was lost, but not the entry
            if known is None and not new:
                self._show_current(key, entry, None)
                text = f"session {entry.session_id} was deleted"
                # Without a mark of a deletion the index itself may be lost: then the log must be kept.
                raise IndexTaken(text) if current is None else SessionDeleted(text)
            if known is not None and (new or known.log != entry.log or known.epoch > entry.epoch):
                self._show_current(key, entry, known)
                raise IndexTaken(f"another node has session {entry.session_id} now")
            revision = 0 if current is None else current.revision
            try:
                await with_retries(
                    lambda revision=revision: self._bucket.put(key, value, revision), self._jetstream
                )
                break
            except NatsRefused as error:
                if error.code != WRONG_SEQUENCE:
                    raise
        self._show_written(key, entry)

    def _show_written(self, key: str, entry: IndexEntry) -> None:
        """Show an entry as it is in the bucket, unless this node has changed it since."""
        known = self._entries.get(key)
        if known is None or (known.log, known.epoch) != (entry.log, entry.epoch) or not self.is_own(entry):
            self._entries[key] = entry

    def _show_current(self, key: str, entry: IndexEntry, known: IndexEntry | None) -> None:
        """Show what the bucket has, and no longer an entry that this node could not write."""
        shown = self._entries.get(key)
        if shown is not None and shown.log == entry.log and shown.epoch <= entry.epoch:
            if known is None:
                del self._entries[key]
            else:
                self._entries[key] = known

    async def remove(self, agent: str, session_id: str, log: str) -> bool:
        """Remove the entry of a session; return whether it was there. Raises StoreError."""
        key = index_key(agent, session_id)
        while True:
            current = await with_retries(lambda: self._bucket.get(key), self._jetstream)
            if current is None or current.value is None:
                self._entries.pop(key, None)
                return False
            known = _decoded(current)
            if known is not None and known.log != log:
                return False
            revision = current.revision
            try:
                await with_retries(
                    lambda revision=revision: self._bucket.delete(key, revision), self._jetstream
                )
            except NatsRefused as error:
                if error.code != WRONG_SEQUENCE:
                    raise
                continue
            self._entries.pop(key, None)
            return True

    def _on_entry(self, entry: BucketEntry) -> None:
        before = self._entries.get(entry.key)
        decoded = None if entry.value is None else _decoded(entry)
        self._take(entry, decoded)
        if self.on_change is not None and (changed := decoded or before) is not None:
            self.on_change(changed, decoded is not None)

    def _take(self, entry: BucketEntry, decoded: IndexEntry | None) -> None:
        if decoded is None:
            self._entries.pop(entry.key, None)
            return
        known = self._entries.get(entry.key)
        # Our own entry is newer: it is shown before it is written.
        if (
            known is None
            or known.log != decoded.log
            or decoded.epoch > known.epoch
            or decoded.number >= known.number
        ):
            self._show_written(entry.key, decoded)


def _decoded(entry: BucketEntry) -> IndexEntry | None:
    try:
        decoded = msgspec.json.decode(entry.value or b"", type=IndexEntry)
        if index_key(decoded.agent, decoded.session_id) != entry.key:
            raise ValueError("it is the entry of another session")
    except ValueError as error:  # also those of msgspec
        LOG.error("an entry of the session index is damaged and not shown: %s", error)
        return None
    return decoded
