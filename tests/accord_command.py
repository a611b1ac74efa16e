"""Runs `accord` commands to their end, each in a process that is forked from one with all modules loaded.

A command does little compared with the time that Python needs to import it. Tests of the start itself, of
signals and of terminals start real programs.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]


class CommandServer:
    """The process from which the commands are forked, one at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(PATIENCE)
        self._lock = threading.Lock()
        command = [sys.executable, "-m", "tests.command_server", str(theirs.fileno())]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )
        theirs.close()

    def run(self, request: dict[str, Any], data: bytes | None) -> "subprocess.CompletedProcess[bytes]":
        """Run one command with this input, or with /dev/null."""
        stdin, our_in = (os.open(os.devnull, os.O_RDONLY), None) if data is None else os.pipe()
        (our_out, stdout), (our_err, stderr) = os.pipe(), os.pipe()
        with self._lock, ThreadPoolExecutor(3) as pool:
            sent = json.dumps(request).encode()
            socket.send_fds(self._socket, [len(sent).to_bytes(4, "big")], [stdin, stdout, stderr])
            self._socket.sendall(sent)
            for theirs in (stdin, stdout, stderr):
                os.close(theirs)
            if data is not None and our_in is not None:
                pool.submit(_write, our_in, data)
            out, err = pool.submit(_read, our_out), pool.submit(_read, our_err)
            code = self._wait()
            return subprocess.CompletedProcess(request["words"], code, out.result(), err.result())

    def close(self) -> None:
        """Close the connection, which ends the process."""
        self._socket.close()
        self._process.wait()

    def _wait(self) -> int:
        pid = self._number(8)
        try:
            return self._number(4)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._number(4)  # the next command must not read it
            raise

    def _number(self, size: int) -> int:
        data = self._socket.recv(size)
        assert len(data) == size, "the process that forks the commands has ended"
        return int.from_bytes(data, "big", signed=True)


def _write(pipe: int, data: bytes) -> None:
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(pipe, left) :]
    except BrokenPipeError:
        pass  # the command ended without reading its input
    finally:
        os.close(pipe)


def _read(pipe: int) -> bytes:
    with os.fdopen(pipe, "rb") as file:
        return file.read()


def _python_settings(env: Mapping[str, str]) -> set[tuple[str, str]]:
    """The variables that Python itself reads when it starts."""
    return {(name, value) for name, value in env.items() if name.startswith("PYTHON")}


@cache
def _server() -> CommandServer:
    server = CommandServer()
    atexit.register(server.close)
    return server


def run_accord(
    *words: str | Path,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | bytes | None = None,
    new_session: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Run `accord WORDS` to its end, without a terminal."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    variables = dict(os.environ if env is None else env)
    if sys.platform == "linux" and _python_settings(variables) <= _python_settings(os.environ):
        request = {
            "words": [*map(str, words)],
            "cwd": str(cwd or os.getcwd()),
            "env": variables,
            "new_session": new_session,
        }
        done = _server().run(request, data)
    else:
        done = subprocess.run(
            [sys.executable, "-m", "accord.cli", *map(str, words)],
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            cwd=cwd,
            env=variables,
            start_new_session=new_session,
            timeout=PATIENCE,
            check=False,
        )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
