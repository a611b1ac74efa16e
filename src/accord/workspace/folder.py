"""An open folder: names are looked at, opened, made and replaced relative to it, never by a whole path, and links are
never followed. So what was checked is what is used, even when somebody swaps a link in between.

Where the platform has no folder descriptors (Windows) the same calls go by path, without that guarantee.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_BY_DESCRIPTOR: Final = os.open in os.supports_dir_fd
_AS_EFFECTIVE_USER: Final = os.access in os.supports_effective_ids
_NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
_NOCTTY: Final[int] = getattr(os, "O_NOCTTY", 0)
_CLOEXEC: Final[int] = getattr(os, "O_CLOEXEC", 0)
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)
# A path-only descriptor needs no read permission on the folder; elsewhere a readable one does.
_FOLDER: Final[int] = (
    getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW | _CLOEXEC
)


class Folder:
    """One folder, held open until `close`."""

    def __init__(self, path: Path, within: "Folder | None" = None) -> None:
        """Open `path`, whose last part must be a folder and no link; `within` is its parent, already open."""
        self.path = path
        self._descriptor: int | None = None
        if _BY_DESCRIPTOR:
            name, beside = (path, None) if within is None else (path.name, within._descriptor)
            self._descriptor = os.open(name, _FOLDER, dir_fd=beside)
        elif not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))

    def enter(self, name: str, *, create: bool = False) -> "Folder":
        """The folder of that name inside this one; made first if it is missing and `create` says so."""
        try:
            return Folder(self.path / name, self)
        except FileNotFoundError:
            if not create:
                raise
        with suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self._descriptor)
        return Folder(self.path / name, self)

    def look(self, name: str) -> os.stat_result:
        """What stands under that name: the link itself where it is a link."""
        return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)

    def may_write(self, name: str) -> bool:
        """Whether this user may change what stands under that name."""
        return os.access(self._at(name), os.W_OK, dir_fd=self._descriptor, effective_ids=_AS_EFFECTIVE_USER)

    def open_file(self, name: str) -> int:
        """A descriptor to read a plain file; anything else is refused, and nothing ever waits on a pipe."""
        insist_on_plain_file(self.look(name))
        flags = os.O_RDONLY | _NOFOLLOW | _NONBLOCK | _NOCTTY | _CLOEXEC | _BINARY
        descriptor = os.open(self._at(name), flags, dir_fd=self._descriptor)
        try:
            insist_on_plain_file(os.fstat(descriptor))
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def make_file(self, name: str, mode: int) -> int:
        """A descriptor to write a file that did not exist."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC | _BINARY
        return os.open(self._at(name), flags, mode, dir_fd=self._descriptor)

    def replace(self, source: str, target: str) -> None:
        """Put `source` in the place of `target`, in one step."""
        os.replace(
            self._at(source),
            self._at(target),
            src_dir_fd=self._descriptor,
            dst_dir_fd=self._descriptor,
        )

    def remove(self, name: str) -> None:
        """Take the file of that name away."""
        os.unlink(self._at(name), dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Take the folder of that name away, which must be empty."""
        os.rmdir(self._at(name), dir_fd=self._descriptor)

    def move(self, name: str, into: "Folder", new_name: str) -> None:
        """Give what has that name another one, in this folder or another, in one step."""
        os.rename(
            self._at(name), into._at(new_name), src_dir_fd=self._descriptor, dst_dir_fd=into._descriptor
        )

    def link(self, name: str, into: "Folder", new_name: str) -> None:
        """Give the file of that name a second one, which must be free."""
        os.link(
            self._at(name),
            into._at(new_name),
            src_dir_fd=self._descriptor,
            dst_dir_fd=into._descriptor,
            follow_symlinks=False,
        )

    def close(self) -> None:
        """Let go of it; harmless twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _at(self, name: str) -> str:
        return name if _BY_DESCRIPTOR else str(self.path / name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def insist_on_plain_file(found: os.stat_result) -> None:
    """Refuse links, folders, pipes, sockets and devices."""
    if stat.S_ISREG(found.st_mode):
        return
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    raise OSError(errno.EINVAL, "it is not a plain file")
