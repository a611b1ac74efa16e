"""A clock whose hands a test turns, so that limits can run out without anybody waiting."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count


class FakeTimer:
    """One callback on a `FakeClock`."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Call it off."""
        self.cancelled = True


class FakeClock:
    """Stands still until `advance` is called; then everything due happens in order."""

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start
        self._due: list[tuple[float, int, FakeTimer]] = []
        self._number = count()

    def now(self) -> float:
        """The time it shows."""
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> FakeTimer:
        """Run the callback when the hands have moved so far."""
        timer = FakeTimer(callback)
        heapq.heappush(self._due, (self._now + seconds, next(self._number), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        """Return when the hands have moved so far."""
        awake = asyncio.Event()
        timer = self.call_later(seconds, awake.set)
        try:
            await awake.wait()
        finally:
            timer.cancel()

    @property
    def waiting(self) -> int:
        """How many timers are set."""
        return sum(not timer.cancelled for _, _, timer in self._due)

    async def advance(self, seconds: float) -> None:
        """Turn the hands forward; timers fire in order, and what they wake runs before the next one fires."""
        await settle()
        until = self._now + seconds
        while self._due and self._due[0][0] <= until:
            when, _, timer = heapq.heappop(self._due)
            if timer.cancelled:
                continue
            self._now = max(self._now, when)
            timer.callback()
            await settle()
        self._now = until
        await settle()


async def settle(turns: int = 50) -> None:
    """Let everything that is ready on the event loop run; for things in memory only, not for other processes."""
    for _ in range(turns):
        await asyncio.sleep(0)
