"""Hostile agents and untrusted project files: the screen keeps working and reports the problem."""

import errno
from pathlib import Path
from typing import Any

import pytest
from tests.tui.chat import DEMO_AGENT, running_chat
from tests.tui.test_chat_transcript import strips_of

from accord.frontend.agent_config import ConfiguredAgent, load
from accord.policy.trust_store import TrustStore
from accord.testing import hostile_command
from accord.tui.question_dialogs import TrustDialog


@pytest.mark.parametrize(
    ("behavior", "expected"),
    [
        ("dies-at-start", "7"),
        ("dies-in-initialize", "exited"),
        ("dies-opening", "exited"),
        ("refuses-initialize", "initialize"),
        ("wrong-version", "9"),
    ],
)
async def test_an_agent_that_fails_to_start_is_reported_and_can_be_retried(
    tmp_path: Path, behavior: str, expected: str
) -> None:
    async with running_chat(tmp_path, hostile_command(behavior)) as chat:
        await chat.send("kept")
        await chat.wait_until(lambda: chat.phase == "failed")
        await chat.wait_for_text(expected)
        assert [draft.text for draft in chat.view.queue.drafts] == ["kept"]
        await chat.pilot.press("ctrl+r")
        await chat.wait_until(lambda: chat.phase == "failed" and chat.text.count("✗") == 2)


async def test_an_agent_that_requires_sign_in_keeps_queued_prompts(tmp_path: Path) -> None:
    async with running_chat(tmp_path, hostile_command("wants-login")) as chat:
        await chat.send("kept")
        for times in (1, 2):
            await chat.wait_for_dialog()
            await chat.pilot.press("escape")
            await chat.wait_until(
                lambda times=times: chat.phase == "failed" and chat.text.count("✗") == times
            )
            await chat.wait_for_text("sign in with")
            assert [draft.text for draft in chat.view.queue.drafts] == ["kept"]
            await chat.pilot.press("ctrl+r")


@pytest.mark.parametrize("behavior", ["dies-in-turn", "killed-in-turn", "hangs-up", "dies-asking"])
async def test_the_screen_works_after_the_agent_ends_in_a_turn(tmp_path: Path, behavior: str) -> None:
    async with running_chat(tmp_path, hostile_command(behavior)) as chat:
        await chat.wait_ready()
        await chat.send("go")
        await chat.wait_until(lambda: chat.phase == "dead")
        await chat.wait_for_text("The agent has ended")
        await chat.wait_until(lambda: chat.view.dialog is None)
        await chat.type("still here")
        assert chat.view.prompt.editor.text == "still here"


@pytest.mark.parametrize(
    "behavior", ["escapes", "noise", "wild", "unknown-updates", "deep-message", "floods"]
)
async def test_unusual_messages_break_neither_the_turn_nor_the_screen(tmp_path: Path, behavior: str) -> None:
    async with running_chat(tmp_path, hostile_command(behavior), permissions="none") as chat:
        await chat.wait_ready()
        await chat.send("go")
        await chat.wait_until(lambda: chat.phase == "ready" and "done ·" in chat.screen)
        assert not any(char in strips_of(chat) for char in "\x1b\x07\x9b\u202e\u2066")


async def test_esc_stops_an_agent_that_waits_for_cancel(tmp_path: Path) -> None:
    async with running_chat(tmp_path, hostile_command("waits-for-cancel")) as chat:
        await chat.wait_ready()
        await chat.send("go")
        await chat.wait_until(lambda: chat.phase == "running" and chat.text.count("\n") > 1)
        await chat.pilot.press("escape")
        await chat.wait_ready()
        await chat.wait_for_text("cancelled")


@pytest.mark.parametrize(("key", "counts"), [("1", False), ("2", True)])
async def test_a_project_file_is_used_only_after_the_user_agrees(
    tmp_path: Path, key: str, counts: bool
) -> None:
    (tmp_path / "acp.json").write_text('{"servers": {"theirs": {"command": "evil-program"}}}')
    trusted: list[bool] = []

    def find(trusting: Any) -> ConfiguredAgent:
        trusted.append(load(str(tmp_path), trust=trusting).untrusted_file is None)
        return ConfiguredAgent(name="demo", origin="user", command=DEMO_AGENT)

    async with running_chat(tmp_path, find=find) as chat:
        dialog = await chat.wait_for_dialog()
        assert isinstance(dialog, TrustDialog)
        await chat.wait_until(lambda: "evil-program" in chat.screen)
        await chat.pilot.press(key)
        await chat.wait_ready()
        assert trusted == [counts]


async def test_trust_that_cannot_be_stored_is_valid_for_this_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acp.json").write_text('{"servers": {"theirs": {"command": "evil-program"}}}')

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(TrustStore, "trust", fail)

    def find(trusting: Any) -> ConfiguredAgent:
        assert load(str(tmp_path), trust=trusting).untrusted_file is None
        return ConfiguredAgent(name="demo", origin="user", command=DEMO_AGENT)

    async with running_chat(tmp_path, find=find) as chat:
        await chat.wait_for_dialog()
        await chat.pilot.press("2")
        await chat.wait_ready()
        await chat.wait_for_text("Trusted for this run only")
