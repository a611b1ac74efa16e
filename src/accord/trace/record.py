"""Standing between a client and an agent: `record` runs the agent's command in our place and keeps what crosses.

The bytes, the ends of the streams, signals and the exit are the agent's own; its whole tree of processes ends with us.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from accord.trace.files import FileSink
from accord.trace.lines import Sender
from accord.trace.pump import Pump
from accord.wire.children import Exit, Patience, ProcessTree, start

_PASSED_ON: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
_FROM_TERMINAL: Final = ("SIGINT", "SIGQUIT")
_STRAGGLERS: Final = Patience(leave=0.0, terminate=1.0, kill=1.0)


async def record(command: Sequence[str], sink: FileSink, *, stdin: int, stdout: int, stderr: int) -> Exit:
    """Run the command on these three descriptors, of which the first two are closed; raises `NeverStarted`.

    Returns how it ended, once everything it wrote is passed on and told to the sink, and nothing of its tree lives.
    """
    (child_in, our_in), (our_out, child_out), (our_err, child_err) = [os.pipe() for _ in range(3)]
    try:
        tree = start(command, stdin=child_in, stdout=child_out, stderr=child_err)
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
        Pump(
            stdin, our_in, told=partial(sink.note_bytes, "client"), over=partial(over, "client", None)
        ).start()
        output = Pump(
            our_out, stdout, told=partial(sink.note_bytes, "agent"), over=partial(over, "agent", said)
        )
        errors = Pump(
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


def leave_as(exit: Exit) -> int:
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
