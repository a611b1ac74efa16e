"""How long the client waits: the limits in seconds, and the watch that counts.

A watch counts only time in which nothing was heard and nobody waited for this side. It looks every tenth of its limit,
so that hearing a message costs nothing: a limit may run out up to a tenth late, never early.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from accord.clock import Clock, Timer

T = TypeVar("T")

_STEPS: Final = 10


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Limits in seconds; None waits for ever. `authenticate` has none: a person is at work."""

    request: float | None = 60.0
    """An ordinary call; for `session/load` and `session/resume`, which stream, the silence in them."""
    startup: float | None = 120.0
    """From the start of the program to the answer of `initialize`."""
    silence: float | None = 600.0
    """A prompt without a sign of life. Does not count while the agent waits for us or a tool call is in progress."""
    cancel: float = 10.0
    """A cancelled turn without a sign of life, before it is given up."""


def _never() -> bool:
    return False


def _nothing() -> int:
    return 0


class Watch:
    """Counts silence up to a limit, then calls `expired` once. Made on the event loop, ends with `stop`."""

    __slots__ = ("_clock", "_expired", "_heard", "_last", "_left", "_step", "_still", "_timer")

    def __init__(
        self,
        clock: Clock,
        limit: float | None,
        expired: Callable[[], None],
        *,
        heard: Callable[[], int] = _nothing,
        still: Callable[[], bool] = _never,
    ) -> None:
        """`heard` changes with every sign of life, which starts the count anew; `still` says that time does not count."""
        self._clock = clock
        self._expired = expired
        self._heard = heard
        self._still = still
        self._last = heard()
        self._left = _STEPS
        self._step = 0.0 if limit is None else limit / _STEPS
        self._timer: Timer | None = None if limit is None else clock.call_later(self._step, self._look)

    def stop(self) -> None:
        """Count no more."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _look(self) -> None:
        heard = self._heard()
        if heard != self._last:
            self._last = heard
            self._left = _STEPS
        elif not self._still():
            self._left -= 1
        if self._left > 0:
            self._timer = self._clock.call_later(self._step, self._look)
        else:
            self._timer = None
            self._expired()


async def bounded(
    work: Awaitable[T], error: Callable[[], Exception], watch: Callable[[Callable[[], None]], Watch]
) -> T:
    """Await the work; when the watch runs out, cancel it and raise the error. `watch` makes the watch."""
    task = asyncio.current_task()
    assert task is not None, "a limit is kept inside a task"
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        task.cancel()

    cancels = task.cancelling()
    watching = watch(expire)
    try:
        return await work
    except asyncio.CancelledError:
        # Only our own cancellation becomes the error; somebody else's goes on.
        if expired and task.uncancel() <= cancels:
            raise error() from None
        raise
    finally:
        watching.stop()
