"""Reads and writes file descriptors without blocking, on the event loop, and splits what is read into frames.

Reads take at most 64 KiB. A frame is written at once, so that a response does not wait. Frames that follow
within microseconds leave in one write at the end of the loop iteration, and a stream of notifications that
goes on over several iterations leaves in one write per millisecond. Bytes that the descriptor does not accept
stay queued, and senders can wait for them. `pipe_threads.py` implements the same contracts for descriptors
that the event loop cannot watch.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
import os
import stat
from collections import deque
from collections.abc import Callable
from itertools import islice
from time import monotonic
from typing import Final, Protocol

from accord.wire.transport import DEFAULT_LIMIT, OVERSIZED_SAMPLE, Frame, OversizedFrame, Receiver

READ_SIZE: Final = 64 * 1024
"""The size of one read. Larger buffers cost more to allocate than they save."""

HIGH_WATER: Final = 256 * 1024
"""Unsent bytes at which `drain` starts to wait; it returns at a quarter of that."""

_MAX_JOINED: Final = 64 * 1024
"""Flush early once this many bytes are queued. Longer frames are written without copying."""
_JOIN_SECONDS: Final = 20e-6
"""A frame that follows another so soon is queued. Later ones are not, so that a call in sequence needs no
further loop iteration."""
_STREAM_SECONDS: Final = 1e-3
"""How long the notifications of a stream are collected. A request or a response ends that."""
_STREAM_BEGINS: Final = 2
"""A stream begins when the frames of so many iterations in a row were joined."""
_NOTIFICATION: Final = b'{"jsonrpc":"2.0","method":'
"""How our notifications begin; what begins otherwise may be awaited by the peer."""
_MAX_BUFFERS: Final = 64
"""How many buffers one writev gets."""

_BOM: Final = b"\xef\xbb\xbf"
_CR: Final = b"\r"


class PipeReader(Protocol):
    """Reads one descriptor."""

    def start(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        """Start reading. `on_end` is called once, after the last data, unless `close` was called first."""
        ...

    def pause(self) -> None:
        """Stop reading until `resume`."""
        ...

    def resume(self) -> None:
        """Continue reading."""
        ...

    def close(self) -> None:
        """Close the descriptor; no callback is called any more. May be called twice."""
        ...

    def read_available(self, max_bytes: int) -> bytes:
        """Read what is available without waiting."""
        ...


class PipeWriter(Protocol):
    """Writes one descriptor."""

    def start(self, on_broken: Callable[[OSError], None]) -> None:
        """Start writing. On an error all frames are dropped and `on_broken` is called, outside of `write`."""
        ...

    def write(self, frame: bytes) -> None:
        """Queue a frame and its line end; never blocks, never raises."""
        ...

    @property
    def unsent(self) -> int:
        """Bytes accepted by `write` that the descriptor has not accepted."""
        ...

    def wait_below(self, size: int) -> asyncio.Future[None]:
        """Return a future that is done when fewer than `size` bytes are unsent or the writer is closed."""
        ...

    def close(self) -> None:
        """Close the descriptor and drop unsent bytes. May be called twice."""
        ...


async def drain(writer: PipeWriter) -> None:
    """Wait while the writer is above the high-water mark."""
    if writer.unsent >= HIGH_WATER:
        await writer.wait_below(HIGH_WATER // 4)


class WriteBacklog:
    """Counts the bytes that wait to be written, and wakes the callers that wait for them."""

    def __init__(self) -> None:
        self.unsent: int = 0
        self.closed: bool = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    def wait_below(self, size: int) -> asyncio.Future[None]:
        waiter = asyncio.get_running_loop().create_future()
        if self.unsent < size or self.closed:
            waiter.set_result(None)
        else:
            self._waiters.append((size, waiter))
        return waiter

    def remove_written(self, count: int) -> None:
        """Subtract written bytes."""
        self.unsent -= count
        if self._waiters:
            self._wake()

    def close(self) -> None:
        """Drop the count and wake all callers."""
        self.unsent = 0
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for size, waiter in waiters:
            if self.unsent >= size and not self.closed:
                self._waiters.append((size, waiter))
            elif not waiter.done():
                waiter.set_result(None)


def _close_descriptor(fd: int, was_blocking: bool) -> None:
    # Other programs may share a pipe, so restore its blocking mode. Do not do so for a socket: our other
    # direction may still use it.
    if was_blocking and stat.S_ISFIFO(os.fstat(fd).st_mode):
        os.set_blocking(fd, True)
    os.close(fd)


class LineFramer:
    """Splits a byte stream into frames, one per line: `feed` every read, then `finish` once at its end.

    A line ends with LF or CRLF. A byte order mark before a line is dropped, and so are blank lines. A line
    over the limit becomes one `OversizedFrame` and takes bounded memory: the stream goes on behind it. The
    result does not depend on how reads cut the stream.
    """

    __slots__ = ("_dropped", "_head", "_limit", "_line", "_longest_line")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        # A line longer than this is too long even without its byte order mark and its CR.
        self._longest_line = max(limit, OVERSIZED_SAMPLE + len(_CR)) + len(_BOM) + len(_CR)
        self._line = bytearray()  # the unfinished line; if it is oversized, only its last bytes
        self._dropped = 0  # dropped bytes of an oversized line
        self._head = b""  # the first bytes of an oversized line

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that these bytes complete, in order."""
        whole = data.startswith(b"{") and data.endswith(b"}\n") and len(data) <= self._limit
        if whole and not self._line and data.find(b"\n") == len(data) - 1:
            return [data[:-1]]  # one message, as calls in sequence are read
        lines = data.split(b"\n")
        unfinished = lines.pop()
        frames: list[Frame] = []
        if lines:
            if self._line:
                frames += self._finish_line(lines[0])
                del lines[0]
            if len(data) > self._limit or _CR in data or (_BOM[0] in data and _BOM in data):
                for line in lines:
                    frames += self._to_frame(line)
            else:
                frames += filter(bytes.strip, lines)
        if unfinished:
            self._append(unfinished)
        return frames

    def finish(self) -> list[Frame]:
        """Return the last line if the stream ended without a line end."""
        return self._finish_line(b"") if self._line else []

    def _append(self, part: bytes) -> None:
        line = self._line
        line += part
        if self._dropped:
            surplus = len(line) - OVERSIZED_SAMPLE - len(_CR)
            self._dropped += surplus
            del line[:surplus]
        elif len(line) > self._longest_line:
            bom_length = len(_BOM) if line.startswith(_BOM) else 0
            self._head = bytes(line[bom_length : bom_length + OVERSIZED_SAMPLE])
            self._line = line[-OVERSIZED_SAMPLE - len(_CR) :]
            self._dropped = len(line) - bom_length - len(self._line)

    def _finish_line(self, part: bytes) -> list[Frame]:
        self._append(part)
        line, dropped = self._line, self._dropped
        self._line, self._dropped = bytearray(), 0
        if not dropped:
            return self._to_frame(bytes(line))
        if line.endswith(_CR):
            del line[-1:]
        return [OversizedFrame(dropped + len(line), self._head, bytes(line[-OVERSIZED_SAMPLE:]))]

    def _to_frame(self, line: bytes) -> list[Frame]:
        line = line.removeprefix(_BOM).removesuffix(_CR)
        if len(line) > self._limit:
            return [OversizedFrame(len(line), line[:OVERSIZED_SAMPLE], line[-OVERSIZED_SAMPLE:])]
        return [line] if line.strip() else []


