"""The transport to a child process, and the tail of its stderr."""

import asyncio
import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from accord.clock import SYSTEM_CLOCK, Clock, Timer, within
from accord.wire.pipes import drain
from accord.wire.process_tree import PATIENCE, ProcessExit, ProcessTree, StopTimeouts, start
from accord.wire.transport import DEFAULT_LIMIT, LineFramer, Receiver, TransportEnd

# MERGED wire.lastwords: What a child said on stderr last: the end of it kept as text, every line offered to whoever listens.

KEPT_BYTES: Final = 8 * 1024
KEPT_LINES: Final = 40

_LONGEST_LINE: Final = 64 * 1024


class StderrTail:
    """Takes stderr as it is read; keeps its last lines. Free-form text: bytes that are no UTF-8 are replaced."""

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        self._tail = b""
        self._cut = False
        self._on_line = on_line
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._line = ""

    def feed(self, data: bytes) -> None:
        """The next bytes."""
        tail = self._tail + data if len(data) < KEPT_BYTES else data
        if len(tail) > KEPT_BYTES or len(data) >= KEPT_BYTES:
            self._cut = True
        self._tail = tail[-KEPT_BYTES:]
        if self._on_line is not None:
            self._tell(self._decoder.decode(data), self._on_line)

    def finish(self) -> None:
        """There is no more: a last line without an end is a line."""
        if self._on_line is not None and (self._line or self._decoder.getstate()[0]):
            self._tell(self._decoder.decode(b"", final=True) + "\n", self._on_line)

    @property
    def text(self) -> str:
        """The last lines, whole ones as far as they fit."""
        tail = self._tail
        if self._cut:
            first, newline, rest = tail.partition(b"\n")
            tail = rest if newline and rest else first.lstrip(bytes(range(0x80, 0xC0)))
        lines = tail.decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-KEPT_LINES:])

    def _tell(self, text: str, on_line: Callable[[str], None]) -> None:
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > _LONGEST_LINE:
            lines.append(self._line)
            self._line = ""
        for line in lines:
            on_line(line.removesuffix("\r"))


# MERGED wire.process: The transport to a child process: frames to its stdin, frames from its stdout, its stderr always read.
#
# It ends when the child has ended or has closed its output, whoever else may still hold the pipes. Closing it sees the
# whole tree of the child out.

if sys.platform == "win32":
    from accord.wire.pipe_threads import ThreadReader as PipeReader
    from accord.wire.pipe_threads import ThreadWriter as PipeWriter
else:
    from accord.wire.pipes import LoopReader as PipeReader
    from accord.wire.pipes import LoopWriter as PipeWriter

_REST: Final = (
    1024 * 1024
)  # what is still taken from the pipes of a dead child that somebody else goes on writing to


async def spawn(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    name: str | None = None,
    on_stderr: Callable[[str], None] | None = None,
    limit: int = DEFAULT_LIMIT,
    patience: StopTimeouts = PATIENCE,
    clock: Clock = SYSTEM_CLOCK,
) -> "ProcessTransport":
    """Start a program and speak with it over its stdin and stdout; raises `NeverStarted`.

    `env` is laid over our own environment (None takes a name out), `name` is what errors call the program, `on_stderr`
    gets its stderr line by line, `limit` is the longest frame taken from it.
    """
    pipes = [os.pipe() for _ in range(3)]
    (child_in, our_in), (our_out, child_out), (our_err, child_err) = pipes
    try:
        tree = start(command, cwd=cwd, env=env, stdin=child_in, stdout=child_out, stderr=child_err)
    except BaseException:
        for fd in (our_in, our_out, our_err):
            os.close(fd)
        raise
    finally:
        for fd in (child_in, child_out, child_err):
            os.close(fd)
    return ProcessTransport(
        tree,
        (our_in, our_out, our_err),
        name=name or os.path.basename(command[0]),
        words=StderrTail(on_stderr),
        framer=LineFramer(limit),
        patience=patience,
        clock=clock,
    )


