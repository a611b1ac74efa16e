"""Which gateways of this user run and where, found by their lock files; the lock between processes.

Keep heavy imports out.
"""

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from accord.paths import data_dir, private_folder

# MERGED gateway.access.filelock: Locks between processes, on files of their own. A lock goes with the process that holds it, however that ends.


@contextmanager
def locked(path: Path) -> Generator[int]:
    """Wait for the lock and hold it for the block; the file's descriptor is what is given. Raises OSError."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        _lock(descriptor, wait=True)
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether another process holds the lock; False where there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return False
    try:
        _lock(descriptor, wait=False)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int, *, wait: bool) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int, *, wait: bool) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


# MERGED gateway.running: Which gateways of this user run, and where: so that a new token comes with the right link, and `accord doctor` can tell.
#
# Each has a small file in user data that it holds a lock on; a file without a lock is of one that died.


class RunningGateway(Struct, frozen=True):
    """A gateway that runs."""

    url: str
    """Where it is reached; no token in it."""
    pid: int
    since: float


def running_folder() -> Path:
    """Where the files are."""
    return data_dir() / "gateway" / "running"


@contextmanager
def announce(url: str) -> Generator[RunningGateway]:
    """While the block runs, this process is known as a gateway at this address. Raises OSError."""
    running = RunningGateway(url, os.getpid(), time.time())
    path = private_folder(running_folder()) / f"{running.pid}.json"
    with locked(path) as descriptor:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, msgspec.json.encode(running))
        try:
            yield running
        finally:
            with suppress(OSError):
                path.unlink()


def all_running() -> list[RunningGateway]:
    """Those that live, the newest first. What dead ones left is removed."""
    found: list[RunningGateway] = []
    with suppress(OSError):
        for path in running_folder().iterdir():
            if not is_locked(path):
                with suppress(OSError):
                    path.unlink()
                continue
            with suppress(OSError, msgspec.MsgspecError):
                found.append(msgspec.json.decode(path.read_bytes(), type=RunningGateway))
    return sorted(found, key=lambda gateway: gateway.since, reverse=True)
