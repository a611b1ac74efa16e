"""Sessions that wait for approval do not block other sessions."""

import asyncio
from pathlib import Path

import pytest
from tests.coder.process.editor import chosen, started

SESSIONS = 100


@pytest.mark.timeout(120)
async def test_a_hundred_turns_waiting_for_approval_do_not_block_others(home: Path, project: Path) -> None:
    async with started(home, project) as editor:
        editor.choose = None
        chats = [await editor.new() for _ in range(SESSIONS)]
        turns = [chat.prompt(f"write {number}.txt: {number}") for number, chat in enumerate(chats)]
        questions = await asyncio.gather(*(chat.asked() for chat in chats))
        listed = await editor.call("session/list", cwd=str(project))
        assert len(listed["sessions"]) == 50
        more = await editor.call("session/list", cwd=str(project), cursor=listed["nextCursor"])
        assert len(more["sessions"]) == 50
        another = await editor.new()
        assert (await another.turn("read a.py")).stop == "end_turn"
        await chats[1].do("session/set_mode", modeId="plan")
        assert (await editor.answer(chats[2].prompt("list")))["error"]["code"] == -32600
        chats[0].cancel()
        assert (await chats[0].finish(turns[0])).stop == "cancelled"
        assert (await chats[0].turn("list src")).stop == "end_turn"
        for question in questions[3:]:
            editor.reply(question, chosen(question["params"], "allow_once"))
        told = await asyncio.gather(
            *(chat.finish(turn) for chat, turn in zip(chats[3:], turns[3:], strict=True))
        )
        assert {one.stop for one in told} == {"end_turn"}
    assert sorted(int(path.stem) for path in project.glob("*.txt")) == list(range(3, SESSIONS))
