"""`accord chat` as it is started: on a real terminal of several sizes, and without one."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.agent_process import environment
from tests.tui.chat import PUPPET

ACCORD = (sys.executable, "-m", "accord.cli", "chat")


class Tmux:
    """A terminal with a program in it. Whoever waits for something on the screen sleeps until the program writes."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "socket"
        self._pipe = folder / "written"
        os.mkfifo(self._pipe)
        self._written = os.open(self._pipe, os.O_RDWR)  # open on both sides: it never ends

    def run(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout

    def start(self, size: tuple[int, int], shell: str) -> None:
        """Run a line of the shell on a screen of this size; it begins when what it writes can be seen."""
        width, height = map(str, size)
        self.run("new-session", "-d", "-s", "chat", "-x", width, "-y", height, f"read go; {shell}")
        self.run("pipe-pane", "-O", "-t", "chat", f"cat > {self._pipe}")
        self.type("Enter")

    def screen(self) -> str:
        return self.run("capture-pane", "-p", "-t", "chat")

    def shows(self, *texts: str) -> str:
        """Wait until all of this is on the screen."""
        while not all(text in (shown := self.screen()) for text in texts):
            os.read(self._written, 1 << 20)
        return shown

    def type(self, *keys: str) -> None:
        self.run("send-keys", "-t", "chat", *keys)

    def close(self) -> None:
        self.run("kill-server")
        os.close(self._written)


@contextmanager
def terminal(
    tmp_path: Path, home: Path, size: tuple[int, int], *words: str, kind: str = "xterm-256color"
) -> Generator[Tmux]:
    tmux = Tmux(tmp_path)
    env = environment(home, TERM=kind, COLORTERM="truecolor")
    settings = [f"{name}={env[name]}" for name in ("ACCORD_HOME", "TERM", "COLORTERM", "PATH")]
    command = shlex.join(["env", *settings, *ACCORD, "--cwd", str(tmp_path), *words])
    tmux.start(size, f"{command}; echo left with $?; cat")
    try:
        yield tmux
    finally:
        tmux.close()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_a_turn_an_approval_a_cancel_and_leaving_on_a_terminal(
    tmp_path: Path, home: Path, size: tuple[int, int]
) -> None:
    with terminal(tmp_path, home, size, "--", *PUPPET) as tmux:
        tmux.shows("ready")
        tmux.type("say hello there", "Enter")
        tmux.shows("hello there", "done")
        tmux.type("ask", "Enter")
        tmux.shows("$ pytest -q", "1-3 choose")
        tmux.type("1")
        tmux.shows('"optionId": "yes"', "ready")
        tmux.type("wait", "Enter")
        tmux.shows("waiting", "Esc stops")
        tmux.type("Escape")
        tmux.shows("cancelled")
        tmux.run("resize-window", "-t", "chat", "-x", "100", "-y", "30")
        tmux.shows("ready")
        tmux.type("C-d")
        tmux.shows("left with 0")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_lines_and_a_dead_agent_on_a_terminal(tmp_path: Path, home: Path) -> None:
    with terminal(tmp_path, home, (100, 30), "--", *PUPPET) as tmux:
        tmux.shows("ready")
        tmux.type("say one", "C-j", "two", "M-Enter", "three", "Enter")
        tmux.shows("▌ say one", "▌ two", "▌ three", "ready")
        tmux.type("die", "Enter")
        tmux.shows("The agent has ended", "the disk is full", "Ctrl+R")
        tmux.type("C-r")
        tmux.shows("The agent runs again", "ready")
        tmux.type("C-q")
        tmux.shows("left with 0")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_signal_from_outside_gives_the_terminal_back(tmp_path: Path, home: Path) -> None:
    with terminal(tmp_path, home, (100, 30), "--", *PUPPET) as tmux:
        tmux.shows("ready")
        tmux.type("-l", "!kill -TERM $PPID")
        tmux.type("Enter")
        assert "╭" not in tmux.shows("left with 143")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_dumb_terminal_gets_lines(tmp_path: Path, home: Path) -> None:
    with terminal(tmp_path, home, (100, 30), "--", *PUPPET, kind="dumb") as tmux:
        tmux.type("say hello there", "Enter", "C-d")
        assert "╭" not in tmux.shows("hello there", "left with 0")


def chat(tmp_path: Path, home: Path, typed: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ACCORD, "--cwd", str(tmp_path), *words], input=typed, capture_output=True, text=True, timeout=120,
        env=environment(home),
    )  # fmt: skip


def test_without_a_terminal_each_line_is_a_prompt(tmp_path: Path, home: Path) -> None:
    done = chat(tmp_path, home, "one\n\nsay two\n", "--", *PUPPET)
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("heard one") < done.stdout.index("two")


def test_without_a_terminal_the_coding_agent_does_what_it_may(tmp_path: Path, home: Path) -> None:
    (tmp_path / "README.md").write_text("hello\n")
    done = chat(tmp_path, home, "read README.md\nwrite notes.txt: no\n")
    assert "hello" in done.stdout
    assert not (tmp_path / "notes.txt").exists()


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["nobody"], "no agent is called 'nobody'", 2),
        (["a", "--", "b"], "both name an agent", 2),
        (["--"], "behind -- belongs the command", 2),
        (["--continue", "--session", "x"], "both name a session", 2),
        (["--", "/no/such/agent"], "/no/such/agent", 3),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, home: Path, words: list[str], said: str, code: int
) -> None:
    done = chat(tmp_path, home, "hi\n", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert os.linesep.join(done.stderr.splitlines()[1:]) == ""


def test_an_agent_that_dies_is_told_and_ends_the_conversation(tmp_path: Path, home: Path) -> None:
    done = chat(tmp_path, home, "die\nnever\n", "--", *PUPPET)
    assert done.returncode == 3
    assert "the disk is full" in done.stderr
    assert "heard never" not in done.stdout
