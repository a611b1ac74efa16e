"""Text files within the roots: reads them by lines and writes them whole, in order for each path.

Line ends and a byte order mark are kept, and a file that is not UTF-8 is refused, so that writing a text back
never damages the file. A write replaces the file in one step, keeps its mode, and follows a link within the
roots.
"""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakValueDictionary

from accord.errors import InternalError, InvalidParams, NotFound, RequestCancelled, RpcError
from accord.workspace.roots import CURRENT_STOP, AnyPath, Folder, Roots, StopSignal, quote_value, replace_file

_CHUNK: Final = 256 * 1024
_FAST_READ: Final = 0.005
"""For at most so many seconds a read may block the event loop."""


class TextTooLong(Exception):
    """The text has more bytes than allowed."""


def check_count(name: str, value: object) -> None:
    """Raise InvalidParams if a `line` or `limit` is not a whole number of at least 0."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return
    raise InvalidParams(f"{name} must be a whole number of at least 0, not {value!r:.80}")


def lines_of(text: str, line: int | None, limit: int | None) -> str:
    """Return `limit` lines of a text from `line` on; "" after the end.

    The first line is 1, and only a line feed ends a line. Line ends are kept, so that parts join to the
    original.
    """
    start = _after_line_ends(text, "\n", max(line or 1, 1) - 1, 0)
    if start is None:
        return ""
    return text[start : None if limit is None else _after_line_ends(text, "\n", limit, start)]


def read_lines(
    descriptor: int, line: int | None, limit: int | None, max_bytes: int, stop: StopSignal
) -> bytes:
    """Return the same lines of an open file. Uses at most about `max_bytes` bytes of memory for any file.

    Raises TextTooLong above `max_bytes`, and RequestCancelled when `stop` is set.
    """
    skip = max(line or 1, 1) - 1
    data = bytearray()
    while limit is None or limit > 0:
        if stop.is_set():
            raise RequestCancelled()
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            break
        if skip:
            line_ends = chunk.count(b"\n")
            start = _after_line_ends(chunk, b"\n", skip, 0)
            skip = max(skip - line_ends, 0)
            if start is None:
                continue
            chunk = chunk[start:]
        if limit is not None:
            line_ends = chunk.count(b"\n")
            chunk = chunk[: _after_line_ends(chunk, b"\n", limit, 0)]
            limit = max(limit - line_ends, 0)
        data += chunk
        if len(data) > max_bytes:
            raise TextTooLong
    return bytes(data)


def _after_line_ends(text: str | bytes, end: str | bytes, count: int, start: int) -> int | None:
    """Return the position after the `count`-th line end from `start` on; None if there are fewer."""
    for _ in range(count):
        start = text.find(end, start) + 1  # pyright: ignore[reportArgumentType]
        if not start:
            return None
    return start


T = TypeVar("T")

Work = Callable[[StopSignal], T]


class PathQueue:
    """Runs blocking work in threads: in call order for each path, in parallel for different paths."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def uses(self, path: str) -> bool:
        """Return whether a call on this path has not ended."""
        return path in self._locks

    @asynccontextmanager
    async def slot(self, path: str) -> "AsyncGenerator[PathSlot]":
        """Wait for earlier calls on this path. Later calls wait for this one."""
        lock = self._locks.setdefault(path, asyncio.Lock())
        await lock.acquire()
        slot = PathSlot()
        try:
            yield slot
        finally:
            slot.when_idle(lock.release)


