"""How much may be written to the terminal now, so that the newest frame is never behind many older ones.

Rules:

- After some output, the terminal is asked for its status (`ESC [ 5 n`). It answers when it has shown what was
  written before, also at the other end of a slow line. What it has not confirmed is under way.
- Only a window of bytes may be under way. It grows while answers come soon. When they come late, it shrinks
  to what the terminal shows in a quarter of a second.
- A terminal that never answers gets `UNKNOWN_RATE` bytes per second.
- What does not fit is not queued: the next frame is drawn from the state at that time.

Loaded before the first paint: keep Textual and the client out.
"""

from collections import deque
from threading import Condition
from typing import Final

ASK: Final = "\x1b[5n"
"""Asks the terminal for its status."""
ANSWER: Final = "\x1b[0n"

MIN_WINDOW: Final = 2 * 1024
FIRST_WINDOW: Final = 4 * 1024
MAX_WINDOW: Final = 1024 * 1024
_ASK_AFTER: Final = 1024
UNKNOWN_RATE: Final = 7_000
"""Bytes per second for a terminal that does not answer."""
_LATE: Final = 0.25
"""Seconds for which output may be under way."""
_SOON: Final = 0.1
_LOST_AFTER: Final = 10.0
"""Seconds after which an answer is not expected any more."""


class LinkPace:
    """Counts what is under way to the terminal. Used by the thread of the screen and that of the input.

    Times are seconds of a monotonic clock, given by the caller.
    """

    def __init__(self) -> None:
        self.answers: bool = False
        """Whether the terminal has answered."""
        self.window: int = FIRST_WINDOW
        self._under_way = 0
        self._asked: deque[tuple[int, float]] = deque()  # the bytes until each question, and its time
        self._unasked = 0
        self._drained_at = 0.0
        self._last_answer = 0.0
        self._shortest = float("inf")  # the shortest time until an answer
        self._changed = Condition()

    def room(self, now: float) -> int:
        """How many bytes may be written now; not above 0 if none."""
        with self._changed:
            if self._asked and now - self._asked[0][1] > _LOST_AFTER:
                self.answers = False
                self._asked.clear()
            if not self.answers:
                drained = int((now - self._drained_at) * UNKNOWN_RATE)
                if drained > 0:
                    self._under_way = max(self._under_way - drained, 0)
                    self._drained_at = now
            return (self.window if self.answers else FIRST_WINDOW) - self._under_way

    def wait_time(self, now: float) -> float | None:
        """Seconds until there is room; None if the next answer of the terminal says it."""
        missing = MIN_WINDOW - self.room(now)
        return None if self.answers else max(missing / UNKNOWN_RATE, 0.01)

    def wrote(self, count: int, now: float) -> bool:
        """Count what is written. Return whether to ask the terminal after it."""
        with self._changed:
            if not self._under_way:
                self._drained_at = now
            self._under_way += count
            self._unasked += count
            if self._asked if not self.answers else self._unasked < _ASK_AFTER:
                return False
            self._asked.append((self._unasked, now))
            self._unasked = 0
            return True

    def answered(self, now: float) -> None:
        """The terminal has answered a question."""
        with self._changed:
            if not self._asked:
                return
            count, asked_at = self._asked.popleft()
            if not self.answers:
                self.answers = True
                self._under_way = self._unasked + count + sum(other for other, _ in self._asked)
            self._under_way = max(self._under_way - count, 0)
            self._shortest = min(self._shortest, now - asked_at)
            delay = now - asked_at - self._shortest
            if delay > _LATE:
                rate = count / max(now - max(self._last_answer, asked_at), 0.001)
                self.window = min(max(int(rate * _LATE), MIN_WINDOW), MAX_WINDOW)
            elif delay < _SOON:
                self.window = min(self.window * 2, MAX_WINDOW)
            self._last_answer = now
            self._changed.notify_all()

    def wait_for_answers(self, seconds: float, now: float) -> None:
        """Wait until everything asked is answered, at most until the last question is so old. Blocking."""
        with self._changed:
            if self._asked:
                remaining = self._asked[-1][1] + seconds - now
                self._changed.wait_for(lambda: not self._asked, max(remaining, 0))
