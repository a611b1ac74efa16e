"""Ctrl-C: the first asks the agent to stop, the second ends it, the third does not wait for that. SIGTERM and SIGHUP end it."""

import asyncio
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from accord.cli.signals import heard


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
        self._task = asyncio.current_task()
        reactions = {signal.SIGINT: self.interrupt}
        if sys.platform != "win32":
            reactions |= {signal.SIGTERM: self.end, signal.SIGHUP: self.end}
        with heard(reactions):
            yield

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
