"""A clock that advances by itself whenever nothing else runs: timeouts expire at once, but never too
early.

For connections in memory only: it cannot see that another process or thread is still working.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from accord.testing import FakeClock, settle


@asynccontextmanager
async def idle_clock() -> AsyncGenerator[FakeClock]:
    """Run the clock while the block runs."""
    clock = FakeClock()

    async def run() -> None:
        while True:
            await settle()
            await clock.advance(1.0 if clock.waiting else 0.0)

    ticking = asyncio.get_running_loop().create_task(run())
    try:
        yield clock
    finally:
        ticking.cancel()
        with suppress(asyncio.CancelledError):
            await ticking
