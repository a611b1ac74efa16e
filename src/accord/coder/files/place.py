"""Where a path that somebody named leads."""

import os
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from accord.errors import AccordError

_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4096


class NoPlace(AccordError):
    """What was named is no path on this system."""


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder, which need not exist."""

    path: str
    """Absolute, as the client knows it."""
    real: str
    """With links and `..` resolved: what the policy judges, and the only thing that is touched."""

    @property
    def name(self) -> str:
        """Its last part."""
        return os.path.basename(self.path)


def locate(named: str, cwd: str, *, follow: bool = True) -> Place:
    """The place that a path means, from `cwd`; `~` and `file://` are understood. Raises NoPlace.

    Without `follow` a link at the end is not followed: it is itself what is meant. Looks at the disk.
    """
    text = unquote(urlsplit(named).path) if named.startswith("file://") else named
    if not text.strip():
        raise NoPlace("the path is empty")
    if "\0" in text:
        raise NoPlace(f"{text[:200]!r} is no path: it has a NUL character")
    joined = os.path.join(cwd, os.path.expanduser(text))
    try:
        encoded = joined.encode()
    except UnicodeEncodeError:
        raise NoPlace(f"{text[:200]!r} is no path that this system can name") from None
    if len(encoded) >= _LONGEST_PATH or any(len(part) > _LONGEST_NAME for part in encoded.split(b"/")):
        raise NoPlace(f"{text[:100]!r}... is too long for a path")
    path = os.path.normpath(joined)
    real = _real(joined, follow)
    return Place(path if _real(path, follow) == real else real, real)


def insist_on_same(place: Place) -> None:
    """Refuse a place that leads elsewhere by now: what was judged is what is used. Looks at the disk."""
    if os.path.realpath(place.real) != place.real:
        raise NoPlace(f"{place.path} leads elsewhere now than it did when this was judged")


def _real(path: str, follow: bool) -> str:
    above, name = os.path.split(path.rstrip("/") or "/")
    if follow or name in ("", os.curdir, os.pardir):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(above), name)
