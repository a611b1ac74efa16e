"""Start a child process, wait for it, and end it with all its descendants, on POSIX and on Windows.

A child leads its own tree (a session on POSIX, a job object on Windows), gets default signals and no
descriptors but its three, and never outlives this process, even if this process is killed. Agents and
terminals both start here.
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
    from accord.wire.process_windows import CREATION_FLAGS, NEW_SESSION, prepared_signals
    from accord.wire.process_windows import Job as PlatformProcessTree
else:
    from accord.wire.process_posix import CREATION_FLAGS, NEW_SESSION, prepared_signals
    from accord.wire.process_posix import ProcessGroup as PlatformProcessTree

TREE_VARIABLE: Final = "ACCORD_PROCESS_TREE"
"""The environment variable with the marks of the trees that a process belongs to, the inner one last."""

DEV_NULL: Final = subprocess.DEVNULL
"""For a stdin, stdout or stderr that is not used."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a process ended: its exit code or the signal that ended it; neither if the system does not know."""

    code: int | None = None
    signal: str | None = None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"was ended by {self.signal}"
        return "exited" if self.code is None else f"exited with code {self.code}"


@dataclass(frozen=True, slots=True)
class StopTimeouts:
    """How many seconds each step of ending a tree may take before the next, harder one."""

    leave: float = 2.0
    """From closing stdin to SIGTERM."""
    terminate: float = 2.0
    """From SIGTERM to SIGKILL."""
    kill: float = 1.0
    """From SIGKILL to giving up."""
    settle: float = 0.5
    """From the end of the child or of its output to assuming the end of both."""


STOP_TIMEOUTS: Final[StopTimeouts] = StopTimeouts()


class PlatformTree(Protocol):
    """The processes that one child started: `ProcessGroup` on POSIX, `Job` on Windows."""

    def scan(self) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def interrupt(self) -> None: ...
    def has_survivors(self) -> bool: ...
    def release(self) -> None: ...


def start_process(
    command: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str | None] | None = None,
    stdin: int = DEV_NULL,
    stdout: int = DEV_NULL,
    stderr: int = DEV_NULL,
    tty: str | None = None,
) -> "ProcessTree":
    """Start a command on the given descriptors, which the caller closes. Raises NeverStarted.

    `env` extends the environment of this process (None removes a variable). `tty` is the path of a terminal
    (the slave of a PTY) that becomes the controlling terminal and all three descriptors; it needs /bin/sh.
    """
    environment = {**os.environ, **(env or {})}
    variables = {name: value for name, value in environment.items() if value is not None}
    mark = os.urandom(16).hex()
    variables[TREE_VARIABLE] = f"{variables.get(TREE_VARIABLE, '')} {mark}".strip()
    folder = os.path.abspath(cwd) if cwd is not None else None
    argv = [_find_program(command, folder, variables), *command[1:]]
    if tty is not None:
        # The first terminal that a session leader opens becomes its controlling one: no code runs between
        # fork and exec.
        argv = ["/bin/sh", "-c", 'exec "$@" 0<>"$0" 1>&0 2>&0', tty, *argv]
    with prepared_signals():
        try:
            child = subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=folder,
                env=variables,
                start_new_session=NEW_SESSION,
                creationflags=CREATION_FLAGS,
            )
        except (OSError, ValueError) as error:
            raise NeverStarted(_explain_start_error(command[0], argv[0], error)) from error
    return ProcessTree(child, mark)


