"""Notifications of the other side while we handle them: in order, inline where nothing stands before them."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from msgspec import Struct

from accord.wire.backpressure import BackPressure
from accord.wire.lanes import HANDLING, Handling, Lanes
from accord.wire.routes import Route
from accord.wire.tasks import OwnedTasks


class _Adoption(Struct):
    """Lets the task that has just finished a handler take over the next one of the same lane."""

    key: Hashable
    work: tuple[Awaitable[None], Handling, int] | None = None


class Hearing:
    """What we were told and have not finished with."""

    def __init__(
        self, lanes: Lanes, tasks: OwnedTasks, pressure: BackPressure, failed: Callable[[str], None]
    ) -> None:
        self.frame_size = 0
        """Size of the notification that is being handled right now."""
        self._lanes = lanes
        self._tasks = tasks
        self._pressure = pressure
        self._failed = failed
        self._adoption: _Adoption | None = None

    def take(self, route: Route, params: Any, size: int) -> None:
        """Handle a notification in its place: at once, or behind what its session has unfinished."""
        busy = self._lanes.busy
        if busy:
            lane = busy.get(route.key(params))
            if lane is not None and (lane.waiting_requests or not route.urgent):
                self._pressure.hold(size)

                def step() -> None:
                    self._handle(route, params, size)
                    self._pressure.release(size)

                lane.steps.append(step)
                return
        self._handle(route, params, size)

    def _handle(self, route: Route, params: Any, size: int) -> None:
        """Run one notification's handler; if it is asynchronous, its lane is blocked until it is done."""
        self.frame_size = size
        try:
            result = route.run(params)
        except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
            self._failed(f"a notification handler raised {type(error).__name__}: {error}")
            return
        if result is None:
            return
        key = route.key(params)
        handling = Handling(self._lanes, key)
        self._pressure.hold(size)
        adoption = self._adoption
        if adoption is not None and adoption.key == key and adoption.work is None:
            adoption.work = (result, handling, size)
        else:
            self._tasks.run(self._work(key, result, handling, size))

    async def _work(self, key: Hashable, result: Awaitable[None], handling: Handling, size: int) -> None:
        """Await one asynchronous notification handler, then those right behind it in the same lane."""
        while True:
            HANDLING.set(handling)
            try:
                await result
            except asyncio.CancelledError:
                handling.done()
                raise
            except Exception as error:  # noqa: BLE001 - the boundary to the application's handlers
                self._failed(f"a notification handler raised {type(error).__name__}: {error}")
            HANDLING.set(None)
            self._pressure.release(size)
            self._adoption = adoption = _Adoption(key)
            try:
                handling.done()
            finally:
                self._adoption = None
            if adoption.work is None:
                return
            result, handling, size = adoption.work
