"""The roots of a session: the folders that bound every file access.

`resolve` says where a path really leads and refuses what lies outside. `reach` does the same and then walks there
folder by folder without following a single link, so that a link swapped in after the check cannot lead out.

Two things are out of reach for any check of paths: a hard link to a file elsewhere, and what a command that was started
inside the roots does by itself.
"""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from accord.errors import InvalidParams
from accord.workspace.folder import Folder

AnyPath = str | os.PathLike[str]
T = TypeVar("T")

_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4096
# How often a path is looked at again when somebody changes the folders under it.
_ATTEMPTS: Final = 8


class OutsideRoots(InvalidParams):
    """A path that leads out of the session's roots; nothing was read, written or started."""


class Roots:
    """`cwd` and the additional folders of one session, links in them resolved once and for all."""

    def __init__(self, cwd: AnyPath, additional: Sequence[AnyPath] = ()) -> None:
        self.cwd = _real(cwd)
        self.additional = tuple(_real(folder) for folder in additional)
        self.folders = tuple(dict.fromkeys((self.cwd, *self.additional)))

    def child(self, cwd: AnyPath | None = None, additional: Sequence[AnyPath] | None = None) -> "Roots":
        """The roots of a child session: what is not given is inherited, and nothing given may widen these roots."""
        return Roots(
            self.cwd if cwd is None else self.resolve(cwd),
            self.additional if additional is None else [self.resolve(folder) for folder in additional],
        )

    def resolve(self, path: AnyPath) -> Path:
        """Where an absolute path leads once links and `..` are followed; parts that do not exist yet are fine."""
        target = _real(path)
        if any(target.is_relative_to(folder) for folder in self.folders):
            return target
        leads_out = any(Path(path).is_relative_to(folder) for folder in self.folders)
        raise OutsideRoots(
            f"{shown(path)} {'leads' if leads_out else 'lies'} outside the roots of this session: "
            f"{', '.join(map(str, self.folders))}"
        )

    def reach(self, path: AnyPath, act: Callable[[Folder, str], T], *, create: bool = False) -> T:
        """Call `act` with the open folder that holds the file `path` leads to, and the file's name in it.

        Missing folders on the way are made where `create` says so. `act` raises ELOOP when it meets a link under that
        name: then, as for a link on the way, the path is resolved anew. Raises OSError for what the disk refuses.
        """
        if os.fspath(path).endswith(("/", os.sep)):
            raise InvalidParams(f"{shown(path)} names a folder, not a file")
        for attempt in range(_ATTEMPTS):
            target = self.resolve(path)
            if target in self.folders:
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            try:
                with self._enter(target.parent, create) as folder:
                    return act(folder, target.name)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR) or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _enter(self, target: Path, create: bool) -> Folder:
        """The folder `target`, reached from the outermost root around it; nothing above that is anybody's to swap."""
        around = min((f for f in self.folders if target.is_relative_to(f)), key=lambda f: len(f.parts))
        folder = Folder(around)
        for name in target.relative_to(around).parts:
            with folder:
                folder = folder.enter(name, create=create)
        return folder

    def __repr__(self) -> str:
        return f"Roots({', '.join(map(str, self.folders))})"


def shown(path: object) -> str:
    """A path as error lines show it: quoted, on one line, of bounded length."""
    text = repr(os.fspath(path) if isinstance(path, os.PathLike) else path)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return text if len(text) <= 300 else f"{text[:200]}...{text[-60:]}"


def _real(path: AnyPath) -> Path:
    """The path with links resolved, or InvalidParams for what is no absolute path at all."""
    if not isinstance(path, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidParams(f"a path must be a string, not {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidParams(f"{shown(text)} is a path in bytes; a path must be a string")
    if "\0" in text:
        raise InvalidParams(f"{shown(text)} has a NUL character; no path has one")
    if not os.path.isabs(text):
        hint = "; `~` is not expanded here" if text.startswith("~") else ""
        raise InvalidParams(f"{shown(text)} is not an absolute path{hint}")
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidParams(f"{shown(text)} is not a path that this system can name") from None
    if len(encoded) >= _LONGEST_PATH or any(len(part) > _LONGEST_NAME for part in encoded.split(b"/")):
        raise InvalidParams(f"{shown(text)} is too long for a path on this system")
    for _ in range(_ATTEMPTS):
        with suppress(OSError):  # a link that became something else while it was being read
            return Path(os.path.realpath(text))
    raise InvalidParams(f"{shown(text)} keeps changing; it could not be resolved")