class ProcessTree:
    """A running child and all its descendants."""

    def __init__(self, child: "subprocess.Popen[bytes]", mark: str) -> None:
        """`mark` is a unique text in the environment of the child and so of its descendants."""
        self._child = child
        self._platform: PlatformTree = PlatformProcessTree(child, mark)
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[ProcessExit] = self._loop.create_future()
        self._pidfd = -1
        self._watch_exit()

    @property
    def pid(self) -> int:
        """The process id of the child; on POSIX also the id of its group and session."""
        return self._child.pid

    @property
    def exit(self) -> ProcessExit | None:
        """How the child ended, or None; descendants may still run."""
        return self._exited.result() if self._exited.done() else None

    def on_exit(self, callback: Callable[[ProcessExit], None]) -> None:
        """Call back on the event loop when the child has ended."""
        self._exited.add_done_callback(lambda exited: callback(exited.result()))

    async def wait(self) -> ProcessExit:
        """Wait until the child has ended, without a limit."""
        return await asyncio.shield(self._exited)

    def interrupt(self) -> None:
        """Interrupt the whole tree, as Ctrl-C does."""
        self._platform.interrupt()

    def terminate(self) -> None:
        """Ask the whole tree to end."""
        self._platform.terminate()

    def kill(self) -> None:
        """Kill the whole tree."""
        self._platform.kill()

    def scan(self) -> None:
        """Find the members while the child runs: those that left its group are found only through it."""
        self._platform.scan()

    async def end(
        self, timeouts: StopTimeouts = STOP_TIMEOUTS, clock: Clock = SYSTEM_CLOCK
    ) -> ProcessExit | None:
        """End the whole tree: wait, terminate, wait, kill. Bounded; afterwards none of its processes lives.

        To let the child exit by itself, call `scan` and close its stdin first. Returns None if not even
        SIGKILL ended the child in time.
        """
        try:
            await within(clock, timeouts.leave, self._exited)
            if self.exit is None or self._platform.has_survivors():
                self._platform.terminate()
                if not await self._wait_all_ended(timeouts.terminate, clock):
                    self._platform.kill()
                    await self._wait_all_ended(timeouts.kill, clock)
        except asyncio.CancelledError:
            self._platform.kill()
            raise
        finally:
            self._check_exit()
            if self._exited.done():
                self._platform.release()
        return self.exit

    async def _wait_all_ended(self, seconds: float, clock: Clock) -> bool:
        deadline = clock.now() + seconds
        if not await within(clock, seconds, self._exited):
            return False
        pause = 0.001
        while self._platform.has_survivors():
            if clock.now() >= deadline:
                return False
            await clock.sleep(pause)  # descendants are not our children: the system does not report their end
            pause = min(pause * 2, 0.05)
        return True

    def _watch_exit(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._child.pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait_for_exit_in_thread, name="accord-child", daemon=True).start()
        else:
            self._loop.add_reader(self._pidfd, self._check_exit)

    def _wait_for_exit_in_thread(self) -> None:
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._child.wait()
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._check_exit)

    def _check_exit(self) -> None:
        """Check whether the child has ended, without reaping it."""
        if self._exited.done():
            return
        found = self._read_exit()
        if found is None:
            return
        if self._pidfd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self._exited.set_result(found)

    def _read_exit(self) -> ProcessExit | None:
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
            return ProcessExit()  # already reaped, for example because SIGCHLD is ignored
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


def _find_program(command: Sequence[str], cwd: str | None, env: Mapping[str, str]) -> str:
    """Find the file to run as the child would; on Windows this also finds .cmd shims such as npx."""
    if not command or not command[0]:
        raise NeverStarted("there is no command to start; give the program and its arguments")
    name = command[0]
    if cwd is not None and not os.path.isdir(cwd):
        raise NeverStarted(
            f"cannot start {name}: its folder {cwd} does not exist; create it or name another one"
        )
    is_path = bool(os.path.dirname(name))
    path = os.path.join(cwd or os.getcwd(), name) if is_path else name
    found = shutil.which(path, path=env.get("PATH", os.defpath))
    if found is not None:
        return found
    words = name.split()
    if len(words) > 1:
        separate = ", ".join(f'"{word}"' for word in words)
        raise NeverStarted(
            f"cannot start {name}: there is no program of this name; "
            f"give the program and its arguments as separate words: {separate}"
        )
    if not is_path:
        raise NeverStarted(f"cannot start {name}: it is not on PATH; install it or give its full path")
    if os.path.isdir(path):
        raise NeverStarted(f"cannot start {name}: it is a folder; name the program inside it")
    if os.path.exists(path):
        raise NeverStarted(
            f"cannot start {name}: it is not executable; run chmod +x on it, or start it with its interpreter"
        )
    raise NeverStarted(f"cannot start {name}: {path} does not exist; check the path")


def _explain_start_error(name: str, path: str, error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return f"cannot start {name}: an argument or environment variable contains a null byte; remove it"
    if isinstance(error, FileNotFoundError):
        return f"cannot start {name}: the interpreter in line 1 of {path} does not exist; install it"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return (
        f"cannot start {name}: the system refused {path} ({reason}); "
        "check that it is a program for this machine"
    )
