"""The tasks of one connection: each is owned, runs in a clean copy of the context the connection was started in, and is
waited for, with a bound, when the connection ends.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
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

    async def wait(
        self, tasks: Iterable[asyncio.Task[None]] | None = None, *, overdue: Callable[[], None] | None = None
    ) -> None:
        """Wait for these tasks (None: for all, and for those they start) but the current one.

        Those that outlast the grace are cancelled, right after `overdue` was called; those that outlast it once more
        are not waited for again.
        """
        mine = self._tasks if tasks is None else set(tasks)
        if await self._gone(mine):
            return
        if overdue is not None:
            overdue()
        for task in self._unfinished(mine):
            task.cancel()
        if not await self._gone(mine):
            self._stubborn.update(self._unfinished(mine))

    async def _gone(self, mine: set[asyncio.Task[None]]) -> bool:
        """Whether all of them end within the grace."""
        deadline = self._clock.now() + self._grace
        while waiting := self._unfinished(mine):
            left = deadline - self._clock.now()
            if left <= 0:
                return False
            await within(self._clock, left, asyncio.gather(*waiting, return_exceptions=True))
        return True

    def _unfinished(self, mine: set[asyncio.Task[None]]) -> set[asyncio.Task[None]]:
        current = asyncio.current_task()
        return {task for task in mine - self._stubborn if task is not current and not task.done()}
