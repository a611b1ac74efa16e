"""The checkpoints of a session on disk: which files each turn changed, and copies of what they held before.

A folder per session, readable by its owner only: `checkpoints.json` lists the changes, `blobs/` holds the
copies, named by their SHA-256. The folder is deleted with the session. Blocking: call it in a thread.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct, field

from accord.errors import BadSettings
from accord.file_format import FileFormat
from accord.private_files import private_folder, write_atomically
from accord.session.rewind import RewindScope
from accord.store import Store, store_path

FORMAT: Final = FileFormat(1)
LIST_NAME: Final = "checkpoints.json"
FILE_LIMIT: Final = 4 * 1024 * 1024
"""Larger files are not copied."""
SESSION_LIMIT: Final = 64 * 1024 * 1024
"""The copies of one session. The oldest are dropped first."""
TOTAL_LIMIT: Final = 1024 * 1024 * 1024
"""The copies of all sessions. Those of the sessions that were unused for longest are dropped first."""
KEPT_SECONDS: Final = 30 * 24 * 3600
"""Checkpoints of a session that was not used for this long are dropped."""
MAX_TURNS: Final = 500
DROPPED: Final = "its copy was dropped to save space"

FileKind = Literal["absent", "file", "folder", "other"]


class FileState(Struct, frozen=True, omit_defaults=True):
    """What is at a path. `other` is a link, a device or anything else that is never copied."""

    kind: FileKind = "absent"
    digest: str = ""
    """The SHA-256 of the bytes; a large file has its size and time instead."""
    mode: int = 0
    """The permission bits."""

    def same_as(self, other: "FileState") -> bool:
        """Whether the content is the same, and for files also whether they may be executed."""
        return (self.kind, self.digest, self.mode & 0o111 != 0) == (
            other.kind,
            other.digest,
            other.mode & 0o111 != 0,
        )


ABSENT: Final = FileState()


class CheckpointedChange(Struct, omit_defaults=True):
    """How one turn changed one file."""

    before: FileState
    after: FileState
    """What the agent left there."""
    problem: str = ""
    """Why the file cannot be restored; empty if it can."""
    folders: list[str] = []
    """The folders that were created for it, outermost first."""


class TurnCheckpoint(Struct, omit_defaults=True):
    """The files that one turn changed."""

    message_id: str
    changes: dict[str, CheckpointedChange] = field(default_factory=dict[str, CheckpointedChange])
    """By real path."""
    undone: bool = False
    """Whether the files are back as they were before the turn."""
    notes: list[str] = []
    """What could not be followed, such as the changes of commands without git."""


class PerformedRewind(Struct, omit_defaults=True):
    """A rewind that can be taken back."""

    message_id: str
    title: str
    scope: RewindScope
    changes: dict[str, CheckpointedChange] = field(default_factory=dict[str, CheckpointedChange])
    undone: list[str] = []
    """The message ids of the turns whose files went back."""


class CheckpointList(Struct, omit_defaults=True):
    """The content of `checkpoints.json`."""

    session_id: str
    turns: list[TurnCheckpoint] = []
    rewinds: list[PerformedRewind] = []
    """Rewinds since the last prompt, the latest last."""


class CheckpointStore:
    """The checkpoints of one session."""

    def __init__(self, folder: Path, session_id: str) -> None:
        self._folder = folder / folder_name(session_id)
        self._session_id = session_id
        self._size: int | None = None

    @property
    def git_folder(self) -> Path:
        """Where the shadow repositories of the session are."""
        return self._folder / "git"

    def load(self) -> CheckpointList:
        """Read the list; a new one if there is none. Raises BadSettings, OSError."""
        path = self._folder / LIST_NAME
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return CheckpointList(self._session_id)
        try:
            return _decode(data, path)
        except (msgspec.MsgspecError, ValueError) as error:
            raise BadSettings(f"{path}: it cannot be read ({error}); remove it to go on without it") from None

    def save(self, checkpoints: CheckpointList) -> None:
        """Write the list, and drop the oldest copies beyond the limits. Raises OSError."""
        del checkpoints.turns[:-MAX_TURNS]
        self._trim(checkpoints)
        private_folder(self._folder)
        write_atomically(self._folder / LIST_NAME, _encode(checkpoints))

    def put(self, data: bytes) -> str:
        """Keep a copy and return its digest. Raises OSError."""
        digest = digest_of(data)
        path = self._blob(digest)
        if not path.exists() or path.stat().st_size != len(data):
            private_folder(path.parent)
            write_atomically(path, data, durable=False)  # `get` checks it
            if self._size is not None:
                self._size += len(data)
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return a copy; None if it is missing or damaged."""
        try:
            data = self._blob(digest).read_bytes()
        except (OSError, ValueError):
            return None
        return data if digest_of(data) == digest else None

    def copy_to(self, other: "CheckpointStore") -> None:
        """Give a fork its own checkpoints. Raises OSError, BadSettings."""
        checkpoints = self.load()
        if not checkpoints.turns:
            return
        checkpoints.session_id = other._session_id
        checkpoints.rewinds = []
        target = private_folder(other._folder / "blobs")
        for blob in self._blobs():
            try:
                os.link(blob, target / blob.name)
            except OSError:
                shutil.copy2(blob, target / blob.name)
        other.save(checkpoints)

    def delete(self) -> None:
        """Remove everything that was kept for the session."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _blob(self, digest: str) -> Path:
        return self._folder / "blobs" / digest

    def _blobs(self) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            yield from (self._folder / "blobs").iterdir()

    def _trim(self, checkpoints: CheckpointList) -> None:
        """Keep the copies within the limit: drop those of the oldest turns."""
        if self._size is None:
            self._size = sum(blob.stat().st_size for blob in self._blobs())
        if self._size <= SESSION_LIMIT:
            return
        sizes = {blob.name: blob.stat().st_size for blob in self._blobs()}
        self._remove(sizes, sizes.keys() - _digests(checkpoints))
        for turn in checkpoints.turns:
            if sum(sizes.values()) <= SESSION_LIMIT:
                break
            for change in turn.changes.values():
                if change.before.kind == "file" and not change.problem:
                    change.problem = DROPPED
            self._remove(sizes, sizes.keys() - _digests(checkpoints))
        self._size = sum(sizes.values())

    def _remove(self, sizes: dict[str, int], digests: Iterable[str]) -> None:
        for digest in list(digests):
            with suppress(OSError):
                self._blob(digest).unlink()
            del sizes[digest]


def _encode(checkpoints: CheckpointList) -> bytes:
    try:
        return FORMAT.encode(checkpoints)
    except UnicodeEncodeError:  # a path that is not UTF-8
        return json.dumps({"version": FORMAT.version, **msgspec.to_builtins(checkpoints)}).encode()


def _decode(data: bytes, path: Path) -> CheckpointList:
    if b"\\udc" not in data:
        return FORMAT.decode(data, CheckpointList, path)
    return msgspec.convert(FORMAT.upgrade(json.loads(data), path), CheckpointList)


def checkpoints_folder(store: Path | Store | None) -> Path:
    """The folder with the checkpoints of all sessions: beside the session logs."""
    path = store if isinstance(store, Path) else store_path()
    return path.with_name(f"{path.stem}-checkpoints")


def digest_of(data: bytes) -> str:
    """The name of a copy with this content."""
    return hashlib.sha256(data).hexdigest()


def folder_name(session_id: str) -> str:
    """The name of a session's folder: ids may hold any characters."""
    return digest_of(session_id.encode(errors="surrogatepass"))[:32]


