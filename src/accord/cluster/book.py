"""The gateway's session logs in JetStream: `Book` of `accord.gateway.contracts`.

Finding and listing read the index in memory. A log is claimed before something is appended to it: its writer
gets a new epoch, and what an earlier writer left open is closed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

from accord.clock import Clock, OwnedTasks, within
from accord.cluster.cluster_log import CLOSE_SECONDS, ClusterLog
from accord.cluster.jetstream import JetStream, with_retries
from accord.cluster.log_message import new_log_id
from accord.cluster.log_reader import ClusterLogReader
from accord.cluster.log_writer import LeaseEnded
from accord.cluster.placement import Placement
from accord.cluster.session_index import IndexEntry, SessionIndex
from accord.cluster.session_names import ClusterNames
from accord.cluster.streams import ClusterStreams, LogAddress
from accord.errors import InvalidRequest, SessionInUse, StoreError
from accord.frontend.recording import RecordedSession
from accord.gateway.contracts import Fence, Fenced, SessionNode, SessionOwner
from accord.schema.codec import encode
from accord.store.session_summary import first_summary, now_micros, opening_patch

_LIST_PAGE: Final = 50

MayClaim: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Whether a session of this node and incarnation may be claimed: its owner is gone for good."""


class BookLease(Fence, Protocol):
    """The lease of the node that writes."""

    @property
    def incarnation(self) -> str:
        """Changes when the node lost its lease and got another one."""
        ...


class BookListener(Protocol):
    """Hears what the logs of a node need from the gateway."""

    def log_paused(self, agent: str, session_id: str, paused: bool) -> None:
        """The agent must stop, or may go on, sending updates of the session."""
        ...

    def log_waits(self, agent: str, session_id: str, waits: bool) -> None:
        """The storage does not answer, or answers again."""
        ...

    def log_failed(self, agent: str, session_id: str, error: StoreError) -> None:
        """The session can no longer be written to here."""
        ...


