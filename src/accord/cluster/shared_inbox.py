"""The requests of agents that wait for a user, of all nodes: the bucket `acc_inbox`.

The node of a session writes an entry after the record of the request is committed, and removes it when the
request ends. Entries of a node that is gone, or of an earlier owner of a session, are not shown. An answer
goes to the node of the session, which accepts the first one.
"""

import asyncio
from collections.abc import Callable
from logging import getLogger
from typing import Any, Final, cast

import msgspec
from msgspec import Raw, Struct

from accord.clock import OwnedTasks
from accord.cluster.bucket_copy import BucketCopy
from accord.cluster.nodes import NodeLease, NodeRegistry
from accord.cluster.session_index import SessionIndex
from accord.cluster.streams import ClusterStreams
from accord.errors import StoreError
from accord.gateway.contracts import InboxItem
from accord.schema.codec import encode

LOG = getLogger("accord.cluster")

_MAX_BYTES: Final = 256 * 1024
_RETRY_PAUSE: Final = 1.0
_CHECK_SECONDS: Final = 10.0
"""Between two looks whether the entries of this node are still in the bucket."""
_LARGE_MEMBERS: Final = ("content", "rawInput")


class _InboxEntry(Struct, frozen=True):
    node: str
    incarnation: str
    agent: str
    session_id: str
    folders: tuple[str, ...]
    json: Raw

    def item(self, id: str) -> InboxItem:
        return InboxItem(id, self.agent, self.session_id, self.folders, bytes(self.json))


class SharedInbox:
    """The inbox of all nodes: `InboxShare` of the gateway."""

    def __init__(
        self,
        streams: ClusterStreams,
        lease: NodeLease,
        registry: NodeRegistry,
        index: SessionIndex,
        tasks: OwnedTasks,
    ) -> None:
        self.on_change: Callable[[InboxItem, bool], None] = _ignore
        self._lease = lease
        self._registry = registry
        self._index = index
        self._tasks = tasks
        self._clock = streams.jetstream.connection.clock
        self._copy: BucketCopy[_InboxEntry] = BucketCopy(streams, "inbox", tasks, _decoded, self._changed)
        self._shown: dict[str, InboxItem] = {}
        self._wanted: dict[str, bytes | None] = {}
        """What this node's entries have to be, until they are."""
        self._open: dict[str, bytes] = {}
        """The entries of this node that were not removed."""
        self._more = asyncio.Event()

    async def start(self) -> None:
        """Follow the bucket, and delete what nodes that are gone have left. Raises StoreError."""
        await self._copy.start()
        for id, entry in self._copy.values.items():
            if not self._lives(entry):
                self._wanted[id] = None
        self._more.set()
        self._tasks.start(self._write())
        self._tasks.start(self._restore())

    async def stop(self) -> None:
        await self._copy.stop()

    def add(self, item: InboxItem) -> None:
        """Show a request of this node at all nodes, soon."""
        own = self._lease.entry
        json = Raw(_shortened(item.json))
        data = encode(_InboxEntry(own.node, own.incarnation, item.agent, item.session_id, item.folders, json))
        if len(data) > _MAX_BYTES:
            LOG.warning("a request of %s is too large for the inbox of other nodes", item.agent)
            return
        self._open[item.id] = data
        self._want(item.id, data)

    def remove(self, id: str) -> None:
        """Show a request no longer, soon."""
        self._open.pop(id, None)
        if id in self._copy.values or id in self._wanted:
            self._want(id, None)

    def others(self) -> list[InboxItem]:
        """The requests of other nodes that can be answered."""
        return [
            entry.item(id)
            for id, entry in self._copy.values.items()
            if entry.node != self._lease.entry.node and self._is_current(id, entry)
        ]

    def _want(self, id: str, data: bytes | None) -> None:
        self._wanted[id] = data
        self._more.set()

    async def _write(self) -> None:
        """Write what is wanted, in order, and again after an outage."""
        while True:
            await self._more.wait()
            self._more.clear()
            for id, data in list(self._wanted.items()):
                try:
                    await (self._copy.delete(id) if data is None else self._copy.create(id, data))
                except StoreError as error:
                    LOG.debug("the inbox is written later: %s", error)
                    self._more.set()
                    await self._clock.sleep(_RETRY_PAUSE)
                    break
                if self._wanted.get(id) is data:
                    del self._wanted[id]
                else:
                    self._more.set()

    async def _restore(self) -> None:
        """Write entries of this node again that the bucket has lost."""
        while True:
            await self._clock.sleep(_CHECK_SECONDS)
            for id, data in list(self._open.items()):
                try:
                    current = await self._copy.bucket.get(id)
                except StoreError as error:
                    LOG.debug("the inbox is checked later: %s", error)
                    break
                if (current is None or current.value is None) and self._open.get(id) is data:
                    self._want(id, data)

    def _lives(self, entry: _InboxEntry) -> bool:
        """Whether the node that wrote an entry can still act."""
        node = self._registry.find(entry.node)
        return node is not None and node.incarnation == entry.incarnation and node.lives

    def _is_current(self, id: str, entry: _InboxEntry) -> bool:
        """Whether the writer of an entry has the session of its request."""
        log, _, rest = id.partition(".")
        session = self._index.find(entry.agent, entry.session_id)
        is_replaced = (
            session is not None and session.log == log and f"{session.epoch}" != rest.partition(".")[0]
        )
        return self._lives(entry) and not is_replaced

    def _changed(self, id: str, entry: _InboxEntry | None) -> None:
        shown = self._shown.pop(id, None)
        if entry is None:
            if shown is not None:
                self.on_change(shown, False)
        elif entry.node != self._lease.entry.node and self._is_current(id, entry):
            self._shown[id] = entry.item(id)
            if shown is None:
                self.on_change(self._shown[id], True)


def _decoded(key: str, data: bytes) -> _InboxEntry:
    return msgspec.json.decode(data, type=_InboxEntry)


def _shortened(data: bytes) -> bytes:
    """An item without what is large in its tool call, if it is too large."""
    if len(data) <= _MAX_BYTES // 2:
        return data
    value: dict[str, Any] = msgspec.json.decode(data)
    params = cast("dict[str, Any]", value.get("params") or {})
    call = cast("dict[str, Any]", params.get("toolCall") or {})
    for name in _LARGE_MEMBERS:
        call.pop(name, None)
    return encode(value)


def _ignore(item: InboxItem, is_pending: bool) -> None:
    return None
