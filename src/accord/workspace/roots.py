"""The roots of a session: the folders that bound every file access.

Also open folders and the atomic file writer.

`Roots.resolve` follows links and refuses a path outside the roots. `Roots.with_parent_folder` opens folder by
folder without following links, so that a link created after the check cannot lead outside. A path with links
is resolved first.

The roots do not restrict hard links to files elsewhere, nor what a started command does.
"""

import errno
import os
import stat
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Self, TypeAlias, TypeVar, cast

from accord.errors import InvalidParams, RequestCancelled
from accord.private_files import write_atomically

_HAS_FOLDER_DESCRIPTORS: Final = os.open in os.supports_dir_fd
_AS_EFFECTIVE_USER: Final = os.access in os.supports_effective_ids
_NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
_NOCTTY: Final[int] = getattr(os, "O_NOCTTY", 0)
_CLOEXEC: Final[int] = getattr(os, "O_CLOEXEC", 0)
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)
_READ_FLAGS: Final[int] = os.O_RDONLY | _NOFOLLOW | _NONBLOCK | _NOCTTY | _CLOEXEC | _BINARY
# A path-only descriptor needs no read permission on the folder; elsewhere a readable one does.
_FOLDER_FLAGS: Final[int] = (
    getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NOFOLLOW | _CLOEXEC
)


