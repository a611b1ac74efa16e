"""Where a session stands: its folders, the home folder, and where a path really leads from there.

Resolving looks at the disk for links, nothing else here does. What cannot be resolved has no place, and what has no place is
never inside.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from accord.errors import UsageError
from accord.paths import config_dir, data_dir

_LONGEST: Final = 4096


class Place(NamedTuple):
    """A path as it was named (absolute, `..` folded) and as it really is (links followed)."""

    named: Path
    real: Path


@dataclass(frozen=True, slots=True)
class Bounds:
    """The folders of a session, links resolved. Make one with `Bounds.of`."""

    cwd: Path
    roots: tuple[Path, ...]
    """Every folder it may use unasked; the working folder is one of them."""
    home: Path
    private: tuple[Path, ...] = ()
    """Where Accord itself keeps settings, logins, trust and logs: nobody else's business in any mode."""

    @staticmethod
    def of(
        cwd: str | os.PathLike[str],
        additional: Iterable[str | os.PathLike[str]] = (),
        *,
        home: str | os.PathLike[str] | None = None,
    ) -> "Bounds":
        """The bounds of a session with this `cwd` and additional folders, all absolute."""
        folders = [cwd, *additional]
        for folder in folders:
            if not os.path.isabs(folder):
                raise UsageError(f"the folder of a session must be an absolute path, not {str(folder)!r}")
        real = [Path(os.path.realpath(folder)) for folder in folders]
        own = Path(os.path.realpath(Path.home() if home is None else home))
        private = tuple(Path(os.path.realpath(folder)) for folder in (config_dir(), data_dir()))
        return Bounds(real[0], tuple(dict.fromkeys(real)), own, private)

    def place(self, path: str | os.PathLike[str], base: Path | None = None) -> Place | None:
        """Where a path leads, seen from `base` (or the working folder); None for what is no path."""
        text = os.fspath(path)
        if text == "~" or text.startswith("~/"):
            text = f"{self.home}{text[1:]}"
        if not text or "\0" in text or len(text) > _LONGEST:
            return None
        whole = os.path.join(base or self.cwd, text)
        try:
            # A `..` behind a link climbs from where the link leads: only the real path knows.
            return Place(Path(os.path.normpath(whole)), Path(os.path.realpath(whole)))
        except (OSError, ValueError):
            return None

    def is_inside(self, path: Path) -> bool:
        """Whether a real path lies in one of the roots."""
        return any(path.is_relative_to(root) for root in self.roots)

    def relative(self, path: Path) -> list[str]:
        """The path as seen from each of the roots it lies in."""
        return [path.relative_to(root).as_posix() for root in self.roots if path.is_relative_to(root)]
