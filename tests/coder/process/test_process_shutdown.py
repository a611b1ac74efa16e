"""Cancelled turns, disconnected clients and signals leave no process behind."""

import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.coder.process.editor import Chat, Editor, started
from tests.coder.process.long_command import LongCommand, watch_command

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def editor(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Editor]:
    """Start one agent that most tests share."""
    folder = tmp_path_factory.mktemp("agent")
    async with started(folder / "home", folder) as editor:
        yield editor


@pytest_asyncio.fixture(loop_scope="module")
async def chat(editor: Editor, project: Path) -> Chat:
    editor.choose = "allow_once"
    return await editor.new(project)


@pytest.mark.rule("cancel.stop-reason", "cancel.soon")
async def test_cancel_kills_the_running_command_and_its_children(chat: Chat) -> None:
    async with watch_command(chat.folder) as line:
        turn = chat.prompt(LongCommand.COMMAND)
        await line.started()
        chat.cancel()
        record = await chat.finish(turn)
        await line.ended()
    assert record.stop == "cancelled"
    assert record.call["status"] == "failed"
    again = await chat.turn("read a.py")
    assert (again.stop, again.call["status"]) == ("end_turn", "completed")


@pytest.mark.rule("cancel.stop-reason", "tool-call.invalid-content-item")
async def test_cancel_settles_an_open_question(chat: Chat) -> None:
    chat.editor.choose = None
    turn = chat.prompt("write one.txt: 1")
    question = await chat.asked()
    chat.cancel()
    chat.editor.reply(question, {"outcome": {"outcome": "cancelled"}})
    record = await chat.finish(turn)
    assert (record.stop, record.call["status"]) == ("cancelled", "failed")
    assert not (chat.folder / "one.txt").exists()
    chat.editor.choose = "allow_once"
    assert (await chat.turn("write one.txt: 1")).stop == "end_turn"
    assert (chat.folder / "one.txt").exists()


async def test_cancel_without_a_turn_does_nothing(chat: Chat) -> None:
    chat.cancel()
    assert (await chat.turn("list")).stop == "end_turn"
    chat.cancel()
    assert (await chat.turn("list")).stop == "end_turn"


@pytest.mark.rule("cancel.soon")
async def test_cancel_request_for_the_prompt_ends_the_turn(chat: Chat) -> None:
    async with watch_command(chat.folder) as line:
        turn = chat.prompt(LongCommand.COMMAND)
        await line.started()
        chat.editor.notify("$/cancel_request", requestId=turn)
        answer = await chat.editor.answer(turn)
        await line.ended()
    assert answer.get("result", {}).get("stopReason") == "cancelled" or answer["error"]["code"] == -32800


@pytest.mark.parametrize("how", ["session/close", "session/delete"])
async def test_command_ends_with_its_session(chat: Chat, how: str) -> None:
    async with watch_command(chat.folder) as line:
        turn = chat.prompt(LongCommand.COMMAND)
        await line.started()
        await chat.do(how)
        assert (await chat.finish(turn)).stop == "cancelled"
        await line.ended()
    assert await chat.editor.sessions(chat.folder) == ([] if how == "session/delete" else [chat.id])


@pytest.mark.parametrize("how", ["client disconnects", "SIGTERM", "SIGINT"])
async def test_command_ends_with_its_agent(home: Path, project: Path, how: str) -> None:
    async with watch_command(project) as line, started(home, project) as editor:
        chat = await editor.new()
        chat.prompt(LongCommand.COMMAND)
        await line.started()
        if how.startswith("SIG"):
            os.kill(editor.wire.transport.tree.pid, signal.Signals[how])
            assert (await editor.wire.wait_end()).exit_code == 0
        else:
            await editor.wire.transport.aclose()
        await line.ended()


async def test_command_ends_when_the_agent_is_killed(home: Path, project: Path) -> None:
    async with watch_command(project) as line, started(home, project, stderr=None) as editor:
        chat = await editor.new()
        chat.prompt(LongCommand.COMMAND)
        await line.started()
        os.kill(editor.wire.transport.tree.pid, signal.SIGKILL)
        await line.ended()
    assert editor.wire.end is not None
    assert editor.wire.end.signal == "SIGKILL"
    async with started(home, project) as editor:
        loaded, replayed = await editor.open("session/load", chat.id)
        [call] = [update for update in replayed if update["sessionUpdate"] == "tool_call"]
        assert call["status"] == "failed"
        assert "nterrupted" in str(call["content"])
        assert (await loaded.turn("list src")).stop == "end_turn"


async def test_interrupted_turn_of_a_disconnected_client_is_in_the_log(home: Path, project: Path) -> None:
    async with watch_command(project) as line, started(home, project) as editor:
        chat = await editor.new()
        chat.prompt(f"think: here we go then {LongCommand.COMMAND}")
        await line.started()
    async with started(home, project) as editor:
        _, replayed = await editor.open("session/load", chat.id)
        kinds = [update["sessionUpdate"] for update in replayed]
        assert kinds[:3] == ["user_message_chunk", "agent_thought_chunk", "agent_message_chunk"]
        [call] = [update for update in replayed if update["sessionUpdate"] == "tool_call"]
        assert call["status"] == "failed"
