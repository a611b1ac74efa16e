"""Resolves user-supplied paths and opens files without following links put there after the check."""

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

# MERGED coder.files.place: Where a path that somebody named leads.

_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4096


class BadPath(AccordError):
    """What was named is no path on this system."""


@dataclass(frozen=True, slots=True)
class ResolvedFile:
    """A file or folder, which need not exist."""

    path: str
    """Absolute, as the client knows it."""
    real: str
    """With links and `..` resolved: what the policy judges, and the only thing that is touched."""

    @property
    def name(self) -> str:
        """Its last part."""
        return os.path.basename(self.path)


def locate(named: str, cwd: str, *, follow: bool = True) -> ResolvedFile:
    """The place that a path means, from `cwd`; `~` and `file://` are understood. Raises NoPlace.

    Without `follow` a link at the end is not followed: it is itself what is meant. Looks at the disk.
    """
    text = unquote(urlsplit(named).path) if named.startswith("file://") else named
    if not text.strip():
        raise BadPath("the path is empty")
    if "\0" in text:
        raise BadPath(f"{text[:200]!r} is no path: it has a NUL character")
    joined = os.path.join(cwd, os.path.expanduser(text))
    try:
        encoded = joined.encode()
    except UnicodeEncodeError:
        raise BadPath(f"{text[:200]!r} is no path that this system can name") from None
    if len(encoded) >= _LONGEST_PATH or any(len(part) > _LONGEST_NAME for part in encoded.split(b"/")):
        raise BadPath(f"{text[:100]!r}... is too long for a path")
    path = os.path.normpath(joined)
    real = _real(joined, follow)
    return ResolvedFile(path if _real(path, follow) == real else real, real)


def insist_on_same(place: ResolvedFile) -> None:
    """Refuse a place that leads elsewhere by now: what was judged is what is used. Looks at the disk."""
    if os.path.realpath(place.real) != place.real:
        raise BadPath(f"{place.path} leads elsewhere now than it did when this was judged")


def _real(path: str, follow: bool) -> str:
    above, name = os.path.split(path.rstrip("/") or "/")
    if follow or name in ("", os.curdir, os.pardir):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(above), name)


# MERGED coder.files.disk: Files at exactly the place that was judged: every folder on the way is entered by name and no link is followed, so a
# link that is put there after the judgement leads nowhere. Blocking work runs in threads, in order for each file.

T = TypeVar("T")

_CHUNK: Final = 1024 * 1024
_NO_LINKS: Final = frozenset((errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK))


class DiskRefused(AccordError):
    """The disk did not do it; one line says why."""


class FileTooLarge(DiskRefused):
    """The file has more bytes than were asked for."""

    def __init__(self, place: ResolvedFile, size: int) -> None:
        super().__init__(f"{place.path} is too large: {size:,} bytes")
        self.size = size


class FileChanged(DiskRefused):
    """The file is not what it was a moment ago; nothing was written."""