class Folder:
    """An open folder. All operations take names relative to it and never follow links.

    The checked file is therefore the used file, even if another program creates a link in between. Platforms
    without folder descriptors (Windows) use full paths, without that guarantee.
    """

    def __init__(self, path: "AnyPath", within: "Folder | None" = None) -> None:
        """Open `path`, which must be a folder and not a link. `within` is its parent, already open."""
        self._path: str = os.fspath(path)
        self._descriptor: int | None = None
        if _HAS_FOLDER_DESCRIPTORS:
            name = path if within is None else os.path.basename(path)
            self._descriptor = os.open(
                name, _FOLDER_FLAGS, dir_fd=None if within is None else within._descriptor
            )
        elif not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path)

    @property
    def path(self) -> Path:
        """Where the folder is."""
        return Path(self._path)

    def open_folder(self, name: str, *, create: "StopSignal | None" = None) -> "Folder":
        """Open a folder inside this one. With `create`, create it if it is missing, unless that is set."""
        path = os.path.join(self._path, name)
        try:
            return Folder(path, self)
        except FileNotFoundError:
            if create is None:
                raise
        with create.step(), suppress(FileExistsError):
            os.mkdir(self._name_or_path(name), dir_fd=self._descriptor)
        return Folder(path, self)

    def stat(self, name: str) -> os.stat_result:
        """Return the status of a name; of a link, not of its target."""
        return os.stat(self._name_or_path(name), dir_fd=self._descriptor, follow_symlinks=False)

    def may_write(self, name: str) -> bool:
        """Return whether this user may change the file."""
        return os.access(
            self._name_or_path(name), os.W_OK, dir_fd=self._descriptor, effective_ids=_AS_EFFECTIVE_USER
        )

    def open_file(self, name: str) -> int:
        """Open a regular file for reading and return its descriptor. Never blocks on a pipe."""
        return self.open_with_size(name)[0]

    def open_with_size(self, name: str) -> tuple[int, int]:
        """Do the same, and also return the size of the file in bytes."""
        return open_regular_file(self._name_or_path(name), self._descriptor)

    def create_file(self, name: str, mode: int) -> int:
        """Create a new file for writing and return its descriptor."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOEXEC | _BINARY
        return os.open(self._name_or_path(name), flags, mode, dir_fd=self._descriptor)

    def write_file(self, name: str, data: bytes, before: os.stat_result | None, stop: "StopSignal") -> None:
        """Create or replace a file in one step. `before` is the status of the old one."""
        write_atomically(
            self._name_or_path(name),
            data,
            mode=0o666,
            like=before,
            dir_fd=self._descriptor,
            last_step=stop.step,
        )

    def remove(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self._name_or_path(name), dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        os.rmdir(self._name_or_path(name), dir_fd=self._descriptor)

    def move(self, name: str, into: "Folder", new_name: str) -> None:
        """Move a file or folder in one step, within this folder or into another."""
        os.rename(
            self._name_or_path(name),
            into._name_or_path(new_name),
            src_dir_fd=self._descriptor,
            dst_dir_fd=into._descriptor,
        )

    def link(self, name: str, into: "Folder", new_name: str) -> None:
        """Create a hard link to a file. The new name must not exist."""
        os.link(
            self._name_or_path(name),
            into._name_or_path(new_name),
            src_dir_fd=self._descriptor,
            dst_dir_fd=into._descriptor,
            follow_symlinks=False,
        )

    def close(self) -> None:
        """Close the folder. Can be called twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _name_or_path(self, name: str) -> str:
        return name if _HAS_FOLDER_DESCRIPTORS else os.path.join(self._path, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_regular_file(name: str, folder: int | None) -> tuple[int, int]:
    """Open a regular file of an open folder for reading, and return its descriptor and its size."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISREG(status.st_mode):
        descriptor = os.open(name, _READ_FLAGS, dir_fd=folder)
        try:
            status = os.fstat(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        if stat.S_ISREG(status.st_mode):
            return descriptor, status.st_size
        os.close(descriptor)
    raise not_a_plain_file(status)


def not_a_plain_file(status: os.stat_result) -> OSError:
    """Return the error for links, folders, pipes, sockets and devices."""
    if stat.S_ISLNK(status.st_mode):
        return OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if stat.S_ISDIR(status.st_mode):
        return IsADirectoryError(errno.EISDIR, "it is a folder")
    return OSError(errno.EINVAL, "it is not a plain file")


AnyPath: TypeAlias = str | os.PathLike[str]
T = TypeVar("T")

_MAX_NAME_BYTES: Final = 255
_MAX_PATH_BYTES: Final = 4096
_NOT_NAMES: Final = frozenset(("", ".", ".."))
_CHUNK_BYTES: Final = 1024 * 1024
# How often a path is resolved again when its folders change meanwhile.
_ATTEMPTS: Final = 8
_RESOLVED_AGAIN: Final = (errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG)
"""Opening a path fails with one of these if it has links, or if it is too long to be resolved."""


class OutsideRoots(InvalidParams):
    """A path leads outside the session's roots. Nothing was read, written or started."""


class Roots:
    """`cwd` and the additional folders of one session, with links resolved."""

    def __init__(self, cwd: AnyPath, additional: Sequence[AnyPath] = ()) -> None:
        self.cwd: Path = _real_path(cwd)
        self.additional: tuple[Path, ...] = tuple(_real_path(folder) for folder in additional)
        self.folders: tuple[Path, ...] = tuple(dict.fromkeys((self.cwd, *self.additional)))
        # Each root with the prefix of the paths in it, the outermost first.
        self._prefixes = {
            root: root if root.endswith(os.sep) else root + os.sep
            for root in sorted(map(str, self.folders), key=len)
        }

    def child(self, cwd: AnyPath | None = None, additional: Sequence[AnyPath] | None = None) -> "Roots":
        """Return the roots of a child session.

        Missing values are inherited; no value may lead outside these roots.
        """
        return Roots(
            self.cwd if cwd is None else self.resolve(cwd),
            self.additional if additional is None else [self.resolve(folder) for folder in additional],
        )

    def resolve(self, path: AnyPath) -> Path:
        """Resolve links and `..` of an absolute path, which need not exist. Raises OutsideRoots."""
        target = _real_path(path)
        if any(target.is_relative_to(folder) for folder in self.folders):
            return target
        leads_out = any(Path(path).is_relative_to(folder) for folder in self.folders)
        raise OutsideRoots(
            f"{quote_value(path)} {'leads' if leads_out else 'lies'} outside the roots of this session: "
            f"{', '.join(map(str, self.folders))}"
        )

    def open_file(self, path: AnyPath) -> tuple[int, int]:
        """Open a regular file for reading, and return its descriptor and its size. Raises OSError."""
        text = os.fspath(path)
        place = self._place(text) if _HAS_FOLDER_DESCRIPTORS and text.isascii() else None
        if place is not None:  # the same as below, without objects for the folders
            root, folders, name = place
            try:
                folder = os.open(root, _FOLDER_FLAGS)
                try:
                    for folder_name in folders:
                        parent, folder = folder, os.open(folder_name, _FOLDER_FLAGS, dir_fd=folder)
                        os.close(parent)
                    return open_regular_file(name, folder)
                finally:
                    os.close(folder)
            except OSError as error:
                if error.errno not in _RESOLVED_AGAIN:
                    raise
        return self.with_parent_folder(path, Folder.open_with_size)

    def with_parent_folder(
        self, path: AnyPath, action: Callable[[Folder, str], T], *, create: "StopSignal | None" = None
    ) -> T:
        """Call `action` with the open parent folder of the resolved path, and the file's name in it.

        With `create`, missing folders are created while the signal is not set. If a folder of the path or
        the name itself (`action` raises ELOOP) has become a link, the path is resolved again. Raises OSError.
        """
        text = os.fspath(path)
        if text.endswith(("/", os.sep)):
            raise InvalidParams(f"{quote_value(path)} names a folder, not a file")
        # Most paths have no links and need not be resolved: a link is found when it is opened.
        place = self._place(text) if _HAS_FOLDER_DESCRIPTORS and text.isascii() else None
        for attempt in range(_ATTEMPTS):
            if place is None:
                text = str(self.resolve(path))
                place = self._place(text)
            if place is None or text in self._prefixes:
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            root, folders, name = place
            try:
                with self._open(root, folders, create) as folder:
                    return action(folder, name)
            except OSError as error:
                if error.errno not in _RESOLVED_AGAIN or attempt == _ATTEMPTS - 1:
                    raise
                place = None
        raise AssertionError("the last attempt returns or raises")

    def _place(self, path: str) -> tuple[str, list[str], str] | None:
        """Split a path into the outermost root that contains it, folders and name.

        None for a path outside the roots, and for one that is not in its simplest form.
        """
        for root, prefix in self._prefixes.items():
            if path.startswith(prefix):
                names = path[len(prefix) :].split(os.sep)
                simple = _NOT_NAMES.isdisjoint(names) and "\0" not in path
                return (root, names, names.pop()) if simple else None
        return None

    @staticmethod
    def _open(root: str, folders: list[str], create: "StopSignal | None") -> Folder:
        folder = Folder(root)
        for name in folders:
            with folder:
                folder = folder.open_folder(name, create=create)
        return folder

    def __repr__(self) -> str:
        return f"Roots({', '.join(map(str, self.folders))})"


def quote_value(path: object) -> str:
    """Return a value for an error message: quoted, on one line, shortened."""
    value: object = os.fspath(cast("os.PathLike[str]", path)) if isinstance(path, os.PathLike) else path
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]}...{text[-60:]}"