def _digests(checkpoints: CheckpointList) -> set[str]:
    changes = [
        change
        for entry in (*checkpoints.turns, *checkpoints.rewinds)
        for change in entry.changes.values()
        if not change.problem
    ]
    return {change.before.digest for change in changes}


def stored_sessions(folder: Path) -> list[str]:
    """The ids of the sessions that have checkpoints."""
    found = (_session_id(entry) for entry in _session_folders(folder))
    return [session_id for session_id in found if session_id is not None]


def clean_up(folder: Path, deleted: Collection[str], now: float) -> None:
    """Remove the checkpoints of deleted and long unused sessions, and keep all of them within a limit."""
    remaining: list[tuple[float, int, Path]] = []
    for entry in _session_folders(folder):
        path = entry / LIST_NAME
        used = (path if path.exists() else entry).stat().st_mtime
        if now - used > KEPT_SECONDS or _session_id(entry) in deleted:
            shutil.rmtree(entry, ignore_errors=True)
        else:
            size = sum(file.stat().st_size for file in entry.rglob("*") if file.is_file())
            remaining.append((used, size, entry))
    total = sum(size for _, size, _ in remaining)
    for _, size, entry in sorted(remaining)[:-1]:
        if total <= TOTAL_LIMIT:
            break
        shutil.rmtree(entry, ignore_errors=True)
        total -= size


class _SessionId(Struct):
    session_id: str


def _session_id(folder: Path) -> str | None:
    try:
        return msgspec.json.decode((folder / LIST_NAME).read_bytes(), type=_SessionId).session_id
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _session_folders(folder: Path) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    except OSError:
        return []