class ExactDisk:
    """Reads, writes, removes and moves."""

    def __init__(self) -> None:
        self._disk = PathQueue()

    async def look(self, place: ResolvedFile) -> os.stat_result | None:
        """What stands there, links not followed; None for nothing."""

        def work(_: threading.Event) -> os.stat_result | None:
            try:
                return _reach(place.real, lambda folder, name: folder.look(name))
            except (FileNotFoundError, NotADirectoryError):
                return None

        return await self._do("look at", place, work)

    async def read(self, place: ResolvedFile, most: int) -> bytes | None:
        """The bytes of a file; None if there is none. Raises TooLarge past `most` bytes."""

        def work(stop: threading.Event) -> bytes | None:
            try:
                data = _reach(place.real, lambda folder, name: _bytes(folder, name, most, stop))
            except FileNotFoundError:
                return None
            if len(data) > most:
                raise FileTooLarge(place, os.stat(place.real).st_size)
            return data

        return await self._do("read", place, work)

    async def read_lines(self, place: ResolvedFile, line: int, limit: int, most: int) -> bytes:
        """Some lines of a file, however large it is. Raises TooLarge if they have more than `most` bytes."""

        def work(stop: threading.Event) -> bytes:
            descriptor = _reach(place.real, Folder.open_file)
            try:
                return read_lines(descriptor, line, limit, most, stop)
            except TextTooLong:
                raise FileTooLarge(place, most) from None
            finally:
                os.close(descriptor)

        return await self._do("read", place, work)

    async def write(self, place: ResolvedFile, data: bytes, expected: bytes | None) -> None:
        """Put these bytes in the place of those expected there (None: nothing), in one step. Raises Changed."""

        def work(stop: threading.Event) -> None:
            def replace(folder: Folder, name: str) -> None:
                try:
                    found = _bytes(folder, name, len(expected or b"") + 1, stop)
                except FileNotFoundError:
                    found = None
                if found != expected:
                    raise FileChanged(
                        f"{place.path} was changed by somebody else at this very moment; read it again"
                    )
                replace_file(folder, name, data, stop)

            _reach(place.real, replace, create=True)

        await self._do("write", place, work)

    async def make_folder(self, place: ResolvedFile) -> None:
        """Make the folders that a file at this place needs."""
        await self._do(
            "make a folder for", place, lambda _: _reach(place.real, lambda folder, name: None, create=True)
        )

    async def remove(self, place: ResolvedFile) -> None:
        """Remove a file, a link or an empty folder."""

        def work(_: threading.Event) -> None:
            def remove(folder: Folder, name: str) -> None:
                if stat.S_ISDIR(folder.look(name).st_mode):
                    folder.remove_folder(name)
                else:
                    folder.remove(name)

            _reach(place.real, remove)

        await self._do("delete", place, work)

    async def move(self, source: ResolvedFile, destination: ResolvedFile) -> None:
        """Give a file or folder another name; never over something that has that name already."""

        def work(stop: threading.Event) -> None:
            _reach(
                source.real,
                lambda here, old: _reach(
                    destination.real, lambda there, new: _move(here, old, there, new, stop), create=True
                ),
            )

        await self._do("move", source, work)

    async def _do(self, verb: str, place: ResolvedFile, work: Callable[[threading.Event], T]) -> T:
        async with self._disk.place(place.real) as line:
            try:
                return await line.run(work)
            except OSError as error:
                raise DiskRefused(f"cannot {verb} {place.path}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    if error.errno == errno.ENOTEMPTY:
        return "the folder is not empty"
    if error.errno == errno.ENOTDIR:
        return "a part of its path is not a folder"
    if error.errno == errno.ELOOP:
        return "a link was put in its way"
    return (error.strerror or str(error)).lower()


def _reach(real: str, act: Callable[[Folder, str], T], *, create: bool = False) -> T:
    """Call `act` with the folder that holds the file, and its name in it."""
    path = Path(real)
    if not path.name:
        raise IsADirectoryError(errno.EISDIR, "it is the root of the file system")
    folder = Folder(Path(path.anchor))
    for name in path.parts[1:-1]:
        with folder:
            folder = folder.enter(name, create=create)
    with folder:
        return act(folder, path.name)


def _bytes(folder: Folder, name: str, most: int, stop: threading.Event) -> bytes:
    """The bytes of a file, and of a larger one a few more than `most`."""
    kept = bytearray()
    descriptor = folder.open_file(name)
    try:
        while len(kept) <= most and not stop.is_set():
            chunk = os.read(descriptor, _CHUNK)
            if not chunk:
                break
            kept += chunk
    finally:
        os.close(descriptor)
    return bytes(kept)


def _move(here: Folder, old: str, there: Folder, new: str, stop: threading.Event) -> None:
    found = here.look(old)
    try:
        _refuse_existing(there, new)
        if stat.S_ISREG(found.st_mode):
            try:
                here.link(old, there, new)  # unlike a rename it never replaces what came there meanwhile
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                here.move(old, there, new)
            else:
                here.remove(old)
        else:
            here.move(old, there, new)
    except OSError as error:
        if error.errno != errno.EXDEV or not stat.S_ISREG(found.st_mode):
            raise
        _copy(here, old, there, new)
        here.remove(old)


def _refuse_existing(folder: Folder, name: str) -> None:
    with suppress(FileNotFoundError):
        folder.look(name)
        raise FileExistsError(errno.EEXIST, f"{folder.path / name} exists already")


def _copy(here: Folder, old: str, there: Folder, new: str) -> None:
    """To another file system: a new file with the same bytes and mode."""
    source = here.open_file(old)
    with os.fdopen(source, "rb") as reader, os.fdopen(there.make_file(new, 0o600), "wb") as writer:
        try:
            shutil.copyfileobj(reader, writer, _CHUNK)
            os.fchmod(writer.fileno(), stat.S_IMODE(os.fstat(source).st_mode))
        except BaseException:
            there.remove(new)
            raise
