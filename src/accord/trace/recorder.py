"""`accord trace record`: runs the agent's command and records both directions."""

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from accord.trace.trace_format import Sender
from accord.trace.trace_writer import FileSink
from accord.wire.process_tree import ProcessExit, ProcessTree, StopTimeouts, start_process

# MERGED trace.pump: One direction of a connection that is being recorded: bytes as they come, from one descriptor to another.
#
# Each pump has a thread and uses plain blocking calls, so that no flag of a descriptor that others share is changed, and
# nothing stands between a read and its write but telling the recorder. It reads on only when all it read is written: who
# is slow is felt at the other end as without us. An end, or a reader that left, is passed on at once.

READ_SIZE: Final = 64 * 1024

_BROKEN: Final = 0 if not hasattr(select, "poll") else select.POLLERR | select.POLLHUP | select.POLLNVAL


class PipeCopy:
    """From `source` to `target`; both are closed at the end, `target` only if it is `ours` to close.

    `told` gets every read before it is written, `over` whether it ended because nobody reads the target any more.
    """

    def __init__(
        self,
        source: int,
        target: int,
        *,
        told: Callable[[bytes], None],
        over: Callable[[bool], None],
        ours: bool = True,
    ) -> None:
        self._source = source
        self._target = target
        self._told = told
        self._over = over
        self._ours = ours
        self._last = threading.Event()
        self._lock = threading.Lock()
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="accord-pump", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Pass on what is there already, then end: whoever still holds the source is not waited for."""
        self._last.set()
        with self._lock:
            if self._wake >= 0:
                os.write(self._wake, b"!")

    def _run(self) -> None:
        broken = False
        try:
            while self._readable():
                try:
                    data = os.read(self._source, READ_SIZE)
                except (BlockingIOError, InterruptedError):
                    continue
                if not data:
                    break
                self._told(data)
                self._write(data)
        except OSError:
            broken = True  # a reset, a terminal that hung up, a reader that left: an end like any other
        finally:
            # The source goes too: who writes into it is to learn that nobody reads any more.
            for fd in (self._target, self._source) if self._ours else (self._source,):
                with contextlib.suppress(OSError):
                    os.close(fd)
            with self._lock:
                os.close(self._woken)
                os.close(self._wake)
                self._wake = -1
            self._over(broken)

    def _readable(self) -> bool:
        """Wait for something to read; False when nothing is left to wait for."""
        if not hasattr(select, "poll"):
            return True
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._target, 0)
        if not self._last.is_set():
            poll.register(self._woken, select.POLLIN)
        while True:
            ready = dict(poll.poll(0 if self._last.is_set() else None))
            if ready.get(self._target, 0) & _BROKEN:
                raise BrokenPipeError
            if self._source in ready:
                return True
            if self._last.is_set():
                return False

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._target, rest) :]
            except BlockingIOError:  # somebody made it so
                select.select((), (self._target,), ())


# MERGED trace.record: Standing between a client and an agent: `record` runs the agent's command in our place and keeps what crosses.
#
# The bytes, the ends of the streams, signals and the exit are the agent's own; its whole tree of processes ends with us.

_PASSED_ON: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
_FROM_TERMINAL: Final = ("SIGINT", "SIGQUIT")
_STRAGGLERS: Final = StopTimeouts(leave=0.0, terminate=1.0, kill=1.0)


async def record(
    command: Sequence[str], sink: FileSink, *, stdin: int, stdout: int, stderr: int
) -> ProcessExit:
    """Run the command on these three descriptors, of which the first two are closed; raises `NeverStarted`.

    Returns how it ended, once everything it wrote is passed on and told to the sink, and nothing of its tree lives.
    """
    (child_in, our_in), (our_out, child_out), (our_err, child_err) = [os.pipe() for _ in range(3)]
    try:
        tree = start_process(command, stdin=child_in, stdout=child_out, stderr=child_err)
    except BaseException:
        for fd in (our_in, our_out, our_err, stdin, stdout):
            os.close(fd)
        raise
    finally:
        for fd in (child_in, child_out, child_err):
            os.close(fd)
    loop = asyncio.get_running_loop()
    given_up, said, complained = (asyncio.Event() for _ in range(3))

    def over(sender: Sender, event: asyncio.Event | None, broken: bool) -> None:
        # A client whose agent no longer reads has closed nothing.
        if sender == "stderr" or (sender == "client" and broken):
            sink.finished(sender)
        else:
            sink.closed(sender, "the client no longer reads" if broken else "")
        if event is not None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(event.set)

    with _signals_passed_on(tree, given_up.set):
        PipeCopy(
            stdin, our_in, told=partial(sink.note_bytes, "client"), over=partial(over, "client", None)
        ).start()
        output = PipeCopy(
            our_out, stdout, told=partial(sink.note_bytes, "agent"), over=partial(over, "agent", said)
        )
        errors = PipeCopy(
            our_err,
            stderr,
            told=partial(sink.note_bytes, "stderr"),
            over=partial(over, "stderr", complained),
            ours=False,
        )
        output.start()
        errors.start()
        exit = await tree.wait()
        output.finish()
        errors.finish()
        # As long as a slow client takes; but a signal that comes now is for us.
        await _first(asyncio.gather(said.wait(), complained.wait()), asyncio.ensure_future(given_up.wait()))
        sink.exited(exit.code, exit.signal)
        await tree.end(_STRAGGLERS)
    return exit


def leave_as(exit: ProcessExit) -> int:
    """The exit code that says the same; where a signal ended the agent, the same signal ends this process."""
    if exit.signal is None:
        return 1 if exit.code is None else exit.code
    number = int(getattr(signal, exit.signal, 0)) or int(exit.signal.rpartition(" ")[2])
    if sys.platform != "win32":
        import resource

        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core is enough, and it is the agent's
            if number != signal.SIGKILL:
                signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
    return 128 + number


async def _first(*futures: "asyncio.Future[Any]") -> None:
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for future in futures:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)


@contextlib.contextmanager
def _signals_passed_on(tree: ProcessTree, give_up: Callable[[], None]):
    """What is sent to us goes to the agent; ignored signals stay ignored. Once it has ended, they are for us."""
    loop = asyncio.get_running_loop()
    taken: list[signal.Signals] = []

    def pass_on(number: signal.Signals) -> None:
        if tree.exit is not None:
            give_up()
        elif number.name in _FROM_TERMINAL and _in_foreground():
            os.killpg(tree.pid, number)  # a terminal reaches everybody in the foreground
        else:
            os.kill(tree.pid, number)

    def stand_still() -> None:
        with contextlib.suppress(OSError):
            os.killpg(tree.pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        with contextlib.suppress(OSError):
            os.killpg(tree.pid, signal.SIGCONT)

    if sys.platform != "win32":
        for name in _PASSED_ON:
            number = signal.Signals[name]
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, pass_on, number)
                taken.append(number)
        if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGTSTP, stand_still)
            taken.append(signal.SIGTSTP)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


def _in_foreground() -> bool:
    """Whether a terminal sends its signals to our process group."""
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
