"""Runs `accord serve` as a process and reads its output."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from tests.accord_command import run_accord
from tests.cli.agent_process import environment
from tests.patience import PATIENCE

from accord.gateway.access.access_tokens import Token, TokenStore

_OPENER = build_opener(ProxyHandler({}))


class GatewayProcess:
    """A running gateway. `output` is its output up to the last line of its start message."""

    def __init__(self, running: subprocess.Popen[str], home: Path) -> None:
        self._running = running
        self._home = home
        assert running.stdout
        self.output = ""
        for line in running.stdout:
            self.output += line
            if line.startswith("Press Ctrl-C to stop"):
                break
        else:
            _, err = running.communicate()
            raise AssertionError(f"it ended with {running.returncode}: {err}")
        found = re.search(r"listening on (https?://\S+?:(\d+))", self.output)
        assert found
        self.url, self.port = found[1], int(found[2])

    @property
    def pid(self) -> int:
        return self._running.pid

    @cached_property
    def token(self) -> str:
        """A new token without limits."""
        return TokenStore(_tokens_folder(self._home)).new("test")[1]

    @property
    def websocket(self) -> str:
        """The WebSocket address."""
        return f"ws://127.0.0.1:{self.port}/acp"

    def status(self, path: str, token: str | None = None, method: str = "GET", **headers: str) -> int:
        """Return the status of a request."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            fields["Authorization"] = f"Bearer {token}"
        try:
            with _OPENER.open(Request(self.url + path, method=method, headers=fields)) as response:
                return response.status
        except HTTPError as error:
            with error:
                return error.code

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._running.send_signal(number)

    def wait_for(self, text: str) -> None:
        """Read the log until a line has this text."""
        assert self._running.stderr
        for line in self._running.stderr:
            if text in line:
                return
        raise AssertionError(f"the log ended without {text!r}")

    def end(self) -> tuple[int, str]:
        """Wait for the end. Return the exit code and the rest of the log."""
        assert self._running.stderr
        log = self._running.stderr.read()
        return self._running.wait(), log


@contextmanager
def running_gateway(home: Path, *words: str, **more: str) -> Generator[GatewayProcess]:
    """Run `accord serve WORDS` until it listens. Stop it at the end."""
    env = environment(home, **more)
    port = () if "--port" in words else ("--port", "0")
    command = [sys.executable, "-m", "accord.cli", "serve", *port, *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=env,
        cwd=_working_folder(home),
    ) as running:
        try:
            yield GatewayProcess(running, home)
        finally:
            if hasattr(signal, "SIGCONT"):
                running.send_signal(signal.SIGCONT)  # a test that failed may have left it stopped
            running.terminate()
            try:
                running.wait(PATIENCE)
            finally:
                running.kill()


def accord(home: Path, *words: str) -> tuple[int, str, str]:
    """Run any command to its end. Return the exit code, stdout and stderr."""
    done = run_accord(*words, env=environment(home), cwd=_working_folder(home))
    return done.returncode, done.stdout, done.stderr


def tokens_of(home: Path) -> list[Token]:
    """Return the stored tokens."""
    return TokenStore(_tokens_folder(home)).all()


def _tokens_folder(home: Path) -> Path:
    return home / "data" / "gateway" / "tokens"


def _working_folder(home: Path) -> Path:
    folder = home.with_name(home.name + "-cwd")
    os.makedirs(folder, exist_ok=True)
    return folder
