"""Resolves user-supplied paths, and works on files at exactly the resolved path.

Every folder on the way is opened by name and no link is followed. So a link that is put there after the
policy has decided leads nowhere. Blocking work runs in threads, in order for each file.
"""

import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from accord.errors import AccordError
from accord.workspace.roots import Folder, replace_file
from accord.workspace.text_files import PathQueue, TextTooLong, read_lines

_MAX_NAME: Final = 255
_MAX_PATH: Final = 4096


class BadPath(AccordError):
    """The text is not a valid path on this system."""


@dataclass(frozen=True, slots=True)
class ResolvedFile:
    """The path of a file or folder, which need not exist."""

    path: str
    """Absolute, in the form that the client uses."""
    real: str
    """With links and `..` resolved. The policy decides about this path, and only this path is used."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return os.path.basename(self.path)


def resolve_path(user_path: str, cwd: str, *, follow: bool = True) -> ResolvedFile:
    """Resolve a path from `cwd`. Accepts `~` and `file://` URLs. Raises BadPath.

    Without `follow`, a link at the end of the path stays unresolved. Reads the disk.
    """
    text = unquote(urlsplit(user_path).path) if user_path.startswith("file://") else user_path
    if not text.strip():
        raise BadPath("the path is empty")
    if "\0" in text:
        raise BadPath(f"{text[:200]!r} is not a path: it contains a NUL character")
    joined = os.path.join(cwd, os.path.expanduser(text))
    try:
        encoded = joined.encode()
    except UnicodeEncodeError:
        raise BadPath(f"{text[:200]!r} is not a path: this system cannot encode it") from None
    if len(encoded) >= _MAX_PATH or any(len(part) > _MAX_NAME for part in encoded.split(b"/")):
        raise BadPath(f"{text[:100]!r}... is too long for a path")
    path = os.path.normpath(joined)
    real = _real(joined, follow)
    return ResolvedFile(path if _real(path, follow) == real else real, real)


def check_unchanged(file: ResolvedFile) -> None:
    """Raise BadPath if the path now leads elsewhere than it did when the policy decided. Reads the disk."""
    if os.path.realpath(file.real) != file.real:
        raise BadPath(f"{file.path} has become a link to another place since it was checked")


def _real(path: str, follow: bool) -> str:
    parent, name = os.path.split(path.rstrip("/") or "/")
    if follow or name in ("", os.curdir, os.pardir):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(parent), name)


T = TypeVar("T")

_CHUNK: Final = 1024 * 1024
_NO_LINKS: Final = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK))


class DiskRefused(AccordError):
    """A file operation failed. The message is one line."""


class FileTooLarge(DiskRefused):
    """The file has more bytes than the caller allows."""

    def __init__(self, file: ResolvedFile, size: int) -> None:
        super().__init__(f"{file.path} is too large: {size:,} bytes")
        self.size: int = size


class FileChanged(DiskRefused):
    """The file changed since it was read. Nothing was written."""


class ExactDisk:
    """Reads, writes, removes and moves files, in order for each path."""

    def __init__(self) -> None:
        self._queue = PathQueue()

    async def stat(self, file: ResolvedFile) -> os.stat_result | None:
        """Return the status of the path, or None if nothing is there. Does not follow links."""

        def work(_: threading.Event) -> os.stat_result | None:
            try:
                return _reach(file.real, lambda folder, name: folder.stat(name))
            except (FileNotFoundError, NotADirectoryError):
                return None

        return await self._do("look at", file, work)

    async def read(self, file: ResolvedFile, max_bytes: int) -> bytes | None:
        """Return the bytes of a file, or None if there is none. Raises FileTooLarge beyond `max_bytes`."""

        def work(stop: threading.Event) -> bytes | None:
            try:
                data = _reach(file.real, lambda folder, name: _read_bytes(folder, name, max_bytes, stop))
            except FileNotFoundError:
                return None
            if len(data) > max_bytes:
                raise FileTooLarge(file, os.stat(file.real).st_size)
            return data

        return await self._do("read", file, work)

    async def read_lines(self, file: ResolvedFile, line: int, limit: int, max_bytes: int) -> bytes:
        """Return some lines of a file of any size.

        Raises FileTooLarge if they have more than `max_bytes` bytes.
        """

        def work(stop: threading.Event) -> bytes:
            descriptor = _reach(file.real, Folder.open_file)
            try:
                return read_lines(descriptor, line, limit, max_bytes, stop)
            except TextTooLong:
                raise FileTooLarge(file, max_bytes) from None
            finally:
                os.close(descriptor)

        return await self._do("read", file, work)

    async def write(self, file: ResolvedFile, data: bytes, expected: bytes | None) -> None:
        """Replace the file in one step if it still has the `expected` bytes (None: no file).

        Raises FileChanged.
        """

        def work(stop: threading.Event) -> None:
            def replace(folder: Folder, name: str) -> None:
                try:
                    current = _read_bytes(folder, name, len(expected or b"") + 1, stop)
                except FileNotFoundError:
                    current = None
                if current != expected:
                    raise FileChanged(f"{file.path} was changed by another program just now; read it again")
                replace_file(folder, name, data, stop)

            _reach(file.real, replace, create=True)

        await self._do("write", file, work)

    async def make_folder(self, file: ResolvedFile) -> None:
        """Create the missing parent folders of a file."""
        await self._do(
            "make a folder for", file, lambda _: _reach(file.real, lambda folder, name: None, create=True)
        )

    async def remove(self, file: ResolvedFile) -> None:
        """Remove a file, a link or an empty folder."""

        def work(_: threading.Event) -> None:
            def remove(folder: Folder, name: str) -> None:
                if stat.S_ISDIR(folder.stat(name).st_mode):
                    folder.remove_folder(name)
                else:
                    folder.remove(name)

            _reach(file.real, remove)

        await self._do("delete", file, work)

    async def move(self, source: ResolvedFile, destination: ResolvedFile) -> None:
        """Rename a file or folder. Never replaces an existing one."""

        def work(stop: threading.Event) -> None:
            _reach(
                source.real,
                lambda here, old: _reach(
                    destination.real, lambda there, new: _move(here, old, there, new, stop), create=True
                ),
            )

        await self._do("move", source, work)

    async def _do(self, verb: str, file: ResolvedFile, work: Callable[[threading.Event], T]) -> T:
        async with self._queue.turn(file.real) as turn:
            try:
                return await turn.run(work)
            except OSError as error:
                raise DiskRefused(f"cannot {verb} {file.path}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOTEMPTY:
        return "the folder is not empty"
    if error.errno == errno.ENOTDIR:
        return "a part of its path is not a folder"
    if error.errno == errno.ELOOP:
        return "a part of its path is a link"
    return (error.strerror or str(error)).lower()


def _reach(real: str, act: Callable[[Folder, str], T], *, create: bool = False) -> T:
    """Call `act` with the open parent folder of the file, and its name in it."""
    path = Path(real)
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, "it is the root of the file system")
    folder = Folder(Path(path.anchor))
    for name in path.parts[1:-1]:
        with folder:
            folder = folder.open_folder(name, create=create)
    with folder:
        return act(folder, path.name)


def _read_bytes(folder: Folder, name: str, max_bytes: int, stop: threading.Event) -> bytes:
    """Return the bytes of a file; of a larger file somewhat more than `max_bytes`."""
    kept = bytearray()
    descriptor = folder.open_file(name)
    try:
        while len(kept) <= max_bytes and not stop.is_set():
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                break
            kept += chunk
    finally:
        os.close(descriptor)
    return bytes(kept)


def _move(here: Folder, old: str, there: Folder, new: str, stop: threading.Event) -> None:
    status = here.stat(old)
    try:
        _refuse_existing(there, new)
        if stat.S_ISREG(status.st_mode):
            try:
                here.link(old, there, new)  # unlike a rename, this never replaces another file
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                here.move(old, there, new)
            else:
                here.remove(old)
        else:
            here.move(old, there, new)
    except OSError as error:
        if error.errno != errno.EXDEV or not stat.S_ISREG(status.st_mode):
            raise
        _copy(here, old, there, new)
        here.remove(old)


def _refuse_existing(folder: Folder, name: str) -> None:
    with suppress(FileNotFoundError):
        folder.stat(name)
        raise FileExistsError(errno.EEXIST, f"{folder.path / name} exists already")


def _copy(here: Folder, old: str, there: Folder, new: str) -> None:
    """Copy a file to another file system, with its mode."""
    source = here.open_file(old)
    with os.fdopen(source, "rb") as reader, os.fdopen(there.create_file(new, 0o600), "wb") as writer:
        try:
            shutil.copyfileobj(reader, writer, _CHUNK)
            os.fchmod(writer.fileno(), stat.S_IMODE(os.fstat(source).st_mode))
        except BaseException:
            there.remove(new)
            raise
