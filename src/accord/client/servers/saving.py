"""Settings files written back: in one step, through links, with their mode kept, and never over a change of somebody else's."""

import os
import stat
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from accord.errors import UsageError
from accord.paths import private_folder

BACKUP: Final = ".accord-backup"
LARGEST: Final = 16 * 1024 * 1024
_PATIENCE: Final = 10.0
_PAUSE: Final = 0.02


@contextmanager
def held(path: Path, *, private: bool = False) -> Generator[None]:
    """From reading to writing: whoever else changes the file in this way waits. Makes its folder, for the user alone if it is private.

    Raises UsageError. The folder is what is locked, so that nothing is left lying beside the file.
    """
    folder = Path(os.path.realpath(path)).parent
    try:
        private_folder(folder) if private else folder.mkdir(parents=True, exist_ok=True)
        if sys.platform == "win32":
            yield  # folders cannot be locked there; a change in between is still noticed when it is written
            return
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path}: it cannot be written ({error.strerror})") from None
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def read_whole(path: Path) -> bytes | None:
    """The file's bytes; None if there is no file. Raises UsageError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
                raise UsageError(f"{path}: it is no ordinary file of less than {LARGEST // 1024 // 1024} MiB")
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read ({error.strerror})") from None


def write_whole(
    path: Path, before: bytes | None, after: bytes, *, mode: int = 0o600, backup: bool = False
) -> Path | None:
    """Put the new bytes in the place of the ones that were read. The result is the backup, if one was asked for and made.

    A link stays one: what it leads to is replaced. `mode` is for a file that is made. Raises UsageError.
    """
    target = Path(os.path.realpath(path))
    if read_whole(target) != before:
        raise UsageError(f"{path}: it was changed by somebody else meanwhile; nothing was written, try again")
    kept: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if before is not None:
            standing = target.stat()
            mode = stat.S_IMODE(standing.st_mode)
            if not os.access(target, os.W_OK):
                raise UsageError(f"{path}: it is read-only; nothing was written")
            if backup:
                kept = target.with_name(target.name + BACKUP)
                _replace(kept, before, mode)
        _replace(target, after, mode)
    except OSError as error:
        raise UsageError(f"{path}: it cannot be written ({error.strerror})") from None
    return kept


def _replace(target: Path, data: bytes, mode: int) -> None:
    descriptor, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.chmod(draft, mode)
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


if sys.platform != "win32":
    import fcntl

    def _lock(descriptor: int, path: Path) -> None:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > until:
                    raise UsageError(f"{path}: somebody else keeps changing it; try again") from None
                time.sleep(_PAUSE)
            except OSError:
                return  # a file system that has no locks
