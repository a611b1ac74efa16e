"""A change of a file, as clients show it."""

from typing import Final

from accord.schema.tools import Diff

_AROUND: Final = 3


def diff_of(path: str, old: str | None, new: str, most: int) -> Diff:
    """The change with the whole texts; where they have more than `most` characters together, only the changed lines and
    those around them. No old text means a new file."""
    if old is None or len(old) + len(new) <= most:
        return Diff(path, new if len(new) <= most else new[:most], old)
    before, after = old.split("\n"), new.split("\n")
    start = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        start += 1
    end = 0
    for one, other in zip(reversed(before[start:]), reversed(after[start:]), strict=False):
        if one != other:
            break
        end += 1
    first, trailing = max(start - _AROUND, 0), max(end - _AROUND, 0)
    cut_old, cut_new = before[first : len(before) - trailing], after[first : len(after) - trailing]
    return Diff(path, "\n".join(cut_new)[:most], "\n".join(cut_old)[:most])
