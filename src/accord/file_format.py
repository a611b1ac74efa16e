"""The versions of the files that Accord keeps: older ones are brought forward, newer ones are refused.

A file names its version in the member `version`. One without it has version 1. Imported on first use.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from accord.errors import BadSettings
from accord.private_files import write_atomically

T = TypeVar("T")
Members: TypeAlias = dict[str, Any]
StrPath: TypeAlias = str | os.PathLike[str]

_VERSION = "version"


class NewerFormat(BadSettings):
    """A newer Accord wrote the file. It is not used, and not changed."""


def newer_format(file: StrPath, version: int, known: int) -> str:
    """Return why a file of this version is refused, and what to do."""
    return (
        f"{os.fspath(file)} was written by a newer Accord (format {version}, this one knows {known}): "
        "update Accord, or move the file away"
    )


class FileFormat:
    """One kind of file. `steps[N]` turns the members of version N into those of the next version.

    A version without a step has only new members, which may be missing.
    """

    def __init__(
        self, version: int = 1, steps: Mapping[int, Callable[[Members], Members]] | None = None
    ) -> None:
        self.version: int = version
        self._steps = steps or {}

    def check(self, version: Any, file: StrPath) -> int:
        """Return the version of a file if it can be read. Raises NewerFormat, BadSettings."""
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise BadSettings(f"{os.fspath(file)}: version: it must be a whole number, 1 or more")
        if version > self.version:
            raise NewerFormat(newer_format(file, version, self.version))
        return version

    def upgrade(self, members: Mapping[str, Any], file: StrPath) -> Members:
        """Return the members in the newest form, without the version. Raises NewerFormat, BadSettings."""
        newest = dict(members)
        for version in range(self.check(newest.pop(_VERSION, 1), file), self.version):
            if (step := self._steps.get(version)) is not None:
                newest = step(newest)
        return newest

    def decode(self, data: bytes, kind: type[T], file: StrPath) -> T:
        """Decode a JSON file. Raises NewerFormat, BadSettings, and the errors of msgspec."""
        members = msgspec.json.decode(data)
        if not isinstance(members, dict):
            raise msgspec.ValidationError("Expected `object`")
        return msgspec.convert(self.upgrade(cast(Members, members), file), kind)

    def encode(self, value: Any) -> bytes:
        """Encode the members of a JSON file, the version first."""
        return msgspec.json.encode({_VERSION: self.version, **msgspec.to_builtins(value)})

    def write(self, path: Path, value: Any) -> None:
        """Replace a JSON file that its owner alone can read. Raises OSError, NewerFormat."""
        self.back_up(path)
        write_atomically(path, msgspec.json.format(self.encode(value), indent=2) + b"\n")

    def back_up(self, path: Path) -> None:
        """Copy a file of an older version to `NAME.format-VERSION`. Raises OSError, NewerFormat."""
        try:
            data = path.read_bytes()
            version = self.check(msgspec.json.decode(data).get(_VERSION, 1), path)
        except (FileNotFoundError, AttributeError, msgspec.MsgspecError, UnicodeDecodeError):
            return  # the file is new or damaged
        if version < self.version:
            backup = path.with_name(f"{path.name}.format-{version}")
            if not backup.exists():
                write_atomically(backup, data)
