"""Time as a seam: everything in Accord that waits asks a `Clock`, so that tests can turn the hands themselves."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """Something scheduled that can still be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it already ran."""
        ...


class Clock(Protocol):
    """Monotonic seconds, and being woken at a moment."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run the callback on the event loop after so many seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class SystemClock:
    """The real one."""

    def now(self) -> float:
        return time.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


async def within(clock: Clock, seconds: float, future: "asyncio.Future[Any]") -> bool:
    """Wait for the future, so long at most; whether it is done. It is left alone either way."""
    if future.done():
        return True
    bell: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ring() -> None:
        if not bell.done():
            bell.set_result(None)

    timer = clock.call_later(seconds, ring)
    try:
        await asyncio.wait((future, bell), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
    return future.done()