class ProcessTransport:
    """One child and the frames to and from it; made by `spawn`."""

    def __init__(
        self,
        tree: ProcessTree,
        fds: tuple[int, int, int],
        *,
        name: str,
        words: StderrTail,
        framer: LineFramer,
        patience: StopTimeouts,
        clock: Clock,
    ) -> None:
        self.name = name
        self.tree = tree
        self._words = words
        self._framer = framer
        self._patience = patience
        self._clock = clock
        self._receiver: Receiver | None = None
        self._end: TransportEnd | None = None
        self._ending = False
        self._paused = False
        self._output_over = False
        self._input_broken = False
        self._settling: Timer | None = None
        self._closing: asyncio.Task[None] | None = None
        self._writer, self._reader, self._errors = PipeWriter(fds[0]), PipeReader(fds[1]), PipeReader(fds[2])
        self._writer.start(self._broken)
        self._errors.start(words.feed, words.finish)
        tree.on_exit(self._exited)

    @property
    def stderr(self) -> str:
        """Its last words so far."""
        return self._words.text

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if self._end is not None:
            asyncio.get_running_loop().call_soon(receiver.ended, self._end)
        else:
            self._reader.start(self._data, self._over)
            self._settle()

    def send(self, frame: bytes) -> None:
        self._writer.write(frame)

    @property
    def unsent(self) -> int:
        return self._writer.unsent

    async def drain(self) -> None:
        await drain(self._writer)

    def pause(self) -> None:
        if self._closing is None:
            self._paused = True
            self._reader.pause()
            if self._settling is not None and not self._output_over:
                self._settling.cancel()
                self._settling = None

    def resume(self) -> None:
        if self._closing is None:
            self._paused = False
            self._reader.resume()
            self._settle()

    async def aclose(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        clock, patience = self._clock, self._patience
        deadline = clock.now() + patience.leave
        try:
            # A child that waits for us to read would never leave; what a paused reader did not want is dropped.
            self._reader.resume()
            await within(clock, patience.leave, self._writer.below(1))
            self.tree.look()
            self._writer.close()
            await self.tree.end(replace(patience, leave=max(deadline - clock.now(), 0.0)), clock)
        except asyncio.CancelledError:
            self.tree.kill()  # the event loop itself is being shut down: no time for manners
            raise
        finally:
            self._finish()
            self._errors.close()

    def _data(self, data: bytes) -> None:
        frames = self._framer.feed(data)
        if frames and self._receiver is not None and not self._paused:
            self._receiver.frames(frames)

    def _over(self) -> None:
        self._output_over = True
        try:
            self._last_frame()
        finally:
            self._settle()

    def _last_frame(self) -> None:
        frames = self._framer.finish()
        if frames and self._receiver is not None and not self._paused:
            self._receiver.frames(frames)

    def _broken(self, error: OSError) -> None:
        self._input_broken = True
        self._settle()

    def _exited(self, exit: ProcessExit) -> None:
        self._writer.close()  # nobody takes it any more, and nobody need wait for that
        self._settle()

    def _settle(self) -> None:
        """Something is over: end at once when all is known, else when the rest does not follow soon."""
        if self._receiver is None or self._ending:
            return
        if self.tree.exit is not None and self._output_over:
            self._finish()
        elif self._settling is not None:
            return
        elif self._output_over or (not self._paused and (self.tree.exit is not None or self._input_broken)):
            self._settling = self._clock.call_later(self._patience.settle, self._finish)

    def _finish(self) -> None:
        if self._ending:
            return
        self._ending = True
        if self._settling is not None:
            self._settling.cancel()
        try:
            if not self._output_over:
                self._data(self._reader.read_on(_REST))
                self._last_frame()
        finally:
            self._reader.close()
            self._writer.close()
            self._tell_end()

    def _tell_end(self) -> None:
        exit = self.tree.exit
        if exit is not None:
            self._words.feed(self._errors.read_on(_REST))
        self._end = TransportEnd(
            self._reason(exit),
            exit_code=exit.code if exit else None,
            signal=exit.signal if exit else None,
            stderr=self._words.text,
        )
        if self._receiver is not None:
            self._receiver.ended(self._end)

    def _reason(self, exit: ProcessExit | None) -> str:
        if self._closing is not None:
            return f"this side closed the connection to {self.name}"
        if exit is not None:
            return f"{self.name} {exit}"
        return f"{self.name} closed its {'output' if self._output_over else 'input'}"
