"""Files and folders that only their owner can use; the atomic writer and the file lock of all packages."""

import os
import stat
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

StrPath: TypeAlias = str | os.PathLike[str]

LOCK_SECONDS: Final = 10.0
"""How long `wait_for_lock` waits, unless told otherwise."""
_LOCK_PAUSE: Final = 0.02
_NEW_FILE: Final[int] = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def private_folder(folder: "Path") -> "Path":
    """Create the directory if it is missing and restrict it to its owner (0700)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        try:
            folder.chmod(0o700)
        except OSError as error:
            import errno

            if error.errno != errno.EROFS:
                raise
    return folder


def private_file(path: "Path") -> "Path":
    """Create the file if it is missing and restrict it to its owner (0600)."""
    os.close(_open_private(path, os.O_RDWR))
    return path


def create_private_file(path: StrPath) -> None:
    """Create an empty file that only its owner can use (0600), unless something is there. Raises OSError.

    An existing file is not opened: closing it again would release the locks that SQLite holds on it.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, _NEW_FILE, 0o600))


def private_opener(path: str, flags: int) -> int:
    """The `opener` of `open` for a new file that only its owner can read (0600). An existing one stays."""
    return os.open(path, flags, 0o600)


def open_log(path: StrPath) -> int:
    """Open a file to append to, created if it is missing, and restrict it to its owner (0600).

    Raises OSError, also if the path is a link.
    """
    return _open_private(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))


def _open_private(path: StrPath, flags: int) -> int:
    descriptor = os.open(path, os.O_CREAT | flags, 0o600)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o077:
            os.chmod(descriptor if os.chmod in os.supports_fd else path, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


# -- writing -------------------------------------------------------------------------------------------------


def create_file(path: StrPath, data: bytes, modified: float) -> None:
    """Create a file that only its owner can read (0600), with this modification time.

    The file is created whole or not at all. Raises OSError, also if it exists.
    """
    with _new_file(path, data, 0o600):
        os.utime(path, (modified, modified))


def write_atomically(
    path: StrPath,
    data: bytes,
    *,
    mode: int = 0o600,
    like: os.stat_result | None = None,
    dir_fd: int | None = None,
    last_step: Callable[[], AbstractContextManager[None]] = nullcontext,
    durable: bool = True,
) -> None:
    """Write a file in one step: readers see the old bytes or the new ones, also after a power failure.

    `like` is the status of the old file, whose owner and mode are kept; without it, the mode is `mode` less
    the umask. A link is replaced, not followed. The rename happens within `last_step`. Without `durable`, a
    power failure may damage the file: for content that is checked when it is read. Raises OSError.
    """
    temporary = os.path.join(os.path.dirname(path), f".accord-{os.urandom(8).hex()}.tmp")
    with _new_file(temporary, data, mode, like, dir_fd, durable=durable), last_step():
        os.replace(temporary, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


@contextmanager
def _new_file(
    path: StrPath,
    data: bytes,
    mode: int,
    like: os.stat_result | None = None,
    dir_fd: int | None = None,
    *,
    durable: bool = True,
) -> Generator[None]:
    """Create a file with this content, on the disk; remove it if that or the block fails."""
    descriptor = os.open(path, _NEW_FILE, 0o600 if like is not None else mode, dir_fd=dir_fd)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if like is not None and sys.platform != "win32":
                with suppress(PermissionError):
                    os.fchown(descriptor, like.st_uid, like.st_gid)
                # No set-id bits, as a write in place would clear them.
                os.fchmod(descriptor, stat.S_IMODE(like.st_mode) & 0o777)
            file.write(data)
            file.flush()
            if durable:
                os.fsync(descriptor)
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(path, dir_fd=dir_fd)
        raise


# -- locks ---------------------------------------------------------------------------------------------------


def try_lock(path: StrPath, *, create: bool = False) -> int | None:
    """Lock a file or folder; None if another process holds the lock.

    The returned descriptor holds the lock until it is closed or the process ends, even if it is killed. With
    `create`, a missing file is created (0600). Raises OSError, also if the file system has no locks.

    The lock is on the file that is at the path now, so its holder may remove or replace it.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
        except FileNotFoundError:
            raise
        except OSError:
            descriptor = os.open(path, os.O_RDONLY)  # a folder, or a read-only file system
        try:
            _lock(descriptor)
            if _is_file_at(descriptor, path):
                return descriptor
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, _HELD):
                return None
            raise
        os.close(descriptor)  # its last owner removed the file between opening and locking


def _is_file_at(descriptor: int, path: StrPath) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def wait_for_lock(path: StrPath, *, create: bool = False, seconds: float = LOCK_SECONDS) -> int:
    """Like `try_lock`, but wait for another process. Raises OSError; TimeoutError after `seconds`."""
    deadline = time.monotonic() + seconds
    while (descriptor := try_lock(path, create=create)) is None:
        if time.monotonic() >= deadline:
            raise TimeoutError(f"another program keeps {path} locked")
        time.sleep(_LOCK_PAUSE)
    return descriptor


@contextmanager
def locked(path: StrPath) -> Generator[int]:
    """Hold the lock on a file for the block; yields the descriptor. Creates the file. Raises OSError."""
    descriptor = wait_for_lock(path, create=True)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_owned(path: StrPath) -> bool:
    """Whether a process holds the lock on the file. Removes the file if none does."""
    try:
        descriptor = try_lock(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it cannot be known
    if descriptor is None:
        return True
    with suppress(OSError):
        os.unlink(path)
    os.close(descriptor)
    return False


if sys.platform == "win32":
    import msvcrt

    _HELD: Final = PermissionError

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    _HELD: Final = BlockingIOError

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
