"""Writes a recording: a thread splits frames, redacts and appends them, so that the connection never waits.

Data that arrives faster than it can be written is queued up to a limit, then dropped, and the file notes it.
A disk that fails costs the recording and one warning, never the connection.
"""

import asyncio
import atexit
import contextlib
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from accord.clock import SYSTEM_CLOCK, Clock
from accord.errors import UsageError
from accord.trace.text_redaction import StderrRedactor, redact_text
from accord.trace.trace_format import (
    Sender,
    Side,
    TraceEntry,
    entry_line,
    frame_line,
    make_start,
    start_line,
    stderr_entry,
)
from accord.wire.pipes import LineFramer
from accord.wire.transport import Frame, TransportEnd

MAX_PENDING: Final = 64 * 1024 * 1024
"""Bytes that may wait for the disk before data is dropped. An empty queue takes a frame of any size."""

_WRITE_INTERVAL: Final = 0.005
"""Seconds between two writes; what arrives in between is written together."""
_BATCH_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class _QueuedData:
    """The bytes of one read, complete frames, or the end of a stream."""

    at: float
    sender: Sender
    data: bytes | None = None
    frames: Sequence[Frame] = ()
    size: int = 0


class FileSink:
    """A sink that appends one run to a file of mode 0600. Raises UsageError if the file cannot be opened.

    `by` names the recording program, `command` is the agent's command line, `warn` gets the one warning.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        by: str = "",
        command: Sequence[str] = (),
        redact: bool = True,
        max_pending: int = MAX_PENDING,
        warn: Callable[[str], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.path: str = os.fspath(path)
        self.run: str = os.urandom(3).hex()
        self._redact = redact
        self._max_pending = max_pending
        self._warn = _warn_on_stderr if warn is None else warn
        self._clock = clock
        self._started = clock.now()
        self._lock = threading.Lock()
        self._queue: list[_QueuedData | TraceEntry] = []
        self._pending = 0
        self._dropped: dict[Sender, tuple[int, int]] = {}
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._failed = False
        self._framers: dict[Sender, LineFramer] = {}
        self._stderr_redactor = StderrRedactor()
        self._fd, missing_newline = _open_file(self.path)
        started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        start = make_start(self.run, started, by=by, command=command, redact=redact)
        self._write(missing_newline + start_line(start))
        self._thread = threading.Thread(target=self._write_queue, name="accord-trace", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def now(self) -> float:
        """Seconds since the start of the run."""
        return self._clock.now() - self._started

    def add_frames(self, sender: Side, frames: Sequence[Frame]) -> None:
        """Take complete frames of one side."""
        size = sum(len(frame) if isinstance(frame, bytes) else len(frame.head) for frame in frames)
        self._enqueue(_QueuedData(self.now, sender, frames=frames, size=size), size)

    def add_bytes(self, sender: Sender, data: bytes) -> None:
        """Take the next bytes of a stream, split anywhere."""
        self._enqueue(_QueuedData(self.now, sender, data, size=len(data)), len(data))

    def end_stream(self, sender: Sender) -> None:
        """End a stream of bytes. A last line without a line end counts as a line."""
        self._enqueue(_QueuedData(self.now, sender), 0)

    def add_closed(self, sender: Side, reason: str = "") -> None:
        """Note that a side closed its output."""
        self.end_stream(sender)
        reason = redact_text(reason) if self._redact else reason
        self._enqueue(TraceEntry(run=self.run, at=self.now, kind="closed", sender=sender, reason=reason), 0)

    def add_exit(self, code: int | None, signal: str | None) -> None:
        """Note the agent's exit."""
        self._enqueue(TraceEntry(run=self.run, at=self.now, kind="exit", code=code, signal=signal), 0)

    def ended(self, end: TransportEnd, sender: Side) -> None:
        """Note the end of a transport whose other side is `sender`."""
        self.add_closed(sender, end.reason)
        if end.exit_code is not None or end.signal is not None:
            self.add_exit(end.exit_code, end.signal)

    def close(self, seconds: float = 2.0) -> None:
        """Write the queue, for at most this long, and close the file.

        Warns if that takes too long. Idempotent.
        """
        already_closing = self._closing.is_set()
        self._closing.set()
        self._wake.set()
        self._thread.join(seconds)
        if self._thread.is_alive() and not already_closing and not self._failed:
            self._warn(
                f"the end of the trace {self.path} is missing; it could not be written in {seconds:g} s"
            )
        atexit.unregister(self.close)

    async def aclose(self) -> None:
        """Close the sink without blocking the event loop."""
        if self._thread.is_alive():
            await asyncio.to_thread(self.close)

    def _enqueue(self, item: _QueuedData | TraceEntry, size: int) -> None:
        with self._lock:
            if self._failed or self._closing.is_set():
                return
            if (
                size
                and self._pending
                and self._pending + size > self._max_pending
                and isinstance(item, _QueuedData)
            ):
                count, dropped_bytes = self._dropped.get(item.sender, (0, 0))
                self._dropped[item.sender] = (count + 1, dropped_bytes + size)
                return
            self._pending += size
            wake = not self._queue
            if self._dropped:
                self._queue += self._lost_entries()
            self._queue.append(item)
        if wake:
            self._wake.set()

    def _lost_entries(self) -> list[TraceEntry]:
        dropped, self._dropped = self._dropped, {}
        return [
            TraceEntry(run=self.run, at=self.now, kind="lost", sender=sender, count=count, size=size)
            for sender, (count, size) in dropped.items()
        ]

    def _write_queue(self) -> None:
        try:
            while True:
                self._wake.wait()
                self._wake.clear()
                closing = self._closing.is_set()
                with self._lock:
                    batch, self._queue = self._queue, []
                    if closing:
                        batch += self._lost_entries()
                self._write_batch(batch)
                if closing:
                    break
                self._closing.wait(_WRITE_INTERVAL)
        except Exception as error:  # noqa: BLE001 - any failure ends the recording, not the connection
            self._fail(type(error).__name__)
        finally:
            os.close(self._fd)

    def _write_batch(self, batch: list[_QueuedData | TraceEntry]) -> None:
        lines: list[bytes] = []
        batch_bytes = size = 0
        for item in batch:
            for line in self._encode_lines(item):
                lines.append(line)
                batch_bytes += len(line)
                if batch_bytes >= _BATCH_BYTES:
                    self._write(b"".join(lines))
                    lines, batch_bytes = [], 0
            if isinstance(item, _QueuedData):
                size += item.size
        if lines:
            self._write(b"".join(lines))
        with self._lock:
            self._pending -= size

    def _encode_lines(self, item: _QueuedData | TraceEntry) -> Iterator[bytes]:
        run, redact = self.run, self._redact
        if isinstance(item, TraceEntry):
            if item.kind == "lost" and item.sender is not None:
                self._framers[item.sender] = _ResyncFramer()
            yield entry_line(item)
            return
        frames = item.frames
        if not frames:
            framer = self._framers.get(item.sender)
            if framer is None:
                framer = self._framers[item.sender] = LineFramer()
            frames = framer.finish() if item.data is None else framer.feed(item.data)
        for frame in frames:
            if item.sender != "stderr":
                yield frame_line(item.at, item.sender, frame, run=run, redact=redact)
            else:
                text = frame if isinstance(frame, bytes) else frame.head
                yield entry_line(
                    stderr_entry(item.at, text, run=run, redact=redact, redactor=self._stderr_redactor)
                )

    def _write(self, data: bytes) -> None:
        unwritten = memoryview(data)
        try:
            while unwritten and not self._failed:
                unwritten = unwritten[os.write(self._fd, unwritten) :]
        except OSError as error:
            self._fail(error.strerror or str(error))

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._failed = True
            self._queue.clear()
        self._warn(
            f"cannot write the trace {self.path} ({reason}); recording stops, the connection continues"
        )


