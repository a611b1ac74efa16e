"""Glob patterns over paths: `*`, `?`, `[a-z]`, `{a,b}` and `**` for any number of folders.

A pattern without a slash means names at any depth, as in .gitignore; one with a slash, be it `./`, counts from the
folder that is searched. Matching takes time linear in pattern and path, whatever the pattern: it comes from a model.
"""

import re
from fnmatch import translate
from functools import cache
from typing import Final

_MOST_VARIANTS: Final = 256
_INNERMOST: Final = re.compile(r"\{([^{}]*)\}")


class BadPattern(ValueError):
    """No pattern; says why."""


class Pattern:
    """A pattern, ready to be matched."""

    def __init__(self, text: str) -> None:
        if not text.strip("./ "):
            raise BadPattern(f"{text!r} names nothing")
        self._variants = [self._parts(variant) for variant in _variants(text.strip())]

    def matches(self, path: str) -> bool:
        """Whether a relative path, with slashes, is meant."""
        parts = path.split("/")
        return any(_match(variant, parts) for variant in self._variants)

    @staticmethod
    def _parts(text: str) -> list[re.Pattern[str] | None]:
        """One expression for each folder and the name; None for `**`."""
        named = text.strip("/").split("/")
        if "/" not in text.rstrip("/"):
            named = ["**", *named]
        if text.endswith("/"):
            named.append("**")
        if named[-1] == "**":
            named.append("*")
        parts: list[re.Pattern[str] | None] = []
        for part in named:
            if part == "**":
                if not parts or parts[-1] is not None:
                    parts.append(None)
            elif part not in ("", "."):
                parts.append(_expression(part))
        return parts


@cache
def _expression(part: str) -> re.Pattern[str]:
    return re.compile(translate(part))


def _match(pattern: list[re.Pattern[str] | None], parts: list[str]) -> bool:
    """By the set of places in the pattern that the path so far can stand at."""
    reached = _past_any({0}, pattern)
    for part in parts:
        following: set[int] = set()
        for place in reached:
            if place == len(pattern):
                continue
            expression = pattern[place]
            if expression is None:
                following.add(place)
            elif expression.match(part):
                following.add(place + 1)
        reached = _past_any(following, pattern)
        if not reached:
            return False
    return len(pattern) in reached


def _past_any(places: set[int], pattern: list[re.Pattern[str] | None]) -> set[int]:
    """`**` may also stand for no folder at all."""
    return places | {place + 1 for place in places if place < len(pattern) and pattern[place] is None}


def _variants(text: str) -> list[str]:
    """The pattern without braces, once for each choice in them."""
    waiting, done = [text], list[str]()
    while waiting:
        variant = waiting.pop(0)
        found = _INNERMOST.search(variant)
        if found is None:
            done.append(variant)
            continue
        waiting += [
            variant[: found.start()] + choice + variant[found.end() :] for choice in found[1].split(",")
        ]
        if len(waiting) + len(done) > _MOST_VARIANTS:
            raise BadPattern(f"{text[:100]!r} stands for more than {_MOST_VARIANTS} patterns")
    return done
