"""Runs a program on a terminal, reads what it shows and types keys."""

import os
import subprocess
import sys
from codecs import getincrementaldecoder
from collections.abc import Generator
from contextlib import contextmanager

from tests.warm_start import IN_TERMINAL


class Terminal:
    """The controlling side of the terminal: the text shown so far, and the keyboard."""

    def __init__(self, master: int, slave: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        # Kept open until the program has shown something: reading fails while no process has it open.
        self._slave = slave
        self._process = process
        self.shown = ""
        self._expected = 0
        self._decoder = getincrementaldecoder("utf-8")()  # a read can end in the middle of a character

    def expect(self, text: str) -> None:
        """Wait until the program has shown this text after the last expected one."""
        while (place := self.shown.find(text, self._expected)) < 0:
            more = self._read()
            assert more, f"it ended without showing {text!r}: {self.shown}"
            self.shown += more
        self._expected = place + len(text)

    def type(self, text: str) -> None:
        """Type this text."""
        os.write(self._master, text.encode())

    def end(self) -> int:
        """Read to the end and return the exit code."""
        self._close_slave()
        while more := self._read():
            self.shown += more
        return self._process.wait()

    def close(self) -> None:
        """Close the terminal."""
        self._close_slave()
        os.close(self._master)

    def _close_slave(self) -> None:
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    def _read(self) -> str:
        text = ""
        while not text:
            try:
                data = os.read(self._master, 4096)
            except OSError:  # on Linux, when the other side is closed
                return ""
            if not data:
                return ""
            text = self._decoder.decode(data)
            os.write(self._master, b"\x1b[0n" * data.count(b"\x1b[5n"))  # as terminals answer
        return text


@contextmanager
def in_terminal(*words: str, env: dict[str, str]) -> Generator[Terminal]:
    """Run `accord WORDS` on a terminal."""
    with program_in_terminal(sys.executable, "-m", "accord.cli", *words, env=env) as terminal:
        yield terminal


@contextmanager
def program_in_terminal(*command: str, env: dict[str, str]) -> Generator[Terminal]:
    """Run any program on a terminal."""
    master, slave = os.openpty()
    name = os.ttyname(slave)
    process = subprocess.Popen(
        ["/bin/sh", "-c", IN_TERMINAL, name, *command], env=env, start_new_session=True
    )
    terminal = Terminal(master, slave, process)
    try:
        yield terminal
    finally:
        process.kill()
        process.wait()
        terminal.close()
