"""The transport over this program's own stdin and stdout, which are then reserved for the protocol.

Both descriptors are moved away: later output to stdout (of our code, a C library or a child) goes to stderr,
and reading stdin returns its end. They are not moved back.

Loaded before `initialize` is answered: keep heavy imports out.
"""

import asyncio
import contextlib
import os
import stat
import sys
from collections.abc import Callable

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.wire.pipes import FrameReader, LoopReader, LoopWriter, PipeReader, PipeWriter, drain
from accord.wire.transport import DEFAULT_LIMIT, Receiver, TransportEnd


class StdioTransport:
    """Reads frames from stdin, writes frames to stdout. Create it before the event loop runs if possible.

    After the end of stdin, `send` still writes until `aclose`, so that earlier requests are answered. `limit`
    is the longest accepted frame, `flush` how many seconds `aclose` waits for a client that does not read.
    """

    def __init__(
        self, *, limit: int = DEFAULT_LIMIT, flush: float = 2.0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._flush_timeout = flush
        self._clock = clock
        self._receiver: Receiver | None = None
        self._end: TransportEnd | None = None
        self._closing: asyncio.Task[None] | None = None
        reader, writer = take_over_stdio()
        self._writer = writer
        self._reader = None if reader is None else FrameReader(reader, limit)
        self.send: Callable[[bytes], None] = (lambda _frame: None) if writer is None else writer.write

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        loop = asyncio.get_running_loop()
        if self._end is not None:
            loop.call_soon(receiver.ended, self._end)
            return
        if self._writer is not None:
            self._writer.start(self._on_output_failure)
        else:
            loop.call_soon(self._finish, "stdout is closed; responses cannot be sent")
        if self._reader is not None:
            self._reader.start(receiver, lambda: self._finish("the client closed stdin", can_send=True))
        else:
            loop.call_soon(self._finish, "stdin is closed; there is nothing to read")

    @property
    def unsent(self) -> int:
        return self._writer.unsent if self._writer is not None else 0

    async def drain(self) -> None:
        if self._writer is not None:
            await drain(self._writer)

    def pause(self) -> None:
        if self._reader is not None:
            self._reader.pause()

    def resume(self) -> None:
        if self._reader is not None:
            self._reader.resume()

    async def aclose(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            if self._writer is not None:
                await within(self._clock, self._flush_timeout, self._writer.wait_below(1))
        finally:
            self._finish("this side closed the connection")
            if self._writer is not None:
                self._writer.close()

    def _on_output_failure(self, error: OSError) -> None:
        self._finish(f"the client no longer reads our stdout ({error.strerror})")

    def _finish(self, reason: str, *, can_send: bool = False) -> None:
        if self._end is not None:
            return
        self._end = TransportEnd(reason, can_send=can_send)
        if self._reader is not None:
            self._reader.close()
        if self._receiver is not None:
            self._receiver.ended(self._end)


def take_over_stdio() -> tuple[PipeReader | None, PipeWriter | None]:
    """Move stdin and stdout to private descriptors; None for one that was closed when the program started."""
    # If one was closed, its number may be in use by now, even by the event loop: leave it alone.
    has_stdin, has_stdout = sys.__stdin__ is not None, sys.__stdout__ is not None
    dev_null = os.open(os.devnull, os.O_RDWR)
    while dev_null < 3:
        # Fill the number of a closed descriptor, so that none of our files gets it.
        dev_null = os.open(os.devnull, os.O_RDWR)
    reader: PipeReader | None = None
    writer: PipeWriter | None = None
    if has_stdin:
        reader = _reader(os.dup(0))
        os.dup2(dev_null, 0)
    if has_stdout:
        writer = _writer(os.dup(1))
        os.dup2(2 if sys.__stderr__ is not None else dev_null, 1)
        with contextlib.suppress(OSError, ValueError):
            if sys.stdout is not None:
                sys.stdout.flush()  # keeps earlier output in order
    if sys.stderr is not None:
        sys.stdout = sys.stderr
    os.close(dev_null)
    return reader, writer


def _reader(fd: int) -> PipeReader:
    if sys.platform != "win32":
        descriptor = _private_descriptor(fd, os.O_RDONLY)
        if descriptor is not None and (
            os.isatty(descriptor)
            or stat.S_IFMT(os.fstat(descriptor).st_mode) in (stat.S_IFIFO, stat.S_IFSOCK)
        ):
            return LoopReader(descriptor)
    from accord.wire.pipe_threads import ThreadReader

    return ThreadReader(fd)


def _writer(fd: int) -> PipeWriter:
    if sys.platform != "win32":
        descriptor = _private_descriptor(fd, os.O_WRONLY)
        if descriptor is not None:
            return LoopWriter(descriptor)
    from accord.wire.pipe_threads import ThreadWriter

    return ThreadWriter(fd)


def _private_descriptor(fd: int, flags: int) -> int | None:
    """Return a descriptor, `fd` or a new one, whose non-blocking mode affects no other program.

    O_NONBLOCK belongs to the open file, which a terminal or `2>&1` shares with stderr and with other
    programs.
    """
    if not os.isatty(fd) and not (sys.__stderr__ is not None and os.path.samestat(os.fstat(fd), os.fstat(2))):
        return fd
    try:
        descriptor = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    os.close(fd)
    return descriptor
