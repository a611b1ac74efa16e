"""Starting a dead agent again: how often, and after which pause."""

from collections import deque
from dataclasses import dataclass

from accord.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """At most `max_restarts` within `period` seconds. The pause before each doubles from `pause` up to `longest_pause`."""

    max_restarts: int = 3
    period: float = 600.0
    pause: float = 0.5
    longest_pause: float = 30.0


class Restarts:
    """The restarts of one agent so far."""

    def __init__(self, policy: RestartPolicy | None, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._recent: deque[float] = deque()
        self.count = 0

    def next_pause(self) -> float | None:
        """The pause before the next automatic restart; None when there shall be none."""
        policy = self._policy
        if policy is None:
            return None
        now = self._clock.now()
        while self._recent and now - self._recent[0] > policy.period:
            self._recent.popleft()
        if len(self._recent) >= policy.max_restarts:
            return None
        pause = policy.pause * 2.0 ** len(self._recent)
        self._recent.append(now)
        return min(pause, policy.longest_pause)

    @property
    def why_not(self) -> str:
        """In words, why `next_pause` gave none."""
        if self._policy is None:
            return "it is not restarted without a RestartPolicy"
        return f"it was already restarted {len(self._recent)} times within {self._policy.period:g} s"
