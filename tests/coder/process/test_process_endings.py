"""How things end: turns that are cancelled, clients that go away, signals. Nothing of the agent is left behind."""

import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.coder.process.editor import Chat, Editor, started
from tests.coder.process.lifeline import Lifeline, lifeline

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def editor(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Editor]:
    """One agent, which survives everything that is done to its turns and sessions."""
    folder = tmp_path_factory.mktemp("agent")
    async with started(folder / "home", folder) as editor:
        yield editor


@pytest_asyncio.fixture(loop_scope="module")
async def chat(editor: Editor, project: Path) -> Chat:
    editor.choose = "allow_once"
    return await editor.new(project)


@pytest.mark.rule(161, 163)
async def test_a_cancel_ends_the_running_command_with_all_its_children(chat: Chat) -> None:
    async with lifeline(chat.folder) as line:
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
async def test_a_cancel_settles_an_open_question(chat: Chat) -> None:
    chat.editor.choose = None
    turn = chat.prompt("write one.txt: 1")
    question = await chat.asked()
    chat.cancel()
    chat.editor.reply(question, {"outcome": {"outcome": "cancelled"}})
    told = await chat.told(turn)
    assert (told.stop, told.call["status"]) == ("cancelled", "failed")
    assert not (chat.folder / "one.txt").exists()
    chat.editor.choose = "allow_once"
    assert (await chat.turn("write one.txt: 1")).stop == "end_turn"
    assert (chat.folder / "one.txt").exists()


async def test_a_cancel_of_nothing_does_nothing(chat: Chat) -> None:
    chat.cancel()
    assert (await chat.turn("list")).stop == "end_turn"
    chat.cancel()
    assert (await chat.turn("list")).stop == "end_turn"


@pytest.mark.rule(163)
async def test_a_request_that_is_cancelled_itself_ends_the_turn(chat: Chat) -> None:
    async with lifeline(chat.folder) as line:
        turn = chat.prompt(Lifeline.COMMAND)
        await line.up()
        chat.editor.notify("$/cancel_request", requestId=turn)
        answer = await chat.editor.answer(turn)
        await line.gone()
    assert answer.get("result", {}).get("stopReason") == "cancelled" or answer["error"]["code"] == -32800


@pytest.mark.parametrize("how", ["session/close", "session/delete"])
async def test_no_command_outlives_its_session(chat: Chat, how: str) -> None:
    async with lifeline(chat.folder) as line:
        turn = chat.prompt(Lifeline.COMMAND)
        await line.up()
        await chat.do(how)
        assert (await chat.told(turn)).stop == "cancelled"
        await line.gone()
    assert await chat.editor.sessions(chat.folder) == ([] if how == "session/delete" else [chat.id])


@pytest.mark.parametrize("how", ["the client goes away", "SIGTERM", "SIGINT"])
async def test_no_command_outlives_its_agent(home: Path, project: Path, how: str) -> None:
    async with lifeline(project) as line, started(home, project) as editor:
        chat = await editor.new()
        chat.prompt(Lifeline.COMMAND)
        await line.up()
        if how.startswith("SIG"):
            os.kill(editor.wire.transport.tree.pid, signal.Signals[how])
            assert (await editor.wire.wait_end()).exit_code == 0
        else:
            await editor.wire.transport.aclose()
        await line.gone()


async def test_not_even_kill_9_leaves_a_command_behind(home: Path, project: Path) -> None:
    async with lifeline(project) as line, started(home, project, stderr=None) as editor:
        chat = await editor.new()
        chat.prompt(Lifeline.COMMAND)
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
