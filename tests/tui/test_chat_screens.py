"""All screens on real terminals of several sizes, and escape sequences that the app sends to the terminal."""

import os
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from tests.cli.agent_process import environment
from tests.cli.terminal import in_terminal
from tests.tui.chat import DEMO_AGENT, KEEPER
from tests.tui.test_chat_command import Tmux, chat, terminal

on_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def wait_until_gone(tmux: Tmux, text: str) -> None:
    """Wait until this text is not on the screen any more."""
    while text in tmux.screen():
        os.read(tmux._written, 1 << 20)


@on_tmux
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_every_screen_opens_closes_and_resizes(tmp_path: Path, home: Path, size: tuple[int, int]) -> None:
    with terminal(tmp_path, home, size, "--", *KEEPER) as tmux:
        tmux.wait_for_text("ready", "Small 2 · Ask first")
        tmux.type("?")
        tmux.wait_for_text("Keys", "insert a new line")
        tmux.run("resize-window", "-t", "chat", "-x", "100", "-y", "30")
        tmux.wait_for_text("Keys", "insert a new line")
        tmux.type("Escape")
        wait_until_gone(tmux, "insert a new line")
        tmux.type("F3")
        tmux.wait_for_text("Fast ones", "▸ ● Small 2", "Enter choose")
        tmux.run("resize-window", "-t", "chat", "-x", "80", "-y", "24")
        tmux.wait_for_text("Fast ones", "Enter choose")
        tmux.type("large", "Enter")
        tmux.wait_for_text("Large 3 · Ask first")
        tmux.type("F9")
        tmux.wait_for_text("Settings", "Notifications", "chat.json")
        tmux.type("theme", "Enter")
        tmux.wait_for_text("like the terminal")
        tmux.type("solarized-light", "Enter")
        tmux.wait_for_text("Written to")
        tmux.type("Escape")
        tmux.wait_for_text("Notifications")
        tmux.type("Escape")
        wait_until_gone(tmux, "Settings")
        tmux.type("say hello", "Enter")
        tmux.wait_for_text("hello", "done", "ready")
        tmux.type("F12")
        tmux.wait_for_text("Wire", "→ session/prompt", "agent → client")
        tmux.run("resize-window", "-t", "chat", "-x", "200", "-y", "60")
        tmux.wait_for_text("Wire", '"stopReason": "end_turn"')
        tmux.type("F12")
        wait_until_gone(tmux, "Wire")
        tmux.type("F2")
        tmux.wait_for_text("Sessions", "This folder")
        tmux.type("Escape")
        wait_until_gone(tmux, "This folder")
        tmux.type("C-n")
        tmux.wait_for_text("New session with", "the agent of this session")
        tmux.type("Enter")
        tmux.wait_for_text(" 1 say hello", " 2 Keeper", "ready")
        tmux.type("M-1")
        tmux.wait_for_text("hello", "done")
        tmux.type("M-w")
        wait_until_gone(tmux, " 2 Keeper")
        tmux.type("C-q")
        tmux.wait_for_text("left with 0")
    assert '"solarized-light"' in (home / "config" / "chat.json").read_text()


def test_the_app_sends_notifications_and_the_clipboard_to_the_terminal(tmp_path: Path, home: Path) -> None:
    env = environment(home, TERM="xterm-256color", TERM_PROGRAM="", LINES="30", COLUMNS="100")
    (home / "config").mkdir(parents=True)
    (home / "config" / "chat.json").write_text(
        '{"notify": "desktop", "notifyWhen": "always", "theme": "dark"}'
    )
    with in_terminal("chat", "--cwd", str(tmp_path), "--", *DEMO_AGENT, env=env) as pty:
        pty.expect("ready")
        pty.type("say hello\r")
        pty.expect("\x1b]9;")
        pty.expect(": is done (")
        pty.type("\x1b[19~")  # F8
        pty.expect(f"\x1b]52;c;{b64encode(b'hello').decode()}\x07")
        pty.type("\x11")  # Ctrl+Q
        assert pty.end() == 0


def test_invalid_settings_are_a_one_line_error(tmp_path: Path, home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "chat.json").write_text('{"them": "dark"}')
    with in_terminal("chat", "--", *DEMO_AGENT, env=environment(home, TERM="xterm")) as pty:
        place = home / "config" / "chat.json"
        pty.expect(f"accord chat: {place}: unknown setting them; did you mean theme?")
        assert pty.end() == 2
        assert "Traceback" not in pty.shown
    done = chat(tmp_path, home, "hello\n", "--", *DEMO_AGENT)
    assert (done.returncode, "heard hello" in done.stdout) == (0, True), (
        "without a terminal the settings must be ignored"
    )


def test_the_terminal_background_selects_the_theme(tmp_path: Path, home: Path) -> None:
    env = environment(home, TERM="xterm-256color", COLORTERM="truecolor", LINES="30", COLUMNS="100")
    with in_terminal("chat", "--cwd", str(tmp_path), "--", *DEMO_AGENT, env=env) as pty:
        pty.expect("\x1b]11;?")
        pty.type("\x1b]11;rgb:ffff/ffff/ffff\x1b\\early\x1b[?62c")
        pty.expect("ready")
        assert "48;2;224;224;224" in pty.shown, "the background of the light theme must be drawn"
        assert "early" in pty.shown, "keys typed meanwhile must be in the prompt"
        pty.type("\x11")
        assert pty.end() == 0


def test_keys_typed_before_the_screen_opens_are_a_prompt(tmp_path: Path, home: Path) -> None:
    """Also Enter, which the terminal turns into a line feed until the program asks for single keys."""
    env = environment(home, TERM="xterm-256color", COLORTERM="truecolor", LINES="30", COLUMNS="100")
    with in_terminal("chat", "--cwd", str(tmp_path), "--", *DEMO_AGENT, env=env) as pty:
        pty.type("say one\x7fe typed early\rand more")
        pty.expect("done")
        for text in ("typed early", "and more"):
            assert text in pty.shown
        pty.type("\x11")
        assert pty.end() == 0


@on_tmux
def test_title_branch_dashboard_and_plan_on_a_terminal(tmp_path: Path, home: Path) -> None:
    for words in (["init", "-q", "-b", "trunk"], ["commit", "-qm", "x", "--allow-empty"]):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
        subprocess.run(command, cwd=tmp_path, check=True)
    with terminal(tmp_path, home, (120, 40), "--", *DEMO_AGENT) as tmux:
        tmux.wait_for_text("ready", "trunk")
        tmux.type("plan done", "Enter")
        tmux.wait_for_text("Plan 3/3  ✓ done")
        tmux.type("ask", "Enter")
        tmux.wait_for_text("1-3 choose")
        assert "? " in tmux.run("display-message", "-p", "-t", "chat", "#{pane_title}")
        tmux.type("M-d")
        tmux.wait_for_text("All sessions", "waits for your answer: python demo")
        tmux.run("resize-window", "-t", "chat", "-x", "80", "-y", "24")
        tmux.wait_for_text("All sessions", "waits for your answer: python demo")
        tmux.type("Enter")
        wait_until_gone(tmux, "All sessions")
        tmux.wait_for_text("1-3 choose")
        tmux.type("1")
        tmux.wait_for_text("ready")
        tmux.type("C-q")
        tmux.wait_for_text("left with 0")
