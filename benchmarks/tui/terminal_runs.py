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
from contextlib import closing, suppress
from pathlib import Path
from select import select
from time import monotonic, perf_counter

AGENT = Path(__file__).parent / "flood_agent.py"
COLUMNS, LINES = 120, 40
UPDATES = 10_000
MESSAGES = 4_000
IDLE_SECONDS = 5.0
SECONDS = 60.0
"""After which a turn is given up."""
ENDS = {b"go": b"D-OF-ANSWE", b"messages": b"AST-MESSAG"}
"""The middle of the last words of each answer; a client may not write characters that were there before, and
writes the end of an earlier answer again when it scrolls."""
ANSWERS = {
    b"\x1b[5n": b"\x1b[0n",
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1b[?2026$p": b"\x1b[?2026;2$y",
    b"\x1b]11;?\x1b\\": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}
"""What a terminal answers to the questions of programs."""
_QUESTION = re.compile(b"|".join(map(re.escape, ANSWERS)))
_LONGEST = max(map(len, ANSWERS))

Figures = dict[str, float]
COMMANDS: dict[str, Callable[[str, Sequence[str]], list[str]]] = {
    "Accord": lambda program, agent: [program, "-m", "accord.cli", "chat", "--", *agent],
    "Toad": lambda program, agent: [program, "acp", " ".join(agent)],
}


class TerminalRun:
    """A program on a terminal that answers its questions at once."""

    def __init__(self, command: Sequence[str], home: str) -> None:
        self.shown = bytearray()
        self._searched = 0  # for questions
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
        for question in _QUESTION.finditer(self.shown, self._searched):
            self._searched = question.end()
            self.type(ANSWERS[bytes(question[0])])
        self._searched = max(self._searched, len(self.shown) - _LONGEST)
        return True

    def type(self, data: bytes) -> None:
        os.write(self._master, data)

    def wait_for(self, text: bytes, start: int = 0, *, press: bytes = b"") -> None:
        """Read until the text is shown; press a key ten times per second until then."""
        end, pressed = monotonic() + SECONDS, 0.0
        while self.shown.find(text, start) < 0:
            start = max(start, len(self.shown) - len(text))
            if press and monotonic() - pressed > 0.1:
                self.type(press)
                pressed = monotonic()
            self.read(0.1)
            if monotonic() > end:
                raise TimeoutError(f"{text!r} was not shown in {SECONDS:g} s: {self.shown[-500:]!r}")

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


def measure(name: str, program: str, *, turns: bool) -> Figures:
    """Start the client and type. With `turns`, also wait, and let the agent send much."""
    with tempfile.TemporaryDirectory(prefix="accord-bench-") as home:
        agent = (sys.executable, str(AGENT), str(UPDATES))
        command = COMMANDS[name](program, agent)
        began = perf_counter()
        with closing(TerminalRun(command, home)) as run:
            while len(run.shown) < 1000:  # more than the sequences that open a screen
                run.read(0.1)
            figures = {"first paint, s": perf_counter() - began}
            run.wait_for(b"Q", press=b"Q")
            figures["key accepted, s"] = perf_counter() - began
            if not turns:
                return figures
            _connect(run)
            idle = run.bytes_in(IDLE_SECONDS) / IDLE_SECONDS
            _write(run, b"wait")
            run.type(b"\r")
            run.bytes_in(3.0)
            waiting = run.bytes_in(IDLE_SECONDS) / IDLE_SECONDS
        with closing(TerminalRun(command, home)) as run:
            run.wait_for(b"Q", press=b"Q")
            _connect(run)
            figures[f"{UPDATES:,} updates, s"] = _turn(run, b"go")
            figures[f"{MESSAGES:,} messages, s"] = _turn(run, f"messages {MESSAGES}".encode())
        return figures | {"idle, bytes per second": idle, "waiting for the agent, bytes per second": waiting}


def _connect(run: TerminalRun) -> None:
    run.bytes_in(3.0)
    run.type(b"\x7f" * 100)
    run.bytes_in(0.5)


def _turn(run: TerminalRun, prompt: bytes) -> float:
    """How long the answer takes until its end is shown; `SECONDS` if that is not enough."""
    _write(run, prompt)
    began, start = perf_counter(), len(run.shown)
    run.type(b"\r")
    try:
        run.wait_for(ENDS[prompt.split()[0]], start)
    except TimeoutError:
        return SECONDS
    took = perf_counter() - began
    run.bytes_in(1.0)
    return took


def _write(run: TerminalRun, prompt: bytes) -> None:
    """Write a prompt. Enter comes later, as from a user: Toad takes both at once for a line end."""
    run.type(prompt)
    run.bytes_in(1.0)
