"""`accord trace record`: runs the agent's command between a client and the agent and records both directions.

Bytes, ends of streams, signals and the exit status pass through unchanged. The agent's process tree ends with
this process.
"""

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from accord.trace.trace_format import Sender
from accord.trace.trace_writer import FileSink
from accord.wire.process_tree import ProcessExit, ProcessTree, StopTimeouts, start_process

READ_SIZE: Final = 64 * 1024

_FORWARDED_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
_TERMINAL_SIGNALS: Final = ("SIGINT", "SIGQUIT")
_STRAGGLER_TIMEOUTS: Final = StopTimeouts(leave=0.0, terminate=1.0, kill=1.0)
_POLL_BROKEN: Final = 0 if not hasattr(select, "poll") else select.POLLERR | select.POLLHUP | select.POLLNVAL


async def record(
    command: Sequence[str],
    sink: FileSink,
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    env: Mapping[str, str] | None = None,
) -> ProcessExit:
    """Run the command on these descriptors and record it. Closes `stdin` and `stdout`. Raises NeverStarted.

    `env` are additional variables for the command; they are not recorded.

    Returns the exit when all output is forwarded and recorded and the process tree has ended.
    """
    (child_in, our_in), (our_out, child_out), (our_err, child_err) = [os.pipe() for _ in range(3)]
    try:
        tree = start_process(command, env=env, stdin=child_in, stdout=child_out, stderr=child_err)
    except BaseException:
        for fd in (our_in, our_out, our_err, stdin, stdout):
            os.close(fd)
        raise
    finally:
        for fd in (child_in, child_out, child_err):
            os.close(fd)
    loop = asyncio.get_running_loop()
    interrupted, stdout_done, stderr_done = (asyncio.Event() for _ in range(3))

    def on_end(sender: Sender, event: asyncio.Event | None, broken: bool) -> None:
        # If the agent stopped reading, the client has not closed its output.
        if sender == "stderr" or (sender == "client" and broken):
            sink.end_stream(sender)
        else:
            sink.add_closed(sender, "the client no longer reads" if broken else "")
        if event is not None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(event.set)

    def start_copy(sender: Sender, source: int, target: int, done: asyncio.Event | None) -> PipeCopy:
        on_data, at_end = partial(sink.add_bytes, sender), partial(on_end, sender, done)
        copy = PipeCopy(source, target, on_data=on_data, on_end=at_end, close_target=sender != "stderr")
        copy.start()
        return copy

    with forwarded_signals(tree, interrupted.set):
        start_copy("client", stdin, our_in, None)
        output = start_copy("agent", our_out, stdout, stdout_done)
        errors = start_copy("stderr", our_err, stderr, stderr_done)
        exit = await tree.wait()
        output.finish()
        errors.finish()
        # Wait for a slow client, however long it takes, unless a signal arrives.
        await _wait_for_first(
            asyncio.gather(stdout_done.wait(), stderr_done.wait()), asyncio.ensure_future(interrupted.wait())
        )
        sink.add_exit(exit.code, exit.signal)
        await tree.end(_STRAGGLER_TIMEOUTS)
    return exit


def exit_like(exit: ProcessExit) -> int:
    """Return the agent's exit code. If a signal ended the agent, end this process by the same signal."""
    if exit.signal is None:
        return 1 if exit.code is None else exit.code
    number = int(getattr(signal, exit.signal, 0)) or int(exit.signal.rpartition(" ")[2])
    if sys.platform != "win32":
        import resource

        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # only the agent's core dump is of interest
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
    return 128 + number


async def _wait_for_first(*futures: "asyncio.Future[Any]") -> None:
    """Wait until one of the futures is done, then cancel the others."""
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in futures:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)


@contextlib.contextmanager
def forwarded_signals(tree: ProcessTree, interrupt: Callable[[], None]) -> Generator[None]:
    """Forward signals to the agent; ignored ones stay ignored.

    After the agent's end, call `interrupt` instead.
    """
    loop = asyncio.get_running_loop()
    handled: list[signal.Signals] = []

    def forward(number: signal.Signals) -> None:
        if tree.exit is not None:
            interrupt()
        elif number.name in _TERMINAL_SIGNALS and _in_foreground():
            os.killpg(tree.pid, number)  # a terminal signals its whole foreground group
        else:
            os.kill(tree.pid, number)

    def suspend() -> None:
        with contextlib.suppress(OSError):
            os.killpg(tree.pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        with contextlib.suppress(OSError):
            os.killpg(tree.pid, signal.SIGCONT)

    if sys.platform != "win32":
        for name in _FORWARDED_SIGNALS:
            number = signal.Signals[name]
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, forward, number)
                handled.append(number)
        if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGTSTP, suspend)
            handled.append(signal.SIGTSTP)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _in_foreground() -> bool:
    """Tell whether a terminal sends its signals to this process group."""
    try:
        fd = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(fd)


class PipeCopy:
    """Copies one direction from `source` to `target` in a thread, and closes both at the end.

    Plain blocking calls leave the flags of shared descriptors alone. It reads on only when everything is
    written, so a slow reader slows the writer as without a recorder. `on_data` gets every read before it is
    written. `on_end` gets whether the reader of the target closed it. `close_target=False` leaves the target
    open.
    """

    def __init__(
        self,
        source: int,
        target: int,
        *,
        on_data: Callable[[bytes], None],
        on_end: Callable[[bool], None],
        close_target: bool = True,
    ) -> None:
        self._source = source
        self._target = target
        self._on_data = on_data
        self._on_end = on_end
        self._close_target = close_target
        self._finishing = threading.Event()
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="accord-pump", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Copy what is available, then end, even if a process still has the source open."""
        self._finishing.set()
        with self._lock:
            if self._wake_write >= 0:
                os.write(self._wake_write, b"!")

    def _run(self) -> None:
        broken = False
        try:
            while self._wait_readable():
                try:
                    data = os.read(self._source, READ_SIZE)
                except (BlockingIOError, InterruptedError):
                    continue
                if not data:
                    break
                self._on_data(data)
                self._write(data)
        except OSError:
            broken = True  # a reset, a closed terminal or a closed pipe: an end like any other
        finally:
            # Close the source too, so that its writer sees that the reader is gone.
            for fd in (self._target, self._source) if self._close_target else (self._source,):
                with contextlib.suppress(OSError):
                    os.close(fd)
            with self._lock:
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._wake_write = -1
            self._on_end(broken)

    def _wait_readable(self) -> bool:
        """Wait until the source is readable. Returns False when the copy should end."""
        if not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._target, 0)
        if not self._finishing.is_set():
            poll.register(self._wake_read, select.POLLIN)
        while True:
            events = dict(poll.poll(0 if self._finishing.is_set() else None))
            if events.get(self._target, 0) & _POLL_BROKEN:
                raise BrokenPipeError
            if self._source in events:
                return True
            if self._finishing.is_set():
                return False

    def _write(self, data: bytes) -> None:
        unwritten = memoryview(data)
        while unwritten:
            try:
                unwritten = unwritten[os.write(self._target, unwritten) :]
            except BlockingIOError:  # another process made the descriptor non-blocking
                select.select((), (self._target,), ())
