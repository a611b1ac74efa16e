"""The tasks of one connection: each is owned, runs in a clean copy of the context the connection was started in, and is
waited for, with a bound, when the connection ends.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from contextvars import Context, copy_context
from typing import Any

from accord.clock import Clock
from accord.wire.lanes import HANDLING, SERVING


class OwnedTasks:
    """Started through here, never left behind."""

    def __init__(self, clock: Clock, grace: float) -> None:
        self._clock = clock
        self._grace = grace
        self._tasks: set[asyncio.Task[None]] = set()

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
        """Wait for these tasks (None: for all) but the current one; those that outlast the grace are cancelled."""
        current = asyncio.current_task()
        waiting = {task for task in (self._tasks if tasks is None else tasks) if task is not current}
        if not waiting:
            return

        def cancel_all() -> None:
            for task in waiting:
                task.cancel()

        overdue = self._clock.call_later(self._grace, cancel_all)
        try:
            await asyncio.wait(waiting)
        finally:
            overdue.cancel()
