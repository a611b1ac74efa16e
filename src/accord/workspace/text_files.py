"""Read text files by lines, write them whole, in order for each path."""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakValueDictionary

from accord.errors import InternalError, InvalidParams, NotFound, RequestCancelled, RpcError
from accord.workspace.roots import AnyPath, Folder, Roots, replace_file, shown

# MERGED workspace.lines: Lines of a text as `fs/read_text_file` counts them: the first is 1, and only a line feed ends one.
#
# Line ends stay as they are, the last one included, so that parts read one after the other join to the original.

_CHUNK: Final = 256 * 1024


class TextTooLong(Exception):
    """More bytes were asked for than the bound allows."""


def check_count(name: str, value: object) -> None:
    """Refuse a `line` or `limit` that is no whole number from 0 on."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return
    raise InvalidParams(f"{name} must be a whole number from 0 on, not {value!r:.80}")


def lines_of(text: str, line: int | None, limit: int | None) -> str:
    """Of a whole text, `limit` lines from `line` on; "" past the end."""
    start = _after(text, "\n", max(line or 1, 1) - 1, 0)
    if start is None:
        return ""
    return text[start : None if limit is None else _after(text, "\n", limit, start)]


def read_lines(
    descriptor: int, line: int | None, limit: int | None, bound: int, stop: threading.Event
) -> bytes:
    """The same out of an open file, in chunks: memory stays within `bound`, however long the file is.

    Raises TooLong past the bound, RequestCancelled once `stop` is set.
    """
    skip = max(line or 1, 1) - 1
    kept = bytearray()
    while limit is None or limit > 0:
        if stop.is_set():
            raise RequestCancelled()
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        if skip:
            ends = chunk.count(b"\n")
            start = _after(chunk, b"\n", skip, 0)
            skip = max(skip - ends, 0)
            if start is None:
                continue
            chunk = chunk[start:]
        if limit is not None:
            ends = chunk.count(b"\n")
            chunk = chunk[: _after(chunk, b"\n", limit, 0)]
            limit = max(limit - ends, 0)
        kept += chunk
        if len(kept) > bound:
            raise TextTooLong
    return bytes(kept)


def _after(text: str | bytes, end: str | bytes, count: int, start: int) -> int | None:
    """The position behind the `count`-th line end from `start` on; None where there are fewer."""
    for _ in range(count):
        start = text.find(end, start) + 1  # pyright: ignore[reportArgumentType]
        if not start:
            return None
    return start


# MERGED workspace.disk: Blocking work off the event loop, in order for each path: calls on one path take effect in the order they were made,
# calls on different paths do not wait for each other.

T = TypeVar("T")

Work = Callable[[threading.Event], T]


class PathQueue:
    """Hands out places in the line of each path."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, path: str) -> "AsyncGenerator[PathTicket]":
        """Wait for the calls made earlier on this path; those made later wait for this one."""
        lock = self._locks.setdefault(path, asyncio.Lock())
        await lock.acquire()
        place = PathTicket()
        try:
            yield place
        finally:
            place.when_idle(lock.release)


