"""Runs a program in tmux, types keys and reads the screen."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.patience import PATIENCE


class TmuxWindow:
    """One window of 80 by 24. `expect` reads what the program writes; `lines` is the current screen."""

    def __init__(self, socket: Path, output: int) -> None:
        self._socket = socket
        self._output = output
        self._written = ""
        self._expected = 0

    def expect(self, text: str) -> None:
        """Wait until the program has written this text after the last expected one."""
        while (place := self._written.find(text, self._expected)) < 0:
            more = os.read(self._output, 65536).decode(errors="replace")
            assert more, f"it ended without writing {text!r}: {self._written!r}"
            self._written += more
        self._expected = place + len(text)

    def press(self, *keys: str) -> None:
        """Send keys by their tmux names, or texts."""
        _tmux(self._socket, "send-keys", *keys)

    @property
    def lines(self) -> list[str]:
        """The visible lines."""
        shown = _tmux(self._socket, "capture-pane", "-p")
        return [line.rstrip() for line in shown.splitlines() if line.strip()]


@contextmanager
def in_tmux(folder: Path, command: Sequence[str], env: dict[str, str]) -> Generator[TmuxWindow]:
    """Run a command in a window. It prints `[exit N]` when it has ended."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed (Debian: apt-get install tmux)")
    socket, pipe, start = folder / "tmux", folder / "output", folder / "start"
    os.mkfifo(pipe)
    os.mkfifo(start)
    # The window waits until its output is read, so that no output is lost.
    line = (
        f"trap : INT; read go < {shlex.quote(str(start))}; {shlex.join(command)}; "
        "echo \\[exit $?\\]; cat > /dev/null"
    )
    _tmux(socket, "-f", os.devnull, "new-session", "-d", "-x", "80", "-y", "24", "sh", "-c", line, env=env)
    try:
        _tmux(socket, "pipe-pane", f"exec cat > {shlex.quote(str(pipe))}")
        output = os.open(pipe, os.O_RDONLY)
        try:
            start.write_text("go\n")
            yield TmuxWindow(socket, output)
        finally:
            os.close(output)
    finally:
        _tmux(socket, "kill-server")


def _tmux(socket: Path, *words: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["tmux", "-S", str(socket), *words],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
