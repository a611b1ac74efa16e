"""A small file with something secret about it: made whole and for the owner alone, or not at all."""

import os
from contextlib import suppress
from pathlib import Path


def make_file(path: Path, data: bytes, time: float) -> None:
    """Make a file that is not there yet, closed to everybody but its owner (0600), with this time. Raises OSError."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.utime(path, (time, time))
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
