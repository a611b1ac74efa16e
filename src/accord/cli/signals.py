"""Signals that a command takes into its own hands, for the length of a block."""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager


@contextmanager
def heard(reactions: Mapping[signal.Signals, Callable[[], None]]) -> Generator[None]:
    """While the block runs, each signal calls its function, on the event loop. On Windows there is SIGINT alone."""
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        react = reactions[signal.SIGINT]
        before = signal.signal(signal.SIGINT, lambda _number, _frame: loop.call_soon_threadsafe(react))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        return
    # What was ignored when we were started stays ignored: that is what `nohup` and a job in the background are about.
    ours = [number for number in reactions if signal.getsignal(number) is not signal.SIG_IGN]
    for number in ours:
        loop.add_signal_handler(number, reactions[number])
    try:
        yield
    finally:
        for number in ours:
            loop.remove_signal_handler(number)
