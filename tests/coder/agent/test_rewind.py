"""Going back to earlier messages, over the wire: slash commands, methods, files of tools and commands."""

import asyncio
import shutil
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, ScriptedModel, configure
from tests.coder.tools.git_project import GitProject

from accord.coder.model_history import ToolUse
from accord.store import open_store


def write(path: str, content: str) -> ToolUse:
    return ToolUse(f"write-{path}", "write_file", {"path": path, "content": content})


def said(updates: list[Any]) -> str:
    return "".join(
        update["content"]["text"] for update in updates if update["sessionUpdate"] == "agent_message_chunk"
    )


async def points(client: Client, session: str) -> list[Any]:
    return (await client.call("_session/rewind_points", {"sessionId": session}))["points"]


async def rewind(client: Client, session: str, **members: Any) -> Any:
    return await client.call("_session/rewind", {"sessionId": session, **members})


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(
        [write("a.txt", "one")], ["first done"], [write("b.txt", "two")], ["second done"], ["third done"]
    )


async def test_going_back_with_conversation_and_files(harness: AgentHarness, model: ScriptedModel) -> None:
    async with harness.client(model=model, mode="workspace-write") as client:
        assert client.initialized["_meta"]["rewind"] == {"supported": True}
        session = await client.new_session(harness.cwd)
        await client.turn(session, "make a")
        await client.turn(session, "/help")
        await client.turn(session, "make b")
        listed = await points(client, session)
        assert [(point["title"], point["files"]) for point in listed] == [("make b", 1), ("make a", 2)]
        target = {"messageId": listed[1]["messageId"], "scope": "both"}
        planned = await rewind(client, session, **target, dryRun=True)
        assert sorted(planned["filesChanged"]) == [f"{harness.cwd}/a.txt", f"{harness.cwd}/b.txt"]
        assert (harness.project / "b.txt").exists(), "a dry run changes nothing"
        done = await rewind(client, session, **target)
        assert done["prompt"] == [{"type": "text", "text": "make a"}]
        assert (done["insertions"], done["deletions"], done["skipped"]) == (0, 2, [])
        assert list(harness.project.iterdir()) == []
        assert client.updates_of("session_info_update")[-1]["_meta"]["rewind"] == {
            "messageId": listed[1]["messageId"],
            "messages": 3,
            "text": "make a",
        }
        assert await points(client, session) == []
        await client.turn(session, "something else")
        assert model.prompts == ["something else"]
        await client.call("session/close", {"sessionId": session})
        await client.call("session/load", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        replayed = [update["content"]["text"] for update in client.updates_of("user_message_chunk")]
        assert replayed == ["something else"]
        assert [point["title"] for point in await points(client, session)] == ["something else"]


async def test_undo_and_redo_are_commands_that_survive_a_restart(
    harness: AgentHarness, model: ScriptedModel
) -> None:
    async with harness.client(model=model, mode="workspace-write") as client:
        session = await client.new_session(harness.cwd)
        assert "Nothing was undone" in said((await client.turn(session, "/undo"))[0])
        await client.turn(session, "make a")
        await client.turn(session, "make b")
        reply = said((await client.turn(session, "/undo"))[0])
        assert "back as before “make b”" in reply
        assert "1 file restored: `b.txt`" in reply
        assert "> make b" in reply
        assert "back as before “make a”" in said((await client.turn(session, "/undo"))[0])
        assert list(harness.project.iterdir()) == []
    async with harness.client(model=model) as client:
        await client.call("session/load", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        assert "undo of “make a”" in said((await client.turn(session, "/redo"))[0])
        assert [path.name for path in harness.project.iterdir()] == ["a.txt"]
        assert "undo of “make b”" in said((await client.turn(session, "/redo"))[0])
        assert "Nothing was redone" in said((await client.turn(session, "/redo"))[0])
        assert (harness.project / "b.txt").read_text() == "two"
        assert [point["title"] for point in await points(client, session)] == ["make b", "make a"]
        await client.turn(session, "go on")
        assert model.prompts[0] == "make a"
        assert "second done" in model.prompts


async def test_files_or_conversation_alone(harness: AgentHarness, model: ScriptedModel) -> None:
    async with harness.client(model=model, mode="workspace-write") as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "make a")
        await client.turn(session, "make b")
        (harness.project / "b.txt").write_text("mine")
        reply = said((await client.turn(session, "/rewind 2 files"))[0])
        assert "1 file restored: `a.txt`" in reply
        assert "- `b.txt`: another program changed it since" in reply
        assert (harness.project / "b.txt").read_text() == "mine"
        assert "type `/redo`, then the same command with `force`" in reply
        await client.turn(session, "/redo")
        assert "2 files restored" in said((await client.turn(session, "/rewind 2 files force"))[0])
        assert list(harness.project.iterdir()) == []
        assert "2 files restored" in said((await client.turn(session, "/redo"))[0])
        assert (harness.project / "b.txt").read_text() == "mine"
        await client.turn(session, "/rewind 2 files")
        assert "takes a number from 1 to 2" in said((await client.turn(session, "/rewind 3"))[0])
        assert "1. make b" in said((await client.turn(session, "/rewind"))[0])
        await client.turn(session, "/rewind 1 conversation")
        await client.turn(session, "again")
        assert "make a" in model.prompts
        assert "make b" not in model.prompts


async def test_redo_keeps_the_versions_of_files_that_it_left_out(
    harness: AgentHarness, model: ScriptedModel
) -> None:
    async with harness.client(model=model, mode="workspace-write") as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "make a")
        await client.turn(session, "make b")
        await client.turn(session, "/rewind 2")
        (harness.project / "b.txt").write_text("mine")
        reply = said((await client.turn(session, "/redo"))[0])
        assert "1 file restored: `a.txt`" in reply
        assert "type `/redo force`" in reply
        assert (harness.project / "b.txt").read_text() == "mine"
        reply = said((await client.turn(session, "/redo force"))[0])
        assert "1 file restored: `b.txt`" in reply
        assert (harness.project / "b.txt").read_text() == "two"
        assert "Nothing was redone" in said((await client.turn(session, "/redo"))[0])
        await client.turn(session, "go on")
        assert model.prompts.count("make a") == 1


