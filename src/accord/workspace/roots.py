"""The session's folders; open folders that never follow links; atomic replace."""

import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from accord.errors import InvalidParams, RequestCancelled

# MERGED workspace.folder: An open folder: names are looked at, opened, made and replaced relative to it, never by a whole path, and links are
# never followed. So what was checked is what is used, even when somebody swaps a link in between.
#
# Where the platform has no folder descriptors (Windows) the same calls go by path, without that guarantee.

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


# MERGED workspace.roots: The roots of a session: the folders that bound every file access.
#
# `resolve` says where a path really leads and refuses what lies outside. `reach` does the same and then walks there
# folder by folder without following a single link, so that a link swapped in after the check cannot lead out.
#
# Two things are out of reach for any check of paths: a hard link to a file elsewhere, and what a command that was started
# inside the roots does by itself.

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


# MERGED workspace.replacing: Putting a whole file in the place of another in one step: readers see the old bytes or the new ones.


def replace_file(folder: Folder, name: str, data: bytes, stop: threading.Event) -> None:
    """Make these the bytes of the file of that name, which may be new; its mode and owner are kept.

    Raises OSError (ELOOP for a link under that name), and RequestCancelled if `stop` is set before the last step.
    """
    before = _standing(folder, name)
    fresh = f".accord-{os.urandom(8).hex()}.tmp"
    descriptor = folder.make_file(fresh, 0o666 if before is None else 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if before is not None:
                _keep_owner_and_mode(descriptor, before)
            file.write(data)
        if stop.is_set():
            raise RequestCancelled()
        folder.replace(fresh, name)
    except BaseException:
        with suppress(OSError):
            folder.remove(fresh)
        raise


def _standing(folder: Folder, name: str) -> os.stat_result | None:
    """The file that is about to be replaced, if there is one and it may be."""
    try:
        before = folder.look(name)
    except FileNotFoundError:
        return None
    insist_on_plain_file(before)
    if not folder.may_write(name):
        # The folder may well allow a replacement, but who made the file read-only did not mean that.
        raise PermissionError(errno.EACCES, "the file is read-only")
    return before


def _keep_owner_and_mode(descriptor: int, before: os.stat_result) -> None:
    """As a write in place would leave them: a changed program loses its set-id bits."""
    if os.name == "posix":
        with suppress(PermissionError):
            os.fchown(descriptor, before.st_uid, before.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & 0o777)
