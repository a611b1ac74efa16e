"""Undo and rewind in the chat with an agent that has none: the client brings files and conversation back."""

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tui.chat import Chat, running_chat
from tests.tui.test_chat_command import terminal

from accord.frontend.checkpoints import shadow_git
from accord.frontend.checkpoints.checkpoint_store import LIST_NAME, checkpoints_folder
from accord.frontend.client_rewind import clean_copies
from accord.frontend.recording import NAME
from accord.store import store_path

PLAIN_AGENT = (sys.executable, str(Path(__file__).parent / "agents" / "plain_agent.py"))
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a committed, an uncommitted and an ignored file."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "app.py").write_text("one\n")
    (folder / ".gitignore").write_text("*.log\n")
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.com")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder / "app.py").write_text("one, edited by me\n")
    (folder / "mine.txt").write_text("not committed\n")
    (folder / "run.log").write_text("ignored\n")
    return folder


async def turn(chat: Chat, text: str) -> None:
    turns = chat.view.turns
    await chat.send(text)
    await chat.wait_until(lambda: chat.view.turns == turns + 1)
    await chat.wait_ready()


@needs_git
async def test_undo_brings_back_uncommitted_work_and_keeps_ignored_files(project: Path) -> None:
    async with running_chat(project, PLAIN_AGENT) as chat:
        await chat.wait_ready()
        await turn(chat, "write app.py broken")
        await turn(chat, "write new.txt hello")
        await turn(chat, "remove mine.txt")
        (project / "run.log").write_text("ignored, and more\n")
        await chat.send("/rewind 3")
        await chat.wait_for_text("Conversation and files are back as before “write app.py broken”")
        assert (project / "app.py").read_text() == "one, edited by me\n"
        assert (project / "mine.txt").read_text() == "not committed\n"
        assert not (project / "new.txt").exists()
        assert (project / "run.log").read_text() == "ignored, and more\n"
        assert chat.view.prompt.editor.text == "write app.py broken"
        chat.view.prompt.clear()
        await chat.send("/redo")
        await chat.wait_for_text("Back as before the undo of “write app.py broken”")
        assert (project / "app.py").read_text() == "broken\n"
        assert (project / "new.txt").read_text() == "hello\n"
        assert not (project / "mine.txt").exists()
        await chat.wait_for_text("did remove mine.txt")


@needs_git
async def test_after_a_rewind_a_new_session_knows_the_conversation_so_far(project: Path) -> None:
    async with running_chat(project, PLAIN_AGENT) as chat:
        await chat.wait_ready()
        await turn(chat, "remember the word heron")
        await turn(chat, "remember the word walrus")
        await chat.send("/undo")
        await chat.wait_for_text("Conversation and files are back as before “remember the word walrus”")
        assert "did remember the word heron" in chat.text
        assert "did remember the word walrus" not in chat.text
        chat.view.prompt.clear()
        await turn(chat, "heard")
        answer = chat.text.rpartition("plain-2 heard:")[2]
        assert "did remember the word heron" in " ".join(answer.split())
        assert "walrus" not in answer
        before = chat.text.count("heron")
        await turn(chat, "write a.txt x")
        assert chat.text.count("heron") == before, "the history is sent once"
        await chat.send("/rewind 3")
        await chat.wait_for_text("back as before “remember the word heron”")
        assert not (project / "a.txt").exists()


@pytest.mark.parametrize("name", ["plain.txt", "sub.log"])
@needs_git
async def test_files_come_back_without_a_repository_and_when_git_ignores_them(
    tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / name).write_text("before\n")
    if name == "sub.log":
        (folder / ".gitignore").write_text("*.log\n")
    async with running_chat(folder, PLAIN_AGENT) as chat:
        await chat.wait_ready()
        await chat.send(f"ask {name} after")
        await chat.wait_for_dialog()
        await chat.pilot.press("1")
        await chat.wait_for_text(f"wrote {name}")
        await chat.wait_ready()
        assert (folder / name).read_text() == "after\n"
        await chat.send("/undo files")
        await chat.wait_for_text("The files are back")
        assert (folder / name).read_text() == "before\n"
        await turn(chat, "heard")
        assert "I undid the changes of files" in " ".join(chat.text.split())


