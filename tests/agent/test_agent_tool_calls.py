"""Tool calls as the client sees them."""

import asyncio
from typing import Any

import pytest
from tests.agent.scene import agent_that, talk

from accord.agent import ToolCallScope, Turn
from accord.errors import UsageError
from accord.schema import Content, ImageContent, TextContent, ToolCallLocation


async def calls_of(turn: Any) -> list[Any]:
    """What the client hears of the tool calls of one turn, without their ids."""
    async with talk(agent_that(turn)) as client:
        await client.turn(await client.new_session("/home/me/app"))
    found = [update for update in client.updates() if update["sessionUpdate"].startswith("tool_call")]
    announced: set[str] = set()
    for update in found:
        if update["sessionUpdate"] == "tool_call":
            announced.add(update["toolCallId"])
        assert update["toolCallId"] in announced
    return [{key: value for key, value in update.items() if key != "toolCallId"} for update in found]


@pytest.mark.rule(172, 173, 175, 176, 177, 178, 179, 180, 181, 182, 183)
async def test_the_whole_life_of_a_call() -> None:
    async def edits(turn: Turn) -> None:
        scope = turn.tool_call(
            "Edit a.py",
            kind="edit",
            name="edit_file",
            locations=["a.py", ("/tmp/b.py", 3), ToolCallLocation("c.py", 1)],
            raw_input={"path": "a.py"},
        )
        async with scope as call:
            await call.start()
            await call.diff("a.py", old="a", new="b")
            await call.diff("new.py", old=None, new="c")
            await call.content(ImageContent("aGk=", "image/png"))
            await call.locations("d.py")
            await call.title("Edited a.py")
            await call.raw_output({"ok": True})
            await call.raw_input([1])
            await call.replace([Content(TextContent("done"))])

    changed = {"sessionUpdate": "tool_call_update"}
    diff = {"type": "diff", "path": "/home/me/app/a.py", "oldText": "a", "newText": "b"}
    new = {"type": "diff", "path": "/home/me/app/new.py", "oldText": None, "newText": "c"}
    image = {"type": "content", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}}
    assert await calls_of(edits) == [
        {
            "sessionUpdate": "tool_call",
            "title": "Edit a.py",
            "kind": "edit",
            "status": "pending",
            "locations": [
                {"path": "/home/me/app/a.py"},
                {"path": "/tmp/b.py", "line": 3},
                {"path": "/home/me/app/c.py", "line": 1},
            ],
            "rawInput": {"path": "a.py"},
            "name": "edit_file",
        },
        {**changed, "status": "in_progress"},
        {**changed, "content": [diff]},
        {**changed, "content": [diff, new]},
        {**changed, "content": [diff, new, image]},
        {**changed, "locations": [{"path": "/home/me/app/d.py"}]},
        {**changed, "title": "Edited a.py"},
        {**changed, "rawOutput": {"ok": True}},
        {**changed, "rawInput": [1]},
        {**changed, "content": [{"type": "content", "content": {"type": "text", "text": "done"}}]},
        {**changed, "status": "completed"},
    ]


@pytest.mark.rule(182, 183)
async def test_a_call_that_only_ends_was_in_progress_before() -> None:
    async def brief(turn: Turn) -> None:
        async with turn.tool_call("Blink"):
            pass
        async with turn.tool_call("Run", start=True):
            pass

    assert [update["status"] for update in await calls_of(brief)] == [
        "pending",
        "in_progress",
        "completed",
        "in_progress",
        "completed",
    ]


@pytest.mark.rule(183)
async def test_a_call_whose_code_raises_ends_as_failed_with_the_reason() -> None:
    async def fails(turn: Turn) -> None:
        for error in (ValueError("no such file"), KeyError()):
            try:
                async with turn.tool_call("Read") as call:
                    await call.text("looking")
                    raise error
            except LookupError:
                pass
            except ValueError:
                pass
        async with turn.tool_call("Give up") as call:
            await call.fail("nothing there")
            with pytest.raises(UsageError, match="ended as failed"):
                await call.fail()

    def shown(text: str) -> dict[str, Any]:
        return {"type": "content", "content": {"type": "text", "text": text}}

    ended = [update for update in await calls_of(fails) if update.get("status") == "failed"]
    assert [update["content"] for update in ended] == [
        [shown("looking"), shown("no such file")],
        [shown("looking"), shown("KeyError")],
        [shown("nothing there")],
    ]


@pytest.mark.rule(183)
async def test_a_call_left_open_by_a_task_of_its_own_is_closed_before_the_answer() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def leaves(turn: Turn) -> None:
        begun = asyncio.Event()

        async def dawdles() -> None:
            async with turn.tool_call("Dawdle"):
                begun.set()
                await asyncio.Event().wait()

        tasks.append(asyncio.create_task(dawdles()))
        await begun.wait()

    async with talk(agent_that(leaves)) as client:
        updates, _ = await client.turn(await client.new_session())
        tasks[0].cancel()
        await asyncio.wait(tasks)
        await client.new_session()
    assert [update["status"] for update in updates] == ["pending", "failed"]
    assert len(client.said("tool_call_update")) == 1


@pytest.mark.rule(174)
async def test_no_two_calls_of_a_session_share_an_id_not_even_after_a_load() -> None:
    async def calls(turn: Turn) -> None:
        async with turn.tool_call("One"), turn.tool_call("Two"):
            pass

    agent = agent_that(calls)
    agent.load_session(lambda session: None)
    async with talk(agent) as client:
        session = await client.new_session()
        await client.turn(session)
        await client.turn(session)
        await client.call("session/load", {"sessionId": session, "cwd": "/home/me/app", "mcpServers": []})
        await client.turn(session)
    ids = [update["toolCallId"] for update in client.said("tool_call")]
    assert len(ids) == len(set(ids)) == 6


async def test_a_call_is_used_inside_its_block_once_and_with_known_kinds_and_lines() -> None:
    problems: list[str] = []

    async def misuses(turn: Turn) -> None:
        scope: ToolCallScope = turn.tool_call("Look")
        with pytest.raises(UsageError, match="not announced") as too_early:
            await scope.text("too early")
        with pytest.raises(UsageError, match="not open"):
            await scope.ask_permission()
        async with scope:
            pass
        with pytest.raises(UsageError, match="already used"):
            await scope.__aenter__()
        with pytest.raises(UsageError, match="no kind"):
            turn.tool_call("Look", kind="file")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="count from 1"):
            turn.tool_call("Look", locations=[("a.py", 0)])
        problems.append(str(too_early.value))

    await calls_of(misuses)
    assert len(problems) == 1