async def test_a_rewind_is_refused_during_a_turn_and_for_wrong_values(harness: AgentHarness) -> None:
    go_on = asyncio.Event()

    async def wait(request: Any) -> list[str]:
        await go_on.wait()
        return ["done"]

    async with harness.client(wait) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session, "go")
        errors = [await client.error("_session/rewind", {"sessionId": session, "messageId": "x"})]
        go_on.set()
        await client.turn_of(turn)
        wrong: list[dict[str, Any]] = [
            {"messageId": "x"},
            {},
            {"messageId": "x", "scope": "all"},
            {"redo": True},
        ]
        errors += [
            await client.error("_session/rewind", {"sessionId": session, **members}) for members in wrong
        ]
        errors.append(await client.error("_session/rewind_points", {"sessionId": 5}))
        errors.append(await client.error("_session/rewind_points", {"sessionId": "other"}))
    assert [error["code"] for error in errors] == [-32600, -32602, -32602, -32602, -32602, -32602, -32002]


async def test_a_rewind_that_waited_for_another_one_does_not_change_the_turn_that_came_between(
    harness: AgentHarness,
) -> None:
    go_on = asyncio.Event()

    async def wait(request: Any) -> list[str]:
        await go_on.wait()
        return ["done"]

    async with harness.client(["first done"], wait) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "first")
        (point,) = await points(client, session)
        params = {"sessionId": session, "messageId": point["messageId"], "scope": "conversation"}
        first = client.raw.ask("_session/rewind", params)
        turn = client.prompt(session, "second")
        late = client.raw.ask("_session/rewind", {"sessionId": session, "redo": True})
        answers = [await client.raw.answer_to(request) for request in (first, late)]
        go_on.set()
        await client.turn_of(turn)
    assert answers[0]["result"]["canRewind"]
    assert answers[1]["error"]["code"] == -32600


async def test_a_rule_that_denies_writing_also_holds_for_a_rewind(harness: AgentHarness) -> None:
    model = ScriptedModel([write("a.txt", "one")], ["done"])
    async with harness.client(model=model, mode="workspace-write") as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "make a")
    configure(harness, '[permissions]\ndeny = [{ path = "a.txt" }]\n')
    async with harness.client(model=model) as client:
        await client.call("session/load", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        [point] = await points(client, session)
        result = await rewind(client, session, messageId=point["messageId"], scope="files", force=True)
    assert result["skipped"] == [{"path": f"{harness.cwd}/a.txt", "reason": "your rules deny changing it"}]
    assert (harness.project / "a.txt").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
async def test_changes_of_commands_are_undone(harness: AgentHarness) -> None:
    project = GitProject(harness.project)
    (harness.project / "kept.txt").write_text("kept\n")
    project.git("add", "-A")
    project.git("commit", "-qm", "start")
    configure(harness, SANDBOX_OFF)
    run = ToolUse("run", "bash", {"command": "echo new > new.txt; rm kept.txt"})
    async with harness.client([run], ["done"], mode="full-access") as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "run it")
        assert not (harness.project / "kept.txt").exists()
        assert "2 files restored: `kept.txt`, `new.txt`" in said((await client.turn(session, "/undo"))[0])
    assert (harness.project / "kept.txt").read_text() == "kept\n"
    assert not (harness.project / "new.txt").exists()
    assert project.git("status", "--porcelain") == ""


async def test_sessions_of_earlier_versions_go_back_without_files(harness: AgentHarness) -> None:
    from accord.coder.model_history import HISTORY_RECORD, MessagesAdded, assistant_message, user_message
    from accord.schema.content import TextContent
    from accord.session import TurnStarted, turn_ended

    store = open_store(None)
    store.create("old", harness.cwd)
    with store.journal("old") as journal:
        for text in ("one", "two"):
            journal.append(TurnStarted([TextContent(text)]))
            journal.record(HISTORY_RECORD, MessagesAdded((user_message(text),)))
            journal.record(HISTORY_RECORD, MessagesAdded((assistant_message(f"{text} done"),)))
            journal.append(turn_ended("end_turn"))
    store.close()
    model = ScriptedModel(["again"])
    async with harness.client(model=model) as client:
        await client.call("session/load", {"sessionId": "old", "cwd": harness.cwd, "mcpServers": []})
        listed = await points(client, "old")
        assert [point["title"] for point in listed] == ["two", "one"]
        await rewind(client, "old", messageId=listed[0]["messageId"], scope="both")
        await client.turn("old", "three")
    assert model.prompts == ["one", "one done", "three"]
