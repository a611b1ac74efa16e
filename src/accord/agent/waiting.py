"""Work that is given up when it takes too long, measured on the `Clock`."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from accord.clock import Clock, within

T = TypeVar("T")


async def limited(work: Coroutine[Any, Any, T], seconds: float | None, clock: Clock) -> T:
    """Do the work; if it takes longer, cancel it and raise TimeoutError."""
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
            task.exception()  # if we are cancelled ourselves just then, nobody asks how it ended
