"""The nodes of a cluster: the registry, the lease of this node, and how a lease is broken.

A node has one lease, its key in the bucket `acc_nodes`, and renews it by compare-and-set. Each side measures
time with its own clock, which also counts while the machine sleeps: no two clocks are compared. A node that
could not renew for `deadline` seconds gives up by itself. Others take its sessions over when its key has not
changed for `lease` seconds, which is longer, and only after they changed the key themselves.
"""

import asyncio
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from logging import getLogger
from typing import Final

import msgspec
from msgspec import Struct, structs

from accord.clock import Clock, OwnedTasks
from accord.cluster.bucket_follower import BucketFollower
from accord.cluster.connection import NatsRefused, NatsUnavailable, boot_time
from accord.cluster.jetstream import WRONG_SEQUENCE, Bucket, BucketEntry, JetStream, with_retries
from accord.cluster.placement import Volume
from accord.cluster.settings import LeaseTimes, SubjectToken
from accord.cluster.streams import ClusterStreams
from accord.errors import StoreError, UsageError
from accord.gateway.contracts import Fenced
from accord.schema.codec import encode

LOG = getLogger("accord.cluster")

_FRONTS: Final = "front."
"""Begins the keys of fronts."""
_RETRY_PAUSE: Final = 0.2
_SHORTEST_WATCH: Final = 0.05


def new_incarnation() -> str:
    """The random id of one start of a node."""
    return secrets.token_hex(8)


class NodeEntry(Struct, frozen=True, omit_defaults=True):
    """One node: its lease, and what it can serve."""

    node: SubjectToken
    incarnation: SubjectToken
    home: str = ""
    """The random id of its data folder. Two processes with one folder exclude each other by its lock."""
    renewal: int = 0
    """Counts the renewals."""
    agents: tuple[str, ...] = ()
    version: str = ""
    volumes: dict[str, Volume] = {}
    """The folders that it shares with other nodes, by name."""
    homes: dict[str, str] = {}
    """By agent: the name of the agent's own session store."""
    labels: dict[str, str] = {}
    turns: int = 0
    """Running turns when the lease was last renewed."""
    draining: bool = False
    """Whether it takes no new sessions, because it is about to stop."""
    broken: bool = False
    """Set by the node that broke its lease: this incarnation may no longer act."""
    front: bool = False
    """Whether it serves the agents of other nodes, and none of its own."""

    @property
    def key(self) -> str:
        """Its key in the registry.

        Fronts have keys of another kind: with its NATS user, a front can write no other, so it cannot offer
        agents and be sent the clients of other nodes, with their tokens.
        """
        return f"{_FRONTS}{self.node}" if self.front else self.node

    @property
    def lives(self) -> bool:
        return not self.broken


