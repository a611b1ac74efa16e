"""The other end of one connection, as the parts of this room share it: what it can do, and the wire to it."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Mapping
from logging import getLogger
from typing import Any, TypeVar

from msgspec import Raw

from accord.clock import Clock, within
from accord.errors import NotOffered
from accord.schema.capabilities import ClientCapabilities
from accord.schema.initialize import Implementation
from accord.schema.methods import request
from accord.schema.reader import Reader
from accord.schema.updates import SessionNotification, SessionUpdate
from accord.wire.connection import Connection

T = TypeVar("T")

LOG = getLogger("accord.agent")


def run_quietly(callback: Callable[[], object]) -> None:
    """Run a function of the application that nobody waits for; what it raises is logged."""
    try:
        callback()
    except Exception:
        LOG.exception("%s failed", getattr(callback, "__qualname__", callback))


class Peer:
    """One client. Its capabilities are those of its `initialize`; before that it has none."""

    def __init__(self, reader: Reader, clock: Clock, grace: float) -> None:
        self.capabilities = ClientCapabilities()
        self.info: Implementation | None = None
        self.reader = reader
        self.clock = clock
        self.grace = grace
        """Seconds that code is given to come to its end once it was cancelled."""
        self.connection: Connection
        self.elicitations: set[str] = set()
        """Ids of the addresses that this client was asked to open and that have not been completed."""
        self.refused: set[str] = set()
        """Extension methods that this client has shown not to serve."""
        self.mcp_news: dict[tuple[str, str], Callable[[str, Mapping[str, Any]], object]] = {}
        """Who hears about running MCP requests, by server and request."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def update(self, session_id: str, update: SessionUpdate) -> None:
        """Queue one update of a session."""
        self.connection.notify("session/update", SessionNotification(session_id, update))

    async def call(self, method: str, params: Any, *, key: Hashable | None) -> Any:
        """Call a method of the client and return its result in the type that the method table names."""
        known = request("client", method)
        assert known is not None, f"{method} is no method of a client"
        return await self.connection.request(method, params, key=key, read=self.reader.result_reader(known))

    async def ask(self, method: str, params: Any, *, key: Hashable | None, read: Callable[[Raw], T]) -> T:
        """Call a method of the client whose result is read in a way of its own."""
        return await self.connection.request(method, params, key=key, read=read)

    def need(self, offered: bool, what: str) -> None:
        """Refuse a call that the client did not offer."""
        if not offered:
            name = self.info.name if self.info else "the client"
            raise NotOffered(f"{name} does not offer {what}; ask `client` what it can do before you use it")

    def own(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run something that outlives its caller, until the connection ends."""
        task = asyncio.get_running_loop().create_task(work)
        self.adopt(task)
        return task

    def adopt(self, task: "asyncio.Task[Any]") -> None:
        """Take over a task that nobody waits for any more."""
        self._tasks.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("a task of the agent failed", exc_info=error)

    async def stop(self) -> None:
        """End what is still running; bounded."""
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await within(self.clock, self.grace, asyncio.gather(*self._tasks, return_exceptions=True))
