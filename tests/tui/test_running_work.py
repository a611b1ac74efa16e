"""One key stops a single tool call or command of an agent of version 2, and the turn goes on."""

import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.tui.chat import Chat, running_chat

from accord.frontend.agent_config import ConfiguredAgent
from accord.tui.chat_settings import ChatSettings

AGENT = (sys.executable, str(Path(__file__).parent / "agents" / "stoppable_agent.py"))


def speaking(protocol: Literal[1, 2], **app: Any) -> dict[str, Any]:
    found = ConfiguredAgent(name="demo", origin="user", command=AGENT, protocol=protocol)
    return {"find": lambda _: found, "app": app}


async def shown(chat: Chat, *texts: str) -> None:
    await chat.wait_until(lambda: all(text in chat.screen for text in texts))


async def test_the_only_call_is_stopped_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with running_chat(tmp_path, **speaking(2)) as chat:
        await chat.wait_ready()
        assert "Alt+X" not in chat.screen
        await chat.send("calls one")
        await shown(chat, "Esc stop  Alt+X stop a call  Enter queue")
        await chat.pilot.press("alt+x")
        await chat.wait_for_text("one was stopped", "all have ended")
        await chat.wait_ready()
        await chat.wait_until(lambda: "Alt+X" not in chat.screen)


async def test_of_several_the_user_chooses_one(tmp_path: Path) -> None:
    async with running_chat(tmp_path, **speaking(2)) as chat:
        await chat.wait_ready()
        await chat.send("calls one two three")
        await chat.wait_until(lambda: len(chat.view.status.running) == 3)
        await chat.pilot.press("alt+x")
        await shown(chat, "Stop one of these", "Tool calls", "Wait for two")
        await chat.type("two")
        await chat.pilot.press("enter")
        await chat.wait_until(lambda: len(chat.view.status.running) == 2)
        chat_session = chat.view.chat_session
        assert chat_session is not None
        assert chat_session.session is not None
        calls = chat_session.session.state.tool_calls.values()
        assert [call.title for call in calls if not call.open] == ["Wait for two"]
        await chat.pilot.press("f6", "k")  # select the last call in the conversation
        await shown(chat, "Alt+X stop this  Esc prompt")
        await chat.pilot.press("alt+x")
        await chat.wait_until(lambda: len(chat.view.status.running) == 1)
        assert [call.title for call in calls if call.open] == ["Wait for one"]
        await chat.pilot.press("k")  # "two" has ended
        await chat.wait_until(lambda: "Alt+X" not in chat.screen)
        assert chat.phase == "running"


async def test_a_command_in_the_background_is_stopped_after_its_turn(tmp_path: Path) -> None:
    async with running_chat(tmp_path, **speaking(2)) as chat:
        await chat.wait_ready()
        await chat.send("background make serve")
        await chat.wait_for_text("it runs")
        await chat.wait_ready()
        await shown(chat, "Alt+X stop a command")
        await chat.send("calls one")  # the command is in an earlier turn then
        await chat.wait_until(lambda: len(chat.view.status.running) == 2)
        await chat.pilot.press("alt+x")
        await shown(chat, "Commands", "make serve")
        await chat.type("serve")
        await chat.pilot.press("enter")
        await chat.wait_for_text("signal SIGTERM")
        await shown(chat, "Alt+X stop a call")


async def test_the_key_can_be_changed(tmp_path: Path) -> None:
    settings = ChatSettings(keys={"stop_work": "ctrl+x"})
    async with running_chat(tmp_path, **speaking(2, settings=settings)) as chat:
        await chat.wait_ready()
        await chat.send("calls one")
        await shown(chat, "Ctrl+X stop a call")
        await chat.pilot.press("ctrl+x")
        await chat.wait_for_text("all have ended")


@pytest.mark.parametrize("prompt", ["calls one", "background make serve"])
async def test_an_agent_of_version_1_does_not_offer_it(tmp_path: Path, prompt: str) -> None:
    async with running_chat(tmp_path, **speaking(1)) as chat:
        await chat.wait_ready()
        await chat.send(prompt)
        await chat.wait_for_text("one" if prompt.startswith("calls") else "it runs")
        assert "Alt+X" not in chat.screen
        await chat.pilot.press("alt+x")
        await chat.wait_until(lambda: any("Esc stops the whole turn" in text for text in chat.notifications))
