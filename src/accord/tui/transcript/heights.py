"""Many heights on top of each other: where each begins and which one is at a line, while any of them may change.

They are summed up in blocks, so that a change costs the blocks behind it, not everything.
"""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

_BLOCK: Final = 256


class Heights:
    """A list of heights that knows its sums."""

    def __init__(self) -> None:
        self._heights: list[int] = []
        self._sums: list[int] = []  # of each block
        self._tops: list[int] | None = None  # where each block begins, and where all ends

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def __setitem__(self, index: int, height: int) -> None:
        self._sums[index // _BLOCK] += height - self._heights[index]
        self._heights[index] = height
        self._tops = None

    def splice(self, start: int, stop: int, heights: Iterable[int]) -> None:
        """Put these in the place of those from `start` to `stop`."""
        self._heights[start:stop] = heights
        first = start // _BLOCK
        del self._sums[first:]
        for at in range(first * _BLOCK, len(self._heights), _BLOCK):
            self._sums.append(sum(self._heights[at : at + _BLOCK]))
        self._tops = None

    @property
    def total(self) -> int:
        """All of them."""
        return self._edges()[-1]

    def top(self, index: int) -> int:
        """Where one begins; for the number of all, where they end."""
        block = index // _BLOCK
        return self._edges()[block] + sum(self._heights[block * _BLOCK : index])

    def at(self, line: int) -> int:
        """The one that a line belongs to; the first for lines above, the last for lines below."""
        edges = self._edges()
        block = min(max(bisect_right(edges, line) - 1, 0), len(self._sums) - 1)
        index, last = block * _BLOCK, len(self._heights) - 1
        below = edges[block] + self._heights[index]
        while below <= line and index < last:
            index += 1
            below += self._heights[index]
        return index

    def _edges(self) -> list[int]:
        if self._tops is None:
            self._tops = list(accumulate(self._sums, initial=0))
        return self._tops
