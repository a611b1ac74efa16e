"""Finding things by a few letters of what they are called."""

from collections.abc import Iterable


def ranked(texts: Iterable[str], letters: str, most: int = 50) -> list[str]:
    """The texts that have these letters in this order, the best first."""
    wanted = letters.casefold()
    if not wanted:
        return [text for _, text in zip(range(most), texts, strict=False)]
    scored = [(found, text) for text in texts if (found := score(text, wanted)) is not None]
    scored.sort(key=lambda found: (-found[0], len(found[1]), found[1]))
    return [text for _, text in scored[:most]]


def score(text: str, wanted: str) -> float | None:
    """How well it fits what is wanted (folded already); None where a letter is missing.

    Letters side by side, at the beginning of words and in the name itself count more.
    """
    folded = text.casefold()
    name = folded.rstrip("/").rpartition("/")[2]
    if wanted in name:
        return 200.0 + (60 if name.startswith(wanted) else 0) - len(text) / 10
    if wanted in folded:
        return 150.0 - len(text) / 10
    points, at, before = 0.0, 0, -2
    for letter in wanted:
        at = folded.find(letter, at)
        if at < 0:
            return None
        points += 3 if at == before + 1 else 2 if at == 0 or folded[at - 1] in "/_-. " else 0
        before, at = at, at + 1
    return points - len(text) / 50
