"""Reads and writes descriptors that the event loop cannot watch: files, Windows pipes, shared open files.

Implements the contracts of `pipes.py` with one daemon thread each, which makes the blocking calls. A thread
that is stuck in a call does not delay the end of the program. Imported on first use.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from accord.wire.pipes import READ_SIZE, WriteBacklog


def _call_on_loop(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: object) -> bool:
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        return False  # the loop is closed
    return True


class ThreadReader:
    """Reads in a thread, at most one read ahead of the event loop."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._may_read = threading.Semaphore(0)
        self._thread_waits = True
        self._read_before_pause: bytes | None = None
        self._paused = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._read, args=(loop,), name="accord-reader", daemon=True)
        self._thread.start()
        self._let_thread_read()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        data, self._read_before_pause = self._read_before_pause, None
        if data is None:
            self._let_thread_read()
        else:
            asyncio.get_running_loop().call_soon(self._deliver, data)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._thread is None:
            os.close(self._fd)
        self._may_read.release()

    def read_available(self, max_bytes: int) -> bytes:
        """Return nothing: only the thread reads."""
        return b""

    def _let_thread_read(self) -> None:
        if self._thread_waits and not self._paused and self._thread is not None:
            self._thread_waits = False
            self._may_read.release()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        # Only the thread closes the descriptor: closed during a read, its number could belong to another
        # file.
        data = b"?"
        while data:
            self._may_read.acquire()
            if self._closed:
                break
            try:
                data = os.read(self._fd, READ_SIZE)
            except OSError:
                data = b""
            if not _call_on_loop(loop, self._deliver, data):
                break
        os.close(self._fd)

    def _deliver(self, data: bytes) -> None:
        if self._closed:
            return
        if self._paused:
            self._read_before_pause = data
            return
        self._thread_waits = bool(data)
        if not data:
            self._closed = True
            self._on_end()
            return
        self._on_data(data)
        self._let_thread_read()


class ThreadWriter(WriteBacklog):
    """Writes in a thread, in order; the loop hands over one batch per iteration."""

    unsent: int

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._frames: list[bytes] = []
        self._batches: SimpleQueue[list[bytes] | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduled = False

    def start(self, on_broken: Callable[[OSError], None]) -> None:
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._write, args=(self._loop,), name="accord-writer", daemon=True).start()
        if self._frames:
            self._queue_batch()

    def write(self, frame: bytes) -> None:
        if self.closed:
            return
        self.unsent += len(frame) + 1
        self._frames.append(frame)
        if self._loop is not None and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._queue_batch)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._frames.clear()
        if self._loop is None:
            os.close(self._fd)
        self._batches.put(None)

    def _queue_batch(self) -> None:
        self._scheduled = False
        if self._frames:
            self._batches.put(self._frames)
            self._frames = []

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while (frames := self._batches.get()) is not None and not self.closed:
                data = memoryview(b"\n".join([*frames, b""]))
                while data:
                    count = os.write(self._fd, data)
                    data = data[count:]
                    if not _call_on_loop(loop, self._sent, count):
                        return
        except OSError as error:
            _call_on_loop(loop, self._fail, error)
        finally:
            os.close(self._fd)

    def _sent(self, count: int) -> None:
        if not self.closed:
            self.remove_written(count)

    def _fail(self, error: OSError) -> None:
        if not self.closed:
            self.close()
            self._on_broken(error)
