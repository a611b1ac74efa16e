"""Reader and writer for descriptors that the loop cannot wait for: regular files, Windows pipes, shared descriptions.

One daemon thread each does the blocking calls and hands over to the loop; the contracts are those of `pipes.py`. A
thread stuck in a call never holds up the end of the program.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from accord.wire.pipes import READ_SIZE, WriteBacklog


def _report(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: object) -> bool:
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        return False  # the loop is closed; nobody is left to tell
    return True


class ThreadReader:
    """Reads in a thread, one piece ahead of the loop at most."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._may_read = threading.Semaphore(0)
        self._due = True  # the thread waits to be let go on
        self._held: bytes | None = None  # read before a pause was asked for
        self._paused = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._read, args=(loop,), name="accord-reader", daemon=True)
        self._thread.start()
        self._go_on()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        held, self._held = self._held, None
        if held is None:
            self._go_on()
        else:
            asyncio.get_running_loop().call_soon(self._deliver, held)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._thread is None:
            os.close(self._fd)
        self._may_read.release()

    def read_on(self, at_most: int) -> bytes:
        """Nothing: only the thread reads."""
        return b""

    def _go_on(self) -> None:
        if self._due and not self._paused and self._thread is not None:
            self._due = False
            self._may_read.release()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        # The descriptor is closed here and nowhere else: closed under a running read, its number could be another's.
        data = b"?"
        while data:
            self._may_read.acquire()
            if self._closed:
                break
            try:
                data = os.read(self._fd, READ_SIZE)
            except OSError:
                data = b""
            if not _report(loop, self._deliver, data):
                break
        os.close(self._fd)

    def _deliver(self, data: bytes) -> None:
        if self._closed:
            return
        if self._paused:
            self._held = data
            return
        self._due = bool(data)
        if not data:
            self._closed = True
            self._on_end()
            return
        self._on_data(data)
        self._go_on()


class ThreadWriter:
    """Writes in a thread, in order; one hand-over a loop turn."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._backlog = WriteBacklog()
        self._frames: list[bytes] = []
        self._batches: SimpleQueue[list[bytes] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled = False

    def start(self, on_broken: Callable[[OSError], None]) -> None:
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._write, args=(self._loop,), name="accord-writer", daemon=True).start()
        if self._frames:
            self._hand_over()

    @property
    def unsent(self) -> int:
        return self._backlog.size

    def below(self, size: int) -> asyncio.Future[None]:
        return self._backlog.below(size)

    def write(self, frame: bytes) -> None:
        if self._backlog.closed:
            return
        self._backlog.size += len(frame) + 1
        self._frames.append(frame)
        if self._loop is not None and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._hand_over)

    def close(self) -> None:
        if self._backlog.closed:
            return
        self._backlog.close()
        self._frames.clear()
        if self._loop is None:
            os.close(self._fd)
        self._batches.put(None)

    def _hand_over(self) -> None:
        self._scheduled = False
        if self._frames:
            self._batches.put(self._frames)
            self._frames = []

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while (frames := self._batches.get()) is not None and not self._backlog.closed:
                data = memoryview(b"\n".join([*frames, b""]))
                while data:
                    count = os.write(self._fd, data)
                    data = data[count:]
                    if not _report(loop, self._sent, count):
                        return
        except OSError as error:
            _report(loop, self._break, error)
        finally:
            os.close(self._fd)

    def _sent(self, count: int) -> None:
        if not self._backlog.closed:
            self._backlog.sent(count)

    def _break(self, error: OSError) -> None:
        if not self._backlog.closed:
            self.close()
            self._on_broken(error)
