"""Where a session can run: on nodes that have its agent, its folder and the agent's own session store.

A volume is a folder that several nodes have at the same path. Its marker file `.accord-volume` holds an id,
so that an empty mount point is no workspace. A folder in no volume belongs to its node alone.
"""

import os
import posixpath
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from accord.errors import UsageError

MARKER: Final = ".accord-volume"
_MAX_ID: Final = 200


class Volume(Struct, frozen=True):
    """A shared folder: where it is, and which one it is."""

    path: str
    id: str


class Placement(Struct, frozen=True):
    """What another node needs to have to take a session over. Without a volume or a home, none can."""

    volume: str = ""
    volume_id: str = ""
    home: str = ""


def read_volumes(folders: Mapping[str, str]) -> dict[str, Volume]:
    """Read the markers of the volumes in the settings. Raises UsageError."""
    volumes: dict[str, Volume] = {}
    for name, folder in folders.items():
        path = os.path.normpath(os.path.expanduser(folder))
        if not os.path.isabs(path):
            raise UsageError(f"cluster: volume {name!r} needs an absolute path, not {folder!r}")
        marker = Path(path, MARKER)
        try:
            with marker.open("rb") as file:
                id = file.read(_MAX_ID).decode().strip()
        except (OSError, UnicodeDecodeError):
            id = ""
        if not id.isprintable() or not id:
            raise UsageError(
                f"cluster: volume {name!r} has no marker {marker}; mount the folder, or mark it once with "
                f"`uuidgen > {marker}`"
            )
        volumes[name] = Volume(path, id)
    return volumes


def volume_of(volumes: Mapping[str, Volume], folders: Iterable[str]) -> str:
    """The name of the volume that holds all of these folders, the innermost one; "" if there is none."""
    found = [
        (len(volume.path), name)
        for name, volume in volumes.items()
        if all(_contains(volume.path, folder) for folder in folders)
    ]
    return max(found)[1] if found else ""


def placement_of(
    volumes: Mapping[str, Volume], homes: Mapping[str, str], agent: str, folders: Iterable[str]
) -> Placement:
    """What another node needs for a session of this agent in these folders."""
    name = volume_of(volumes, tuple(folders))
    return Placement(name, volumes[name].id if name else "", homes.get(agent, ""))


def _contains(path: str, folder: str) -> bool:
    folder = posixpath.normpath(folder.replace("\\", "/"))
    path = path.replace("\\", "/")
    return folder == path or folder.startswith(path.rstrip("/") + "/")