class PathSlot:
    """The time in which one call has a path to itself."""

    def __init__(self) -> None:
        self._running: asyncio.Future[Any] | None = None

    async def run(self, work: Work[T]) -> T:
        """Run the work in a thread.

        A canceled caller returns immediately and sets the signal of the work. The slot lasts until the work
        has ended, so that a late write cannot overwrite the next one.
        """
        stop = StopSignal(CURRENT_STOP.get())
        running = asyncio.get_running_loop().run_in_executor(None, work, stop)
        self._running = running
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            raise

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call back when no work runs; immediately if none does."""
        if self._running is None or self._running.done():
            callback()
            return

        def finished(done: asyncio.Future[Any]) -> None:
            if not done.cancelled():
                done.exception()  # mark it as retrieved; the caller is gone
            callback()

        self._running.add_done_callback(finished)


_NO_STOP: Final = StopSignal()  # never set
DEFAULT_MAX_BYTES: Final = 50 * 1024 * 1024
# Errors that the caller can fix. All others are errors of this machine.
_CALLER_ERRORS: Final = frozenset((
    errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EINVAL,
    errno.ENAMETOOLONG,
))  # fmt: skip


class EditorBuffers(Protocol):
    """Texts that are open in an editor and may be unsaved. Called on the event loop, with resolved paths."""

    def read(self, path: Path) -> str | None:
        """Return the text in the editor, or None if the file is not open."""
        ...

    def write(self, path: Path, text: str) -> bool:
        """Take the text and return True, or return False to have it written to disk."""
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
        check_write: Callable[[Path], None] | None = None,
    ) -> None:
        """Bound one read to `max_bytes`.

        `missing_is_empty` helps agents that read a file before they create it. `check_write` gets the
        resolved path of a file before it is written, in a thread, and raises RpcError to refuse that.
        """
        self.roots: Roots = roots
        self._buffers = buffers
        self._max_bytes = max_bytes
        self._missing_is_empty = missing_is_empty
        self._check_write = check_write
        self._queue = PathQueue()
        self._fast_folder: str | None = None  # where the last read was fast

    async def read_text(self, path: AnyPath, line: int | None = None, limit: int | None = None) -> str:
        """Return the text of a file, or `limit` lines from `line` on (the first is 1, 0 means 1, "" after the
        end).

        Raises OutsideRoots, NotFound, or InvalidParams if the file is unreadable, too large or not UTF-8.
        """
        text = self.read_now(path, line, limit)
        if text is not None:
            return text
        async with self._queue.slot(str(path)) as slot:
            if self._buffers is not None:
                text = self._buffers.read(await slot.run(lambda _: self.roots.resolve(path)))
                if text is not None:
                    return lines_of(text, line, limit)
            text = await slot.run(lambda stop: self._read(path, line, limit, stop))
            assert text is not None, "only an inline read returns None"
            return text

    def read_now(self, path: AnyPath, line: int | None = None, limit: int | None = None) -> str | None:
        """Do the same on the event loop, without a thread. None if that could take long.

        A small file is read so if the last read in its folder was fast and no other call uses the path.
        """
        if line is not None or limit is not None:
            check_count("line", line)
            check_count("limit", limit)
        text = os.fspath(path)
        if text.rpartition(os.sep)[0] != self._fast_folder or self._queue.uses(text):
            return None
        if self._buffers is not None:
            open_text = self._buffers.read(self.roots.resolve(path))
            if open_text is not None:
                return lines_of(open_text, line, limit)
        return self._read(path, line, limit, CURRENT_STOP.get() or _NO_STOP, inline=True)

    async def write_text(self, path: AnyPath, content: str) -> None:
        """Replace the whole text of a file. Creates missing folders.

        Raises OutsideRoots, or InvalidParams if the file cannot be written.
        """
        data = _encode(path, content)
        stop = CURRENT_STOP.get()
        if stop is not None:
            stop.writing = True
        async with self._queue.slot(str(path)) as slot:
            if self._buffers is not None:
                target = await slot.run(lambda _: self.roots.resolve(path))
                if self._buffers.write(target, content):
                    return
            await slot.run(lambda stop: self._write(path, data, stop))

    def _read(
        self, path: AnyPath, line: int | None, limit: int | None, stop: StopSignal, *, inline: bool = False
    ) -> str | None:
        """Read a file. `inline`: on the event loop; a large file is left alone and gives None."""
        began = perf_counter()
        try:
            descriptor, size = self.roots.open_file(path)
        except FileNotFoundError:
            if self._missing_is_empty:
                return ""
            raise NotFound(f"{quote_value(path)} does not exist", {"uri": _uri(path)}) from None
        except OSError as error:
            raise _disk_error("read", path, error) from None
        try:
            if inline and size > _CHUNK:
                return None
            if line is None and limit is None:
                if size > self._max_bytes:
                    raise TextTooLong
                if size < _CHUNK:
                    data = os.read(descriptor, size + 1)
                    if len(data) == size:  # otherwise the file is being written, or has no known size
                        return data.decode()
                    os.lseek(descriptor, 0, os.SEEK_SET)
            data = read_lines(descriptor, line, limit, self._max_bytes, stop)
            return data.decode()
        except TextTooLong:
            raise InvalidParams(
                f"{quote_value(path)} is too large: {os.fstat(descriptor).st_size} bytes, "
                f"and one response has at most {self._max_bytes}; read fewer lines with line and limit"
            ) from None
        except UnicodeDecodeError as error:
            raise InvalidParams(
                f"{quote_value(path)} is not text: byte {error.object[error.start]:#04x} is not UTF-8 "
                f"(at position {error.start} of the requested text)"
            ) from None
        except OSError as error:
            raise _disk_error("read", path, error) from None
        finally:
            os.close(descriptor)
            if perf_counter() - began >= _FAST_READ:
                self._fast_folder = None
            elif not inline:
                self._fast_folder = os.fspath(path).rpartition(os.sep)[0]

    def _write(self, path: AnyPath, data: bytes, stop: StopSignal) -> None:
        def write(folder: Folder, name: str) -> None:
            if self._check_write is not None:
                self._check_write(folder.path / name)  # again: a link may have changed meanwhile
            replace_file(folder, name, data, stop)

        if self._check_write is not None:
            self._check_write(self.roots.resolve(path))  # before folders are created
        try:
            self.roots.with_parent_folder(path, write, create=stop)
        except FileNotFoundError as error:
            # Folders inside a root are created, but never the root itself.
            raise NotFound(
                f"cannot write {quote_value(path)}: its root folder does not exist", {"uri": _uri(path)}
            ) from error
        except OSError as error:
            raise _disk_error("write", path, error) from None


def _encode(path: AnyPath, content: str) -> bytes:
    if not isinstance(content, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidParams(f"content must be a string, not {type(content).__name__}")
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise InvalidParams(
            f"cannot write {quote_value(path)}: the text has a lone surrogate at position {error.start}"
        ) from None


def _uri(path: AnyPath) -> str:
    return Path(path).as_uri()


def _disk_error(verb: str, path: AnyPath, error: OSError) -> RpcError:
    kind = InvalidParams if error.errno in _CALLER_ERRORS else InternalError
    return kind(f"cannot {verb} {quote_value(path)}: {error.strerror or error}")