class _ResyncFramer(LineFramer):
    """A framer for a stream with dropped data: it skips the rest of the incomplete first line."""

    __slots__ = ("_skipping",)

    def __init__(self) -> None:
        super().__init__()
        self._skipping = True

    def feed(self, data: bytes) -> list[Frame]:
        if self._skipping:
            _, newline, data = data.partition(b"\n")
            self._skipping = not newline
        return super().feed(data) if data else []


def _open_file(path: str) -> tuple[int, bytes]:
    """Open the file. Also returns the line end that a cut-off earlier recording needs."""
    flags = os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            # A device or a FIFO: without a reader the open fails instead of waiting.
            flags |= os.O_WRONLY | getattr(os, "O_NONBLOCK", 0)
        else:
            flags |= os.O_RDWR
        fd = os.open(path, flags, 0o600)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"cannot write the trace {path} ({reason}); use a file in a folder of yours"
        ) from None
    try:
        return fd, _prepare_file(path, fd)
    except BaseException:
        os.close(fd)
        raise


def _prepare_file(path: str, fd: int) -> bytes:
    """Check that the file is a recording and make it private. Returns the missing line end, if any."""
    if hasattr(os, "set_blocking"):
        os.set_blocking(fd, True)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return b""
    with contextlib.suppress(OSError):
        head, last_byte = b"", b"\n"
        if status.st_size:
            head = os.read(fd, 64)
            os.lseek(fd, -1, os.SEEK_END)
            last_byte = os.read(fd, 1)
        if head.strip() and not head.startswith((b'{"accordTrace":', b'{"run":')):
            raise UsageError(f"{path} exists and is not a trace; use another file")
        if sys.platform != "win32" and stat.S_IMODE(status.st_mode) & 0o077:
            os.fchmod(fd, 0o600)
        return b"" if last_byte == b"\n" else b"\n"
    raise UsageError(f"cannot make the trace {path} private; use a file of yours")


def _warn_on_stderr(sentence: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"accord: {sentence}\n")
        sys.stderr.flush()
