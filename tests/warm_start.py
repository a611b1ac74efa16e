"""Starts Python programs of the tests from a process that has imported all of Accord, instead of anew.

To import a program takes many times as long as most tests need it for. `install` changes what
`subprocess.Popen` does with `python -m accord.cli ...` and `python program.py ...` on Linux: a helper process
with all modules loaded forks. The program is a child of its caller like any other, with its own process id,
descriptors, environment, folder and session. Everything else is started as usual, such as `python -c`, a
program in a terminal, and a program with a setting that Python reads at its start.
"""

import atexit
import ctypes
import gc
import json
import os
import pkgutil
import platform
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

ROOT = Path(__file__).parents[1]
MODULES: Final = ("accord", "accord.cli", "accord.testing", "tests.")
"""What `python -m` may name."""
NOT_LOADED: Final = ("accord.compat", "accord.policy.sandbox.self_test")
"""Programs of their own."""
ALSO_LOADED: Final = ("acp.http.server", "acp.ws.client", "hypercorn.asyncio", "mcp.server.stdio")
IN_TERMINAL: Final = 'exec "$@" <"$0" >"$0" 2>&1'
"""A shell script that runs a program on a terminal: a session leader that opens one gets it as its own."""
REAL_STARTS: Final = 6
"""So many programs start anew first: to load all modules takes longer, and a run of one test needs few.

One of several test processes starts all of them warm, since such a run is a long one.
"""
LIMIT: Final = 300.0
"""Seconds for a fork on a busy machine."""
_CLONE: Final = 56  # the number of the system call on x86-64
_CLONE_FLAGS: Final = (
    0x00008000 | 0x00200000 | 0x01000000 | signal.SIGCHLD
)  # PARENT, CHILD_CLEARTID, CHILD_SETTID
_SET_PARENT_DEATH_SIGNAL: Final = 1
_GET_TID_ADDRESS: Final = 40
_MAX_DESCRIPTORS: Final = 1 << 16
_HUGE_PAGE: Final = 2 << 20
_ALLOW_HUGE_PAGES: Final = 14  # the advice numbers of `madvise`
_COLLAPSE_TO_HUGE_PAGES: Final = 25
_REAL_START: Final[Any] = getattr(subprocess.Popen, "_execute_child", None)


class WarmProcess:
    """The process that forks for this one, on the other end of a socket."""

    def __init__(self, connection: socket.socket, pid: int = 0) -> None:
        self._connection = connection
        self._pid = pid
        self._connection.settimeout(LIMIT)
        self._lock = threading.Lock()

    @classmethod
    def start(cls, env: dict[str, str]) -> "WarmProcess":
        """Start it as a new program with this environment."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.warm_start", str(theirs.fileno())]
        null = subprocess.DEVNULL
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=null, stdout=null, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        process.returncode = 0  # avoids the warning that it still runs; it exits when the socket closes
        return cls(ours)

    @classmethod
    def fork(cls) -> "WarmProcess":
        """Fork it from this process, which is itself one that has just been forked."""
        ours, theirs = socket.socketpair()
        if (child := os.fork()) == 0:
            ctypes.pythonapi.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            ours.detach()
            theirs = socket.socket(fileno=os.dup2(theirs.detach(), 3, inheritable=False))
            os.closerange(4, _MAX_DESCRIPTORS)  # pipes of the program
            serve(theirs)
            os._exit(0)
        theirs.close()
        return cls(ours, child)

    def end(self) -> None:
        """End a forked one, so that no process is left when this program exits."""
        self._connection.close()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def run(self, request: dict[str, Any], descriptors: Sequence[int]) -> int | None:
        """Start a program and return its process id, once it has its session, folder and descriptors.

        Returns None if it could not get them.
        """
        sent = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._connection, [len(sent).to_bytes(4, "big")], descriptors)
            self._connection.sendall(sent)
            answer = self._connection.recv(8)
        if len(answer) != 8:
            raise ConnectionResetError("the process that forks the programs has ended")
        child = int.from_bytes(answer, "big", signed=True)
        if child > 0:
            return child
        os.waitpid(-child, 0)
        return None


def load_all() -> None:
    """Import every module of Accord, and other packages that programs of the tests need."""
    import accord
    from accord.schema.codec import decoder

    found = (module.name for module in pkgutil.walk_packages(accord.__path__, "accord."))
    names = [name for name in found if not name.startswith(NOT_LOADED) and not name.endswith("__main__")]
    for name in (*names, *ALSO_LOADED):
        with suppress(ImportError):  # of a package that is not installed
            import_module(name)
    for struct in _subclasses(msgspec.Struct):
        with suppress(TypeError, NameError):  # of a class that is never decoded
            decoder(struct)  # describes the class; otherwise each program would do that again
    gc.collect()
    gc.freeze()  # a collection in a child would copy the memory that it shares
    _use_huge_pages()
    assert threading.active_count() == 1, "a process with threads must not fork"


def _subclasses(cls: type) -> Generator[type]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _use_huge_pages() -> None:
    """Move the memory of this process to pages of 2 MiB: a fork then copies 50 entries instead of 25,000.

    The kernel may refuse, and then a fork only takes longer.
    """
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, *_, name = (*line.split(maxsplit=5), "")[:6]
        first, last = (int(address, 16) for address in addresses.split("-"))
        start, end = -(-first // _HUGE_PAGE) * _HUGE_PAGE, last // _HUGE_PAGE * _HUGE_PAGE
        if rights == "rw-p" and name in ("", "[heap]") and start < end:
            advise(start, end - start, _ALLOW_HUGE_PAGES)
            advise(start, end - start, _COLLAPSE_TO_HUGE_PAGES)


_IGNORED: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)


def serve(caller: socket.socket) -> None:
    """Fork a program for each request, until the socket closes."""
    for number in _IGNORED:  # signals for the group of the caller
        signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            size, descriptors, _, _ = socket.recv_fds(caller, 4, 3)
            if not size:
                return
            request = json.loads(_receive(caller, int.from_bytes(size, "big")))
        except ConnectionResetError:
            return
        if _fork_for_parent() == 0:
            run(caller, request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _fork_for_parent() -> int:
    """Fork a process whose parent is the parent of this one, so that it can wait for its exit code."""
    interpreter = ctypes.pythonapi
    interpreter.PyOS_BeforeFork()
    thread = ctypes.c_void_p()
    if interpreter.prctl(_GET_TID_ADDRESS, ctypes.byref(thread), 0, 0, 0) != 0:
        raise OSError("prctl")
    child = interpreter.syscall(_CLONE, _CLONE_FLAGS, 0, 0, thread, 0)
    if child == 0:
        interpreter.PyOS_AfterFork_Child()
    else:
        interpreter.PyOS_AfterFork_Parent()
    return child


def _receive(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise ConnectionResetError
        found += part
    return found


def run(caller: socket.socket, request: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Run a program in this process, as Python runs it after its start, and exit."""
    for number in _IGNORED:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if request["new_session"]:
        os.setsid()
    # The small peers in the folder of the tests start no programs.
    warm = None if _is_peer(request) else WarmProcess.fork()
    try:
        _prepare(request, descriptors)
    except (OSError, ValueError):
        caller.sendall((-os.getpid()).to_bytes(8, "big", signed=True))
        os._exit(1)
    caller.sendall(os.getpid().to_bytes(8, "big"))
    caller.close()
    gc.enable()
    if warm is not None:
        _allow_starts(warm)
    _exit(_code_of(request), warm)