class PathTicket:
    """One call's place in the line."""

    def __init__(self) -> None:
        self._running: asyncio.Future[Any] | None = None

    async def run(self, work: Work[T]) -> T:
        """Do the work in a thread. A caller that is cancelled leaves at once; the work is told to stop by the event it
        was given, and keeps its place until it has, so that a late write never lands on top of the next one."""
        stop = threading.Event()
        running = asyncio.get_running_loop().run_in_executor(None, work, stop)
        self._running = running
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            raise

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back once no work is under way; at once when none is."""
        if self._running is None or self._running.done():
            callback()
            return

        def finished(done: asyncio.Future[Any]) -> None:
            if not done.cancelled():
                done.exception()  # nobody is left to see it
            callback()

        self._running.add_done_callback(finished)


# MERGED workspace.files: Text files within the roots: reading by lines, writing whole.
#
# The text that comes back is the file: line ends and a byte order mark are kept, and a file that is not UTF-8 is refused
# rather than repaired, so that writing a text back never damages what was read. A write replaces the file in one step
# (readers see the old text or the new one), keeps its mode, and goes to the target of a link inside the roots.

DEFAULT_MAX_BYTES: Final = 50 * 1024 * 1024
# What the caller can do something about; anything else is the machine's trouble.
_CALLERS_FAULT: Final = frozenset(
    (
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.EINVAL,
        errno.ENAMETOOLONG,
    )
)


class EditorBuffers(Protocol):
    """Texts that are open in an editor and may differ from the disk. Called on the event loop, with resolved paths."""

    def read(self, path: Path) -> str | None:
        """The text as the user sees it, or None where the file is not open."""
        ...

    def write(self, path: Path, text: str) -> bool:
        """Take the text over (and save it, if that is the editor's way); False leaves it to the disk."""
        ...


class TextFiles:
    """Reads and writes text files for one session."""

    def __init__(
        self,
        roots: Roots,
        *,
        buffers: EditorBuffers | None = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        missing_is_empty: bool = False,
    ) -> None:
        """`max_bytes` bounds what one read returns; `missing_is_empty` is for agents that read what they will create."""
        self.roots = roots
        self._buffers = buffers
        self._max_bytes = max_bytes
        self._missing_is_empty = missing_is_empty
        self._disk = PathQueue()

    async def read_text(self, path: AnyPath, line: int | None = None, limit: int | None = None) -> str:
        """The text of a file, or `limit` lines of it from `line` on (the first is 1; 0 counts as 1; "" past the end).

        Raises OutsideRoots, NotFound, or InvalidParams for what is no readable UTF-8 text of bearable size.
        """
        check_count("line", line)
        check_count("limit", limit)
        async with self._disk.place(str(path)) as place:
            if self._buffers is not None:
                text = self._buffers.read(await place.run(lambda _: self.roots.resolve(path)))
                if text is not None:
                    return lines_of(text, line, limit)
            return await place.run(lambda stop: self._read(path, line, limit, stop))

    async def write_text(self, path: AnyPath, content: str) -> None:
        """Make `content` the whole text of the file; it and its folders are created where they are missing.

        Raises OutsideRoots, or InvalidParams for what may not be written.
        """
        data = _encode(path, content)
        async with self._disk.place(str(path)) as place:
            if self._buffers is not None:
                target = await place.run(lambda _: self.roots.resolve(path))
                if self._buffers.write(target, content):
                    return
            await place.run(lambda stop: self._write(path, data, stop))

    def _read(self, path: AnyPath, line: int | None, limit: int | None, stop: threading.Event) -> str:
        try:
            descriptor = self.roots.reach(path, Folder.open_file)
        except FileNotFoundError:
            if self._missing_is_empty:
                return ""
            raise NotFound(f"{shown(path)} does not exist", {"uri": _uri(path)}) from None
        except OSError as error:
            raise _refusal("read", path, error) from None
        try:
            if line is None and limit is None and os.fstat(descriptor).st_size > self._max_bytes:
                raise TextTooLong
            data = read_lines(descriptor, line, limit, self._max_bytes, stop)
            return data.decode()
        except TextTooLong:
            raise InvalidParams(
                f"{shown(path)} is too large: {os.fstat(descriptor).st_size} bytes, and one answer holds at most "
                f"{self._max_bytes}; ask for fewer lines with line and limit"
            ) from None
        except UnicodeDecodeError as error:
            raise InvalidParams(
                f"{shown(path)} is not text: byte {error.object[error.start]:#04x} is not UTF-8 "
                f"(at {error.start} of what was asked for)"
            ) from None
        except OSError as error:
            raise _refusal("read", path, error) from None
        finally:
            os.close(descriptor)

    def _write(self, path: AnyPath, data: bytes, stop: threading.Event) -> None:
        try:
            self.roots.reach(path, lambda folder, name: replace_file(folder, name, data, stop), create=True)
        except FileNotFoundError as error:
            # Folders inside a root are made; the root itself is not ours to make.
            raise NotFound(
                f"cannot write {shown(path)}: its root folder does not exist", {"uri": _uri(path)}
            ) from error
        except OSError as error:
            raise _refusal("write", path, error) from None


def _encode(path: AnyPath, content: str) -> bytes:
    if not isinstance(content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidParams(f"content must be a string, not {type(content).__name__}")
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise InvalidParams(
            f"cannot write {shown(path)}: the text has half a character (a lone surrogate) at position {error.start}"
        ) from None


def _uri(path: AnyPath) -> str:
    return Path(path).as_uri()


def _refusal(verb: str, path: AnyPath, error: OSError) -> RpcError:
    kind = InvalidParams if error.errno in _CALLERS_FAULT else InternalError
    return kind(f"cannot {verb} {shown(path)}: {error.strerror or error}")