class FrameReader:
    """Reads the frames of one descriptor and gives them to a receiver, those of one read together."""

    def __init__(self, reader: PipeReader, limit: int = DEFAULT_LIMIT) -> None:
        self._reader = reader
        self._framer = LineFramer(limit)
        self._receiver: Receiver | None = None
        self._paused = False

    def start(self, receiver: Receiver, on_end: Callable[[], None]) -> None:
        """Start reading. `on_end` is called once, after the last frame, unless `close` was called first."""
        self._receiver = receiver

        def finish() -> None:
            try:
                self._receive(b"\n")
            finally:
                on_end()

        self._reader.start(self._receive, finish)

    def pause(self) -> None:
        self._paused = True
        self._reader.pause()

    def resume(self, *, drop: bool = False) -> None:
        """Continue reading. With `drop`, a reader that was paused drops what it reads."""
        self._paused = self._paused and drop
        self._reader.resume()

    def read_rest(self, max_bytes: int) -> None:
        """Deliver what can be read without waiting, also an unfinished line."""
        self._receive(self._reader.read_available(max_bytes) + b"\n")

    def close(self) -> None:
        self._reader.close()

    def _receive(self, data: bytes) -> None:
        frames = self._framer.feed(data)
        if frames and self._receiver is not None and not self._paused:
            self._receiver.frames(frames)