class NodeRegistry:
    """All nodes of the cluster, followed into memory."""

    def __init__(
        self, streams: ClusterStreams, tasks: OwnedTasks, now: Callable[[], float] = boot_time
    ) -> None:
        self.bucket: Bucket = streams.bucket("nodes")
        self.jetstream: JetStream = streams.jetstream
        self._now = now
        self._follower = BucketFollower(
            streams.jetstream, self.bucket, streams.names.bucket_feed("nodes"), self._on_entry, tasks
        )
        self.on_change: list[Callable[[], None]] = []
        """Called after each change, also after each renewal of a lease."""
        self._entries: dict[str, NodeEntry] = {}
        self._changed: dict[str, float] = {}
        self._revisions: dict[str, int] = {}

    async def start(self) -> None:
        """Read the registry and follow it. Raises StoreError."""
        await self._follower.start()

    async def stop(self) -> None:
        await self._follower.stop()

    def __iter__(self) -> Iterator[NodeEntry]:
        return iter(tuple(self._entries.values()))

    def find(self, node: str) -> NodeEntry | None:
        return self._entries.get(node)

    def since_change(self, node: str) -> float:
        """How many seconds ago this node was seen to renew its lease."""
        return self._now() - self._changed.get(node, float("-inf"))

    def is_alive(self, node: str, seconds: float) -> bool:
        """Whether a node has a lease and renewed it within so many seconds, as far as is known here."""
        entry = self._entries.get(node)
        return entry is not None and entry.lives and self.since_change(node) < seconds

    def living_incarnation(self, node: str, seconds: float) -> str | None:
        """The incarnation of a node that is alive; else None."""
        return self._entries[node].incarnation if self.is_alive(node, seconds) else None

    async def is_gone(self, node: str, incarnation: str) -> bool:
        """Whether an incarnation can never act again, by the leader. Raises StoreError."""
        current = await with_retries(lambda: self.bucket.get(node), self.jetstream)
        entry = None if current is None else decoded_node(current)
        return entry is None or entry.incarnation != incarnation or not entry.lives

    async def break_lease(self, node: str, incarnation: str, lease: float, clock: Clock) -> bool:
        """Break the lease of a node that does not renew it; return whether it may no longer act.

        Watches its key until it has not changed for `lease` seconds by the clock of this node, which saw its
        last change come in. Returns False as soon as it is renewed. Raises StoreError.
        """
        jetstream = self.jetstream
        seen: int | None = None
        since = self._now()
        while True:
            current = await with_retries(lambda: self.bucket.get(node), jetstream)
            entry = None if current is None else decoded_node(current)
            if current is None or entry is None or entry.incarnation != incarnation or not entry.lives:
                return True
            if seen is None:
                seen = current.revision
                if seen == self._revisions.get(node):
                    since = self._changed[node]
            elif seen != current.revision:
                return False
            remaining = since + lease - self._now()
            if remaining <= 0:
                break
            await clock.sleep(min(remaining, 1.0))
        value = encode(structs.replace(entry, broken=True))
        try:
            await with_retries(lambda: self.bucket.put(node, value, current.revision), jetstream)
        except NatsRefused as error:
            if error.code != WRONG_SEQUENCE:
                raise
            # It renewed in the last moment, another node was faster, or our own answer was lost.
            return await self.is_gone(node, incarnation)
        LOG.warning("the lease of node %s was broken: it was silent for %g seconds", node, lease)
        return True

    def _on_entry(self, entry: BucketEntry) -> None:
        decoded = None if entry.value is None else decoded_node(entry)
        self._changed[entry.key] = self._now()
        self._revisions[entry.key] = entry.revision
        if decoded is None:
            self._entries.pop(entry.key, None)
        else:
            self._entries[entry.key] = decoded
        for callback in tuple(self.on_change):
            callback()


