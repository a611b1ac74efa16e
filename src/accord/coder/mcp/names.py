"""Names for what servers offer, fit for every model provider and for slash commands, unique and the same all session.

Letters, digits, `_` and `-`, 64 at most, not beginning with a digit or a dash. Whoever comes first gets the plain name;
one that would be the same, or too long, ends with a few digits of a hash.
"""

import hashlib
import re
from typing import Final

LONGEST: Final = 64
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HASH: Final = 6


class Names:
    """The names given out in one session."""

    def __init__(self, separator: str, taken: frozenset[str] = frozenset()) -> None:
        self._separator = separator
        self._given: dict[tuple[str, str], str] = {}
        self._taken = set(taken)

    def of(self, server: str, offered: str) -> str:
        """The name for what this server calls so. Asked again, the same."""
        given = self._given.get((server, offered))
        if given is None:
            given = self._given[server, offered] = self._new(server, offered)
            self._taken.add(given)
        return given

    def _new(self, server: str, offered: str) -> str:
        plain = f"{fit(server)}{self._separator}{fit(offered)}"
        if len(plain) <= LONGEST and plain not in self._taken:
            return plain
        number = 0
        while True:
            mark = hashlib.sha256(f"{number}\0{server}\0{offered}".encode(errors="replace")).hexdigest()[
                :_HASH
            ]
            name = f"{plain[: LONGEST - _HASH - 1]}_{mark}"
            if name not in self._taken:
                return name
            number += 1


def fit(name: str) -> str:
    """The name in the characters that are allowed."""
    fitting = _UNFIT.sub("_", name).strip("_-") or "unnamed"
    return fitting if fitting[0].isalpha() else f"_{fitting}"
