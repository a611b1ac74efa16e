"""Slow links: frames are dropped, not queued; at 10 kB/s a key and a cancel show within a second."""

import os
import re
import sys
from pathlib import Path
from select import select
from threading import Event
from time import monotonic

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len, get_character_cell_size
from tests.cli.agent_process import environment
from tests.cli.terminal import Terminal, program_in_terminal
from tests.patience import PATIENCE
from tests.repetitions import repetitions

from accord.tui.frame_sender import Run, changed_text
from accord.tui.slow_link import FIRST_WINDOW, MIN_WINDOW, UNKNOWN_RATE, LinkPace

STREAMING = (sys.executable, str(Path(__file__).parent / "agents" / "streaming_agent.py"))
RATE = 10_000
"""Bytes per second of the slow link."""


class SlowTerminal:
    """Takes `RATE` bytes per second, and answers questions about its status if it can."""

    def __init__(self, terminal: Terminal, *, answers: bool) -> None:
        self.shown = b""
        self._descriptor = terminal._master
        self._answers = answers
        self._answered = 0
        self._pause = Event()
        self._read_until = monotonic()

    def read(self) -> None:
        """Read a fiftieth of a second's bytes."""
        readable, _, _ = select([self._descriptor], [], [], PATIENCE / 30)
        assert readable, f"nothing more is shown: {self.shown[-2000:]!r}"
        size = RATE // 50
        if not self._answers:
            # The chat can only go by the time, and so does the link, also when this test had to wait.
            now = monotonic()
            size = max(size, int((now - self._read_until) * RATE))
            self._read_until = now
        self.shown += os.read(self._descriptor, size)
        self._pause.wait(0.02)  # this is the speed of the link
        asked = self.shown.count(b"\x1b[5n")
        if self._answers:
            os.write(self._descriptor, b"\x1b[0n" * (asked - self._answered))
        self._answered = asked

    def bytes_until(self, shows: bytes, start: int) -> int:
        """Read until this pattern is shown; return how many bytes that took."""
        while not re.search(shows, self.shown[start:]):
            self.read()
            assert len(self.shown) - start < 60 * RATE, f"{shows!r} is not shown"
        return len(self.shown) - start

    def read_bytes(self, count: int) -> None:
        end = len(self.shown) + count
        while len(self.shown) < end:
            self.read()

    def press(self, key: bytes, shows: bytes) -> int:
        """Press a key; return how many bytes the terminal has taken until it shows this."""
        start = len(self.shown)
        os.write(self._descriptor, key)
        return self.bytes_until(shows, start)


@pytest.mark.parametrize(("size", "answers"), [((200, 60), True), ((120, 40), False)])
def test_a_key_and_a_cancel_show_within_a_second_of_the_link(
    tmp_path: Path, home: Path, size: tuple[int, int], answers: bool
) -> None:
    """While the agent writes much faster than the link: less than a second's bytes come before them."""
    env = environment(
        home, TERM="xterm-256color", COLORTERM="truecolor", COLUMNS=str(size[0]), LINES=str(size[1])
    )
    command = (sys.executable, "-m", "accord.cli", "chat", "--cwd", str(tmp_path), "--", *STREAMING)
    with program_in_terminal(*command, env=env) as terminal:
        slow = SlowTerminal(terminal, answers=answers)
        slow.bytes_until(b"ready", 0)
        slow.press(b"go\r", rb"line \d+ of")  # the first lines may have scrolled away on a busy machine
        slow.read_bytes(RATE)
        for letter in b"ZQXJ":  # not in the answer
            assert slow.press(bytes([letter]), bytes([letter])) < RATE
        assert slow.press(b"\x1b", b"cancelled") < RATE
        start = len(slow.shown)
        os.write(slow._descriptor, b"\x11")
        slow.bytes_until(re.escape(b"\x1b[?1049l"), start)
        terminal.shown = ""
        assert terminal.end() == 0


# -- what is written ---------------------------------------------------------------------------------------

_SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([HKm])")