class NodeLease:
    """The lease of this node: `Fence` of `accord.gateway.contracts`."""

    def __init__(
        self,
        registry: NodeRegistry,
        entry: NodeEntry,
        times: LeaseTimes,
        tasks: OwnedTasks,
        *,
        clock: Clock,
        now: Callable[[], float] = boot_time,
    ) -> None:
        self.entry: NodeEntry = entry
        self.times: LeaseTimes = times
        self.fenced_count: int = 0
        self.on_fenced: Callable[[str], None] = _log_fenced
        """Called at once when this node may no longer act: its agents have to be killed."""
        self.count_turns: Callable[[], int] = _no_turns
        """Called at each renewal."""
        self.on_revived: Callable[[], None] = _nothing
        """Called when this node has a lease again, with a new incarnation."""
        self._registry = registry
        self._bucket = registry.bucket
        self._tasks = tasks
        self._clock = clock
        self._now = now
        self._revision = 0
        self._renewed = float("-inf")
        self._fenced = True
        self._released = False
        self._started = False
        self._own: set[str] = set()
        """All incarnations of this process."""
        self._refusal = ""
        """Why it got no lease the last time."""
        self._changing = asyncio.Lock()

    @property
    def incarnation(self) -> str:
        return self.entry.incarnation

    @property
    def age(self) -> float:
        """Seconds since the last acknowledged renewal was sent."""
        return self._now() - self._renewed

    @property
    def is_held(self) -> bool:
        """Whether the lease lasts."""
        return not self._fenced and self.age <= self.times.deadline

    def check(self) -> None:
        """Raise Fenced if the lease has ended by this node's own clock, also right after a pause."""
        if not self._fenced and self.age > self.times.deadline:
            self._fence(f"it could not renew its lease for {self.times.deadline:g} seconds")
        if self._fenced:
            raise Fenced(
                f"node {self.entry.node} has no lease now and may not act for its sessions; try again "
                "when it reaches the NATS servers"
            )

    async def start(self) -> None:
        """Take the node's key. Raises UsageError if another machine uses the name, StoreError."""
        # The streams may have been created just now: their subjects reach a leaf node a little later.
        await with_retries(self._take, self._registry.jetstream)
        self._tasks.start(self._keep())
        self._tasks.start(self._watch_deadline())

    async def _watch_deadline(self) -> None:
        """End the lease in time, also while a renewal waits for its answer."""
        while not self._released:
            remaining = self.times.deadline - self.age
            await self._clock.sleep(min(max(remaining, _SHORTEST_WATCH), self.times.renew))
            with suppress(Fenced):
                self.check()

    async def release(self) -> None:
        """Give the lease up: other nodes need not wait. Never raises."""
        if self._released:
            return
        self._released = True
        if not self._fenced:
            self._fenced = True
            try:
                async with self._changing:
                    await self._bucket.delete(self.entry.key, self._revision)
            except StoreError as error:
                LOG.warning("the lease is not given up, so other nodes wait until it ends: %s", error)

    async def change(self, **values: object) -> None:
        """Change what the entry says, at once if the servers answer, else with the next renewal."""
        self.entry = structs.replace(self.entry, **values)
        async with self._changing:
            if not self._fenced and not self._released:
                try:
                    await self._renew()
                except StoreError as error:
                    LOG.debug("the entry of this node is changed later: %s", error)

    async def _take(self, attempts: int = 3) -> None:
        node, key, home = self.entry.node, self.entry.key, self.entry.home
        current = await self._read()
        entry = None if current is None else decoded_node(current)
        self._own.add(self.entry.incarnation)
        # At the start it may be an earlier process of this node. Later it is a copy that runs elsewhere.
        is_own = entry is None or (entry.incarnation in self._own if self._started else entry.home == home)
        if entry is not None and entry.lives and not is_own:
            # Perhaps another machine that has the same name.
            if not await self._registry.break_lease(key, entry.incarnation, self.times.lease, self._clock):
                raise UsageError(
                    f"another machine runs node {node!r} of this cluster; give this one another name with "
                    '"node" in the cluster settings'
                )
            current = await self._read()
        revision = 0 if current is None else current.revision
        sent = self._now()
        try:
            self._revision = await self._bucket.put(key, encode(self.entry), revision)
        except NatsRefused as error:
            if error.code != WRONG_SEQUENCE:
                raise
            if not await self._is_ours():
                if attempts > 1:  # a last renewal of this node's earlier process came in between
                    await self._take(attempts - 1)
                    return
                raise NatsUnavailable(f"another process took the key of node {node} just now") from None
        self._renewed, self._fenced, self._started = sent, False, True

    async def _keep(self) -> None:
        """Renew the lease for good. A node that lost it gets a new incarnation as soon as it can."""
        while not self._released:
            await self._clock.sleep(_RETRY_PAUSE if self._fenced else self.times.renew)
            try:
                async with self._changing:
                    if self._released:
                        return
                    await (self._revive() if self._fenced else self._renew())
            except StoreError as error:
                LOG.debug("the lease is not renewed: %s", error)
            except UsageError as error:  # another machine took the name while this node had no lease
                if str(error) != self._refusal:
                    LOG.error("this node gets no lease: %s", error)
                self._refusal = str(error)

    async def _revive(self) -> None:
        self.entry = structs.replace(self.entry, incarnation=new_incarnation(), renewal=0, broken=False)
        await self._take()
        self._refusal = ""
        LOG.warning("node %s has a lease again", self.entry.node)
        self.on_revived()

    async def _renew(self) -> None:
        entry = structs.replace(self.entry, renewal=self.entry.renewal + 1, turns=self.count_turns())
        self.entry = entry
        first_sent = self._now()
        while not self._fenced and not self._released:
            sent = self._now()
            try:
                self._revision = await self._bucket.put(entry.key, encode(entry), self._revision)
                self._renewed = sent
                return
            except NatsUnavailable:
                if self.age > self.times.deadline:
                    self._fence(f"it could not renew its lease for {self.times.deadline:g} seconds")
                    return
                await self._clock.sleep(_RETRY_PAUSE)
            except NatsRefused as error:
                if error.code != WRONG_SEQUENCE:
                    raise
                if await self._is_ours():
                    # Which attempt was stored is unknown, and other nodes count from there.
                    self._renewed = first_sent
                    return
                self._fence("another node took its lease")

    async def _is_ours(self) -> bool:
        """Whether the key holds what we wrote last: then only the answer was lost."""
        current = await self._read()
        if current is None or decoded_node(current) != self.entry:
            return False
        self._revision = current.revision
        return True

    async def _read(self) -> BucketEntry | None:
        return await self._bucket.get(self.entry.key)

    def _fence(self, reason: str) -> None:
        if self._fenced:  # meanwhile, while a renewal waited for its answer
            return
        self._fenced = True
        self.fenced_count += 1
        self.on_fenced(reason)


