"""Notes about what an agent was not given: each told once, and no more than a few, however often it asks."""

from collections.abc import Callable
from typing import Final

MOST: Final = 20


class Notes:
    """Passes notes on. What is told again is dropped; behind the last one stands that there is more."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def __call__(self, text: str) -> None:
        """Tell it, unless it was told or enough was."""
        if text in self._told or len(self._told) > MOST:
            return
        self._told.add(text)
        self._tell(text if len(self._told) <= MOST else "more of that follows, which is not told")
