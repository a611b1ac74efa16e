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
from accord.trace.text_redaction import StderrLines, redact_text
from accord.trace.trace_format import (
    Sender,
    Side,
    TraceEntry,
    entry_line,
    frame_line,
    new_start,
    start_line,
    stderr_entry,
)
from accord.wire.transport import Frame, LineFramer, TransportEnd

MAX_PENDING: Final = 64 * 1024 * 1024
"""Bytes that may wait for the disk before data is dropped. An empty queue takes a frame of any size."""

_WRITE_INTERVAL: Final = 0.005
"""Seconds between two writes; what arrives in between is written together."""
_BATCH_BYTES: Final = 256 * 1024


@dataclass(slots=True)
class _Piece:
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
        self._warn = _to_stderr if warn is None else warn
        self._clock = clock
        self._began = clock.now()
        self._lock = threading.Lock()
        self._queue: list[_Piece | TraceEntry] = []
        self._pending = 0
        self._dropped: dict[Sender, tuple[int, int]] = {}
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._failed = False
        self._framers: dict[Sender, LineFramer] = {}
        self._stderr = StderrLines()
        self._fd, gap = _open(self.path)
        started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        start = new_start(self.run, started, by=by, command=command, redact=redact)
        self._write(gap + start_line(start))
        self._thread = threading.Thread(target=self._work, name="accord-trace", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def now(self) -> float:
        """Seconds since the start of the run."""
        return self._clock.now() - self._began

    def note(self, sender: Side, frames: Sequence[Frame]) -> None:
        """Take complete frames of one side."""
        size = sum(len(frame) if isinstance(frame, bytes) else len(frame.head) for frame in frames)
        self._put(_Piece(self.now, sender, frames=frames, size=size), size)

    def note_bytes(self, sender: Sender, data: bytes) -> None:
        """Take the next bytes of a stream, split anywhere."""
        self._put(_Piece(self.now, sender, data, size=len(data)), len(data))

    def finished(self, sender: Sender) -> None:
        """End a stream of bytes. A last line without a line end counts as a line."""
        self._put(_Piece(self.now, sender), 0)

    def closed(self, sender: Side, reason: str = "") -> None:
        """Note that a side closed its output."""
        self.finished(sender)
        reason = redact_text(reason) if self._redact else reason
        self._put(TraceEntry(run=self.run, at=self.now, kind="closed", sender=sender, reason=reason), 0)

    def exited(self, code: int | None, signal: str | None) -> None:
        """Note the agent's exit."""
        self._put(TraceEntry(run=self.run, at=self.now, kind="exit", code=code, signal=signal), 0)

    def ended(self, end: TransportEnd, sender: Side) -> None:
        """Note the end of a transport whose other side is `sender`."""
        self.closed(sender, end.reason)
        if end.exit_code is not None or end.signal is not None:
            self.exited(end.exit_code, end.signal)

    def close(self, seconds: float = 2.0) -> None:
        """Write the queue, for at most this long, and close the file.

        Warns if that takes too long. Idempotent.
        """
        again = self._closing.is_set()
        self._closing.set()
        self._wake.set()
        self._thread.join(seconds)
        if self._thread.is_alive() and not again and not self._failed:
            self._warn(
                f"the end of the trace {self.path} is missing; it could not be written in {seconds:g} s"
            )
        atexit.unregister(self.close)

    async def aclose(self) -> None:
        """Close the sink without blocking the event loop."""
        if self._thread.is_alive():
            await asyncio.to_thread(self.close)

    def _put(self, piece: _Piece | TraceEntry, size: int) -> None:
        with self._lock:
            if self._failed or self._closing.is_set():
                return
            if (
                size
                and self._pending
                and self._pending + size > self._max_pending
                and isinstance(piece, _Piece)
            ):
                count, lost = self._dropped.get(piece.sender, (0, 0))
                self._dropped[piece.sender] = (count + 1, lost + size)
                return
            self._pending += size
            wake = not self._queue
            if self._dropped:
                self._queue += self._lost_entries()
            self._queue.append(piece)
        if wake:
            self._wake.set()

    def _lost_entries(self) -> list[TraceEntry]:
        missing, self._dropped = self._dropped, {}
        return [
            TraceEntry(run=self.run, at=self.now, kind="lost", sender=sender, count=count, size=size)
            for sender, (count, size) in missing.items()
        ]

    def _work(self) -> None:
        try:
            while True:
                self._wake.wait()
                self._wake.clear()
                over = self._closing.is_set()
                with self._lock:
                    batch, self._queue = self._queue, []
                    if over:
                        batch += self._lost_entries()
                self._write_batch(batch)
                if over:
                    break
                self._closing.wait(_WRITE_INTERVAL)
        except Exception as error:  # noqa: BLE001 - any failure ends the recording, not the connection
            self._give_up(type(error).__name__)
        finally:
            os.close(self._fd)

    def _write_batch(self, batch: list[_Piece | TraceEntry]) -> None:
        lines: list[bytes] = []
        ready = size = 0
        for piece in batch:
            for line in self._lines(piece):
                lines.append(line)
                ready += len(line)
                if ready >= _BATCH_BYTES:
                    self._write(b"".join(lines))
                    lines, ready = [], 0
            if isinstance(piece, _Piece):
                size += piece.size
        if lines:
            self._write(b"".join(lines))
        with self._lock:
            self._pending -= size

    def _lines(self, piece: _Piece | TraceEntry) -> Iterator[bytes]:
        run, redact = self.run, self._redact
        if isinstance(piece, TraceEntry):
            if piece.kind == "lost" and piece.sender is not None:
                self._framers[piece.sender] = _ResyncFramer()
            yield entry_line(piece)
            return
        frames = piece.frames
        if not frames:
            framer = self._framers.get(piece.sender)
            if framer is None:
                framer = self._framers[piece.sender] = LineFramer()
            frames = framer.finish() if piece.data is None else framer.feed(piece.data)
        for frame in frames:
            if piece.sender != "stderr":
                yield frame_line(piece.at, piece.sender, frame, run=run, redact=redact)
            else:
                text = frame if isinstance(frame, bytes) else frame.head
                yield entry_line(stderr_entry(piece.at, text, run=run, redact=redact, lines=self._stderr))

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest and not self._failed:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            self._give_up(error.strerror or str(error))

    def _give_up(self, reason: str) -> None:
        with self._lock:
            self._failed = True
            self._queue.clear()
        self._warn(
            f"cannot write the trace {self.path} ({reason}); recording stops, the connection continues"
        )


class _ResyncFramer(LineFramer):
    """A framer for a stream with dropped data: it skips the rest of the incomplete first line."""

    __slots__ = ("_lost",)

    def __init__(self) -> None:
        super().__init__()
        self._lost = True

    def feed(self, data: bytes) -> list[Frame]:
        if self._lost:
            _, newline, data = data.partition(b"\n")
            self._lost = not newline
        return super().feed(data) if data else []


def _open(path: str) -> tuple[int, bytes]:
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
        return fd, _prepare(path, fd)
    except BaseException:
        os.close(fd)
        raise


def _prepare(path: str, fd: int) -> bytes:
    """Check that the file is a recording and make it private. Returns the missing line end, if any."""
    if hasattr(os, "set_blocking"):
        os.set_blocking(fd, True)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return b""
    with contextlib.suppress(OSError):
        head, tail = b"", b"\n"
        if status.st_size:
            head = os.read(fd, 64)
            os.lseek(fd, -1, os.SEEK_END)
            tail = os.read(fd, 1)
        if head.strip() and not head.startswith((b'{"accordTrace":', b'{"run":')):
            raise UsageError(f"{path} exists and is not a trace; use another file")
        if stat.S_IMODE(status.st_mode) & 0o077:
            os.fchmod(fd, 0o600)
        return b"" if tail == b"\n" else b"\n"
    raise UsageError(f"cannot make the trace {path} private; use a file of yours")


def _to_stderr(sentence: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"accord: {sentence}\n")
        sys.stderr.flush()