def decoded_node(entry: BucketEntry) -> NodeEntry | None:
    """The node of a registry entry; None if it was removed or is damaged."""
    if entry.value is None:
        return None
    try:
        decoded = msgspec.json.decode(entry.value, type=NodeEntry)
        if decoded.key != entry.key:
            raise ValueError("it is the entry of another node")
        if decoded.front and decoded.agents:
            raise ValueError("a front has no agents")
        return decoded
    except ValueError as error:  # also those of msgspec
        LOG.error("the registry entry of node %s is damaged: %s", entry.key, error)
        return None


class ClusterDirectory:
    """Which sessions of other nodes this node may claim: those whose owner can never act again."""

    def __init__(self, registry: NodeRegistry, lease: NodeLease, clock: Clock, tasks: OwnedTasks) -> None:
        self._tasks = tasks
        self._registry = registry
        self._lease = lease
        self._clock = clock
        self._watches: dict[tuple[str, str], asyncio.Task[bool]] = {}
        """One for each silent incarnation, however many of its sessions are wanted."""

    async def may_claim(self, node: str, incarnation: str) -> bool:
        """Whether the sessions of an incarnation are free. Waits for its next renewal or the end of its
        lease.
        """
        if node == self._lease.entry.node:
            return True  # its key is ours, so its earlier incarnations are gone
        key = node, incarnation
        watch = self._watches.get(key)
        if watch is None:
            watch = self._tasks.start(self._registry.break_lease(*key, self._lease.times.lease, self._clock))
            self._watches[key] = watch
            watch.add_done_callback(lambda _: self._watches.pop(key, None))
        return await asyncio.shield(watch)


def home_id(folder: "os.PathLike[str]") -> str:
    """The random id of a data folder, created at its first use. Raises OSError."""
    from accord.private_files import private_opener

    path = os.path.join(folder, "home-id")
    try:
        with open(path, "x", encoding="ascii", opener=private_opener) as file:
            file.write(secrets.token_hex(8))
    except FileExistsError:
        pass
    with open(path, encoding="ascii") as file:
        return file.read(64)


def _log_fenced(reason: str) -> None:
    LOG.error("this node gives its sessions up: %s", reason)


def _nothing() -> None:
    return None


def _no_turns() -> int:
    return 0
