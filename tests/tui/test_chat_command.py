"""`accord chat` on a real terminal of several sizes, and without a terminal."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from select import select
from time import monotonic

import pytest
from tests.cli.agent_process import environment
from tests.patience import PATIENCE
from tests.tui.chat import DEMO_AGENT

ACCORD = (sys.executable, "-m", "accord.cli", "chat")


class Tmux:
    """A terminal with a program in it. Waiting for a text sleeps until the program writes."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "socket"
        self._pipe = folder / "written"
        os.mkfifo(self._pipe)
        self._written = os.open(self._pipe, os.O_RDWR)  # open on both sides, so that it never ends

    def run(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout

    def start(self, size: tuple[int, int], shell: str) -> None:
        """Run a shell line on a screen of this size. It starts when its output is captured."""
        width, height = map(str, size)
        self.run("new-session", "-d", "-s", "chat", "-x", width, "-y", height, f"read go; {shell}")
        self.run("pipe-pane", "-O", "-t", "chat", f"cat > {self._pipe}")
        self.type("Enter")

    def screen(self) -> str:
        return self.run("capture-pane", "-p", "-t", "chat")

    def wait_for_text(self, *texts: str) -> str:
        """Wait until all of these texts are on the screen."""
        end = monotonic() + PATIENCE
        while not all(text in (shown := self.screen()) for text in texts):
            readable, _, _ = select([self._written], [], [], max(end - monotonic(), 0))
            assert readable, f"{texts} are not shown:\n{shown}"
            os.read(self._written, 1 << 20)
        return shown

    def type(self, *keys: str) -> None:
        self.run("send-keys", "-t", "chat", *keys)

    def close(self) -> None:
        self.run("kill-server")
        os.close(self._written)


@contextmanager
def terminal(
    tmp_path: Path, home: Path, size: tuple[int, int], *words: str, kind: str = "xterm-256color", **more: str
) -> Generator[Tmux]:
    tmux = Tmux(tmp_path)
    env = environment(home, TERM=kind, COLORTERM="truecolor", **more)
    names = ("ACCORD_HOME", "ACCORD_MODEL", "TERM", "COLORTERM", "PATH", *more)
    settings = [f"{name}={env[name]}" for name in names]
    # A library may have set the size of another terminal in the environment of the tests.
    own_size = ["-u", "LINES", "-u", "COLUMNS"]
    command = shlex.join(["env", *own_size, *settings, *ACCORD, "--cwd", str(tmp_path), *words])
    tmux.start(size, f"{command}; echo left with $?; cat")
    try:
        yield tmux
    finally:
        tmux.close()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_turn_approval_cancel_and_exit_on_a_terminal(
    tmp_path: Path, home: Path, size: tuple[int, int]
) -> None:
    with terminal(tmp_path, home, size, "--", *DEMO_AGENT) as tmux:
        tmux.wait_for_text("ready")
        tmux.type("say hello there", "Enter")
        tmux.wait_for_text("hello there", "done")
        tmux.type("ask", "Enter")
        tmux.wait_for_text("$ pytest -q", "1-3 choose")
        tmux.type("1")
        tmux.wait_for_text('"optionId": "yes"', "ready")
        tmux.type("wait", "Enter")
        tmux.wait_for_text("waiting", "Esc stop")
        tmux.type("Escape")
        tmux.wait_for_text("cancelled")
        tmux.run("resize-window", "-t", "chat", "-x", "100", "-y", "30")
        tmux.wait_for_text("ready")
        tmux.type("C-d")
        text = tmux.wait_for_text("left with 0", "Continue with: accord chat --cwd")
        assert "--session s1" in "".join(text.split("\n"))


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_multiline_prompts_and_a_crashed_agent_on_a_terminal(tmp_path: Path, home: Path) -> None:
    with terminal(tmp_path, home, (100, 30), "--", *DEMO_AGENT) as tmux:
        tmux.wait_for_text("ready")
        tmux.type("say one", "C-j", "two", "C-j", "three", "M-Enter")
        tmux.wait_for_text("▌ say one", "▌ two", "▌ three", "ready")
        tmux.type("die", "Enter")
        tmux.wait_for_text("The agent has ended", "the disk is full", "Ctrl+R")
        tmux.type("C-r")
        tmux.wait_for_text("The agent was restarted", "ready")
        tmux.type("C-q")
        tmux.wait_for_text("left with 0")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_termination_signal_restores_the_terminal(tmp_path: Path, home: Path) -> None:
    with terminal(tmp_path, home, (100, 30), "--", *DEMO_AGENT) as tmux:
        tmux.wait_for_text("ready")
        tmux.type("-l", "!kill -TERM $PPID")
        tmux.type("Enter")
        assert "╭" not in tmux.wait_for_text("left with 143")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path, home: Path) -> None:
    with terminal(tmp_path, home, (100, 30), "--", *DEMO_AGENT, kind="dumb") as tmux:
        tmux.wait_for_text(">")
        tmux.type("say hello there", "Enter")
        shown = tmux.wait_for_text("hello there\n", "\n>")
        assert "\n> say hello there\n" in shown, "the sign must be before what the user types"
        tmux.type("C-d")
        assert "╭" not in tmux.wait_for_text("left with 0")


def chat(tmp_path: Path, home: Path, typed: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ACCORD, "--cwd", str(tmp_path), *words],
        input=typed,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment(home),
    )


def test_without_a_terminal_each_line_is_a_prompt(tmp_path: Path, home: Path) -> None:
    done = chat(tmp_path, home, "one\n\nsay two\n", "--", *DEMO_AGENT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("heard one") < done.stdout.index("two")


def test_without_a_terminal_the_coding_agent_only_reads(tmp_path: Path, home: Path) -> None:
    (tmp_path / "README.md").write_text("hello\n")
    done = chat(tmp_path, home, "read README.md\nwrite notes.txt: no\n")
    assert "hello" in done.stdout
    assert not (tmp_path / "notes.txt").exists()


@pytest.mark.parametrize(
    ("words", "expected", "code"),
    [
        (["unknown"], "unknown agent 'unknown'", 2),
        (["a", "--", "b"], "both name an agent", 2),
        (["--"], "missing agent command after `--`", 2),
        (["--continue", "--session", "x"], "exclude each other", 2),
        (["--", "/no/such/agent"], "/no/such/agent", 3),
        (
            ["--session", "bad"],
            "accord chat: cannot open session 'bad' (Session not found); run `accord sessions list`",
            2,
        ),
    ],
)
def test_wrong_usage_is_a_one_line_error(
    tmp_path: Path, home: Path, words: list[str], expected: str, code: int
) -> None:
    done = chat(tmp_path, home, "hi\n", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert os.linesep.join(done.stderr.splitlines()[1:]) == ""


def test_without_a_terminal_a_crashed_agent_ends_the_chat(tmp_path: Path, home: Path) -> None:
    done = chat(tmp_path, home, "die\nnever\n", "--", *DEMO_AGENT)
    assert done.returncode == 3
    assert "the disk is full" in done.stderr
    assert "heard never" not in done.stdout
