"""A program in a terminal of its own, with somebody who reads what it shows and types."""

import os
import subprocess
import sys
from codecs import getincrementaldecoder
from collections.abc import Generator
from contextlib import contextmanager

# A session leader that opens a terminal makes it its own, which is what a login shell does.
_IN_TERMINAL = 'exec "$@" <"$0" >"$0" 2>&1'


class Terminal:
    """One side of the terminal: what was shown so far, and the keyboard."""

    def __init__(self, master: int, slave: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self._slave = (
            slave  # kept open until something was shown: a terminal that nobody has open reads as ended
        )
        self._process = process
        self.shown = ""
        self._expected = 0
        self._decoder = getincrementaldecoder("utf-8")()  # a read may end in the middle of a character

    def expect(self, text: str) -> None:
        """Wait until the program has shown this, behind what was waited for before."""
        while (place := self.shown.find(text, self._expected)) < 0:
            more = self._read()
            assert more, f"it ended without showing {text!r}: {self.shown}"
            self.shown += more
        self._expected = place + len(text)

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Read to the end; the exit code."""
        self._let_go()
        while more := self._read():
            self.shown += more
        return self._process.wait()

    def close(self) -> None:
        """Let the terminal go."""
        self._let_go()
        os.close(self._master)

    def _let_go(self) -> None:
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    def _read(self) -> str:
        text = ""
        while not text:
            try:
                data = os.read(self._master, 4096)
            except OSError:  # Linux says so where the other side is closed
                return ""
            if not data:
                return ""
            text = self._decoder.decode(data)
        return text


@contextmanager
def in_terminal(*words: str, env: dict[str, str]) -> Generator[Terminal]:
    """`accord WORDS` in a terminal."""
    with program_in_terminal(sys.executable, "-m", "accord.cli", *words, env=env) as terminal:
        yield terminal


@contextmanager
def program_in_terminal(*command: str, env: dict[str, str]) -> Generator[Terminal]:
    """Any program in a terminal."""
    master, slave = os.openpty()
    name = os.ttyname(slave)
    process = subprocess.Popen(
        ["/bin/sh", "-c", _IN_TERMINAL, name, *command], env=env, start_new_session=True
    )
    terminal = Terminal(master, slave, process)
    try:
        yield terminal
    finally:
        process.kill()
        process.wait()
        terminal.close()
