"""The tasks of one connection: each is owned, runs in a clean copy of the context the connection was started in, and is
waited for, with a bound, when the connection ends.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from contextvars import Context, copy_context
from typing import Any

from accord.clock import Clock, within
from accord.wire.lanes import HANDLING, SERVING


class OwnedTasks:
    """Started through here, never left behind."""

    def __init__(self, clock: Clock, grace: float) -> None:
        self._clock = clock
        self._grace = grace
        self._tasks: set[asyncio.Task[None]] = set()
        self._stubborn: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Remember where the tasks belong; called once, on the event loop."""
        self.loop = asyncio.get_running_loop()
        self._context: Context = copy_context()
        self._context.run(HANDLING.set, None)
        self._context.run(SERVING.set, False)

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start some work."""
        task = self.loop.create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait(self, tasks: Iterable[asyncio.Task[None]] | None = None) -> None:
        """Wait for these tasks (None: for all) but the current one.

        Those that outlast the grace are cancelled, those that outlast it once more are not waited for again.
        """
        current = asyncio.current_task()
        waiting = {task for task in (self._tasks if tasks is None else tasks) if task is not current}
        waiting -= self._stubborn
        if not waiting:
            return
        all_done = asyncio.gather(*waiting, return_exceptions=True)
        if await within(self._clock, self._grace, all_done):
            return
        for task in waiting:
            task.cancel()
        if not await within(self._clock, self._grace, all_done):
            self._stubborn.update(task for task in waiting if not task.done())
