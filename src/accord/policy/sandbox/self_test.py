"""Tests a sandbox: a command inside attempts what the report says it cannot do.

The user's files are not touched. The targets are temporary files and sockets; of real secrets it reports only
whether they can be opened.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from accord.clock import SYSTEM_CLOCK, within
from accord.errors import NeverStarted
from accord.policy.sandbox.backend import HIDDEN_TEXT, Aspect, SandboxReport
from accord.policy.sandbox.sandbox import Sandbox
from accord.wire.process_tree import StopTimeouts, start_process

_TIMEOUT: Final = 20.0
_PYTHON: Final = os.path.realpath(sys.executable)
_REAL_SECRETS: Final = 8
_PROTECTED: Final = 8

# Runs inside, in Python 3.8 or newer, without Accord. Arguments are pairs of an operation and its argument.
# Prints one line for each.
_ATTEMPT: Final = r"""
import os, socket, sys
def write(path):
    with open(path, "a") as file: file.write("x")
def read(path):
    with open(path, "rb") as file: text = file.read(4096)
    if text == STUB: raise PermissionError("hidden")
def change(path):
    if os.path.isdir(path):
        probe = os.path.join(path, ".accord-self-test"); os.mkdir(probe); os.rmdir(probe)
    else: open(path, "ab").close()
def keep(name):
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), name)
    write(path); read(path); os.remove(path)
def local(path):
    with socket.socket(socket.AF_UNIX) as it: it.settimeout(5); it.connect(path)
def tcp(port):
    with socket.create_connection(("127.0.0.1", int(port)), 5): pass
def rise(_):
    with open("/proc/self/status") as file:
        if "NoNewPrivs:\t1" in file.read(): raise PermissionError("no new privileges")
STUB = sys.argv[1].encode()
for operation, argument in zip(sys.argv[2::2], sys.argv[3::2]):
    try: globals()[operation](argument)
    except Exception as error: print(type(error).__name__, error.args[-1] if error.args else "", flush=True)
    else: print("done", flush=True)
"""


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """One attempt, and whether the sandbox prevented it as reported."""

    aspect: Aspect
    what: str
    held: bool
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.aspect}: {self.what}: {'held' if self.held else 'DID NOT HOLD'} ({self.detail})"


@dataclass(frozen=True, slots=True)
class _Attempt:
    aspect: Aspect
    what: str
    operation: str
    argument: str
    should_work: bool = False


async def run_self_test(sandbox: Sandbox) -> list[SelfTestResult]:
    """Attempt what the sandbox forbids and what it must allow.

    Never raises: if nothing runs, that is the result.
    """
    with ExitStack() as stack:
        attempts = list(_attempts(sandbox, stack))
        answers, stderr = await _run_inside(sandbox, attempts)
        files_unchanged = not _read_output(sandbox, "target")
    if len(answers) != len(attempts):
        return [SelfTestResult("temp", "run a command at all", False, stderr or "it printed nothing")]
    return [
        _result(attempt, answer, files_unchanged or attempt.aspect != "writes")
        for attempt, answer in zip(attempts, answers, strict=True)
    ]


def contradictions(report: SandboxReport, results: list[SelfTestResult]) -> list[SelfTestResult]:
    """Return the results that contradict the report."""
    return [result for result in results if not result.held and report.fact(result.aspect).enforced]


def _result(attempt: _Attempt, answer: str, files_unchanged: bool) -> SelfTestResult:
    succeeded = answer == "done"
    return SelfTestResult(
        attempt.aspect, attempt.what, succeeded == attempt.should_work and files_unchanged, answer
    )


def _attempts(sandbox: Sandbox, stack: ExitStack) -> Iterator[_Attempt]:
    outside = sandbox.private.path
    target = os.path.join(outside, "target")
    with open(target, "w"):
        pass
    yield _Attempt("temp", "use the temporary folder", "keep", "trial", should_work=True)
    yield _Attempt("writes", "write outside the roots", "write", target)
    for path in sandbox.view.protected[:_PROTECTED]:
        yield _Attempt("steering", f"change {path}", "change", path)
    yield _Attempt("secrets", "read outside the roots", "read", target)
    for path in _real_secrets(sandbox):
        yield _Attempt("secrets", f"read {path}", "read", path)
    socket_path = os.path.join(outside, "socket")
    stack.enter_context(_listening(socket.AF_UNIX, socket_path))
    yield _Attempt("sockets", "connect to a local socket", "local", socket_path)
    if not sandbox.network:
        port = stack.enter_context(_listening(socket.AF_INET, ("127.0.0.1", 0)))
        yield _Attempt("network", "connect to a port of this machine", "tcp", str(port))
    if sys.platform == "linux":
        yield _Attempt("privileges", "gain privileges", "rise", "")


def _real_secrets(sandbox: Sandbox) -> Iterator[str]:
    """Yield hidden files that could be read without a sandbox."""
    remaining = _REAL_SECRETS
    for path in sandbox.secrets:
        if remaining and os.path.isfile(path) and os.access(path, os.R_OK) and os.path.getsize(path):
            remaining -= 1
            yield path


@contextmanager
def _listening(family: socket.AddressFamily, address: str | tuple[str, int]) -> Generator[int]:
    with socket.socket(family) as listener:
        listener.bind(address)
        listener.listen()
        try:
            yield listener.getsockname()[1] if family == socket.AF_INET else 0
        finally:
            if isinstance(address, str):
                os.remove(address)


async def _run_inside(sandbox: Sandbox, attempts: list[_Attempt]) -> tuple[list[str], str]:
    """Run the attempts in the sandbox. Return one line for each, and the error output."""
    words = [word for attempt in attempts for word in (attempt.operation, attempt.argument)]
    confined = sandbox.wrap([_PYTHON, "-I", "-S", "-c", _ATTEMPT, HIDDEN_TEXT, *words])
    stdout, stderr = (_open_output(sandbox, name) for name in ("stdout", "stderr"))
    try:
        tree = start_process(
            confined.argv, cwd=confined.cwd, env=confined.env_changes, stdout=stdout, stderr=stderr
        )
    except NeverStarted as error:
        return [], str(error)
    finally:
        os.close(stdout)
        os.close(stderr)
    exit_task = asyncio.ensure_future(tree.wait())
    try:
        await within(SYSTEM_CLOCK, _TIMEOUT, exit_task)
    finally:
        await tree.end(StopTimeouts(leave=0, terminate=0))
        exit_task.cancel()
    return _read_output(sandbox, "stdout").splitlines(), _read_output(sandbox, "stderr").strip()[-300:]


def _open_output(sandbox: Sandbox, name: str) -> int:
    return os.open(os.path.join(sandbox.private.path, name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)


def _read_output(sandbox: Sandbox, name: str) -> str:
    with open(os.path.join(sandbox.private.path, name), encoding="utf-8", errors="replace") as file:
        return file.read()
