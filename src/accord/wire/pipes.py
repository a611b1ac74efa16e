"""Bytes in and out of a file descriptor on the event loop: reads of at most 64 KiB, writes that join a turn's frames.

The first frame of a loop turn is written at once, so that an answer does not wait; the rest of that turn leaves in one
write. What the descriptor does not take stays queued, and whoever sends can wait for it to go. Descriptors that
cannot be waited for on the loop have the same two contracts in `threads.py`.
"""

import asyncio
import os
import stat
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

READ_SIZE: Final = 64 * 1024
"""The most one read takes. Larger buffers cost more to allocate than they save."""

HIGH_WATER: Final = 256 * 1024
"""Unsent bytes at which `drain` begins to wait; it ends at a quarter of that."""

_JOINED: Final = (
    64 * 1024
)  # a turn's frames leave early once they are this many bytes; longer frames are never copied
_PIECES: Final = 64  # buffers handed to one writev


class PipeReader(Protocol):
    """One descriptor being read."""

    def start(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        """Read from now on; `on_end` comes once, after the last data, unless `close` came first."""
        ...

    def pause(self) -> None:
        """Read nothing more for now."""
        ...

    def resume(self) -> None:
        """Read on."""
        ...

    def close(self) -> None:
        """Let the descriptor go; nothing is called any more. May be called twice."""
        ...

    def read_on(self, at_most: int) -> bytes:
        """What can be had right now without waiting."""
        ...


class PipeWriter(Protocol):
    """One descriptor being written."""

    def start(self, on_broken: Callable[[OSError], None]) -> None:
        """Write from now on. `on_broken` comes at most once, never from inside `write`; then everything is dropped."""
        ...

    def write(self, frame: bytes) -> None:
        """Queue a frame and its line end; never blocks, never raises."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes taken by `write` that the descriptor has not."""
        ...

    def below(self, size: int) -> asyncio.Future[None]:
        """Done once fewer than `size` bytes are unsent, or nothing will be sent any more."""
        ...

    def close(self) -> None:
        """Let the descriptor go and drop what is unsent. May be called twice."""
        ...


async def drain(writer: PipeWriter) -> None:
    """Wait while the writer is over the high-water mark."""
    if writer.unsent >= HIGH_WATER:
        await writer.below(HIGH_WATER // 4)


class WriteBacklog:
    """How many bytes wait to be written, and who waits for them to go."""

    __slots__ = ("_waiting", "closed", "size")

    def __init__(self) -> None:
        self.size = 0
        self.closed = False
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def below(self, size: int) -> asyncio.Future[None]:
        waiter = asyncio.get_running_loop().create_future()
        if self.size < size or self.closed:
            waiter.set_result(None)
        else:
            self._waiting.append((size, waiter))
        return waiter

    def sent(self, count: int) -> None:
        """So many bytes are gone."""
        self.size -= count
        if self._waiting:
            self._wake()

    def close(self) -> None:
        """Nothing will be sent any more."""
        self.size = 0
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for size, waiter in waiting:
            if self.size >= size and not self.closed:
                self._waiting.append((size, waiter))
            elif not waiter.done():
                waiter.set_result(None)


def _give_back(fd: int, blocking: bool) -> None:
    # A pipe may be shared with others, such as the next command of a shell script: they find it as it was. A socket
    # may be our own other direction, which goes on.
    if blocking and stat.S_ISFIFO(os.fstat(fd).st_mode):
        os.set_blocking(fd, True)
    os.close(fd)


class LoopReader:
    """Reads a pipe, a socket or a terminal whenever the loop finds it readable."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._blocking = os.get_blocking(fd)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._paused = False
        self._closed = False

    def start(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        os.set_blocking(self._fd, False)
        if not self._paused:
            self._loop.add_reader(self._fd, self._ready)

    def pause(self) -> None:
        if not self._paused and not self._closed:
            self._paused = True
            if self._loop is not None:
                self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if self._paused and not self._closed:
            self._paused = False
            if self._loop is not None:
                self._loop.add_reader(self._fd, self._ready)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        _give_back(self._fd, self._blocking)

    def read_on(self, at_most: int) -> bytes:
        parts: list[bytes] = []
        while at_most > 0 and not self._closed:
            try:
                data = os.read(self._fd, min(READ_SIZE, at_most))
            except OSError:
                break
            if not data:
                break
            parts.append(data)
            at_most -= len(data)
        return b"".join(parts)

    def _ready(self) -> None:
        try:
            data = os.read(self._fd, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""  # a terminal that hung up, a reset socket: an end like any other
        if data:
            self._on_data(data)
        else:
            self.close()
            self._on_end()


class LoopWriter:
    """Writes a descriptor as far as it takes something, and the rest when the loop finds it writable."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._blocking = os.get_blocking(fd)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._backlog = WriteBacklog()
        self._frames: list[bytes] = []  # whole frames, not yet gathered
        self._joinable = 0  # their bytes
        self._pieces: deque[bytes | memoryview] = deque()  # gathered, partly written
        self._hold = True  # frames of this turn wait for its end, or for the descriptor
        self._blocked = False

    def start(self, on_broken: Callable[[OSError], None]) -> None:
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        os.set_blocking(self._fd, False)
        self._turn_over()

    @property
    def unsent(self) -> int:
        return self._backlog.size

    def below(self, size: int) -> asyncio.Future[None]:
        return self._backlog.below(size)

    def write(self, frame: bytes) -> None:
        backlog = self._backlog
        if backlog.closed:
            return
        size = len(frame) + 1
        backlog.size += size
        if self._hold or self._loop is None:
            self._frames.append(frame)
            self._joinable += size
            if self._joinable >= _JOINED and not self._blocked and self._loop is not None:
                self._flush()
            return
        self._hold = True
        self._loop.call_soon(self._turn_over)
        if size > _JOINED:
            self._frames.append(frame)
            self._flush()
            return
        line = frame + b"\n"
        try:
            count = os.write(self._fd, line)
        except BlockingIOError:
            count = 0
        except OSError as error:
            self._break(error)
            return
        backlog.size -= count  # nobody waits: nothing was unsent before
        if count < size:
            self._pieces.append(memoryview(line)[count:])
            self._block()

    def close(self) -> None:
        if self._backlog.closed:
            return
        self._backlog.close()
        self._frames.clear()
        self._pieces.clear()
        if self._blocked and self._loop is not None and not self._loop.is_closed():
            self._loop.remove_writer(self._fd)
        _give_back(self._fd, self._blocking)

    def _turn_over(self) -> None:
        if not self._blocked:
            self._hold = False
            if self._frames:
                self._flush()

    def _flush(self) -> None:
        while self._frames or self._pieces:
            self._gather()
            try:
                count = os.writev(
                    self._fd, [*self._pieces] if len(self._pieces) <= _PIECES else self._some_pieces()
                )
            except BlockingIOError:
                self._block()
                return
            except OSError as error:
                self._break(error)
                return
            self._written(count)
        if self._blocked and not self._backlog.closed:
            self._blocked = False
            self._hold = False
            if self._loop is not None:
                self._loop.remove_writer(self._fd)

    def _some_pieces(self) -> list[bytes | memoryview]:
        return [self._pieces[index] for index in range(_PIECES)]

    def _gather(self) -> None:
        """Turn the waiting frames into few buffers: short ones joined, long ones as they are."""
        frames, self._frames, self._joinable = self._frames, [], 0
        run: list[bytes] = []
        for frame in frames:
            if len(frame) < _JOINED:
                run.append(frame)
                continue
            if run:
                run.append(b"")
                self._pieces.append(b"\n".join(run))
            self._pieces.append(frame)
            run = [b""]  # its line end leads what follows
        if run:
            run.append(b"")
            self._pieces.append(b"\n".join(run))

    def _written(self, count: int) -> None:
        pieces, left = self._pieces, count
        while left:
            piece = pieces.popleft()
            if len(piece) > left:
                pieces.appendleft(memoryview(piece)[left:])
                break
            left -= len(piece)
        self._backlog.sent(count)

    def _block(self) -> None:
        if not self._blocked and self._loop is not None:
            self._blocked = True
            self._hold = True
            self._loop.add_writer(self._fd, self._flush)

    def _break(self, error: OSError) -> None:
        self.close()
        if self._loop is not None:
            self._loop.call_soon(self._on_broken, error)
