"""The event loop of a program that is an agent and nothing else: it ends with its client, or on a signal, without noise."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from accord.errors import MissingExtra


def run(main: Coroutine[Any, Any, Any], *, uvloop: bool) -> None:
    """Run it to its end; SIGINT and SIGTERM cancel it, a second SIGINT interrupts even that."""
    try:
        factory = _uvloop() if uvloop else None
    except MissingExtra:
        main.close()
        raise
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_until_signalled(main))
    except KeyboardInterrupt:
        pass


async def _until_signalled(main: Coroutine[Any, Any, Any]) -> None:
    loop = asyncio.get_running_loop()
    task = loop.create_task(main)
    handled: list[signal.Signals] = []

    def stop() -> None:
        for number in handled:
            loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except (NotImplementedError, RuntimeError, ValueError):
            continue  # Windows, or not the main thread: the default behaviour has to do
        handled.append(number)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        raise MissingExtra("uvloop", "serve(uvloop=True)") from None
    return uvloop.new_event_loop
