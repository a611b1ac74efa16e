"""Child processes as trees: started apart from us, watched, and ended whole. The one seam over POSIX and Windows.

A child leads a tree of its own (a session on POSIX, a job object on Windows), gets default signals and no descriptor
but its three, and never outlives this process, however that one ends. Agents and terminals both start here.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from accord.clock import SYSTEM_CLOCK, Clock, within
from accord.errors import NeverStarted

if sys.platform == "win32":
    from accord.wire.process_windows import CREATION_FLAGS, NEW_SESSION, starting
    from accord.wire.process_windows import Job as Tree
else:
    from accord.wire.process_posix import CREATION_FLAGS, NEW_SESSION, starting
    from accord.wire.process_posix import ProcessGroup as Tree

NOTHING: Final = subprocess.DEVNULL
"""For a stdin, stdout or stderr that leads nowhere."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended: its code, or the signal that ended it; neither where the system did not say."""

    code: int | None = None
    signal: str | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was ended by {self.signal}"
        return "exited" if self.code is None else f"exited with code {self.code}"


@dataclass(frozen=True, slots=True)
class StopTimeouts:
    """How long an ending tree is waited for, in seconds, before the next and harder step."""

    leave: float = 2.0
    """From the closed stdin to SIGTERM."""
    terminate: float = 2.0
    """From SIGTERM to SIGKILL."""
    kill: float = 1.0
    """From SIGKILL to giving up."""
    settle: float = 0.5
    """From the first thing that is over (the child, its output) to taking the rest for over too."""


PATIENCE: Final = StopTimeouts()


class PlatformTree(Protocol):
    """What `groups.Group` and `jobs.Job` know about the processes that one child began."""

    def look(self) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def interrupt(self) -> None: ...
    def living(self) -> bool: ...
    def release(self) -> None: ...


def start(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    stdin: int = NOTHING,
    stdout: int = NOTHING,
    stderr: int = NOTHING,
    tty: str | None = None,
) -> "ProcessTree":
    """Start a command on the given descriptors, which stay the caller's to close; raises `NeverStarted`.

    `env` is laid over this process's environment, None takes a name out. `tty` is the path of a terminal (the slave
    of a PTY) to have as controlling terminal and as all three descriptors; it needs /bin/sh.
    """
    environment = {**os.environ, **(env or {})}
    full = {name: value for name, value in environment.items() if value is not None}
    where = os.path.abspath(cwd) if cwd is not None else None
    argv = [_program(command, where, full), *command[1:]]
    if tty is not None:
        # A session leader gets the first terminal it opens as its controlling one; nothing need run between fork and exec.
        argv = ["/bin/sh", "-c", 'exec "$@" 0<>"$0" 1>&0 2>&0', tty, *argv]
    with starting():
        try:
            child = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=where,
                env=full,
                start_new_session=NEW_SESSION,
                creationflags=CREATION_FLAGS,
            )
        except (OSError, ValueError) as error:
            raise NeverStarted(_why(command[0], argv[0], error)) from error
    return ProcessTree(child)


