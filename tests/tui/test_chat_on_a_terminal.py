"""What a user does with `accord chat` in a real terminal, with the scripted model of the coding agent."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.agent_process import environment
from tests.tui.chat import DEMO_AGENT, KEEPER
from tests.tui.test_chat_command import ACCORD, Tmux, terminal
from tests.tui.test_chat_screens import on_tmux, wait_until_gone

from accord.tui.theme import MIN_CONTRAST, contrast

FILES = 40_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git repository with one file."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "app.py").write_text("def a():\n    return 1\n")
    git(folder, "init", "-q", "-b", "trunk")
    git(folder, "config", "user.name", "a")
    git(folder, "config", "user.email", "a@b.c")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def send(tmux: Tmux, text: str) -> None:
    tmux.type("-l", text)
    tmux.type("Enter")


def shown_colors(tmux: Tmux) -> set[tuple[str, str]]:
    """The colors of all words on the screen, each with the background."""
    colors: set[tuple[str, str]] = set()
    text = background = ""
    for piece in re.split(r"(\x1b\[[0-9;:]*m)", tmux.run("capture-pane", "-e", "-p", "-t", "chat")):
        if not piece.startswith("\x1b"):
            if text and background and re.search(r"\w", piece):
                colors.add((text, background))
            continue
        if re.match(r"\x1b\[(0?m|0;|7)", piece):
            text = background = ""  # plain, or the cursor
        for kind, *color in re.findall(r"([34])8[;:]2[;:](\d+)[;:](\d+)[;:](\d+)", piece):
            value = "#" + "".join(f"{int(one):02x}" for one in color)
            text, background = (value, background) if kind == "3" else (text, value)
    return colors


@on_tmux
def test_a_change_is_asked_for_reviewed_and_committed(tmp_path: Path, home: Path, project: Path) -> None:
    with terminal(tmp_path, home, (120, 40), "--cwd", str(project)) as tmux:
        send(tmux, "say: early bird")  # before the first paint
        tmux.wait_for_text("▌ say: early bird", "done", "ready", "trunk")
        send(tmux, "replace return 1 with return 2 in app.py")
        tmux.type("-l", "and")
        question = tmux.wait_for_text("Accord asks to edit", "1 a  Allow", "3 r  Reject", "Tab: answer here")
        assert "app.py  +1 −1" in question, "the question lists the files"
        tmux.type("-l", "ar")  # the prompt has the focus: no answer
        tmux.wait_for_text("│ andar", "Tab answer the question")
        tmux.type("Tab", "e")
        tmux.wait_for_text("You answered “Reject”: Edit app.py", "say what to do instead", "ready", "│ andar")
        tmux.type("C-c")
        send(tmux, "replace return 1 with return 3 in app.py")
        tmux.wait_for_text("2 +     return 3", "e reject, say what to do")
        tmux.run("resize-window", "-t", "chat", "-x", "200", "-y", "60")
        beside = tmux.wait_for_text("Accord asks to edit", "1 a  Allow")
        assert any("return 1" in line and "return 3" in line for line in beside.splitlines()), beside
        tmux.type("a")
        tmux.wait_for_text("You answered “Allow”: Edit app.py", "ready", "trunk ±1")
        send(tmux, "/review")
        tmux.wait_for_text("Changes of the last turn: 1 file, +1 −1", "x revert", "m commit")
        tmux.type("n", "Down", "c")
        tmux.wait_for_text("Comment on app.py, line 2")
        send(tmux, "why three?")
        tmux.wait_for_text("▎ why three?", "s send 1 comment")
        tmux.type("s")
        tmux.wait_for_text("▌ Please address these comments", "app.py, line 2:", "ready")
        tmux.type("M-v")
        tmux.wait_for_text("Changes of the session: 1 file, +1 −1")
        tmux.type("n", "x")
        tmux.wait_for_text("Reverted")
        assert "return 1" in (project / "app.py").read_text()
        tmux.type("u")
        tmux.wait_for_text("The change is back")
        assert "return 3" in (project / "app.py").read_text()
        tmux.type("3", "m")
        tmux.wait_for_text("Message of the commit of 1 file")
        send(tmux, "Return three")
        tmux.wait_for_text("Committed as")
        assert git(project, "log", "-1", "--format=%s") == "Return three"
        tmux.type("Escape")
        wait_until_gone(tmux, "Committed as")
        tmux.wait_for_text("trunk", "ready")
        send(tmux, "/exit")
        tmux.wait_for_text("left with 0", "Continue with: accord chat --cwd")


@on_tmux
def test_a_worktree_a_stopped_call_and_the_list_of_sessions(
    tmp_path: Path, home: Path, project: Path
) -> None:
    words = ("--cwd", str(project), "--worktree=fix", "--protocol", "2", "--permissions", "all")
    with terminal(tmp_path, home, (80, 24), *words) as tmux:
        tmux.wait_for_text("accord/fix", "ready")
        send(tmux, "say: the heron nests in the willow")
        tmux.wait_for_text("Accord  say: the heron", "done", "ready")
        send(tmux, "write notes.txt: kept")
        tmux.wait_for_text("✓ Write notes.txt", "accord/fix ±1", "ready")
        send(tmux, "run echo begun; sleep 600")
        tmux.wait_for_text("│ begun", "Esc stop  Alt+X stop a call  Enter send to the running turn")
        send(tmux, "say: steered")  # at the next step of the turn
        tmux.wait_for_text("▌ say: steered")
        tmux.type("-l", "say: queued")
        tmux.wait_for_text("│ say: queued")
        tmux.type("M-Enter")
        tmux.wait_for_text("next  say: queued")
        tmux.type("M-x")
        tmux.wait_for_text("▌ say: queued", "\n  queued\n", "ready")
        tmux.type("PageUp")
        tmux.wait_for_text("⊘ run echo begun; sleep 600  cancelled")
        send(tmux, "/sessions")
        tmux.wait_for_text("This folder", "▸ ● say: the heron", "Ctrl+F fork")
        tmux.type("-l", "steered")
        tmux.wait_for_text("▸ ● say: the heron", "Esc clear the filter")
        tmux.type("C-u")
        tmux.type("-l", "hrn")  # letters of the title, but no word
        tmux.wait_for_text("No matches")
        tmux.type("C-u")
        tmux.wait_for_text("▸ ● say: the heron")
        tmux.type("C-r")
        tmux.wait_for_text("Title of the session")
        tmux.type("C-u")
        send(tmux, "Birds")
        tmux.wait_for_text("Renamed: Birds", "▸ ● Birds")
        tmux.type("C-e")
        tmux.wait_for_text("Export the session as Markdown")
        tmux.type("Enter")
        tmux.wait_for_text("Exported to")
        tmux.type("C-f")
        tmux.wait_for_text(" 1 Birds", " 2 say: the heron", "ready")
        send(tmux, "/sessions")
        tmux.wait_for_text("▸ ● say: the heron")
        tmux.type("C-a")
        tmux.wait_for_text("Archived")
        tmux.type("Escape")
        wait_until_gone(tmux, "This folder")
        tmux.type("M-w")
        wait_until_gone(tmux, " 2 say: the heron")
        tmux.wait_for_text("Accord  Birds")
        send(tmux, "/exit")
        shown = tmux.wait_for_text("left with 0", "kept the worktree fix with 2 uncommitted files")
        assert "Continue with: accord chat --worktree=fix --session " in shown.replace("\n", "")
    worktree = project.parent / "project-worktrees" / "fix"
    assert (worktree / "notes.txt").read_text().strip() == "kept"
    assert "the heron nests" in (worktree / "birds.md").read_text()
    assert "accord/fix" in git(project, "branch", "--list", "accord/*")


@on_tmux
def test_commands_keys_and_suspending_on_a_terminal(tmp_path: Path, home: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text("import sys\nopen(sys.argv[1], 'a').write(' edited')\n")
    (home / "config").mkdir()
    (home / "config" / "chat.json").write_text('{"keys": {"stash": "ctrl+y"}, "theme": "dark"}')
    names = ("ACCORD_HOME", "ACCORD_MODEL", "PATH", "TERM", "COLORTERM", "VISUAL")
    env = environment(home, TERM="xterm-256color", COLORTERM="truecolor")
    env["VISUAL"] = f"{sys.executable} {editor}"
    settings = [f"{name}={env[name]}" for name in names]
    words = ["env", "-u", "LINES", "-u", "COLUMNS", *settings, *ACCORD, "--cwd", str(tmp_path)]
    # `-m` gives the shell the job control of a shell that a user types into.
    script = (
        f"{shlex.join([*words, '--', *KEEPER])}; echo stopped with $?; read go; fg; echo left with $?; cat"
    )
    tmux = Tmux(tmp_path)
    try:
        tmux.start((120, 40), shlex.join(["bash", "-mc", script]))
        tmux.wait_for_text("ready", "Small 2 · Ask first")
        send(tmux, "say | name | size |")
        tmux.wait_for_text("ready")
        send(tmux, "/help")
        tmux.wait_for_text("insert a new line")
        tmux.type("Escape")
        wait_until_gone(tmux, "insert a new line")
        send(tmux, "/model large")
        tmux.wait_for_text("▸   Large 3")
        tmux.type("Enter")
        tmux.wait_for_text("Large 3 · Ask first")
        send(tmux, "/mode code")
        tmux.wait_for_text("▸   Just code")
        tmux.type("Enter")
        tmux.wait_for_text("Large 3 · Just code")
        send(tmux, "/theme nord")
        tmux.wait_for_text("ready")
        tmux.type("-l", "put aside")
        tmux.wait_for_text("│ put aside", "Ctrl+Y put aside")
        tmux.type("C-y")
        tmux.wait_for_text("Ctrl+Y take back")
        tmux.type("C-y")
        tmux.wait_for_text("│ put aside")
        tmux.type("M-e")
        tmux.wait_for_text("│ put aside edited")
        tmux.type("C-z")
        tmux.wait_for_text("Stopped", "stopped with")
        tmux.type("Enter")
        tmux.wait_for_text("│ put aside edited", "Just code")
        tmux.type("C-c", "C-r")
        tmux.wait_for_text("Earlier prompts", "name | size")
        tmux.type("size", "Enter")
        tmux.wait_for_text("│ say | name | size |")
        tmux.type("C-c")
        send(tmux, "/copy")
        tmux.wait_for_text("opied")
        send(tmux, "/export")
        tmux.wait_for_text("Export the session as Markdown to")
        tmux.type("Escape")
        wait_until_gone(tmux, "Export the session as Markdown to")
        send(tmux, "/rewind")
        tmux.wait_for_text("Go back to before")
        tmux.type("Escape")
        wait_until_gone(tmux, "Go back to before")
        send(tmux, "Why does the parser lose the last line?")
        tmux.wait_for_text("skips empty lines", "Plan 1/3", "ready")
        colors = shown_colors(tmux)
        assert len(colors) > 10, "the screen has many colors"
        assert [pair for pair in colors if contrast(*pair) < MIN_CONTRAST] == []
        send(tmux, "/new")
        tmux.wait_for_text("New session with")
        tmux.type("Escape")
        wait_until_gone(tmux, "New session with")
        send(tmux, "wait")
        tmux.wait_for_text("waiting", "Esc stop  Enter queue  Alt+Enter queue")
        tmux.type("C-c")
        tmux.wait_for_text("cancelled", "ready")
        send(tmux, "/exit")
        tmux.wait_for_text("left with 0")
    finally:
        tmux.close()
    assert '"nord"' in (home / "config" / "chat.json").read_text()


@on_tmux
def test_a_file_of_forty_thousand_is_found_while_typing(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "large"
    folder.mkdir()
    for part in range(200):
        (folder / f"part{part}").mkdir()
    for number in range(FILES):
        os.close(os.open(folder / f"part{number % 200}" / f"file{number}.txt", os.O_CREAT))
    with terminal(tmp_path, home, (80, 24), "--cwd", str(folder), "--", *DEMO_AGENT) as tmux:
        tmux.wait_for_text("ready")
        tmux.type("-l", "look at @file39")
        tmux.wait_for_text("│ look at @file39", "part39/file39.txt", "Tab complete")
        tmux.type("-l", "999")
        tmux.wait_for_text("│ look at @file39999", "part199/file39999.txt")
        tmux.type("Tab")
        tmux.wait_for_text("│ look at @part199/file39999.txt")
