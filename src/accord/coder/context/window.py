"""How full a model's context is, and when trying to empty it is no use."""

from typing import Final

from msgspec import Struct

ASSUMED_SIZE: Final = 128_000
"""Of a model that does not say how much fits. If less does, the provider's error says so in time."""
_RESERVE: Final = 20_000
"""Tokens that are kept free for the answer, in a large window."""


class Window(Struct, frozen=True):
    """The context of a model, in tokens."""

    size: int | None
    """How much fits; None if that is not known."""
    used: int
    """What the next request has, the system prompt and the tools included."""

    @property
    def room(self) -> int:
        """What a request may have: the answer has to fit as well."""
        size = self.size or ASSUMED_SIZE
        return size - min(_RESERVE, size // 5)

    @property
    def full(self) -> bool:
        """Whether it is time to compact."""
        return self.used >= self.room


class Breaker:
    """Ends compaction that does not help: after two in a row that did not, none is tried by itself until the next prompt."""

    def __init__(self, most: int = 2) -> None:
        self._most = most
        self._useless = 0
        self._unanswered = 0

    @property
    def may_compact(self) -> bool:
        """Whether compacting once more, unasked, makes sense."""
        return self._useless < self._most

    @property
    def may_ask(self) -> bool:
        """Whether the model should be asked for a summary; not if it failed to write one again and again."""
        return self._unanswered < self._most

    def compacted(self, *, fits: bool, asked_in_vain: bool) -> None:
        """What came of a compaction."""
        self._useless = 0 if fits else self._useless + 1
        self._unanswered = self._unanswered + 1 if asked_in_vain else 0

    def prompted(self) -> None:
        """The user said something: things may be different now."""
        self._useless = 0
        self._unanswered = 0
