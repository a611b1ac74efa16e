"""The running gateways of this user, found by their lock files.

Each gateway has a small file in the user data that it keeps locked. A file without a lock belongs to a
gateway that died. Keep heavy imports out.
"""

import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from accord.paths import data_dir
from accord.private_files import is_owned, locked, private_folder


class RunningGateway(Struct, frozen=True):
    """A running gateway."""

    url: str
    """The address, without a token."""
    pid: int
    since: float
    agents: tuple[str, ...] = ()
    folders: tuple[str, ...] | None = None
    """What `--folder` allows to every token; None for all folders."""


def running_folder() -> Path:
    return data_dir() / "gateway" / "running"


@contextmanager
def announce(
    url: str, agents: Sequence[str] = (), folders: tuple[str, ...] | None = None
) -> Generator[RunningGateway]:
    """List this process as a gateway at this URL while the block runs. Raises OSError.

    Removes the files of gateways that were killed.
    """
    running = RunningGateway(url, os.getpid(), time.time(), tuple(agents), folders)
    path = private_folder(running_folder()) / f"{running.pid}.json"
    list_running_gateways()
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
        for path in running_folder().glob("*.json"):
            if is_owned(path):
                with suppress(OSError, msgspec.MsgspecError):
                    found.append(msgspec.json.decode(path.read_bytes(), type=RunningGateway))
    return sorted(found, key=lambda gateway: gateway.since, reverse=True)
