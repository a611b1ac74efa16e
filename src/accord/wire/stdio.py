"""The transport over this program's own stdin and stdout, which from then on belong to the protocol alone.

Both descriptors are moved away: what prints to stdout afterwards, our code, a C library or a child, prints to stderr,
and whoever reads stdin finds its end. They are not put back.
"""

import asyncio
import contextlib
import os
import stat
import sys

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.wire.pipes import LoopReader, LoopWriter, PipeReader, PipeWriter, drain
from accord.wire.transport import DEFAULT_LIMIT, LineFramer, Receiver, TransportEnd


class StdioTransport:
    """Speaks over stdin and stdout; they are taken over as soon as it is made, best before there is an event loop.

    After the end of stdin `send` still writes, until `aclose`: requests that came before it want their answers.
    `limit` is the longest frame taken, `flush` how many seconds `aclose` waits for a client that does not read.
    """

    def __init__(
        self, *, limit: int = DEFAULT_LIMIT, flush: float = 2.0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._framer = LineFramer(limit)
        self._flush = flush
        self._clock = clock
        self._receiver: Receiver | None = None
        self._end: TransportEnd | None = None
        self._paused = False
        self._closing: asyncio.Task[None] | None = None
        self._reader, self._writer = take_over()

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        loop = asyncio.get_running_loop()
        if self._end is not None:
            loop.call_soon(receiver.ended, self._end)
            return
        if self._writer is not None:
            self._writer.start(self._broken)
        else:
            loop.call_soon(self._finish, "stdout is closed: there is nowhere to answer to")
        if self._reader is not None:
            self._reader.start(self._data, self._over)
        else:
            loop.call_soon(self._finish, "stdin is closed: there is nothing to read")

    def send(self, frame: bytes) -> None:
        if self._writer is not None:
            self._writer.write(frame)

    @property
    def unsent(self) -> int:
        return self._writer.unsent if self._writer is not None else 0

    async def drain(self) -> None:
        if self._writer is not None:
            await drain(self._writer)

    def pause(self) -> None:
        self._paused = True
        if self._reader is not None:
            self._reader.pause()

    def resume(self) -> None:
        self._paused = False
        if self._reader is not None:
            self._reader.resume()

    async def aclose(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            if self._writer is not None:
                await within(self._clock, self._flush, self._writer.below(1))
        finally:
            self._finish("this side closed the connection")
            if self._writer is not None:
                self._writer.close()

    def _data(self, data: bytes) -> None:
        frames = self._framer.feed(data)
        if frames and self._receiver is not None:
            self._receiver.frames(frames)

    def _over(self) -> None:
        frames = self._framer.finish()
        if frames and self._receiver is not None:
            self._receiver.frames(frames)
        self._finish("the client closed stdin")

    def _broken(self, error: OSError) -> None:
        self._finish(f"the client no longer reads our stdout ({error.strerror})")

    def _finish(self, reason: str) -> None:
        if self._end is not None:
            return
        self._end = TransportEnd(reason)
        if self._reader is not None:
            self._reader.close()
        if self._receiver is not None:
            self._receiver.ended(self._end)


def take_over() -> tuple[PipeReader | None, PipeWriter | None]:
    """Move stdin and stdout out of everybody's reach; None for one that was closed when the program began."""
    # Where one was closed, its number may by now be anything, the event loop's own included: hands off.
    took_in, took_out = sys.__stdin__ is not None, sys.__stdout__ is not None
    nowhere = os.open(os.devnull, os.O_RDWR)
    while nowhere < 3:
        nowhere = os.open(
            os.devnull, os.O_RDWR
        )  # a closed one stays filled, lest a file of ours takes its number
    reader: PipeReader | None = None
    writer: PipeWriter | None = None
    if took_in:
        reader = _reader(os.dup(0))
        os.dup2(nowhere, 0)
    if took_out:
        writer = _writer(os.dup(1))
        os.dup2(2 if sys.__stderr__ is not None else nowhere, 1)
        with contextlib.suppress(OSError, ValueError):
            if sys.stdout is not None:
                sys.stdout.flush()  # what was printed before now shows up in its order
    if sys.stderr is not None:
        sys.stdout = sys.stderr
    os.close(nowhere)
    return reader, writer


def _reader(fd: int) -> PipeReader:
    if sys.platform != "win32":
        own = _own(fd, os.O_RDONLY)
        if own is not None and (
            os.isatty(own) or stat.S_IFMT(os.fstat(own).st_mode) in (stat.S_IFIFO, stat.S_IFSOCK)
        ):
            return LoopReader(own)
    from accord.wire.pipe_threads import ThreadReader

    return ThreadReader(fd)


def _writer(fd: int) -> PipeWriter:
    if sys.platform != "win32":
        own = _own(fd, os.O_WRONLY)
        if own is not None:
            return LoopWriter(own)
    from accord.wire.pipe_threads import ThreadWriter

    return ThreadWriter(fd)


def _own(fd: int, flags: int) -> int | None:
    """A descriptor that may be made non-blocking without anybody else noticing: `fd` itself, or one in its place.

    Not to block is a property of the open file, which a terminal or `2>&1` shares with stderr and with other programs.
    """
    if not os.isatty(fd) and not (sys.__stderr__ is not None and os.path.samestat(os.fstat(fd), os.fstat(2))):
        return fd
    try:
        own = os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    os.close(fd)
    return own
