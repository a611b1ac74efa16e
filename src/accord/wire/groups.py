"""The tree of one child on POSIX: a session and process group of its own, and whoever left it.

The child stays unreaped until `release`, so that its number, which is also the group's, cannot become another's.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from accord.wire.kin import Process, kin, send
from accord.wire.watchdog import WATCHDOG

NEW_SESSION: Final = True
CREATION_FLAGS: Final = 0

_ROUNDS: Final = 8
"""How often a tree is looked through for newcomers before it is killed."""
_OFTEN_IGNORED: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)


@contextmanager
def starting() -> Generator[None]:
    """While a child is started: the watchdog stands ready, and signals are such that the child has its defaults.

    What is blocked in this thread, or ignored as in a job that a script put into the background, would stay so in the
    child; what has a handler is back at its default there.
    """
    WATCHDOG.ready()
    ignored: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        ignored = [number for number in _OFTEN_IGNORED if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, _ignore)
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def _ignore(number: int, frame: object) -> None:
    """A handler that does what ignoring does."""


class Group:
    """All processes that one child began."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child
        self._members: dict[int, Process] = {}
        self._seen: dict[int, Process] = {}
        self._reaped = False
        WATCHDOG.watch(child.pid)

    def look(self) -> None:
        """Note who belongs to the tree now: once a parent is gone, those who left the group cannot be found by it."""
        if not self._reaped and sys.platform.startswith("linux"):
            self._members = kin(self._child.pid, self._seen.values())
            self._seen |= self._members

    def terminate(self) -> None:
        """Ask all of them to end; those that stand still are woken for it."""
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End all of them. They are stopped first, so that nobody is born or leaves the group unseen meanwhile."""
        for _ in range(_ROUNDS):
            known = set(self._seen)
            self._send(signal.SIGSTOP)
            if known >= self._seen.keys():
                break
        self._send(signal.SIGKILL)

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._send(signal.SIGINT)

    def living(self) -> bool:
        """Whether anyone is left besides the child itself."""
        if self._reaped:
            return False
        if not sys.platform.startswith("linux"):
            return self._child.poll() is not None and self._group_answers()
        self.look()
        return any(pid != self._child.pid for pid in self._members)

    def release(self) -> None:
        """The tree is over: reap the child and let its number go."""
        if not self._reaped:
            self._reaped = True
            WATCHDOG.forget(self._child.pid)
            self._child.poll()

    def _send(self, sig: signal.Signals) -> None:
        if self._reaped:
            return
        self.look()
        try:
            os.killpg(self._child.pid, sig)
        except OSError:
            pass  # nobody left in the group, or nobody of ours
        for member in self._members.values():
            # One that was in the group when we looked may have left it since; these two do no harm twice.
            if member.group != self._child.pid or sig in (signal.SIGSTOP, signal.SIGKILL):
                send(member, sig)

    def _group_answers(self) -> bool:
        try:
            os.killpg(self._child.pid, 0)
        except OSError:
            return False
        return True
