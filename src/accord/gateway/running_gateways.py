"""The running gateways of this user, found by their lock files; file locks between processes.

Each gateway has a small file in the user data that it keeps locked. A file without a lock belongs to a
gateway that died. Keep heavy imports out.
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


@contextmanager
def locked(path: Path) -> Generator[int]:
    """Wait for the lock and hold it for the block; yields the file descriptor. Raises OSError.

    The lock ends with the process that holds it, even if the process is killed.
    """
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        _lock(descriptor, wait=True)
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether another process holds the lock; False if the file does not exist."""
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


class RunningGateway(Struct, frozen=True):
    """A running gateway."""

    url: str
    """The address, without a token."""
    pid: int
    since: float


def running_folder() -> Path:
    return data_dir() / "gateway" / "running"


@contextmanager
def announce(url: str) -> Generator[RunningGateway]:
    """List this process as a gateway at this URL while the block runs. Raises OSError."""
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


def list_running_gateways() -> list[RunningGateway]:
    """List the running gateways, newest first. Removes the files of dead ones."""
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