class ClusterBook:
    """The logs of all sessions of all agents, in the streams of a cluster."""

    def __init__(
        self,
        streams: ClusterStreams,
        node: str,
        *,
        fence: BookLease,
        may_claim: MayClaim,
    ) -> None:
        self.streams: ClusterStreams = streams
        self.jetstream: JetStream = streams.jetstream
        self.clock: Clock = streams.jetstream.connection.clock
        self.node: str = node
        self.fence: BookLease = fence
        self.may_claim: MayClaim = may_claim
        self.placement: Callable[[str, Iterable[str]], Placement] = lambda agent, folders: Placement()
        """Which nodes can take a new session of this agent in these folders over."""
        self.incarnation_of: Callable[[str], str | None] = lambda node: None
        """By which incarnation another node runs now; None if it does not."""
        self.listener: BookListener | None = None
        self.tasks: OwnedTasks = OwnedTasks(self.clock, grace=CLOSE_SECONDS)
        self.index: SessionIndex = SessionIndex(streams, self.tasks)
        self.index.is_own = self._is_written_here
        self._dirty: set[ClusterLog] = set()
        self._logs: dict[str, ClusterLog] = {}
        self.names: ClusterNames = ClusterNames(self)
        self.takeovers: int = 0
        """How many sessions were claimed from nodes that were lost."""

    async def start(self) -> None:
        """Read the index. Raises StoreError."""
        await self.index.start()

    @property
    def incarnation(self) -> str:
        return self.fence.incarnation

    @property
    def writer_name(self) -> str:
        return f"{self.node}:{self.incarnation}"

    @property
    def uncommitted(self) -> bool:
        self._dirty = {log for log in self._dirty if log.committed < log.noted}
        return bool(self._dirty)

    @property
    def uncommitted_bytes(self) -> int:
        """The size of all records that wait for their commit."""
        return sum(log.unwritten_bytes for log in self._dirty)

    def open_log(
        self,
        agent: str,
        session_id: str,
        cwd: str,
        additional_folders: Iterable[str] = (),
        *,
        new: bool = False,
    ) -> ClusterLog:
        self.check_lease(session_id)
        if new and (reserved := self.names.take_reserved(agent, session_id)) is not None:
            return reserved
        entry = self.index.find(agent, session_id)
        if entry is not None and not new:
            log = self._logs.setdefault(entry.log, ClusterLog(self, entry))
            log.refresh(entry)
            return log
        log, patch = self.new_log(agent, session_id, cwd, tuple(additional_folders))
        self.index.show(log.entry)
        log.create(patch, self.tasks.start(log.register(replaced=entry)))
        return log

    def new_log(
        self, agent: str, session_id: str, cwd: str, additional_folders: tuple[str, ...], agent_id: str = ""
    ) -> tuple[ClusterLog, bytes]:
        """A log that nothing knows yet, and the payload of its first record."""
        log_id = new_log_id()
        stream = self.streams.stream_for(log_id)
        patch = opening_patch(cwd, agent, additional_folders)
        created = IndexEntry(
            agent,
            session_id,
            log_id,
            stream,
            self.node,
            self.incarnation,
            1,
            0,
            first_summary(log_id, now_micros(), patch),
            self.placement(agent, (cwd, *additional_folders)),
            agent_id,
        )
        log = self._logs[log_id] = ClusterLog(self, created)
        return log, encode(patch)

    def check_lease(self, session_id: str) -> None:
        """Raise InvalidRequest if this node may open no session now."""
        try:
            self.fence.check()
        except Fenced as error:
            raise InvalidRequest(f"session {session_id} cannot be opened here now: {error}") from None

    def address(self, entry: IndexEntry) -> LogAddress:
        return self.streams.address(entry.stream, entry.log)

    def find(self, agent: str, session_id: str) -> RecordedSession | None:
        entry = self.index.find(agent, session_id)
        return None if entry is None else entry.recorded

    def pages(
        self, agent: str | None = None, cwd: str | None = None, before: int | None = None
    ) -> Iterator[Sequence[RecordedSession]]:
        found = self.index.list(agent, cwd, before)
        for start in range(0, len(found), _LIST_PAGE):
            yield found[start : start + _LIST_PAGE]

    def owners(self) -> dict[str, SessionOwner]:
        return {}

    def node_of(self, agent: str, session_id: str) -> SessionNode | None:
        entry = self.index.find(agent, session_id)
        if entry is None:
            return None
        incarnation = self.incarnation if entry.node == self.node else self.incarnation_of(entry.node)
        if incarnation is None:
            return SessionNode(entry.node, "idle" if entry.state == "idle" else "lost", is_lost=True)
        # A node that was started again has lost the turns of its earlier process.
        return SessionNode(entry.node, entry.state if incarnation == entry.incarnation else "idle")

    def require_unowned(self, agent: str, session_id: str) -> None:
        """Nothing to check: no other process of this machine uses the cluster's logs directly."""

    def commit(self) -> None:
        for log in tuple(self._dirty):
            log.commit()

    def read_stored(self, entry: IndexEntry) -> ClusterLogReader:
        """A reader of a session that no node writes to."""
        return ClusterLogReader(self.jetstream, self.address(entry), lambda: None)

    def _is_written_here(self, entry: IndexEntry) -> bool:
        log = self._logs.get(entry.log)
        return log is not None and log.writable and log.entry.epoch == entry.epoch

    def add_dirty(self, log: ClusterLog) -> None:
        """Remember a log that has uncommitted records."""
        self._dirty.add(log)

    async def delete(self, agent: str, session_id: str) -> bool:
        entry = self.index.find(agent, session_id)
        if entry is None:
            return False
        log = self._logs.get(entry.log)
        if log is None or not log.writable:
            owned = entry.node == self.node and entry.incarnation == self.incarnation
            if not owned and not await self.may_claim(entry.node, entry.incarnation):
                raise SessionInUse(f"session {session_id} is open at node {entry.node}; delete it there")
        if log is not None:
            await log.settle()  # an append under way could be stored after the purge
            log.abandon(StoreError(f"session {session_id} was deleted"))
            self.forget(log)
        address = self.address(entry)
        existed = await self.index.remove(agent, session_id, entry.log)
        await with_retries(lambda: self.jetstream.purge(address.stream, address.subject), self.jetstream)
        return existed

    def forget(self, log: ClusterLog) -> None:
        """Remove a log that was given up."""
        if self._logs.get(log.id) is log:
            del self._logs[log.id]
        self._dirty.discard(log)

    def give_up(self, reason: str) -> None:
        """Write nothing more to any session, because the lease of this node has ended."""
        for log in tuple(self._logs.values()):
            log.abandon(LeaseEnded(f"this node gave the session up: {reason}"))

    async def aclose(self) -> None:
        """Commit everything and release the sessions, in bounded time, so that other nodes need not wait."""
        releasing = [self.tasks.start(log.release()) for log in tuple(self._logs.values())]
        if releasing:
            await within(self.clock, CLOSE_SECONDS, asyncio.gather(*releasing, return_exceptions=True))
        await self.index.stop()
        await self.tasks.end()
