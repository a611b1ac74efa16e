"""Resolves paths from the model, and works on files at exactly the resolved path.

Each folder of the path is opened by name without following links. A link that is created after the policy has
decided therefore has no effect. Blocking work runs in threads, in order for each file.
"""

import asyncio
import errno
import os
import shutil
import stat
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from accord.errors import AccordError, RequestCancelled
from accord.workspace.roots import Folder, StopSignal, in_exact_folder, read_bytes, replace_file
from accord.workspace.text_files import PathQueue, TextTooLong, read_lines

_MAX_NAME_BYTES: Final = 255
_MAX_PATH_BYTES: Final = 4096


class BadPath(AccordError):
    """The text is not a valid path on this system."""


@dataclass(frozen=True, slots=True)
class ResolvedFile:
    """The path of a file or folder, which need not exist."""

    path: str
    """Absolute, in the form that the client uses."""
    real: str
    """With links and `..` resolved. The policy decides about this path, and tools use only this path."""

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
    if len(encoded) >= _MAX_PATH_BYTES or any(len(part) > _MAX_NAME_BYTES for part in encoded.split(b"/")):
        raise BadPath(f"{text[:100]!r}... is too long for a path")
    path = os.path.normpath(joined)
    real = _real_path(joined, follow)
    return ResolvedFile(path if _real_path(path, follow) == real else real, real)


def check_unchanged(file: ResolvedFile) -> None:
    """Raise BadPath if the path now leads elsewhere than it did when the policy decided. Reads the disk."""
    if os.path.realpath(file.real) != file.real:
        raise BadPath(f"{file.path} has become a link to another place since it was checked")


def _real_path(path: str, follow: bool) -> str:
    parent, name = os.path.split(path.rstrip("/") or "/")
    if follow or name in ("", os.curdir, os.pardir):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(parent), name)


T = TypeVar("T")

_CHUNK_BYTES: Final = 1024 * 1024
_HARD_LINK_UNSUPPORTED: Final = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK))


class DiskError(AccordError):
    """A file operation failed. The message is one line."""


class FileTooLarge(DiskError):
    """The file has more bytes than the caller allows."""

    def __init__(self, file: ResolvedFile, size: int) -> None:
        super().__init__(f"{file.path} is too large: {size:,} bytes")
        self.size: int = size


class FileChanged(DiskError):
    """The file changed since it was read. Nothing was written."""


class FileRecorder(Protocol):
    """Learns which files are changed. `FileCheckpoints` implements it."""

    async def keep(self, *paths: str) -> None:
        """Called with real paths before they are changed."""
        ...

    async def changed(self, *paths: str) -> None:
        """Called after the change, also if it failed."""
        ...


