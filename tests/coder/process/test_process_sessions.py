"""Sessions over several runs of the real process: load, resume, fork, list, close, delete."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.coder.process.editor import chosen, started, updates_in

WAITING_SESSIONS = 100


def texts(updates: list[Any], kind: str) -> str:
    return "".join(update["content"]["text"] for update in updates if update["sessionUpdate"] == kind)


@pytest.mark.rule("session.load-answers-last")
async def test_load_replays_everything_before_its_response(home: Path, project: Path) -> None:
    prompt = "think: let me see then write notes.txt: hello then plan: one; two then run cat notes.txt"
    async with started(home, project) as editor:
        chat = await editor.new()
        before = await chat.turn(prompt)
        await chat.do("session/set_mode", modeId="workspace-write")
    async with started(home, project) as editor:
        chat, replayed = await editor.open("session/load", chat.id)
        assert texts(replayed, "user_message_chunk") == prompt
        assert texts(replayed, "agent_thought_chunk") == before.thoughts
        assert texts(replayed, "agent_message_chunk") == before.text
        calls = [update for update in replayed if update["sessionUpdate"] == "tool_call"]
        assert [(call["title"], call["status"], call["content"]) for call in calls] == [
            (call["title"], call["status"], call["content"]) for call in before.calls
        ]
        assert [call["rawOutput"] for call in calls] == [call["rawOutput"] for call in before.calls]
        assert [update for update in replayed if update["sessionUpdate"] == "plan"] == before.of("plan")
        assert replayed[-1] == before.of("usage_update")[-1]
        assert chat.opened["modes"]["currentModeId"] == "workspace-write"
        again = await chat.turn("write more.txt: unasked")
        assert (again.stop, editor.questions) == ("end_turn", [])
        assert again.of("usage_update")[-1]["used"] > before.of("usage_update")[-1]["used"], (
            "the history must be part of the next request"
        )


async def test_resume_does_not_replay(home: Path, project: Path) -> None:
    async with started(home, project) as editor:
        chat = await editor.new()
        used = (await chat.turn("read a.py")).of("usage_update")[-1]["used"]
    async with started(home, project) as editor:
        chat, replayed = await editor.open("session/resume", chat.id)
        assert replayed == []
        assert (await chat.turn("list")).of("usage_update")[0]["used"] > used


async def test_fork_is_independent_of_its_source(home: Path, project: Path) -> None:
    async with started(home, project) as editor:
        chat = await editor.new()
        await chat.turn("read a.py")
        fork = await editor.call("session/fork", sessionId=chat.id, cwd=str(project), mcpServers=[])
        assert fork["sessionId"] != chat.id
        assert sorted(await editor.sessions()) == sorted([chat.id, fork["sessionId"]])
        await chat.turn("list src")
    async with started(home, project) as editor:
        _, replayed = await editor.open("session/load", fork["sessionId"])
        assert texts(replayed, "user_message_chunk") == "read a.py"
        _, replayed = await editor.open("session/load", chat.id)
        assert texts(replayed, "user_message_chunk") == "read a.pylist src"


async def test_list_is_newest_first_with_closed_and_without_deleted_sessions(
    home: Path, project: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    async with started(home, project) as editor:
        first, second, third = [await editor.new() for _ in range(3)]
        far = await editor.new(elsewhere)
        for chat in (first, second, third, far):
            await chat.turn(f"think: {chat.id}")
        await first.do("session/close")
        await second.do("session/delete")
        assert await editor.sessions() == [third.id, first.id]
        assert await editor.sessions(elsewhere) == [far.id]
        assert (await editor.answer(first.prompt("list")))["error"]["code"] == -32002
    async with started(home, project) as editor:
        listed = (await editor.call("session/list", cwd=str(project)))["sessions"]
        assert [(one["sessionId"], one["cwd"]) for one in listed] == [
            (third.id, str(project)),
            (first.id, str(project)),
        ]
        assert listed[0]["title"].startswith("think: ")
        for method in ("session/load", "session/resume"):
            gone = {"sessionId": second.id, "cwd": str(project), "mcpServers": []}
            assert (await editor.error(method, **gone))["code"] == -32002


async def test_session_is_open_in_one_agent_at_a_time(home: Path, project: Path) -> None:
    async with started(home, project) as one, started(home, project) as other:
        chat = await one.new()
        await chat.turn("list")
        taken = {"sessionId": chat.id, "cwd": str(project), "mcpServers": []}
        assert (await other.error("session/load", **taken))["code"] == -32600
        assert await other.sessions() == [chat.id]
        await chat.do("session/close")
        loaded, replayed = await other.open("session/load", chat.id)
        assert texts(replayed, "user_message_chunk") == "list"
        assert (await loaded.turn("list src")).stop == "end_turn"


async def test_resume_option_continues_a_session_and_replays_after_the_response(
    home: Path, project: Path
) -> None:
    async with started(home, project) as editor:
        chat = await editor.new()
        await chat.turn("read a.py")
        newest = await editor.new()
        await newest.turn("list src")
    for words, expected, said in (
        (("--resume",), newest, "list src"),
        (("--resume", chat.id), chat, "read a.py"),
    ):
        async with started(home, project, *words) as editor:
            opened = await editor.new()
            assert opened.id == expected.id
            answer = next(i for i, message in enumerate(editor.wire.heard) if message.get("id") == 2)
            await opened.update("usage_update")
            assert updates_in(editor.wire.heard[:answer], opened.id) == []
            assert texts(updates_in(editor.wire.heard, opened.id), "user_message_chunk") == said
            assert (await editor.new()).id not in (chat.id, newest.id)
            assert (await opened.turn("think: on")).stop == "end_turn"


@pytest.mark.parametrize("words", [("--resume",), ("--resume", "no-such-session")])
async def test_resume_option_without_a_session_starts_a_new_one(
    home: Path, project: Path, words: tuple[str, ...]
) -> None:
    async with started(home, project, *words, stderr=None) as editor:
        chat = await editor.new()
        assert (await chat.turn("list")).stop == "end_turn"
    assert editor.wire.end is not None
    assert "starting a new session" in editor.wire.end.stderr


async def test_mode_and_store_options(home: Path, project: Path, tmp_path: Path) -> None:
    words = ("--mode", "workspace-write", "--store", str(tmp_path / "other" / "log.db"))
    async with started(home, project, *words) as editor:
        chat = await editor.new()
        assert chat.opened["modes"]["currentModeId"] == "workspace-write"
        await chat.turn("write x.txt: 1")
        assert editor.questions == []
    async with started(home, project) as editor:
        assert await editor.sessions() == []
    async with started(home, project, *words) as editor:
        assert await editor.sessions() == [chat.id]


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_session_of_another_folder_is_refused(home: Path, project: Path, method: str) -> None:
    async with started(home, project) as editor:
        chat = await editor.new()
        error = await editor.error(method, sessionId=chat.id, cwd=str(project / "src"), mcpServers=[])
        assert error["code"] == -32602
        assert str(project) in error["message"]


async def test_a_hundred_turns_waiting_for_approval_do_not_block_others(home: Path, project: Path) -> None:
    async with started(home, project) as editor:
        editor.choose = None
        chats = [await editor.new() for _ in range(WAITING_SESSIONS)]
        turns = [chat.prompt(f"write {number}.txt: {number}") for number, chat in enumerate(chats)]
        questions = await asyncio.gather(*(chat.asked() for chat in chats))
        listed = await editor.call("session/list", cwd=str(project))
        assert len(listed["sessions"]) == 50
        more = await editor.call("session/list", cwd=str(project), cursor=listed["nextCursor"])
        assert len(more["sessions"]) == 50
        another = await editor.new()
        assert (await another.turn("read a.py")).stop == "end_turn"
        await chats[1].do("session/set_mode", modeId="plan")
        held = chats[2].prompt("list")
        chats[2].cancel()
        assert [(await chats[2].finish(turn)).stop for turn in (turns[2], held)] == ["cancelled"] * 2
        chats[0].cancel()
        assert (await chats[0].finish(turns[0])).stop == "cancelled"
        assert (await chats[0].turn("list src")).stop == "end_turn"
        for question in questions[3:]:
            editor.reply(question, chosen(question["params"], "allow_once"))
        records = await asyncio.gather(
            *(chat.finish(turn) for chat, turn in zip(chats[3:], turns[3:], strict=True))
        )
        assert {one.stop for one in records} == {"end_turn"}
    assert sorted(int(path.stem) for path in project.glob("*.txt")) == list(range(3, WAITING_SESSIONS))
