"""Finding things by a few letters of what they are called."""

from collections.abc import Iterable
from itertools import islice

from accord.workspace.finding import best_matches


def ranked(texts: Iterable[str], letters: str, most: int = 50) -> list[str]:
    """The texts that have these letters in this order, the best first; without letters, the first as they come."""
    return best_matches(letters, texts, most) if letters else list(islice(texts, most))