@needs_git
async def test_a_file_that_the_user_changed_after_the_turn_stays(project: Path) -> None:
    async with running_chat(project, PLAIN_AGENT) as chat:
        await chat.wait_ready()
        await turn(chat, "write app.py theirs")
        target = chat.view.chat_session and chat.view.chat_session.rewind_target
        assert target is not None
        await target.rewind_points()  # what the turn changed is found in the background
        (project / "app.py").write_text("mine again\n")
        await chat.send("/undo")
        await chat.wait_for_text("Not restored: app.py: another program changed it since")
        assert (project / "app.py").read_text() == "mine again\n"


@needs_git
async def test_a_folder_that_is_too_large_is_given_up_once_and_the_reply_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow_git, "MAX_PLAIN_PATHS", 3)
    folder = tmp_path / "project"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}").write_text("x")
    async with running_chat(folder, PLAIN_AGENT) as chat:
        await chat.wait_ready()
        await turn(chat, "write 0 changed")
        monkeypatch.setattr(shadow_git, "MAX_PLAIN_PATHS", 1000)
        await turn(chat, "write 1 changed")
        await chat.send("/undo files")
        await chat.wait_for_text("are not kept: 4 files are in a folder without a git repository")
        assert (folder / "1").read_text() == "changed\n"


@needs_git
async def test_an_agent_without_resources_gets_the_conversation_as_text(tmp_path: Path) -> None:
    async with running_chat(tmp_path, PLAIN_AGENT, env={"WITHOUT_RESOURCES": "1"}) as chat:
        await chat.wait_ready()
        await turn(chat, "remember the word heron")
        await turn(chat, "remember the word walrus")
        await chat.pilot.press("alt+u")
        await chat.wait_until(lambda: "Go back to before" in chat.screen)
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: "Only the conversation" in chat.screen)
        await chat.pilot.press("down", "enter")
        await chat.wait_until(lambda: chat.view.prompt.editor.text == "remember the word walrus")
        chat.view.prompt.editor.write("heard")
        await chat.pilot.press("enter")
        await chat.wait_for_text("plain-2 heard:")
        assert "did remember the word heron" in " ".join(chat.text.rpartition("plain-2 heard:")[2].split())


@needs_git
async def test_copies_of_sessions_that_are_gone_are_removed(project: Path) -> None:
    async with running_chat(project, PLAIN_AGENT) as chat:
        await chat.wait_ready()
        await turn(chat, "write app.py broken")
        session = chat.view.chat_session and chat.view.chat_session.session
        assert session is not None
    folder = checkpoints_folder(store_path(NAME))
    (kept,) = folder.iterdir()
    gone = folder / "gone"
    gone.mkdir()
    text = (kept / LIST_NAME).read_text()
    (gone / LIST_NAME).write_text(text.replace(session.id, "not-recorded"))
    await asyncio.to_thread(clean_copies)
    assert list(folder.iterdir()) == [kept]


@needs_git
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_undo_on_a_terminal(tmp_path: Path, home: Path, project: Path) -> None:
    with terminal(tmp_path, home, (80, 24), "--cwd", str(project), "--", *PLAIN_AGENT) as tmux:
        tmux.wait_for_text("ready")
        tmux.type("-l", "write app.py broken")
        tmux.type("Enter")
        tmux.wait_for_text("did write app.py broken", "ready")
        tmux.type("-l", "/undo ")
        tmux.type("Enter")
        tmux.wait_for_text("1 file restored: app.py", "new session", "│ write app.py broken")
        assert (project / "app.py").read_text() == "one, edited by me\n"