class ProcessTree:
    """A running child and everything it began."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child
        self._family: PlatformTree = Tree(child)
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[ProcessExit] = self._loop.create_future()
        self._pidfd = -1
        self._watch()

    @property
    def pid(self) -> int:
        """The number of the child, on POSIX also that of its group and session."""
        return self._child.pid

    @property
    def exit(self) -> ProcessExit | None:
        """How the child ended, once it has; others of the tree may still run."""
        return self._exited.result() if self._exited.done() else None

    def on_exit(self, callback: Callable[[ProcessExit], None]) -> None:
        """Call back on the loop when the child has ended."""
        self._exited.add_done_callback(lambda exited: callback(exited.result()))

    async def wait(self) -> ProcessExit:
        """Wait for the child to end, however long it takes."""
        return await asyncio.shield(self._exited)

    def interrupt(self) -> None:
        """Ask the whole tree to stop what it is doing, as Ctrl-C does."""
        self._family.interrupt()

    def terminate(self) -> None:
        """Ask the whole tree to end."""
        self._family.terminate()

    def kill(self) -> None:
        """End the whole tree."""
        self._family.kill()

    def look(self) -> None:
        """Note who belongs to the tree while the child still lives: those who left its group are found through it."""
        self._family.look()

    async def end(self, patience: StopTimeouts = PATIENCE, clock: Clock = SYSTEM_CLOCK) -> ProcessExit | None:
        """See the whole tree out: wait, terminate, wait, kill. Bounded; afterwards nothing of it lives.

        Whoever wants the child to leave by itself lets `look` note who is there, then closes its stdin, before this.
        None if not even SIGKILL ended it in time.
        """
        try:
            await within(clock, patience.leave, self._exited)
            if self.exit is None or self._family.living():
                self._family.terminate()
                if not await self._all_gone(patience.terminate, clock):
                    self._family.kill()
                    await self._all_gone(patience.kill, clock)
        except asyncio.CancelledError:
            self._family.kill()
            raise
        finally:
            self._note_exit()
            if self._exited.done():
                self._family.release()
        return self.exit

    async def _all_gone(self, seconds: float, clock: Clock) -> bool:
        deadline = clock.now() + seconds
        if not await within(clock, seconds, self._exited):
            return False
        pause = 0.001
        while self._family.living():
            if clock.now() >= deadline:
                return False
            await clock.sleep(pause)  # they are not our children: nothing tells us when they end
            pause = min(pause * 2, 0.05)
        return True

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._child.pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait_in_thread, name="accord-child", daemon=True).start()
        else:
            self._loop.add_reader(self._pidfd, self._note_exit)

    def _wait_in_thread(self) -> None:
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._child.wait()
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._note_exit)

    def _note_exit(self) -> None:
        """See whether the child has ended, without reaping it."""
        if self._exited.done():
            return
        found = self._status()
        if found is None:
            return
        if self._pidfd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self._exited.set_result(found)

    def _status(self) -> ProcessExit | None:
        if not hasattr(os, "waitid"):
            code = self._child.poll()
            return (
                None
                if code is None
                else ProcessExit(code)
                if code >= 0
                else ProcessExit(signal=_signal_name(-code))
            )
        try:
            status = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return ProcessExit()  # somebody else collected it: a program that ignores SIGCHLD, for one
        if status is None:
            return None
        return (
            ProcessExit(status.si_status)
            if status.si_code == os.CLD_EXITED
            else ProcessExit(signal=_signal_name(status.si_status))
        )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _program(command: Sequence[str], cwd: str | None, env: Mapping[str, str]) -> str:
    """The file to run, looked for as the child itself would; on Windows that finds the .cmd shims of npx and the like."""
    if not command or not command[0]:
        raise NeverStarted("no command to start: give the program and its arguments")
    name = command[0]
    if cwd is not None and not os.path.isdir(cwd):
        raise NeverStarted(
            f"{name} was not started: its folder {cwd} does not exist; create it or name another"
        )
    by_path = bool(os.path.dirname(name))
    path = os.path.join(cwd or os.getcwd(), name) if by_path else name
    found = shutil.which(path, path=env.get("PATH", os.defpath))
    if found is not None:
        return found
    if not by_path:
        raise NeverStarted(f"{name} was not started: it is not on PATH; install it, or give its full path")
    if os.path.isdir(path):
        raise NeverStarted(f"{name} was not started: it is a folder; name the program inside it")
    if os.path.exists(path):
        raise NeverStarted(
            f"{name} was not started: it is not executable; chmod +x it, or start it by its interpreter"
        )
    raise NeverStarted(f"{name} was not started: there is no such file as {path}; check the path")


def _why(name: str, path: str, error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return f"{name} was not started: an argument or variable of it holds a null byte; remove it"
    if isinstance(error, FileNotFoundError):
        return f"{name} was not started: the interpreter named in the first line of {path} does not exist; install it"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{name} was not started: the system refused to run {path} ({reason}); check that it is a program for this machine"
