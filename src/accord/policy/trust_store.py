"""Which contents of project files the user has agreed to.

The user's data folder has one small file for each trusted file. Its name is the hash of the path, and it
contains the hash of the content. A file that changed in any way is no longer trusted. An entry that cannot
be read, for example one of a newer Accord, trusts nothing.
"""

import hashlib
import hmac
import os
from pathlib import Path
from typing import Final

import msgspec

from accord.errors import BadSettings
from accord.file_format import FileFormat, NewerFormat
from accord.paths import data_dir
from accord.private_files import private_folder, write_atomically

_FORMAT: Final = FileFormat()
_DISTRUSTED: Final = ""
"""The hash of no content, in the entry of a file that a command wrote."""


class _Entry(msgspec.Struct):
    path: str
    sha256: str


class TrustStore:
    """The files that the user trusts. Several processes may use it at the same time."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder: Path = data_dir() / "trust" if folder is None else folder

    def is_trusted(self, path: str | os.PathLike[str], content: bytes | str) -> bool:
        """Whether the user agreed to exactly this content under this path."""
        real = os.path.realpath(path)
        entry = self._read(self._entry_path(real))
        if entry is None:
            return False
        return entry.path == real and hmac.compare_digest(entry.sha256.encode(), _hash(content).encode())

    def trust(self, path: str | os.PathLike[str], content: bytes | str) -> None:
        """Trust this content under this path. It replaces a content that was trusted before.

        Raises OSError; NewerFormat if a newer Accord wrote the entry.
        """
        self._write(_Entry(os.path.realpath(path), _hash(content)))

    def distrust(self, path: str | os.PathLike[str]) -> None:
        """Record that a command wrote the file: it must not be used until the user trusts it."""
        entry = _Entry(os.path.realpath(path), _DISTRUSTED)
        try:
            self._write(entry)
        except NewerFormat:  # a newer Accord must learn of it as well: keep its entry aside
            entry_path = self._entry_path(entry.path)
            entry_path.replace(entry_path.with_suffix(".newer"))
            self._write(entry)

    def is_distrusted(self, path: str | os.PathLike[str]) -> bool:
        """Whether a command wrote the file and the user has not trusted it since."""
        real = os.path.realpath(path)
        entry = self._read(self._entry_path(real))
        return entry is not None and entry.path in (real, "") and entry.sha256 == _DISTRUSTED

    def distrusted_in(self, folder: str | os.PathLike[str]) -> list[str]:
        """Return the distrusted files below a folder that still exist."""
        start = os.path.join(os.path.realpath(folder), "")
        entries = map(self._read, sorted(self.folder.glob("*.json")))
        paths = (entry.path for entry in entries if entry is not None and entry.sha256 == _DISTRUSTED)
        return sorted(path for path in paths if path.startswith(start) and os.path.isfile(path))

    def _read(self, entry_path: Path) -> _Entry | None:
        """Return the entry; None if there is none. One that cannot be read means distrust."""
        try:
            return _FORMAT.decode(entry_path.read_bytes(), _Entry, entry_path)
        except FileNotFoundError:
            return None
        except (OSError, BadSettings, msgspec.MsgspecError, UnicodeDecodeError):
            return _Entry("", _DISTRUSTED)

    def _write(self, entry: _Entry) -> None:
        private_folder(self.folder)
        entry_path = self._entry_path(entry.path)
        _FORMAT.back_up(entry_path)
        write_atomically(entry_path, _FORMAT.encode(entry))

    def forget(self, path: str | os.PathLike[str]) -> None:
        """Stop trusting the file."""
        self._entry_path(os.path.realpath(path)).unlink(missing_ok=True)

    def _entry_path(self, real: str) -> Path:
        return self.folder / f"{_hash(os.fsencode(real))}.json"


def _hash(content: bytes | str) -> str:
    return hashlib.sha256(
        content.encode(errors="surrogateescape") if isinstance(content, str) else content
    ).hexdigest()
