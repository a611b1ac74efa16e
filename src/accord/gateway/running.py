"""Which gateways of this user run, and where: so that a new token comes with the right link, and `accord doctor` can tell.

Each has a small file in user data that it holds a lock on; a file without a lock is of one that died.
"""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from accord.gateway.access.filelock import is_locked, locked
from accord.paths import data_dir, private_folder


class Running(Struct, frozen=True):
    """A gateway that runs."""

    url: str
    """Where it is reached; no token in it."""
    pid: int
    since: float


def running_folder() -> Path:
    """Where the files are."""
    return data_dir() / "gateway" / "running"


@contextmanager
def announced(url: str) -> Generator[Running]:
    """While the block runs, this process is known as a gateway at this address. Raises OSError."""
    told = Running(url, os.getpid(), time.time())
    path = private_folder(running_folder()) / f"{told.pid}.json"
    with locked(path) as descriptor:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, msgspec.json.encode(told))
        try:
            yield told
        finally:
            with suppress(OSError):
                path.unlink()


def all_running() -> list[Running]:
    """Those that live, the newest first. What dead ones left is removed."""
    found: list[Running] = []
    with suppress(OSError):
        for path in running_folder().iterdir():
            if not is_locked(path):
                with suppress(OSError):
                    path.unlink()
                continue
            with suppress(OSError, msgspec.MsgspecError):
                found.append(msgspec.json.decode(path.read_bytes(), type=Running))
    return sorted(found, key=lambda one: one.since, reverse=True)
