"""Tool calls as the client sees them."""

import asyncio
from typing import Any

import pytest
from tests.agent.agent_client import connected_client, make_agent

from accord.agent import ToolCallScope, Turn
from accord.errors import UsageError
from accord.schema import Content, ImageContent, TextContent, ToolCallLocation


async def tool_call_updates(turn: Any) -> list[Any]:
    """The tool call updates of one turn, without their ids."""
    async with connected_client(make_agent(turn)) as client:
        await client.turn(await client.new_session("/home/me/app"))
    found = [update for update in client.updates() if update["sessionUpdate"].startswith("tool_call")]
    announced: set[str] = set()
    for update in found:
        if update["sessionUpdate"] == "tool_call":
            announced.add(update["toolCallId"])
        assert update["toolCallId"] in announced
    return [{key: value for key, value in update.items() if key != "toolCallId"} for update in found]


@pytest.mark.rule(
    "tool-call.reported",
    "tool-call.members",
    "tool-call.kind",
    "tool-call.status",
    "tool-call.content",
    "tool-call.absolute-paths",
    "tool-call.new-file-diff",
    "tool-call.line-number",
    "tool-call.announced",
    "tool-call.in-progress",
    "tool-call.final-status",
)
async def test_content_of_a_wrong_type_is_refused_and_the_call_goes_on() -> None:
    async def misuses(turn: Turn) -> None:
        async with turn.tool_call("Look", start=True) as call:
            await call.text("good")
            with pytest.raises(UsageError, match=r"content\[1\].content.text: expected string, got number"):
                await call.text(5)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="expected object, got string"):
                await call.finish(content=["bad"])  # type: ignore[list-item]
            await call.fail("over")

    *_, last = await tool_call_updates(misuses)
    assert last["status"] == "failed"
    assert [item["content"]["text"] for item in last["content"]] == ["good", "over"]


async def test_all_updates_of_a_tool_call() -> None:
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
    assert await tool_call_updates(edits) == [
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


@pytest.mark.rule("tool-call.in-progress", "tool-call.final-status")
async def test_a_call_that_ends_at_once_is_reported_in_progress_first() -> None:
    async def brief(turn: Turn) -> None:
        async with turn.tool_call("Blink"):
            pass
        async with turn.tool_call("Run", start=True):
            pass

    assert [update["status"] for update in await tool_call_updates(brief)] == [
        "pending",
        "in_progress",
        "completed",
        "in_progress",
        "completed",
    ]


@pytest.mark.rule("tool-call.in-progress")
async def test_a_call_is_started_once_and_never_after_its_end() -> None:
    async def restarts(turn: Turn) -> None:
        async with turn.tool_call("Dig") as call:
            await call.start()
            await call.start()
            await call.finish()
            await call.start()
            assert call.status == "completed"

    assert [update["status"] for update in await tool_call_updates(restarts)] == [
        "pending",
        "in_progress",
        "completed",
    ]


@pytest.mark.rule("tool-call.in-progress")
async def test_a_started_call_that_finishes_is_not_reported_in_progress_again() -> None:
    async def finishes(turn: Turn) -> None:
        async with turn.tool_call("Blink") as call:
            await call.finish()
        async with turn.tool_call("Dig") as call:
            await call.start()
            await call.finish(failed=True)
        async with turn.tool_call("Run") as call:
            await call.start()

    assert [update["status"] for update in await tool_call_updates(finishes)] == [
        *("pending", "in_progress", "completed"),
        *("pending", "in_progress", "failed"),
        *("pending", "in_progress", "completed"),
    ]


@pytest.mark.rule("tool-call.final-status")
async def test_a_call_whose_block_raises_fails_with_the_reason() -> None:
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

    ended = [update for update in await tool_call_updates(fails) if update.get("status") == "failed"]
    assert [update["content"] for update in ended] == [
        [shown("looking"), shown("no such file")],
        [shown("looking"), shown("KeyError")],
        [shown("nothing there")],
    ]


@pytest.mark.rule("tool-call.final-status")
async def test_a_call_left_open_by_a_task_fails_before_the_response() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def leaves(turn: Turn) -> None:
        started = asyncio.Event()

        async def waits() -> None:
            async with turn.tool_call("Wait"):
                started.set()
                await asyncio.Event().wait()

        tasks.append(asyncio.create_task(waits()))
        await started.wait()

    async with connected_client(make_agent(leaves)) as client:
        updates, _ = await client.turn(await client.new_session())
        tasks[0].cancel()
        await asyncio.wait(tasks)
        await client.new_session()
    assert [update["status"] for update in updates] == ["pending", "failed"]
    assert len(client.updates_of("tool_call_update")) == 1


@pytest.mark.rule("tool-call.unique-id")
async def test_tool_call_ids_are_unique_even_after_a_load() -> None:
    async def calls(turn: Turn) -> None:
        async with turn.tool_call("One"), turn.tool_call("Two"):
            pass

    agent = make_agent(calls)
    agent.load_session(lambda session: None)
    async with connected_client(agent) as client:
        session = await client.new_session()
        await client.turn(session)
        await client.turn(session)
        await client.call("session/load", {"sessionId": session, "cwd": "/home/me/app", "mcpServers": []})
        await client.turn(session)
    ids = [update["toolCallId"] for update in client.updates_of("tool_call")]
    assert len(ids) == len(set(ids)) == 6


async def test_misuse_of_a_tool_call_scope_raises_usage_errors() -> None:
    problems: list[str] = []

    async def misuses(turn: Turn) -> None:
        scope: ToolCallScope = turn.tool_call("Look")
        with pytest.raises(UsageError, match="has not begun") as too_early:
            await scope.text("too early")
        with pytest.raises(UsageError, match="not open"):
            await scope.ask_permission()
        async with scope:
            pass
        with pytest.raises(UsageError, match="already used"):
            await scope.__aenter__()
        with pytest.raises(UsageError, match="kind: expected one of read, edit"):
            await turn.tool_call("Look", kind="file").__aenter__()  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="count from 1"):
            turn.tool_call("Look", locations=[("a.py", 0)])
        problems.append(str(too_early.value))

    await tool_call_updates(misuses)
    assert len(problems) == 1
