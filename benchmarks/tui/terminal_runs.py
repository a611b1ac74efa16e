"""Runs `accord chat` on a terminal, as a user sees it, and Toad beside it if there is one."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from time import monotonic, perf_counter

AGENT = Path(__file__).parent / "flood_agent.py"
COLUMNS, LINES = 120, 40
UPDATES = 10_000
MESSAGES = 4_000
IDLE_SECONDS = 5.0
SECONDS = 240.0
"""After which a run has failed."""
END = b"D-OF-ANSWE"
"""The middle of the last words of an answer; a client may not write characters that were there before."""
ANSWERS = {
    b"\x1b[5n": b"\x1b[0n",
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1b[?2026$p": b"\x1b[?2026;2$y",
    b"\x1b]11;?\x1b\\": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}
"""What a terminal answers to the questions of programs."""
_QUESTION = re.compile(b"|".join(map(re.escape, ANSWERS)))

Figures = dict[str, float]
COMMANDS: dict[str, Callable[[str, Sequence[str]], list[str]]] = {
    "Accord": lambda program, agent: [program, "-m", "accord.cli", "chat", "--", *agent],
    "Toad": lambda program, agent: [program, "acp", " ".join(agent)],
}


class TerminalRun:
    """A program on a terminal that answers its questions at once."""

    def __init__(self, command: Sequence[str], home: str) -> None:
        self.shown = b""
        self._answered = 0
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "HOME": home}
        env |= {"ACCORD_HOME": home, "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *command], stdin=slave, stdout=slave, stderr=slave, env=env, cwd=home
        )
        os.close(slave)

    def read(self, seconds: float) -> bool:
        """Read what is written within this time, and answer questions; whether there was something."""
        if not select([self._master], [], [], seconds)[0]:
            return False
        try:
            self.shown += os.read(self._master, 65536)
        except OSError:
            raise RuntimeError(f"the program ended: {self.shown[-500:]!r}") from None
        for question in _QUESTION.finditer(self.shown, self._answered):
            self._answered = question.end()
            self.type(ANSWERS[question[0]])
        return True

    def type(self, data: bytes) -> None:
        os.write(self._master, data)

    def wait_for(self, text: bytes, start: int = 0, *, press: bytes = b"") -> None:
        """Read until the text is shown; press a key ten times per second until then."""
        end, pressed = monotonic() + SECONDS, 0.0
        while text not in self.shown[start:]:
            if press and monotonic() - pressed > 0.1:
                self.type(press)
                pressed = monotonic()
            self.read(0.1)
            if monotonic() > end:
                raise RuntimeError(f"{text!r} was not shown in {SECONDS:g} s: {self.shown[-500:]!r}")

    def bytes_in(self, seconds: float) -> int:
        """How many bytes are written in this time."""
        before, end = len(self.shown), monotonic() + seconds
        while (remaining := end - monotonic()) > 0:
            self.read(remaining)
        return len(self.shown) - before

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        os.close(self._master)


def measure(name: str, program: str) -> Figures:
    """Start the client, type, and let the agent send many updates and messages."""
    with tempfile.TemporaryDirectory(prefix="accord-bench-") as home:
        agent = (sys.executable, str(AGENT), str(UPDATES))
        began = perf_counter()
        run = TerminalRun(COMMANDS[name](program, agent), home)
        try:
            while len(run.shown) < 1000:  # more than the sequences that open a screen
                run.read(0.1)
            painted = perf_counter() - began
            run.wait_for(b"Q", press=b"Q")
            accepted = perf_counter() - began
            run.bytes_in(3.0)  # connect
            run.type(b"\x7f" * 100)
            run.bytes_in(0.5)
            idle = run.bytes_in(IDLE_SECONDS) / IDLE_SECONDS
            updates = _turn(run, b"go")
            messages = _turn(run, f"messages {MESSAGES}".encode())
            start = len(run.shown)
            run.type(b"wait\r")
            run.wait_for(b"ait", start)
            run.bytes_in(3.0)
            waiting = run.bytes_in(IDLE_SECONDS) / IDLE_SECONDS
        finally:
            run.close()
    return {
        "first paint, s": painted,
        "key accepted, s": accepted,
        f"{UPDATES:,} updates, s": updates,
        f"{MESSAGES:,} messages, s": messages,
        "idle, bytes per second": idle,
        "waiting for the agent, bytes per second": waiting,
    }


def _turn(run: TerminalRun, prompt: bytes) -> float:
    began, start = perf_counter(), len(run.shown)
    run.type(prompt + b"\r")
    run.wait_for(END, start)
    took = perf_counter() - began
    run.bytes_in(1.0)
    return took
