"""Which contents of project files the user has agreed to.

The user's data folder has one small file for each trusted file. Its name is the hash of the path, and it
contains the hash of the content. A file that changed in any way is no longer trusted.
"""

import hashlib
import hmac
import os
import tempfile
from pathlib import Path

import msgspec

from accord.paths import data_dir, private_folder


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
        try:
            entry = msgspec.json.decode(self._entry_path(real).read_bytes(), type=_Entry)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return False
        return entry.path == real and hmac.compare_digest(entry.sha256.encode(), _hash(content).encode())

    def trust(self, path: str | os.PathLike[str], content: bytes | str) -> None:
        """Trust this content under this path. It replaces a content that was trusted before."""
        real = os.path.realpath(path)
        entry_path = self._entry_path(real)
        private_folder(self.folder)
        descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=".")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(_Entry(real, _hash(content))))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, entry_path)
        except OSError:
            os.unlink(temporary)
            raise

    def forget(self, path: str | os.PathLike[str]) -> None:
        """Stop trusting the file."""
        self._entry_path(os.path.realpath(path)).unlink(missing_ok=True)

    def _entry_path(self, real: str) -> Path:
        return self.folder / f"{_hash(os.fsencode(real))}.json"


def _hash(content: bytes | str) -> str:
    return hashlib.sha256(
        content.encode(errors="surrogateescape") if isinstance(content, str) else content
    ).hexdigest()