def _real_path(path: AnyPath) -> Path:
    """Return the path with links resolved. Raises InvalidParams if it is not an absolute path."""
    if not isinstance(path, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidParams(f"a path must be a string, not {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidParams(f"{quote_value(text)} is a path in bytes; a path must be a string")
    if "\0" in text:
        raise InvalidParams(f"{quote_value(text)} is not a path: it contains a NUL character")
    if not os.path.isabs(text):
        hint = "; `~` is not expanded here" if text.startswith("~") else ""
        raise InvalidParams(f"{quote_value(text)} is not an absolute path{hint}")
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        raise InvalidParams(f"{quote_value(text)} is not a path: this system cannot encode it") from None
    if len(encoded) >= _MAX_PATH_BYTES or any(len(part) > _MAX_NAME_BYTES for part in encoded.split(b"/")):
        raise InvalidParams(f"{quote_value(text)} is too long for a path on this system")
    for _ in range(_ATTEMPTS):
        with suppress(OSError):  # a link changed while it was being read
            return Path(os.path.realpath(text))
    raise InvalidParams(f"{quote_value(text)} keeps changing; it could not be resolved")


class StopSignal:
    """Tells work in a thread to stop. Once `set` has returned, no further step of the work is done.

    The signal of a part of the work is also set with the signal of the whole.
    """

    def __init__(self, whole: "StopSignal | None" = None) -> None:
        self.writing: bool = False
        """Whether the work writes a file, and no user is asked any more."""
        self._whole = whole
        self._lock = threading.Lock()
        self._is_set = False

    def set(self) -> None:
        """Stop the work. Waits for a step that is being done."""
        with self._lock:
            self._is_set = True

    def is_set(self) -> bool:
        return self._is_set or (self._whole is not None and self._whole.is_set())

    @contextmanager
    def step(self) -> Generator[None]:
        """Do one short step that others can see, such as a rename. Raises RequestCancelled if it is set."""
        with nullcontext() if self._whole is None else self._whole.step(), self._lock:
            if self._is_set:
                raise RequestCancelled()
            yield


CURRENT_STOP: ContextVar[StopSignal | None] = ContextVar("accord_stop", default=None)
"""The signal of the request that the running code serves."""


def replace_file(folder: Folder, name: str, data: bytes, stop: StopSignal) -> None:
    """Write a file in one step: readers see the old bytes or the new ones.

    Keeps the mode and owner of an old file.

    Raises OSError (ELOOP if the name is a link), and RequestCancelled if `stop` is set before the last step.
    """
    before = _status_to_replace(folder, name)
    if stop.is_set():
        raise RequestCancelled()
    folder.write_file(name, data, before, stop)


def _status_to_replace(folder: Folder, name: str) -> os.stat_result | None:
    """Return the status of the file to replace, or None if there is none. Raises OSError if it must stay."""
    try:
        before = folder.stat(name)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(before.st_mode):
        raise not_a_plain_file(before)
    if not folder.may_write(name):
        # The folder may allow a rename, but a read-only file should not be replaced.
        raise PermissionError(errno.EACCES, "the file is read-only")
    return before


def in_exact_folder(real: str, action: Callable[[Folder, str], T], *, create: StopSignal | None = None) -> T:
    """Call `action` with the open parent folder of the file, and its name in it.

    With `create`, missing folders are created while the signal is not set.
    """
    path = Path(real)
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, "it is the root of the file system")
    folder = Folder(Path(path.anchor))
    for name in path.parts[1:-1]:
        with folder:
            folder = folder.open_folder(name, create=create)
    with folder:
        return action(folder, path.name)


def read_bytes(folder: Folder, name: str, max_bytes: int, stop: StopSignal) -> bytes:
    """Return the bytes of a file. A file with more than `max_bytes` is read only a little beyond that."""
    data = bytearray()
    descriptor = folder.open_file(name)
    try:
        while len(data) <= max_bytes and not stop.is_set():
            chunk = os.read(descriptor, _CHUNK_BYTES)
            if not chunk:
                break
            data += chunk
    finally:
        os.close(descriptor)
    return bytes(data)