class ExactDisk:
    """Reads, writes, removes and moves files, in order for each path."""

    def __init__(self, recorder: FileRecorder | None = None) -> None:
        self._queue = PathQueue()
        self._recorder = recorder
        self._recorded: set[str] = set()
        """The files whose change is being recorded."""

    @asynccontextmanager
    async def recorded(self, *files: ResolvedFile) -> AsyncGenerator[None]:
        """Record the change of these files in the block, so that it can be undone."""
        paths = [file.real for file in files]
        if self._recorder is None or not self._recorded.isdisjoint(paths):
            yield  # also if this is a part of a recorded change
            return
        self._recorded.update(paths)
        try:
            await self._recorder.keep(*paths)
            yield
        finally:
            self._recorded.difference_update(paths)
            await asyncio.shield(self._recorder.changed(*paths))

    async def stat(self, file: ResolvedFile) -> os.stat_result | None:
        """Return the status of the path, or None if nothing is there. Does not follow links."""

        def work(_: StopSignal) -> os.stat_result | None:
            try:
                return in_exact_folder(file.real, lambda folder, name: folder.stat(name))
            except (FileNotFoundError, NotADirectoryError):
                return None

        return await self._run("look at", file, work)

    async def read(self, file: ResolvedFile, max_bytes: int) -> bytes | None:
        """Return the bytes of a file, or None if there is none. Raises FileTooLarge beyond `max_bytes`."""

        def work(stop: StopSignal) -> bytes | None:
            try:
                data = in_exact_folder(
                    file.real, lambda folder, name: read_bytes(folder, name, max_bytes, stop)
                )
            except FileNotFoundError:
                return None
            if len(data) > max_bytes:
                raise FileTooLarge(file, os.stat(file.real).st_size)
            return data

        return await self._run("read", file, work)

    async def read_lines(self, file: ResolvedFile, line: int, limit: int, max_bytes: int) -> bytes:
        """Return some lines of a file of any size.

        Raises FileTooLarge if they have more than `max_bytes` bytes.
        """

        def work(stop: StopSignal) -> bytes:
            descriptor = in_exact_folder(file.real, Folder.open_file)
            try:
                return read_lines(descriptor, line, limit, max_bytes, stop)
            except TextTooLong:
                raise FileTooLarge(file, max_bytes) from None
            finally:
                os.close(descriptor)

        return await self._run("read", file, work)

    async def write(self, file: ResolvedFile, data: bytes, expected: bytes | None) -> None:
        """Replace the file in one step if it still has the `expected` bytes (None: no file).

        Raises FileChanged.
        """

        def work(stop: StopSignal) -> None:
            def replace(folder: Folder, name: str) -> None:
                try:
                    current = read_bytes(folder, name, len(expected or b"") + 1, stop)
                except FileNotFoundError:
                    current = None
                if current != expected:
                    raise FileChanged(f"{file.path} was changed by another program just now; read it again")
                replace_file(folder, name, data, stop)

            in_exact_folder(file.real, replace, create=stop)

        async with self.recorded(file):
            await self._run("write", file, work)

    async def make_folder(self, file: ResolvedFile) -> None:
        """Create the missing parent folders of a file."""
        await self._run(
            "make a folder for",
            file,
            lambda stop: in_exact_folder(file.real, lambda folder, name: None, create=stop),
        )

    async def remove(self, file: ResolvedFile) -> None:
        """Remove a file, a link or an empty folder."""

        def work(stop: StopSignal) -> None:
            def remove(folder: Folder, name: str) -> None:
                is_folder = stat.S_ISDIR(folder.stat(name).st_mode)
                with stop.step():
                    (folder.remove_folder if is_folder else folder.remove)(name)

            in_exact_folder(file.real, remove)

        async with self.recorded(file):
            await self._run("delete", file, work)

    async def move(self, source: ResolvedFile, destination: ResolvedFile) -> None:
        """Rename a file or folder. Never replaces an existing one."""

        def work(stop: StopSignal) -> None:
            in_exact_folder(
                source.real,
                lambda folder, name: in_exact_folder(
                    destination.real,
                    lambda target, new_name: _move(folder, name, target, new_name, stop),
                    create=stop,
                ),
            )

        async with self.recorded(source, destination):
            await self._run("move", source, work)

    async def _run(self, verb: str, file: ResolvedFile, work: Callable[[StopSignal], T]) -> T:
        async with self._queue.slot(file.real) as slot:
            try:
                return await slot.run(work)
            except OSError as error:
                raise DiskError(f"cannot {verb} {file.path}: {_describe_os_error(error)}") from None


def _describe_os_error(error: OSError) -> str:
    if error.errno == errno.ENOTEMPTY:
        return "the folder is not empty"
    if error.errno == errno.ENOTDIR:
        return "a part of its path is not a folder"
    if error.errno == errno.ELOOP:
        return "a part of its path is a link"
    return (error.strerror or str(error)).lower()


def _move(source: Folder, name: str, target: Folder, new_name: str, stop: StopSignal) -> None:
    status = source.stat(name)
    try:
        with stop.step():
            _rename(source, name, target, new_name, is_file=stat.S_ISREG(status.st_mode))
    except OSError as error:
        if error.errno != errno.EXDEV or not stat.S_ISREG(status.st_mode):
            raise
        _copy(source, name, target, new_name)
        try:
            with stop.step():
                source.remove(name)
        except RequestCancelled:
            target.remove(new_name)
            raise


def _rename(source: Folder, name: str, target: Folder, new_name: str, *, is_file: bool) -> None:
    _refuse_existing(target, new_name)
    if is_file:
        try:
            source.link(name, target, new_name)  # unlike a rename, this never replaces another file
        except OSError as error:
            if error.errno not in _HARD_LINK_UNSUPPORTED:
                raise
        else:
            source.remove(name)
            return
    source.move(name, target, new_name)


def _refuse_existing(folder: Folder, name: str) -> None:
    with suppress(FileNotFoundError):
        folder.stat(name)
        raise FileExistsError(errno.EEXIST, f"{folder.path / name} exists already")


def _copy(source: Folder, name: str, target: Folder, new_name: str) -> None:
    """Copy a file to another file system, with its mode."""
    descriptor = source.open_file(name)
    with (
        os.fdopen(descriptor, "rb") as reader,
        os.fdopen(target.create_file(new_name, 0o600), "wb") as writer,
    ):
        try:
            shutil.copyfileobj(reader, writer, _CHUNK_BYTES)
            if sys.platform != "win32":
                os.fchmod(writer.fileno(), stat.S_IMODE(os.fstat(descriptor).st_mode))
        except BaseException:
            target.remove(new_name)
            raise
