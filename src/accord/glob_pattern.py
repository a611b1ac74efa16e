"""Glob patterns over paths, as in .gitignore but without `!`."""

import re
from fnmatch import translate
from functools import cache
from typing import Final, TypeAlias

_MAX_INNER_STARS: Final = 3
_STARS_BEFORE_NAME: Final = re.compile(r"(^|/)\*\*+(?=[^*/])")
_STARS_IN_NAME: Final = re.compile(r"(?<=[^*/\\])\*\*+(?=[^*/])")
_STARS_AFTER_NAME: Final = re.compile(r"(?<=[^*/\\])\*\*+(?=/)")
_ESCAPED: Final = re.compile(r"\\(.)|\[\^", re.DOTALL)

_Parts: TypeAlias = list[re.Pattern[str] | None]
"""One expression for each folder and the name; None stands for `**`."""


class PathGlob:
    r"""A pattern for a path from its first folder on.

    `*`, `?`, `[a-z]`, `[!a]` and `\x` stand within a name, `**` for any number of folders. Slashes at both
    ends are ignored. Matching takes linear time for every pattern.
    """

    def __init__(self, text: str, *, ignore_case: bool = False) -> None:
        # `**.py` is `**/*.py`, and `test**/` is `test*/**/`.
        text = _STARS_BEFORE_NAME.sub(r"\1**/*", text.replace("\\/", "/").strip("/"))
        text = _STARS_AFTER_NAME.sub("*/**", text)
        start, *rest = _STARS_IN_NAME.split(text, _MAX_INNER_STARS)
        variants = [start]
        for part in rest:  # `a**b` matches across folders too
            variants = [variant + stars + part for variant in variants for stars in ("*", "*/**/*")]
        self._variants = [_compile(variant, ignore_case) for variant in variants]

    def matches(self, path: str, *, with_content: bool = False) -> bool:
        """Whether a path with slashes matches. With `with_content`, a folder's match includes its content."""
        names = [name for name in path.split("/") if name]
        return any(_match(variant, names, with_content) for variant in self._variants)


def _compile(text: str, ignore_case: bool) -> _Parts:
    names = [name for name in text.split("/") if name]
    if names and set(names[-1]) == {"*"} and len(names[-1]) > 1:
        names.append("*")
    parts: _Parts = []
    for index, name in enumerate(names):
        if len(name) > 1 and set(name) == {"*"}:
            if not parts or parts[-1] is not None:
                parts.append(None)
        elif name != "." or index == len(names) - 1:
            parts.append(_compile_name(name, ignore_case))
    return parts


@cache
def _compile_name(name: str, ignore_case: bool) -> re.Pattern[str]:
    expression = translate(_ESCAPED.sub(_plain_syntax, name))
    return re.compile(expression, re.IGNORECASE if ignore_case else 0)


def _plain_syntax(match: re.Match[str]) -> str:
    """Return what `fnmatch` understands instead of an escape or `[^`."""
    if match[1] is None:
        return "[!"
    return f"[{match[1]}]" if match[1] in "*?[" else match[1]


def _match(pattern: _Parts, names: list[str], with_content: bool) -> bool:
    """Match by the set of pattern positions that the path can have reached so far."""
    positions = _skip_any_folders({0}, pattern)
    for name in names:
        if with_content and len(pattern) in positions:
            return True
        next_positions: set[int] = set()
        for position in positions:
            if position == len(pattern):
                continue
            expression = pattern[position]
            if expression is None:
                next_positions.add(position)
            elif expression.match(name):
                next_positions.add(position + 1)
        positions = _skip_any_folders(next_positions, pattern)
        if not positions:
            return False
    return len(pattern) in positions


def _skip_any_folders(positions: set[int], pattern: _Parts) -> set[int]:
    """Add the positions behind `**`, which can also match no folder."""
    return positions | {
        position + 1 for position in positions if position < len(pattern) and pattern[position] is None
    }
