"""A token bucket: so much at once, so much a second on the average."""

from accord.clock import Clock


class Bucket:
    """Filled at a steady rate up to its size; what is taken must be in it."""

    __slots__ = ("_at", "_clock", "_level", "per_second", "size")

    def __init__(self, clock: Clock, per_second: float, size: float) -> None:
        self.per_second = per_second
        self.size = size
        self._clock = clock
        self._level = size
        self._at = clock.now()

    def take(self, amount: float) -> float:
        """Take it and return 0; or take nothing and return in how many seconds it would be there."""
        now = self._clock.now()
        level = min(self.size, self._level + (now - self._at) * self.per_second)
        self._at = now
        if level >= amount:
            self._level = level - amount
            return 0.0
        self._level = level
        return (amount - level) / self.per_second
