"""How things end: turns that are cancelled, clients that go away, signals. Nothing of the agent is left behind."""

import os
import signal
from pathlib import Path

import pytest
from tests.coder.process.editor import started
from tests.coder.process.lifeline import Lifeline, lifeline


@pytest.mark.rule(161, 163)
async def test_a_cancel_ends_the_running_command_with_all_its_children(home: Path, project: Path) -> None:
    async with lifeline(project) as line, started(home, project) as editor:
        chat = await editor.new()
        turn = chat.prompt(Lifeline.COMMAND)
        await line.up()
        chat.cancel()
        told = await chat.told(turn)
        await line.gone()
        assert told.stop == "cancelled"
        assert told.call["status"] == "failed"
        again = await chat.turn("read a.py")
        assert (again.stop, again.call["status"]) == ("end_turn", "completed")


@pytest.mark.rule(161, 188)
async def test_a_cancel_settles_an_open_question(home: Path, project: Path) -> None:
    async with started(home, project) as editor:
        editor.choose = None
        chat = await editor.new()
        turn = chat.prompt("write one.txt: 1")
        question = await chat.asked()
        chat.cancel()
        editor.reply(question, {"outcome": {"outcome": "cancelled"}})
        told = await chat.told(turn)
        assert (told.stop, told.call["status"]) == ("cancelled", "failed")
        assert not (project / "one.txt").exists()
        editor.choose = "allow_once"
        assert (await chat.turn("write one.txt: 1")).stop == "end_turn"
    assert (project / "one.txt").exists()


async def test_a_cancel_of_nothing_does_nothing(home: Path, project: Path) -> None:
    async with started(home, project) as editor:
        chat = await editor.new()
        chat.cancel()
        assert (await chat.turn("list")).stop == "end_turn"
        chat.cancel()
        assert (await chat.turn("list")).stop == "end_turn"


@pytest.mark.rule(163)
async def test_a_request_that_is_cancelled_itself_ends_the_turn(home: Path, project: Path) -> None:
    async with lifeline(project) as line, started(home, project) as editor:
        chat = await editor.new()
        turn = chat.prompt(Lifeline.COMMAND)
        await line.up()
        editor.notify("$/cancel_request", requestId=turn)
        answer = await editor.answer(turn)
        assert answer.get("result", {}).get("stopReason") == "cancelled" or answer["error"]["code"] == -32800
        await line.gone()


@pytest.mark.parametrize(
    "how", ["the client goes away", "SIGTERM", "SIGINT", "session/close", "session/delete"]
)
async def test_no_command_outlives_its_agent_or_session(home: Path, project: Path, how: str) -> None:
    async with lifeline(project) as line, started(home, project) as editor:
        chat = await editor.new()
        turn = chat.prompt(Lifeline.COMMAND)
        await line.up()
        if how.startswith("session/"):
            await chat.do(how)
            assert (await chat.told(turn)).stop == "cancelled"
            assert await editor.sessions() == ([] if how == "session/delete" else [chat.id])
        elif how.startswith("SIG"):
            os.kill(editor.wire.transport.tree.pid, signal.Signals[how])
            assert (await editor.wire.wait_end()).exit_code == 0
        else:
            await editor.wire.transport.aclose()
        await line.gone()


async def test_what_runs_in_the_background_ends_with_the_session(home: Path, project: Path) -> None:
    async with lifeline(project) as line, started(home, project) as editor:
        chat = await editor.new()
        told = await chat.turn(Lifeline.COMMAND + " &")
        await line.up()
        assert told.stop == "end_turn"
        await chat.do("session/close")
        await line.gone()


async def test_not_even_kill_9_leaves_a_command_behind(home: Path, project: Path) -> None:
    async with lifeline(project) as line, started(home, project, stderr=None) as editor:
        chat = await editor.new()
        turn = chat.prompt(Lifeline.COMMAND)
        await line.up()
        os.kill(editor.wire.transport.tree.pid, signal.SIGKILL)
        await line.gone()
    assert editor.wire.end is not None
    assert editor.wire.end.signal == "SIGKILL"
    async with started(home, project) as editor:
        loaded, told = await editor.open("session/load", chat.id)
        [call] = [update for update in told if update["sessionUpdate"] == "tool_call"]
        assert call["status"] == "failed"
        assert "nterrupted" in str(call["content"])
        assert (await loaded.turn("list src")).stop == "end_turn"
    assert turn


async def test_the_turn_of_a_client_that_went_away_is_in_the_log_as_far_as_it_came(
    home: Path, project: Path
) -> None:
    async with lifeline(project) as line, started(home, project) as editor:
        chat = await editor.new()
        chat.prompt(f"think: here we go then {Lifeline.COMMAND}")
        await line.up()
    async with started(home, project) as editor:
        _, told = await editor.open("session/load", chat.id)
        kinds = [update["sessionUpdate"] for update in told]
        assert kinds[:3] == ["user_message_chunk", "agent_thought_chunk", "agent_message_chunk"]
        [call] = [update for update in told if update["sessionUpdate"] == "tool_call"]
        assert call["status"] == "failed"
