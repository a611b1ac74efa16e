"""The transport to a child process, and the tail of its stderr.

Frames go to its stdin and come from its stdout; its stderr is always read. The transport ends when the child
has ended or has closed its output, even if other processes still hold the pipes. Closing it ends the whole
process tree.
"""

import asyncio
import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from accord.clock import SYSTEM_CLOCK, Clock, Timer, within
from accord.wire.pipes import FrameReader, drain
from accord.wire.process_tree import STOP_TIMEOUTS, ProcessExit, ProcessTree, StopTimeouts, start_process
from accord.wire.transport import DEFAULT_LIMIT, Receiver, TransportEnd

MAX_TAIL_BYTES: Final = 8 * 1024
MAX_TAIL_LINES: Final = 40

_MAX_LINE_LENGTH: Final = 64 * 1024


class StderrTail:
    """Keeps the last lines of stderr as text, and passes every line to a callback; replaces invalid UTF-8."""

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        self._tail = b""
        self._truncated = False
        self._on_line = on_line
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._unfinished_line = ""

    def feed(self, data: bytes) -> None:
        """Add the next bytes."""
        tail = self._tail + data if len(data) < MAX_TAIL_BYTES else data
        if len(tail) > MAX_TAIL_BYTES or len(data) >= MAX_TAIL_BYTES:
            self._truncated = True
        self._tail = tail[-MAX_TAIL_BYTES:]
        if self._on_line is not None:
            self._emit_lines(self._decoder.decode(data), self._on_line)

    def finish(self) -> None:
        """Pass on the last line if it has no line end."""
        if self._on_line is not None and (self._unfinished_line or self._decoder.getstate()[0]):
            self._emit_lines(self._decoder.decode(b"", final=True) + "\n", self._on_line)

    @property
    def text(self) -> str:
        """The last lines; whole lines if they fit."""
        tail = self._tail
        if self._truncated:
            first, newline, rest = tail.partition(b"\n")
            tail = rest if newline and rest else first.lstrip(bytes(range(0x80, 0xC0)))
        lines = tail.decode("utf-8", "replace").splitlines()
        return "\n".join(lines[-MAX_TAIL_LINES:])

    def _emit_lines(self, text: str, on_line: Callable[[str], None]) -> None:
        *lines, self._unfinished_line = (self._unfinished_line + text).split("\n")
        if len(self._unfinished_line) > _MAX_LINE_LENGTH:
            lines.append(self._unfinished_line)
            self._unfinished_line = ""
        for line in lines:
            on_line(line.removesuffix("\r"))


if sys.platform == "win32":
    from accord.wire.pipe_threads import ThreadReader as PipeReader
    from accord.wire.pipe_threads import ThreadWriter as PipeWriter
else:
    from accord.wire.pipes import LoopReader as PipeReader
    from accord.wire.pipes import LoopWriter as PipeWriter

_MAX_UNREAD: Final = 1024 * 1024
"""How many bytes are read from the pipes of a dead child. Another process may still write to them."""


async def spawn(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    name: str | None = None,
    on_stderr: Callable[[str], None] | None = None,
    limit: int = DEFAULT_LIMIT,
    timeouts: StopTimeouts = STOP_TIMEOUTS,
    clock: Clock = SYSTEM_CLOCK,
) -> "ProcessTransport":
    """Start a program and connect to its stdin and stdout. Raises NeverStarted.

    `env` extends our own environment (None removes a variable), `name` is the program's name in errors,
    `on_stderr` receives its stderr line by line, `limit` is the longest accepted frame.
    """
    pipes = [os.pipe() for _ in range(3)]
    (child_in, our_in), (our_out, child_out), (our_err, child_err) = pipes
    try:
        tree = start_process(command, cwd=cwd, env=env, stdin=child_in, stdout=child_out, stderr=child_err)
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
        stderr_tail=StderrTail(on_stderr),
        limit=limit,
        timeouts=timeouts,
        clock=clock,
    )


