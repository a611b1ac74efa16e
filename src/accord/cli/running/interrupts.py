"""Ctrl-C: the first asks the agent to stop, the second ends it, the third does not wait for that. SIGTERM and SIGHUP end it."""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class Interrupts:
    """Counts them, from the start of the agent to the end of the run."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.count = 0
        self.stop_turn: Callable[[], bool] | None = None
        """Asks the agent to stop; says whether there was a turn to stop."""
        self._note = note
        self._task: asyncio.Task[Any] | None = None

    @contextmanager
    def watched(self) -> Generator[None]:
        """While the block runs, interrupts are ours. What ends the agent cancels the task that runs the block."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        if sys.platform == "win32":
            before = signal.signal(
                signal.SIGINT, lambda _number, _frame: loop.call_soon_threadsafe(self.interrupt)
            )
            try:
                yield
            finally:
                signal.signal(signal.SIGINT, before)
            return
        reactions = {signal.SIGINT: self.interrupt, signal.SIGTERM: self.end, signal.SIGHUP: self.end}
        # What was ignored when we were started stays ignored: that is what `nohup` and a job in the background are about.
        ours = [number for number in reactions if signal.getsignal(number) is not signal.SIG_IGN]
        for number in ours:
            loop.add_signal_handler(number, reactions[number])
        try:
            yield
        finally:
            for number in ours:
                loop.remove_signal_handler(number)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.count += 1
        if self.count == 1 and self.stop_turn is not None and self.stop_turn():
            self._note("stopping; Ctrl-C again ends the agent")
        else:
            self._end()

    def end(self) -> None:
        """The process is asked to go."""
        self.count += 1
        self._end()

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