class Grid:
    """The cells of one line of a terminal."""

    def __init__(self, width: int) -> None:
        self.cells = [("?", "")] * width

    def write(self, text: str) -> None:
        x, style, at = 0, "", 0
        while at < len(text):
            if found := _SEQUENCE.match(text, at):
                at = found.end()
                if found[2] == "H":
                    x = int(found[1].split(";")[1]) - 1
                elif found[2] == "K":
                    self.cells[x:] = [(" ", style)] * (len(self.cells) - x)
                else:
                    style = "" if found[1] == "0" else found[1]
                continue
            width = get_character_cell_size(text[at])
            if width == 0:
                self.cells[x - 1] = (self.cells[x - 1][0] + text[at], self.cells[x - 1][1])
            for offset in range(width):
                self.cells[x + offset] = (text[at] if offset == 0 else "", style)
            x += width
            at += 1


WIDTH = 24
RUNS = st.lists(
    st.tuples(st.text("ab  \u0301日…", max_size=8), st.sampled_from(["", "1", "38;5;7"])), max_size=5
)


def line_of(drawn: list[tuple[str, str]]) -> list[Run]:
    """Runs that fill the line; neighbors have other styles."""
    line: list[Run] = []
    for text, style in [*drawn, (" " * WIDTH, "")]:
        text = text.lstrip("\u0301")
        while sum(cell_len(run.text) for run in line) + cell_len(text) > WIDTH:
            text = text[:-1]
        before, after = (f"\x1b[{style}m", "\x1b[0m") if style else ("", "")
        if line and line[-1].before == before:
            line[-1] = line[-1]._replace(text=line[-1].text + text)
        elif text:
            line.append(Run(before, text, after))
    return line


@given(RUNS, RUNS, st.booleans())
@settings(max_examples=repetitions(400))
def test_the_change_of_a_line_draws_what_the_whole_line_draws(
    before: list[tuple[str, str]], after: list[tuple[str, str]], erase: bool
) -> None:
    old, new = line_of(before), line_of(after)
    whole, changed = Grid(WIDTH), Grid(WIDTH)
    whole.write(changed_text(None, new, 0, erase=False))
    changed.write(changed_text(None, old, 0, erase=erase))
    changed.write(changed_text(old, new, 0, erase=erase))
    assert changed.cells == whole.cells
    assert changed_text(new, new, 0) == ""


def test_a_typed_letter_is_a_few_bytes() -> None:
    box, text = Run("\x1b[34m", "│", "\x1b[0m"), "\x1b[38;5;253m"
    old, new = ([box, Run(text, f"{words:<100}", "\x1b[0m"), box] for words in ("hello", "hello w"))
    assert len(changed_text(old, new, 30)) < 40


# -- how much is written -----------------------------------------------------------------------------------


def test_the_window_follows_the_speed_of_the_terminal() -> None:
    pace = LinkPace()
    now = 0.0
    assert pace.wrote(100, now), "the first output asks whether the terminal answers"
    pace.answered(now + 0.05)
    for _ in range(12):  # a fast link: all that is allowed arrives at once
        while pace.room(now) > 0:
            pace.wrote(1024, now)
        now += 0.05
        for _ in range(2000):
            pace.answered(now)
    fast = pace.window
    assert fast > 100 * FIRST_WINDOW
    for _ in range(600):  # a slow one: 1,024 bytes in 0.1 s
        while pace.room(now) > 0:
            pace.wrote(1024, now)
        now += 0.1
        pace.answered(now)
    assert MIN_WINDOW <= pace.window <= RATE // 2


def test_a_terminal_that_does_not_answer_gets_a_fixed_rate() -> None:
    pace = LinkPace()
    now, written = 0.0, 0
    while now < 20:
        if pace.room(now) > 0:
            pace.wrote(500, now)
            written += 500
        wait = pace.wait_time(now)
        assert wait is not None
        now += wait
    assert written <= 20 * UNKNOWN_RATE + 2 * FIRST_WINDOW


def test_a_terminal_that_stops_answering_is_not_waited_for() -> None:
    pace = LinkPace()
    assert pace.wrote(10, 0.0)
    pace.answered(0.1)
    while pace.room(0.2) > 0:
        pace.wrote(1024, 0.2)
    assert pace.room(5.0) <= 0
    assert pace.room(30.0) > 0
    pace.wait_for_answers(1.0, 30.0)
