"""A clock that goes on by itself as soon as nothing else does: bounds run out at once, and never too early.

For conversations in memory only; it cannot see that another process or thread is still at work.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from accord.testing import FakeClock, settle


@asynccontextmanager
async def idle_clock() -> AsyncGenerator[FakeClock]:
    """The clock, running while the block does."""
    clock = FakeClock()

    async def run() -> None:
        while True:
            await settle()
            await clock.advance(1.0 if clock.waiting else 0.0)

    hands = asyncio.get_running_loop().create_task(run())
    try:
        yield clock
    finally:
        hands.cancel()
        with suppress(asyncio.CancelledError):
            await hands
