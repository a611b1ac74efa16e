"""The screens beside the conversation on a real terminal of several sizes, and what goes to the terminal beside the screen."""

import os
import shutil
from base64 import b64encode
from pathlib import Path

import pytest
from tests.cli.agent_process import environment
from tests.cli.terminal import in_terminal
from tests.tui.chat import KEEPER, PUPPET
from tests.tui.test_chat_command import Tmux, chat, terminal

on_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def gone(tmux: Tmux, text: str) -> None:
    """Wait until this is not on the screen any more."""
    while text in tmux.screen():
        os.read(tmux._written, 1 << 20)


@on_tmux
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_every_screen_opens_and_closes_and_survives_another_size(
    tmp_path: Path, home: Path, size: tuple[int, int]
) -> None:
    with terminal(tmp_path, home, size, "--", *KEEPER) as tmux:
        tmux.shows("ready", "Small 2 · Ask first")
        tmux.type("?")
        tmux.shows("Keys", "Writing")
        tmux.run("resize-window", "-t", "chat", "-x", "100", "-y", "30")
        tmux.shows("Keys", "Writing")
        tmux.type("Escape")
        gone(tmux, "Writing")
        tmux.type("F3")
        tmux.shows("Fast ones", "▸ ● Small 2", "Enter chooses")
        tmux.run("resize-window", "-t", "chat", "-x", "80", "-y", "24")
        tmux.shows("Fast ones", "Enter chooses")
        tmux.type("large", "Enter")
        tmux.shows("Large 3 · Ask first")
        tmux.type("F9")
        tmux.shows("Settings", "Notifications", "chat.json")
        tmux.type("theme", "Enter")
        tmux.shows("as the terminal is")
        tmux.type("solarized-light", "Enter")
        tmux.shows("Written to")
        tmux.type("Escape")
        tmux.shows("Notifications")
        tmux.type("Escape")
        gone(tmux, "Settings")
        tmux.type("say hello", "Enter")
        tmux.shows("hello", "done", "ready")
        tmux.type("F12")
        tmux.shows("Wire", "→ session/prompt", "agent → client")
        tmux.run("resize-window", "-t", "chat", "-x", "200", "-y", "60")
        tmux.shows("Wire", '"stopReason": "end_turn"')
        tmux.type("F12")
        gone(tmux, "Wire")
        tmux.type("F2")
        tmux.shows("Sessions", "This folder")
        tmux.type("Escape")
        gone(tmux, "This folder")
        tmux.type("C-n")
        tmux.shows("New session with", "the agent of this session")
        tmux.type("Enter")
        tmux.shows(" 1 Keeper", " 2 Keeper", "ready")
        tmux.type("M-1")
        tmux.shows("hello", "done")
        tmux.type("M-w")
        gone(tmux, " 2 Keeper")
        tmux.type("C-q")
        tmux.shows("left with 0")
    assert '"solarized-light"' in (home / "config" / "chat.json").read_text()


def test_the_bell_rings_and_the_clipboard_is_set_by_the_terminal(tmp_path: Path, home: Path) -> None:
    env = environment(home, TERM="xterm-256color", TERM_PROGRAM="", LINES="30", COLUMNS="100")
    (home / "config").mkdir(parents=True)
    (home / "config" / "chat.json").write_text(
        '{"notify": "desktop", "notifyWhen": "always", "theme": "dark"}'
    )
    with in_terminal("chat", "--cwd", str(tmp_path), "--", *PUPPET, env=env) as pty:
        pty.expect("ready")
        pty.type("say hello\r")
        pty.expect("\x1b]9;")
        pty.expect(": is done (")
        pty.type("\x1b[19~")  # F8
        pty.expect(f"\x1b]52;c;{b64encode(b'hello').decode()}\x07")
        pty.type("\x11")  # Ctrl+Q
        assert pty.end() == 0


def test_settings_that_cannot_be_used_are_refused_in_one_line(tmp_path: Path, home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "chat.json").write_text('{"them": "dark"}')
    with in_terminal("chat", "--", *PUPPET, env=environment(home, TERM="xterm")) as pty:
        place = home / "config" / "chat.json"
        pty.expect(f"accord chat: {place}: them: there is no such setting; did you mean theme?")
        assert pty.end() == 2
        assert "Traceback" not in pty.shown
    done = chat(tmp_path, home, "hello\n", "--", *PUPPET)
    assert (done.returncode, "heard hello" in done.stdout) == (0, True), "without a screen they do not matter"


def test_the_terminals_ground_decides_the_theme(tmp_path: Path, home: Path) -> None:
    env = environment(home, TERM="xterm-256color", COLORTERM="truecolor", LINES="30", COLUMNS="100")
    with in_terminal("chat", "--cwd", str(tmp_path), "--", *PUPPET, env=env) as pty:
        pty.expect("\x1b]11;?")
        pty.type("\x1b]11;rgb:ffff/ffff/ffff\x1b\\early\x1b[?62c")
        pty.expect("ready")
        assert "48;2;224;224;224" in pty.shown, "the ground of the light theme"
        assert "early" in pty.shown, "what was typed meanwhile is in the prompt"
        pty.type("\x11")
        assert pty.end() == 0
