"""Blocking work off the event loop, in order for each path: calls on one path take effect in the order they were made,
calls on different paths do not wait for each other."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

Work = Callable[[threading.Event], T]


class Disk:
    """Hands out places in the line of each path."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, path: str) -> "AsyncGenerator[Place]":
        """Wait for the calls made earlier on this path; those made later wait for this one."""
        lock = self._locks.setdefault(path, asyncio.Lock())
        await lock.acquire()
        place = Place()
        try:
            yield place
        finally:
            place.when_idle(lock.release)


class Place:
    """One call's place in the line."""

    def __init__(self) -> None:
        self._running: asyncio.Future[Any] | None = None

    async def run(self, work: Work[T]) -> T:
        """Do the work in a thread. A caller that is cancelled leaves at once; the work is told to stop by the event it
        was given, and keeps its place until it has, so that a late write never lands on top of the next one."""
        stop = threading.Event()
        running = asyncio.get_running_loop().run_in_executor(None, work, stop)
        self._running = running
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            raise

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once no work is under way; at once when none is."""
        if self._running is None or self._running.done():
            callback()
            return

        def finished(done: asyncio.Future[Any]) -> None:
            if not done.cancelled():
                done.exception()  # nobody is left to see it
            callback()

        self._running.add_done_callback(finished)
