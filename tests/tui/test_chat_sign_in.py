"""Agents that require sign-in: the dialog offers their methods and closes when one succeeds."""

import shutil
import sys
from pathlib import Path

import pytest
from tests.tui.chat import running_chat
from tests.tui.test_chat_command import chat as chat_without_terminal
from tests.tui.test_chat_command import terminal

SIGN_IN_AGENT = (sys.executable, str(Path(__file__).parent / "agents" / "sign_in_agent.py"))


def sign_in_env(tmp_path: Path, methods: str, **more: str) -> dict[str, str | None]:
    return {"SIGN_IN_METHODS": methods, "SIGN_IN_FILE": str(tmp_path / "key"), **more}


async def test_an_agent_method_signs_in_and_opens_the_session(tmp_path: Path) -> None:
    async with running_chat(tmp_path, SIGN_IN_AGENT, env=sign_in_env(tmp_path, "agent variable")) as chat:
        await chat.wait_for_dialog()
        await chat.wait_until(
            lambda: "requires you to sign in" in chat.screen and "Sign in first" in chat.screen
        )
        assert "By browser, opens a page" in chat.screen
        assert "API key (set DEMO_API_KEY)" in chat.screen
        await chat.pilot.press("1")
        await chat.wait_ready()
        await chat.wait_for_text(
            "Signed in with 'By browser'", "open https://example.com/device and type ABCD"
        )
        assert (tmp_path / "key").read_text() == "own"
        await chat.send("friend")
        await chat.wait_for_text("welcome, friend")


async def test_a_failed_sign_in_is_reported_and_offered_again(tmp_path: Path) -> None:
    async with running_chat(
        tmp_path, SIGN_IN_AGENT, env=sign_in_env(tmp_path, "agent", FAIL_FIRST="1")
    ) as chat:
        first = await chat.wait_for_dialog()
        await chat.pilot.press("1")
        await chat.wait_for_text("the browser was closed")
        await chat.wait_until(lambda: chat.view.dialog is not None and chat.view.dialog is not first)
        await chat.wait_for_dialog()
        await chat.pilot.press("1")
        await chat.wait_ready()


async def test_a_missing_environment_variable_is_explained(tmp_path: Path) -> None:
    async with running_chat(tmp_path, SIGN_IN_AGENT, env=sign_in_env(tmp_path, "agent variable")) as chat:
        await chat.wait_for_dialog()
        await chat.pilot.press("2")
        await chat.wait_until(lambda: chat.phase == "failed")
        await chat.wait_for_text(
            "needs DEMO_API_KEY in its environment", "set DEMO_API_KEY in your environment", "acp.json"
        )


@pytest.mark.parametrize("key", ["2", "escape"])
async def test_a_declined_sign_in_can_be_retried(tmp_path: Path, key: str) -> None:
    async with running_chat(tmp_path, SIGN_IN_AGENT, env=sign_in_env(tmp_path, "agent")) as chat:
        await chat.wait_for_dialog()
        await chat.pilot.press(key)
        await chat.wait_until(lambda: chat.phase == "failed")
        await chat.wait_for_text("Sign in first", "accord agents login demo own")
        (tmp_path / "key").write_text("by hand")
        await chat.pilot.press("ctrl+r")
        await chat.wait_ready()


async def test_a_refused_prompt_is_sent_after_sign_in(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from before")
    async with running_chat(tmp_path, SIGN_IN_AGENT, env=sign_in_env(tmp_path, "agent")) as chat:
        await chat.wait_ready()
        (tmp_path / "key").unlink()
        await chat.send("friend")
        await chat.wait_for_dialog()
        await chat.pilot.press("1")
        await chat.wait_for_text("welcome, friend")


async def test_withheld_variables_are_named_when_sign_in_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_SECRET", "hidden-value")
    async with running_chat(tmp_path, SIGN_IN_AGENT, env=sign_in_env(tmp_path, "agent")) as chat:
        await chat.wait_for_dialog()
        await chat.pilot.press("escape")
        await chat.wait_until(lambda: chat.phase == "failed")
        await chat.wait_for_text("not passed to the agent", "TEAM_SECRET", "--env NAME")
        assert "hidden-value" not in chat.text


async def test_withheld_variables_are_named_when_a_turn_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_SECRET", "hidden-value")
    (tmp_path / "key").write_text("from before")
    async with running_chat(tmp_path, SIGN_IN_AGENT, env=sign_in_env(tmp_path, "agent")) as chat:
        await chat.wait_ready()
        (tmp_path / "key").unlink()
        await chat.send("friend")
        await chat.wait_for_dialog()
        await chat.pilot.press("escape")
        await chat.wait_for_text("not passed to the agent", "TEAM_SECRET", "--env NAME")


def test_without_a_terminal_an_unnamed_command_gets_sign_in_instructions(tmp_path: Path, home: Path) -> None:
    command = ["env", f"SIGN_IN_FILE={tmp_path / 'key'}", "SIGN_IN_METHODS=agent", *SIGN_IN_AGENT]
    done = chat_without_terminal(tmp_path, home, "friend\n", "--", *command)
    assert done.returncode == 6
    assert "accord agents add NAME -- ...), then run accord agents login NAME own" in done.stderr


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_a_sign_in_program_runs_on_the_terminal(tmp_path: Path, home: Path) -> None:
    command = ["env", f"SIGN_IN_FILE={tmp_path / 'key'}", "SIGN_IN_METHODS=terminal", *SIGN_IN_AGENT]
    with terminal(tmp_path, home, (100, 30), "--", *command) as tmux:
        tmux.wait_for_text("In the terminal", "1-2 choose")
        tmux.type("1")
        tmux.wait_for_text("env 'SIGN_IN_FILE=[redacted]'", "the word, please:")
        tmux.type("open", "Enter")
        tmux.wait_for_text("that is not the word", "It exited with code 3. Press Enter to return")
        tmux.type("Enter")
        tmux.wait_for_text("the program exited with 3", "1-2 choose")
        tmux.type("1")
        tmux.wait_for_text("the word, please:")
        tmux.type("sesame", "Enter")
        tmux.wait_for_text("Signed in with 'In the terminal'", "ready")
        tmux.type("friend", "Enter")
        tmux.wait_for_text("welcome, friend")
        tmux.type("C-q")
        tmux.wait_for_text("left with 0")
