"""Trust in files of a project: which content the user has looked at and agreed to.

One small file for each trusted file, in the user's data: its name is made from the path, in it stands the hash of the content.
A file that changed in any way is not trusted any more.
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
    """What the user trusts. Several processes may ask and add at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = data_dir() / "trust" if folder is None else folder

    def is_trusted(self, path: str | os.PathLike[str], content: bytes | str) -> bool:
        """Whether the user agreed to exactly this content under this path."""
        real = os.path.realpath(path)
        try:
            entry = msgspec.json.decode(self._place(real).read_bytes(), type=_Entry)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return False
        return entry.path == real and hmac.compare_digest(entry.sha256.encode(), _hash(content).encode())

    def trust(self, path: str | os.PathLike[str], content: bytes | str) -> None:
        """The user agreed to this content under this path; what was agreed to before no longer counts."""
        real = os.path.realpath(path)
        place = self._place(real)
        private_folder(self.folder)
        descriptor, draft = tempfile.mkstemp(dir=self.folder, prefix=".")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(_Entry(real, _hash(content))))
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, place)
        except OSError:
            os.unlink(draft)
            raise

    def forget(self, path: str | os.PathLike[str]) -> None:
        """The file is not trusted any more."""
        self._place(os.path.realpath(path)).unlink(missing_ok=True)

    def _place(self, real: str) -> Path:
        return self.folder / f"{_hash(os.fsencode(real))}.json"


def _hash(content: bytes | str) -> str:
    return hashlib.sha256(
        content.encode(errors="surrogateescape") if isinstance(content, str) else content
    ).hexdigest()
