"""Agents that want somebody to sign in: the ways are offered in the screen, and gone from there."""

import shlex
import shutil
import sys
from pathlib import Path

import pytest
from tests.tui.chat import chatting
from tests.tui.test_chat_command import terminal

DOORKEEPER = (sys.executable, str(Path(__file__).parent / "agents" / "doorkeeper.py"))


def door(tmp_path: Path, ways: str, **more: str) -> dict[str, str | None]:
    return {"DOOR": ways, "DOOR_KEY": str(tmp_path / "key"), **more}


async def test_a_way_of_the_agent_is_chosen_and_the_session_opens(tmp_path: Path) -> None:
    async with chatting(tmp_path, DOORKEEPER, env=door(tmp_path, "agent variable")) as chat:
        await chat.question()
        await chat.until(lambda: "wants you to sign in" in chat.screen and "Sign in first" in chat.screen)
        assert "By browser, opens a page" in chat.screen
        assert "API key (set DOOR_API_KEY)" in chat.screen
        await chat.pilot.press("1")
        await chat.ready()
        await chat.shows("Signed in by 'By browser'", "open https://example.com/device and type ABCD")
        assert (tmp_path / "key").read_text() == "own"
        await chat.say("friend")
        await chat.shows("welcome, friend")


async def test_a_way_that_fails_is_told_and_all_are_offered_again(tmp_path: Path) -> None:
    async with chatting(tmp_path, DOORKEEPER, env=door(tmp_path, "agent", SHY="1")) as chat:
        first = await chat.question()
        await chat.pilot.press("1")
        await chat.shows("the browser was closed")
        await chat.until(lambda: chat.view.dialog is not None and chat.view.dialog is not first)
        await chat.question()
        await chat.pilot.press("1")
        await chat.ready()


async def test_a_key_in_the_environment_is_explained(tmp_path: Path) -> None:
    async with chatting(tmp_path, DOORKEEPER, env=door(tmp_path, "agent variable")) as chat:
        await chat.question()
        await chat.pilot.press("2")
        await chat.until(lambda: chat.phase == "failed")
        await chat.shows(
            "wants DOOR_API_KEY in its environment", "set DOOR_API_KEY in your environment", "acp.json"
        )


@pytest.mark.parametrize("key", ["2", "escape"])
async def test_whoever_does_not_sign_in_now_can_try_again(tmp_path: Path, key: str) -> None:
    async with chatting(tmp_path, DOORKEEPER, env=door(tmp_path, "agent")) as chat:
        await chat.question()
        await chat.pilot.press(key)
        await chat.until(lambda: chat.phase == "failed")
        await chat.shows("Sign in first", "accord agents login puppet own")
        (tmp_path / "key").write_text("by hand")
        await chat.pilot.press("ctrl+r")
        await chat.ready()


async def test_a_prompt_that_is_refused_goes_out_once_somebody_has_signed_in(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from before")
    async with chatting(tmp_path, DOORKEEPER, env=door(tmp_path, "agent")) as chat:
        await chat.ready()
        (tmp_path / "key").unlink()
        await chat.say("friend")
        await chat.question()
        await chat.pilot.press("1")
        await chat.shows("welcome, friend")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_program_of_the_agent_signs_in_on_the_terminal(tmp_path: Path, home: Path) -> None:
    command = ["env", f"DOOR_KEY={tmp_path / 'key'}", "DOOR=terminal", *DOORKEEPER]
    with terminal(tmp_path, home, (100, 30), "--", *command) as tmux:
        tmux.shows("In the terminal", "1-2 choose")
        tmux.type("1")
        tmux.shows(f"{shlex.join(command)[:40]}", "the word, please:")
        tmux.type("open", "Enter")
        tmux.shows("that is not the word", "It exited with 3. Enter returns")
        tmux.type("Enter")
        tmux.shows("the program exited with 3", "1-2 choose")
        tmux.type("1")
        tmux.shows("the word, please:")
        tmux.type("sesame", "Enter")
        tmux.shows("Signed in by 'In the terminal'", "ready")
        tmux.type("friend", "Enter")
        tmux.shows("welcome, friend")
        tmux.type("C-q")
        tmux.shows("left with 0")
