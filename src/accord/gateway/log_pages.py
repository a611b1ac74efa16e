"""What the readers of all session logs share: the history as few events, then the new ones, in pages."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from time import perf_counter
from typing import Final

from accord.session import Event, SessionState
from accord.session.state import terminal_event

PAGE_SIZE: Final = 256
"""Events of one page."""
_TERMINALS: Final = 8
"""Terminals of one page: their output may be large."""
_SLICE_SECONDS: Final = 0.002
"""How long a log is read before other tasks run. A record of 1 MB takes about as long."""


class TimeSlice:
    """Lets other tasks of the loop run when this one has run for a slice of time."""

    def __init__(self) -> None:
        self._until = perf_counter() + _SLICE_SECONDS

    async def pause_if_due(self) -> None:
        """Pause if the slice is over, and begin the next one."""
        if perf_counter() > self._until:
            await asyncio.sleep(0)
            self._until = perf_counter() + _SLICE_SECONDS


class LogPages(ABC):
    """`LogReader` of `accord.gateway.contracts`, apart from where the events come from."""

    def __init__(self, after: int) -> None:
        self.state: SessionState = SessionState()
        self.in_history: bool = False
        self._slice = TimeSlice()
        self._history: Iterator[list[Event]] | None = None if after == 0 else iter(())
        self._later: list[Event] = []

    async def page(self) -> list[Event]:
        if self._history is None:
            await self.read_state()
            self._history = _history_pages(self.state)
        page = next(self._history, list[Event]())
        self.in_history = bool(page)
        if page:
            await self._slice.pause_if_due()
            return page
        later = self._later or await self._read_new()
        self._later = later[PAGE_SIZE:]
        return later[:PAGE_SIZE]

    @abstractmethod
    async def read_state(self) -> None:
        """Apply everything so far to `state`. Raises StoreError."""

    @abstractmethod
    async def _read_new(self) -> list[Event]:
        """Read what came since the last read. Nothing can be appended after the last check."""


def _history_pages(state: SessionState) -> Iterator[list[Event]]:
    """The history and the terminals. Nothing may be applied to the state before the end."""
    events = state.history.iter_events()
    while page := list(islice(events, PAGE_SIZE)):
        yield page
    terminals = map(terminal_event, state.terminals.values())
    while page := list[Event](islice(terminals, _TERMINALS)):
        yield page