def _is_peer(request: dict[str, Any]) -> bool:
    return not request["module"] and Path(request["cwd"], request["program"]).is_relative_to(ROOT / "tests")


def _prepare(request: dict[str, Any], descriptors: list[int]) -> None:
    """Give this process the descriptors, the folder and the environment of the program."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["terminal"]:
        for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
            descriptor = os.open(request["terminal"], mode)
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()


def _code_of(request: dict[str, Any]) -> int:
    """Run the program and return its exit code."""
    try:
        if request["warnings"]:
            warnings.simplefilter("error")
        _run_program(request)
        return 0
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            sys.stderr.write(f"{end.code}\n")
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        traceback.print_exc()
        return -signal.SIGINT
    except BaseException:  # noqa: BLE001 - the top of a program
        traceback.print_exc()
        return 1


def _run_program(request: dict[str, Any]) -> None:
    program, words, path = request["program"], request["words"], sys.path[1:]
    sys.orig_argv = request["argv"]
    if request["module"]:
        sys.path[:] = path if request["safe_path"] else [os.getcwd(), *path]
        sys.argv[:] = [program, *words]
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path[:] = path if request["safe_path"] else [os.path.dirname(os.path.realpath(program)), *path]
        sys.argv[:] = [program, *words]
        runpy.run_path(program, run_name="__main__")


def _exit(code: int, warm: WarmProcess | None) -> NoReturn:
    """Exit at once: to take all modules down would take longer than most programs."""
    try:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
        atexit._run_exitfuncs()
        if warm is not None:
            warm.end()
        sys.stdout.flush()
    except OSError:
        code = 120  # as Python exits if its last output cannot be written
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


class WarmStarts:
    """How `Popen` starts programs in this process."""

    def __init__(self, warm: WarmProcess | None = None) -> None:
        self.allowed = True
        long_run = warm is not None or "PYTEST_XDIST_WORKER" in os.environ
        self.real_starts_left = 0 if long_run else REAL_STARTS
        self._warm = warm
        self._lock = threading.Lock()
        self._environment = dict(os.environ)  # not that of the test which happens to be the first

    def execute_child(self, popen: Any, args: Any, executable: Any, *more: Any) -> None:
        """Stand in for `Popen._execute_child`."""
        (preexec_fn, _, pass_fds, cwd, env, _, _, shell), more_pipes = more[:8], more[8:]
        (to_read, to_write, out_read, out_write, error_read, error_write) = more_pipes[:6]
        (_, gid, gids, uid, umask, new_session, group) = more_pipes[6:]
        usual = preexec_fn is None and not pass_fds and not shell and umask == -1 and group == -1
        usual = usual and gid is gids is uid is None and self.allowed
        request = self._request(args, executable, cwd, env) if usual else None
        given = [to_read, out_write, error_write]
        given = [number if descriptor == -1 else descriptor for number, descriptor in enumerate(given)]
        started = request and self._start(request | {"new_session": new_session}, given)
        if not started:
            _REAL_START(popen, args, executable, *more)
            return
        popen.pid = started
        popen._child_created = True
        popen._close_pipe_fds(to_read, to_write, out_read, out_write, error_read, error_write)

    def _start(self, request: dict[str, Any], descriptors: Sequence[int]) -> int | None:
        if self.real_starts_left > 0:
            self.real_starts_left -= 1
            return None
        with self._lock:
            warm = self._warm = self._warm or WarmProcess.start(self._environment)
        try:
            return warm.run(request, descriptors)
        except ConnectionError:  # a test has killed it
            self._warm = None
            return None

    def _request(self, args: Any, executable: Any, cwd: Any, env: Any) -> dict[str, Any] | None:
        """The request for this command, or None if it must be started as usual."""
        if isinstance(args, str | bytes | os.PathLike) or not args or executable not in (None, args[0]):
            return None
        words = [os.fsdecode(word) for word in args]
        folder = os.getcwd() if cwd is None else os.path.abspath(os.fsdecode(cwd))
        given = os.environ if env is None else env
        variables = {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()}
        terminal = None
        if words[:3] == ["/bin/sh", "-c", IN_TERMINAL]:
            terminal, words = words[3], words[4:]
        words = _unwrapped(words)
        if words[0] != sys.executable or not os.path.isdir(folder) or "\0" in "".join(words):
            return None
        if not _python_settings(variables) <= _python_settings(self._environment):
            return None
        request = _program(words, folder)
        if request is not None:
            request |= {"argv": words, "cwd": folder, "env": variables, "terminal": terminal}
        return request


def _unwrapped(words: list[str]) -> list[str]:
    """The command of a script `exec python ... "$@"`, which tests put into a folder of PATH."""
    if words[0] == sys.executable or not os.path.isabs(words[0]) or not os.access(words[0], os.X_OK):
        return words
    try:
        with open(words[0], "rb") as file:
            lines = file.read(400).decode(errors="replace").splitlines()
    except OSError:
        return words
    if len(lines) != 2 or lines[0] != "#!/bin/sh" or not re.fullmatch(r'exec [^$`*;&|<>]+ "\$@"', lines[1]):
        return words
    return [*shlex.split(lines[1])[1:-1], *words[1:]]


def _program(words: list[str], folder: str) -> dict[str, Any] | None:
    request: dict[str, Any] = {"warnings": False, "safe_path": False}
    rest = words[1:]
    if rest[:2] == ["-W", "error"]:
        request["warnings"], rest = True, rest[2:]
    if rest[:1] == ["-P"]:
        request["safe_path"], rest = True, rest[1:]
    if rest[:1] == ["-m"] and len(rest) > 1 and (rest[1] in MODULES or rest[1].startswith(MODULES[-1])):
        return request | {"module": True, "program": rest[1], "words": rest[2:]}
    if rest and rest[0].endswith(".py") and os.path.isfile(os.path.join(folder, rest[0])):
        return request | {"module": False, "program": rest[0], "words": rest[1:]}
    return None


def _python_settings(env: Any) -> set[tuple[str, str]]:
    """The variables that Python itself reads when it starts."""
    return {(name, value) for name, value in env.items() if name.startswith("PYTHON")}


_starts: WarmStarts | None = None


def install() -> None:
    """Start programs from a warm process from now on, unless `REAL_STARTS` is set."""
    if sys.platform == "linux" and platform.machine() == "x86_64" and not os.environ.get("REAL_STARTS"):
        _allow_starts(None)


def _allow_starts(warm: WarmProcess | None) -> None:
    global _starts
    _starts = starts = WarmStarts(warm)
    subprocess.Popen._execute_child = lambda popen, *more: starts.execute_child(popen, *more)  # type: ignore


@contextmanager
def warm_starts() -> Generator[None]:
    """Start the first programs inside the block from a warm process too."""
    if _starts:
        _starts.real_starts_left = 0
    yield


@contextmanager
def real_starts() -> Generator[None]:
    """Start every program anew inside the block."""
    before = _starts.allowed if _starts else False
    try:
        if _starts:
            _starts.allowed = False
        yield
    finally:
        if _starts:
            _starts.allowed = before


def main(words: list[str]) -> None:
    """Serve the socket with this number, or run this command of Accord, whose programs start from here."""
    load_all()
    if words[0].isdecimal():
        serve(socket.socket(fileno=int(words[0])))
        return
    _allow_starts(WarmProcess.fork())
    sys.argv[1:] = words
    runpy.run_module("accord.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.path[0] = str(ROOT)
    import tests.warm_start as module  # not `__main__`: programs that are started here change that

    module.main(sys.argv[1:])
