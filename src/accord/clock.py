"""`Clock`: everything in Accord that waits uses one, so that tests can control time."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, Protocol


class Timer(Protocol):
    """A scheduled callback."""

    def cancel(self) -> None:
        """Cancel it; does nothing if it already ran."""
        ...


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