class LoopReader:
    """Reads a pipe, a socket or a terminal when the event loop finds it readable."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._was_blocking = os.get_blocking(fd)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._paused = False
        self._closed = False

    def start(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        os.set_blocking(self._fd, False)
        if not self._paused:
            self._loop.add_reader(self._fd, self._on_readable)

    def pause(self) -> None:
        if not self._paused and not self._closed:
            self._paused = True
            if self._loop is not None:
                self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if self._paused and not self._closed:
            self._paused = False
            if self._loop is not None:
                self._loop.add_reader(self._fd, self._on_readable)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        _close_descriptor(self._fd, self._was_blocking)

    def read_available(self, max_bytes: int) -> bytes:
        parts: list[bytes] = []
        while max_bytes > 0 and not self._closed:
            try:
                data = os.read(self._fd, min(READ_SIZE, max_bytes))
            except OSError:
                break
            if not data:
                break
            parts.append(data)
            max_bytes -= len(data)
        return b"".join(parts)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._fd, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""  # a closed terminal or a reset socket is a normal end
        if data:
            self._on_data(data)
        else:
            self.close()
            self._on_end()


class LoopWriter(WriteBacklog):
    """Writes what the descriptor accepts, and the rest when the event loop finds it writable."""

    unsent: int

    def __init__(self, fd: int) -> None:
        self._fd = fd
        super().__init__()
        self._was_blocking = os.get_blocking(fd)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queued_frames: list[bytes] = []  # whole frames, not joined yet
        self._buffers: deque[bytes | memoryview] = deque()  # joined frames, partly written
        self._direct_from = float("inf")  # the monotonic time from which a frame is written at once
        self._flush_scheduled = False
        self._joined_in_a_row = 0  # iterations
        self._stream_timer: asyncio.TimerHandle | None = None
        self._awaiting_writable = False

    def start(self, on_broken: Callable[[OSError], None]) -> None:
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        os.set_blocking(self._fd, False)
        self._direct_from = 0.0
        self._iteration_ended()

    def write(self, frame: bytes) -> None:
        if self.unsent or (now := monotonic()) < self._direct_from:
            if self.closed:
                return
            size = len(frame) + 1
            self.unsent += size
            self._queued_frames.append(frame)
            if self._loop is None or self._awaiting_writable:
                return
            if self.unsent >= _MAX_JOINED:  # all of it is queued
                self._flush()
            elif not self._flush_scheduled or (
                self._stream_timer is not None and not frame.startswith(_NOTIFICATION)
            ):
                self._schedule_flush(frame)
            return
        self._direct_from = now + _JOIN_SECONDS
        self._joined_in_a_row = 0
        size = len(frame) + 1
        if size > _MAX_JOINED:
            self.unsent += size
            self._queued_frames.append(frame)
            self._flush()
            return
        line = frame + b"\n"
        try:
            count = os.write(self._fd, line)
        except BlockingIOError:
            count = 0
        except OSError as error:
            self._fail(error)
            return
        if count < size:
            self.unsent += size - count
            self._buffers.append(memoryview(line)[count:])
            self._wait_until_writable()

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._direct_from = float("inf")
        self._end_stream()
        self._queued_frames.clear()
        self._buffers.clear()
        if self._awaiting_writable and self._loop is not None and not self._loop.is_closed():
            self._loop.remove_writer(self._fd)
        _close_descriptor(self._fd, self._was_blocking)

    def _schedule_flush(self, frame: bytes) -> None:
        assert self._loop is not None
        self._end_stream()
        self._flush_scheduled = True
        if self._joined_in_a_row >= _STREAM_BEGINS and frame.startswith(_NOTIFICATION):
            self._stream_timer = self._loop.call_later(_STREAM_SECONDS, self._iteration_ended)
        else:
            self._loop.call_soon(self._iteration_ended)

    def _end_stream(self) -> None:
        if self._stream_timer is not None:
            self._stream_timer.cancel()
            self._stream_timer = None

    def _iteration_ended(self) -> None:
        self._flush_scheduled = False
        self._end_stream()
        if self._queued_frames and not self._awaiting_writable:
            self._flush()
            self._joined_in_a_row += 1
            if not self.closed:
                self._direct_from = monotonic() + _JOIN_SECONDS

    def _flush(self) -> None:
        while self._queued_frames or self._buffers:
            self._join_frames()
            try:
                count = os.writev(self._fd, [*islice(self._buffers, _MAX_BUFFERS)])
            except BlockingIOError:
                self._wait_until_writable()
                return
            except OSError as error:
                self._fail(error)
                return
            self._remove_written(count)
        if self._awaiting_writable and not self.closed:
            self._awaiting_writable = False
            if self._loop is not None:
                self._loop.remove_writer(self._fd)

    def _join_frames(self) -> None:
        """Turn the waiting frames into few buffers: join short ones, keep long ones."""
        frames, self._queued_frames = self._queued_frames, []
        short_frames: list[bytes] = []
        for frame in frames:
            if len(frame) < _MAX_JOINED:
                short_frames.append(frame)
                continue
            if short_frames:
                short_frames.append(b"")
                self._buffers.append(b"\n".join(short_frames))
            self._buffers.append(frame)
            short_frames = [b""]  # the line end of the long frame starts the next buffer
        if short_frames:
            short_frames.append(b"")
            self._buffers.append(b"\n".join(short_frames))

    def _remove_written(self, count: int) -> None:
        buffers, remaining = self._buffers, count
        while remaining:
            buffer = buffers.popleft()
            if len(buffer) > remaining:
                buffers.appendleft(memoryview(buffer)[remaining:])
                break
            remaining -= len(buffer)
        self.remove_written(count)

    def _wait_until_writable(self) -> None:
        if not self._awaiting_writable and self._loop is not None:
            self._awaiting_writable = True
            self._loop.add_writer(self._fd, self._flush)

    def _fail(self, error: OSError) -> None:
        self.close()
        if self._loop is not None:
            self._loop.call_soon(self._on_broken, error)
