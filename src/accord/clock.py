"""`Clock`, time limits on it, and `OwnedTasks`, the owner of background tasks.

Everything in Accord that waits uses a clock, so that tests can control time.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Hashable
from contextvars import Context
from typing import Any, Final, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
OnFailure: TypeAlias = Callable[[BaseException], None]


class Timer(Protocol):
    """A scheduled callback."""

    def cancel(self) -> None:
        """Cancel it; does nothing if it already ran."""


class Clock(Protocol):
    """Monotonic time and timers."""

    def now(self) -> float:
        """The current time in seconds; it never goes back."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run the callback on the event loop after this time."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after this time."""
        ...


class SystemClock:
    """The clock of the operating system."""

    def now(self) -> float:
        return time.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Final[Clock] = SystemClock()


async def within(clock: Clock, seconds: float, future: "asyncio.Future[Any]") -> bool:
    """Wait for the future for at most `seconds`; return whether it is done. The future is never canceled."""
    if future.done():
        return True
    timeout: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def expire() -> None:
        if not timeout.done():
            timeout.set_result(None)

    timer = clock.call_later(seconds, expire)
    try:
        await asyncio.wait((future, timeout), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
    return future.done()


async def with_timeout(work: Coroutine[Any, Any, T], seconds: float | None, clock: Clock) -> T:
    """Run a coroutine; cancel it after so many seconds of the clock and raise TimeoutError."""
    if seconds is None:
        return await work
    task = asyncio.get_running_loop().create_task(work)
    try:
        if await within(clock, seconds, task):
            return task.result()
        raise TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
        elif not task.cancelled():
            task.exception()  # mark it as retrieved, in case this function itself was canceled


class OwnedTasks:
    """Background tasks of one owner: referenced while they run, and ended with the owner.

    `grace` is how many seconds to wait for them; None waits without a limit. `on_failure` is called with the
    exception of a failed task. Without it the event loop logs the exception.
    """

    def __init__(
        self, clock: Clock = SYSTEM_CLOCK, grace: float | None = None, on_failure: OnFailure | None = None
    ) -> None:
        self._clock = clock
        self._grace = grace
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], Hashable] = {}
        self._abandoned: set[asyncio.Task[Any]] = set()

    def start(
        self, work: Coroutine[Any, Any, T], context: Context | None = None, *, key: Hashable = None
    ) -> asyncio.Task[T]:
        """Start a task, in this context or in a copy of the current one. `key` says what it is for."""
        task = asyncio.get_running_loop().create_task(work, context=context)
        self.adopt(task, key)
        return task

    def adopt(self, task: asyncio.Task[Any], key: Hashable = None) -> None:
        """Own a task that was started elsewhere."""
        self._tasks[task] = key
        task.add_done_callback(self._done)

    @property
    def keys(self) -> list[Hashable]:
        """What the unfinished tasks are for, in the order in which they were started."""
        return list(self._tasks.values())

    def cancel(self, key: Hashable = None) -> None:
        """Cancel the tasks with this key, or without one all tasks, also the current one."""
        for task, its_key in self._tasks.items():
            if key is None or its_key == key:
                task.cancel()

    async def wait(self, tasks: Collection[asyncio.Task[Any]] | None = None) -> bool:
        """Wait for these tasks, or for all and those they start. Return whether they finished in time.

        The current task does not count.
        """
        deadline = None if self._grace is None else self._clock.now() + self._grace
        while unfinished := self._unfinished(tasks):
            if deadline is None:
                await asyncio.wait(unfinished)
                continue
            remaining = deadline - self._clock.now()
            if remaining <= 0:
                return False
            await within(self._clock, remaining, asyncio.gather(*unfinished, return_exceptions=True))
        return True

    async def end(self, tasks: Collection[asyncio.Task[Any]] | None = None) -> None:
        """Cancel these tasks, or all, and wait for them. Those that do not finish in time are abandoned."""
        for task in self._unfinished(tasks):
            task.cancel()
        if not await self.wait(tasks):
            self._abandoned.update(self._unfinished(tasks))

    def _unfinished(self, tasks: Collection[asyncio.Task[Any]] | None) -> set[asyncio.Task[Any]]:
        ignored = {*self._abandoned, asyncio.current_task()}
        return {task for task in (self._tasks if tasks is None else tasks) if not task.done()} - ignored

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if self._on_failure is not None and not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)
