"""Agents with bad manners, and files that nobody agreed to: the screen stays whole, and tells what happened."""

from pathlib import Path
from typing import Any

import pytest
from tests.tui.chat import PUPPET, chatting
from tests.tui.test_chat_conversation import strips_of

from accord.client.servers import Server, load
from accord.testing import hostile_command
from accord.tui.dialogs.trust import TrustDialog


@pytest.mark.parametrize(
    ("habit", "told"),
    [
        ("dies-at-start", "7"),
        ("dies-in-initialize", "exited"),
        ("dies-opening", "exited"),
        ("refuses-initialize", "initialize"),
        ("wrong-version", "9"),
    ],
)
async def test_an_agent_that_cannot_be_used_is_told_of_and_can_be_tried_again(
    tmp_path: Path, habit: str, told: str
) -> None:
    async with chatting(tmp_path, hostile_command(habit)) as chat:
        await chat.say("kept")
        await chat.until(lambda: chat.phase == "failed")
        await chat.shows(told)
        assert [draft.text for draft in chat.view.queue.drafts] == ["kept"]
        await chat.pilot.press("ctrl+r")
        await chat.until(lambda: chat.phase == "failed" and chat.text.count("✗") == 2)


async def test_an_agent_that_wants_a_login_asks_for_it_and_nothing_typed_is_lost(tmp_path: Path) -> None:
    async with chatting(tmp_path, hostile_command("wants-login")) as chat:
        await chat.say("kept")
        for times in (1, 2):
            await chat.question()
            await chat.pilot.press("escape")
            await chat.until(lambda times=times: chat.phase == "failed" and chat.text.count("✗") == times)
            await chat.shows("sign in by")
            assert [draft.text for draft in chat.view.queue.drafts] == ["kept"]
            await chat.pilot.press("ctrl+r")


@pytest.mark.parametrize("habit", ["dies-in-turn", "killed-in-turn", "hangs-up", "dies-asking"])
async def test_an_agent_that_ends_in_a_turn_leaves_a_screen_that_works(tmp_path: Path, habit: str) -> None:
    async with chatting(tmp_path, hostile_command(habit)) as chat:
        await chat.ready()
        await chat.say("go")
        await chat.until(lambda: chat.phase == "dead")
        await chat.shows("The agent has ended")
        await chat.until(lambda: chat.view.dialog is None)
        await chat.type("still here")
        assert chat.view.prompt.editor.text == "still here"


@pytest.mark.parametrize("habit", ["escapes", "noise", "wild", "unknown-updates", "deep-message", "floods"])
async def test_odd_messages_cost_neither_the_turn_nor_the_screen(tmp_path: Path, habit: str) -> None:
    async with chatting(tmp_path, hostile_command(habit), permissions="none") as chat:
        await chat.ready()
        await chat.say("go")
        await chat.until(lambda: chat.phase == "ready" and "done ·" in chat.text)
        assert not any(char in strips_of(chat) for char in "\x1b\x07\x9b\u202e\u2066")


async def test_a_flood_without_end_is_stopped_by_a_key(tmp_path: Path) -> None:
    async with chatting(tmp_path, hostile_command("waits-for-cancel")) as chat:
        await chat.ready()
        await chat.say("go")
        await chat.until(lambda: chat.phase == "running" and chat.text.count("\n") > 1)
        await chat.pilot.press("escape")
        await chat.ready()
        await chat.shows("cancelled")


@pytest.mark.parametrize(("key", "counts"), [("1", False), ("2", True)])
async def test_a_project_file_counts_only_when_somebody_agreed_on_the_screen(
    tmp_path: Path, key: str, counts: bool
) -> None:
    (tmp_path / "acp.json").write_text('{"servers": {"theirs": {"command": "evil-program"}}}')
    asked: list[bool] = []

    def find(trusting: Any) -> Server:
        asked.append(load(str(tmp_path), trust=trusting).left_out is None)
        return Server(name="puppet", origin="user", command=PUPPET)

    async with chatting(tmp_path, find=find) as chat:
        dialog = await chat.question()
        assert isinstance(dialog, TrustDialog)
        await chat.until(lambda: "evil-program" in chat.screen)
        await chat.pilot.press(key)
        await chat.ready()
        assert asked == [counts]