class ProcessTransport:
    """A child process and the frames to and from it; created by `spawn`."""

    def __init__(
        self,
        tree: ProcessTree,
        fds: tuple[int, int, int],
        *,
        name: str,
        stderr_tail: StderrTail,
        limit: int,
        timeouts: StopTimeouts,
        clock: Clock,
    ) -> None:
        self.name: str = name
        self.tree: ProcessTree = tree
        self._stderr_tail = stderr_tail
        self._timeouts = timeouts
        self._clock = clock
        self._receiver: Receiver | None = None
        self._end: TransportEnd | None = None
        self._ending = False
        self._paused = False
        self._output_ended = False
        self._input_failed = False
        self._end_timer: Timer | None = None
        self._closing: asyncio.Task[None] | None = None
        self._writer, self._stderr_reader = PipeWriter(fds[0]), PipeReader(fds[2])
        self._reader = FrameReader(PipeReader(fds[1]), limit)
        self.send: Callable[[bytes], None] = self._writer.write
        self._writer.start(self._on_input_failure)
        self._stderr_reader.start(stderr_tail.feed, stderr_tail.finish)
        tree.on_exit(self._on_exit)

    @property
    def stderr(self) -> str:
        """The tail of its stderr so far."""
        return self._stderr_tail.text

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if self._end is not None:
            asyncio.get_running_loop().call_soon(receiver.ended, self._end)
        else:
            self._reader.start(receiver, self._on_output_end)
            self._finish_if_ended()

    @property
    def unsent(self) -> int:
        return self._writer.unsent

    async def drain(self) -> None:
        await drain(self._writer)

    def pause(self) -> None:
        if self._closing is None:
            self._paused = True
            self._reader.pause()
            if self._end_timer is not None and not self._output_ended:
                self._end_timer.cancel()
                self._end_timer = None

    def resume(self) -> None:
        if self._closing is None:
            self._paused = False
            self._reader.resume()
            self._finish_if_ended()

    def kill(self) -> None:
        """Kill the process and everything it started, at once."""
        self.tree.scan()
        self.tree.kill()

    async def aclose(self) -> None:
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        clock, timeouts = self._clock, self._timeouts
        deadline = clock.now() + timeouts.leave
        try:
            # A child that waits for us to read would never exit; frames after a pause are dropped.
            self._reader.resume(drop=True)
            await within(clock, timeouts.leave, self._writer.wait_below(1))
            self.tree.scan()
            self._writer.close()
            await self.tree.end(replace(timeouts, leave=max(deadline - clock.now(), 0.0)), clock)
        except asyncio.CancelledError:
            self.tree.kill()  # the event loop is being shut down
            raise
        finally:
            self._finish()
            self._stderr_reader.close()

    def _on_output_end(self) -> None:
        self._output_ended = True
        self._finish_if_ended()

    def _on_input_failure(self, error: OSError) -> None:
        self._input_failed = True
        self._finish_if_ended()

    def _on_exit(self, exit: ProcessExit) -> None:
        self._writer.close()  # wakes the callers of `drain`
        self._finish_if_ended()

    def _finish_if_ended(self) -> None:
        """End once the child and its output have ended, or a while after the first of the two."""
        if self._receiver is None or self._ending:
            return
        if self.tree.exit is not None and self._output_ended:
            self._finish()
        elif self._end_timer is not None:
            return
        elif self._output_ended or (not self._paused and (self.tree.exit is not None or self._input_failed)):
            self._end_timer = self._clock.call_later(self._timeouts.settle, self._finish)

    def _finish(self) -> None:
        if self._ending:
            return
        self._ending = True
        if self._end_timer is not None:
            self._end_timer.cancel()
        try:
            if not self._output_ended:
                self._reader.read_rest(_MAX_UNREAD)
        finally:
            self._reader.close()
            self._writer.close()
            self._report_end()

    def _report_end(self) -> None:
        exit = self.tree.exit
        if exit is not None:
            self._stderr_tail.feed(self._stderr_reader.read_available(_MAX_UNREAD))
        self._end = TransportEnd(
            self._end_reason(exit),
            exit_code=exit.code if exit else None,
            signal=exit.signal if exit else None,
            stderr=self._stderr_tail.text,
        )
        if self._receiver is not None:
            self._receiver.ended(self._end)

    def _end_reason(self, exit: ProcessExit | None) -> str:
        if self._closing is not None:
            return f"this side closed the connection to {self.name}"
        if exit is not None:
            return f"{self.name} {exit}"
        return f"{self.name} closed its {'output' if self._output_ended else 'input'}"
