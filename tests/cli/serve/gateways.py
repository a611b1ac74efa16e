"""`accord serve` as a process, and somebody who reads what it says."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from tests.cli.process import environment

from accord.gateway.access.tokens import Token, Tokens

_OPENER = build_opener(ProxyHandler({}))


class Served:
    """A gateway that runs. `said` is what it printed up to its last line of greeting."""

    def __init__(self, running: subprocess.Popen[str]) -> None:
        self._running = running
        assert running.stdout
        self.said = ""
        for line in running.stdout:
            self.said += line
            if line.startswith("Ctrl-C stops"):
                break
        else:
            _, err = running.communicate()
            raise AssertionError(f"it ended with {running.returncode}: {err}")
        found = re.search(r"listening on (https?://\S+?:(\d+))", self.said)
        assert found
        self.url, self.port = found[1], int(found[2])
        linked = re.search(r"#token=(\S+)", self.said)
        self.token = linked[1] if linked else ""

    @property
    def websocket(self) -> str:
        """Where a WebSocket is opened."""
        return f"ws://127.0.0.1:{self.port}/acp"

    def status(self, path: str, token: str | None = None, method: str = "GET", **headers: str) -> int:
        """The status of a request."""
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            told["Authorization"] = f"Bearer {token}"
        try:
            with _OPENER.open(Request(self.url + path, method=method, headers=told)) as response:
                return response.status
        except HTTPError as error:
            with error:
                return error.code

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal."""
        self._running.send_signal(number)

    def wait_for(self, text: str) -> None:
        """Read its log until a line has this text."""
        assert self._running.stderr
        for line in self._running.stderr:
            if text in line:
                return
        raise AssertionError(f"the log ended without {text!r}")

    def end(self) -> tuple[int, str]:
        """Wait for its end: the exit code, and the rest of its log."""
        assert self._running.stderr
        log = self._running.stderr.read()
        return self._running.wait(), log


@contextmanager
def served(home: Path, *words: str, **more: str) -> Generator[Served]:
    """`accord serve WORDS`, listening; told to stop at the end."""
    env = environment(home, **more)
    if "JOURNAL_STREAM" not in more:
        env.pop("JOURNAL_STREAM", None)
    port = () if "--port" in words else ("--port", "0")
    command = [sys.executable, "-m", "accord.cli", "serve", *port, *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=env, cwd=_somewhere(home)
    ) as running:
        try:
            yield Served(running)
        finally:
            running.terminate()
            try:
                running.wait(20)
            finally:
                running.kill()


def accord(home: Path, *words: str) -> tuple[int, str, str]:
    """Any command, to its end: exit code, stdout, stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli", *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment(home),
        cwd=_somewhere(home),
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def tokens_of(home: Path) -> list[Token]:
    """The tokens that are kept there."""
    return Tokens(home / "data" / "gateway" / "tokens").all()


def _somewhere(home: Path) -> Path:
    folder = home.with_name(home.name + "-cwd")
    os.makedirs(folder, exist_ok=True)
    return folder
