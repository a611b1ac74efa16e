"""Settings files written back: in one step, through links, with their mode kept, and never over a change of somebody else's."""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from accord.errors import UsageError

BACKUP: Final = ".accord-backup"
LARGEST: Final = 16 * 1024 * 1024


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
