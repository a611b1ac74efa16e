"""A clock that a test moves, so that timeouts expire without waiting."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count


class FakeTimer:
    """One callback on a `FakeClock`."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] = callback
        self.cancelled: bool = False

    def cancel(self) -> None:
        """Do not run the callback."""
        self.cancelled = True


class FakeClock:
    """Moves only when `advance` is called; then due timers fire in order."""

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._numbers = count()

    def now(self) -> float:
        """The current time in seconds."""
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> FakeTimer:
        """Run the callback when the clock has advanced so many seconds."""
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (self._now + seconds, next(self._numbers), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has advanced so many seconds."""
        wake = asyncio.Event()
        timer = self.call_later(seconds, wake.set)
        try:
            await wake.wait()
        finally:
            timer.cancel()

    @property
    def waiting(self) -> int:
        """The number of active timers."""
        return sum(not timer.cancelled for _, _, timer in self._timers)

    async def advance(self, seconds: float) -> None:
        """Advance the clock. Code that a timer wakes runs before the next timer fires."""
        await settle()
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            if timer.cancelled:
                continue
            self._now = max(self._now, when)
            timer.callback()
            await settle()
        self._now = end
        await settle()


async def settle(rounds: int = 50) -> None:
    """Run all ready callbacks and tasks of the event loop. Does not wait for other processes."""
    for _ in range(rounds):
        await asyncio.sleep(0)
