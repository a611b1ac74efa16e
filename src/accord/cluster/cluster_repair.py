"""Rebuilds the session index of a cluster from the logs, and exports and deletes old sessions."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from logging import getLogger
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Struct, structs

from accord.cluster.connection import NatsRefused
from accord.cluster.jetstream import (
    WRONG_SEQUENCE,
    Bucket,
    BucketEntry,
    JetStream,
    StoredMessage,
    with_retries,
)
from accord.cluster.log_message import OWNER, RELEASED, Commit, CommitReader, OwnerRecord, is_released
from accord.cluster.log_reader import ClusterLogReader
from accord.cluster.nodes import decoded_node
from accord.cluster.session_index import IndexEntry, index_key
from accord.cluster.streams import ClusterStreams
from accord.errors import StoreError
from accord.schema.codec import encode
from accord.session import SessionState
from accord.store.records import SESSION, payloads_in
from accord.store.session_summary import (
    SessionPatch,
    SessionSummary,
    effects_in,
    first_summary,
    updated_summary,
)

LOG = getLogger("accord.cluster")

_FIRST_COMMIT_RECORDS: Final = 2


class RebuildReport(Struct):
    """What a rebuild found and did."""

    sessions: int = 0
    """Logs that were read."""
    written: int = 0
    """Entries that were missing, damaged or behind."""
    removed: int = 0
    """Entries without a log."""
    problems: list[str] = []


class ExpiredSession(NamedTuple):
    """A session that was not used for long, with its whole content."""

    entry: IndexEntry
    state: SessionState


ExportSession: TypeAlias = Callable[[ExpiredSession], Awaitable[None]]


class _FoldedLog:
    """The index entry of one log, computed from its messages."""

    def __init__(self, log: str, stream: str) -> None:
        self.log = log
        self.stream = stream
        self.is_released = False
        self.problem = ""
        self._reader = CommitReader()
        self._owner: OwnerRecord | None = None
        self._summary: SessionSummary | None = None

    def read(self, message: StoredMessage) -> None:
        if self.problem:
            return
        try:
            for commit in self._reader.feed([message]):
                self._fold(commit)
        except (StoreError, msgspec.MsgspecError) as error:
            self.problem = f"{self.log}: {error}"

    def _fold(self, commit: Commit) -> None:
        for group in commit.groups:
            self.is_released = group.kind == RELEASED
            if group.kind == OWNER:
                self._owner = msgspec.json.decode(payloads_in([group])[-1], type=OwnerRecord)
            elif group.kind == SESSION and self._summary is None:
                patch = msgspec.json.decode(payloads_in([group])[0], type=SessionPatch)
                self._summary = first_summary(self.log, group.time, patch)
            elif self._summary is not None:
                self._summary = updated_summary(self._summary, group.time, effects_in(group))

    @property
    def entry(self) -> IndexEntry | None:
        owner, summary = self._owner, self._summary
        if owner is None or summary is None or not owner.session_id:
            return None
        return IndexEntry(
            owner.agent,
            owner.session_id,
            self.log,
            self.stream,
            owner.node,
            owner.incarnation,
            owner.epoch,
            self._reader.last,
            summary,
            owner.placement,
            owner.agent_id,
        )


async def _read_logs(streams: ClusterStreams) -> AsyncGenerator[_FoldedLog]:
    """Read the logs of all streams, one stream after the other. Raises StoreError."""
    for stream, subject in await streams.log_streams():
        logs: dict[str, _FoldedLog] = {}
        async for message in streams.jetstream.messages(stream, subject):
            log = message.subject.rpartition(".")[2]
            logs.setdefault(log, _FoldedLog(log, stream)).read(message)
        for folded in logs.values():
            yield folded


async def rebuild_index(streams: ClusterStreams) -> RebuildReport:
    """Write what the index lacks, computed from the logs. Nodes may run meanwhile. Raises StoreError."""
    report = RebuildReport()
    logs: set[str] = set()
    newest: dict[str, IndexEntry] = {}
    aside: list[IndexEntry] = []
    async for folded in _read_logs(streams):
        report.sessions += 1
        logs.add(folded.log)
        entry = folded.entry
        if folded.problem or entry is None:
            report.problems.append(folded.problem or f"{folded.log}: it does not say which session it is")
            continue
        key = index_key(entry.agent, entry.session_id)
        other = newest.get(key)
        if other is None or entry.log > other.log:
            newest[key] = entry
            entry = other
        if entry is not None:  # an agent used its id again later
            aside.append(_set_aside(entry))
    index = streams.bucket("index")
    known: dict[str, str] = {}
    alive = await _living_incarnations(streams)
    async for current in index.entries():
        decoded = _decoded(current.value)
        if decoded is not None:
            known[decoded.log] = current.key
            # The first record of a new session may come a moment after its entry.
            is_new = decoded.number < _FIRST_COMMIT_RECORDS and decoded.incarnation in alive
            if decoded.log not in logs and not is_new:
                await with_retries(
                    lambda key=current.key, revision=current.revision: index.delete(key, revision),
                    streams.jetstream,
                )
                report.removed += 1
    for entry in [*aside, *newest.values()]:
        # A session that was renamed keeps the key that it has.
        key = known.get(entry.log, index_key(entry.agent, entry.session_id))
        report.written += await _write(streams.jetstream, index, key, entry)
    return report


def _set_aside(entry: IndexEntry) -> IndexEntry:
    return structs.replace(entry, session_id=f"{entry.session_id}~{entry.summary.created}", agent_id="")


async def _write(jetstream: JetStream, index: Bucket, key: str, entry: IndexEntry) -> bool:
    """Write an entry unless a current one is there; return whether it was written."""
    while True:
        current = await with_retries(lambda: index.get(key), jetstream)
        known = None if current is None else _decoded(current.value)
        if known is not None and known.log == entry.log and known.number >= entry.number:
            return False
        if known is not None and known.log > entry.log:
            return False
        if known is not None and known.log == entry.log:
            entry = structs.replace(entry, session_id=known.session_id)
        try:
            revision = 0 if current is None else current.revision
            await with_retries(
                lambda revision=revision, entry=entry: index.put(key, encode(entry), revision), jetstream
            )
            return True
        except NatsRefused as error:
            if error.code != WRONG_SEQUENCE:
                raise


def _decoded(value: bytes | None) -> IndexEntry | None:
    try:
        return msgspec.json.decode(value or b"", type=IndexEntry)
    except msgspec.MsgspecError:
        return None


async def expire_sessions(
    streams: ClusterStreams, before: int, export: ExportSession
) -> tuple[int, list[str]]:
    """Export and delete the sessions without activity since `before`, in microseconds since 1970.

    A session that a running node has open is left, and so is one whose export fails with a StoreError. Return
    how many were deleted, and why others were not. Raises StoreError.
    """
    entries = [entry async for entry in streams.bucket("index").entries()]
    alive = await _living_incarnations(streams)
    deleted, kept = 0, list[str]()
    for current in entries:
        entry = _decoded(current.value)
        if entry is not None and entry.summary.updated < before:
            problem = await _expire(streams, current, entry, alive, export)
            if problem:
                kept.append(f"{entry.session_id} {problem}")
            else:
                deleted += 1
    return deleted, kept


async def _living_incarnations(streams: ClusterStreams) -> set[str]:
    return {
        node.incarnation
        async for entry in streams.bucket("nodes").entries()
        if (node := decoded_node(entry)) is not None and node.lives
    }


async def _expire(
    streams: ClusterStreams, current: BucketEntry, entry: IndexEntry, alive: set[str], export: ExportSession
) -> str:
    """Export and delete one session; return why it was left."""
    jetstream = streams.jetstream
    address = streams.address(entry.stream, entry.log)
    last = await with_retries(lambda: jetstream.last(address.stream, address.subject), jetstream)
    if last is not None and entry.incarnation in alive and not is_released(last):
        return f"is open at node {entry.node}"
    try:
        reader = ClusterLogReader(jetstream, address, lambda: None)
        await reader.read_state()
        await export(ExpiredSession(entry, reader.state))
    except StoreError as error:
        return f"cannot be exported: {error}"
    try:
        await streams.bucket("index").delete(current.key, current.revision)
    except NatsRefused as error:
        if error.code != WRONG_SEQUENCE:
            raise
        return "was used just now"
    await with_retries(lambda: jetstream.purge(address.stream, address.subject), jetstream)
    return ""
