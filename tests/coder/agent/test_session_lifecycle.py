"""Load, resume, fork, list, close and delete sessions of the coding agent."""

import pytest
from tests.coder.agent.harness import AgentHarness, ScriptedModel, use

from accord.coder.model_history import AssistantMessage, ToolResult, UserMessage, text_of


async def test_load_replays_the_session_before_its_response_and_restores_model_history(
    harness: AgentHarness,
):
    (harness.project / "a.txt").write_text("alpha\n")
    async with harness.client(["I look.", use("read_file", path="a.txt")], ["It says alpha."]) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "what does a.txt say?")
    model = ScriptedModel(["As I said."])
    async with harness.client(model=model) as client:
        loading = client.raw.ask("session/load", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        answer = await client.raw.answer_to(loading)
        received = [update["sessionUpdate"] for update in client.updates()]
        assert received == [
            "user_message_chunk",
            "agent_message_chunk",
            "tool_call",
            "agent_message_chunk",
            "session_info_update",
            "usage_update",
        ]
        call = client.updates_of("tool_call")[0]
        assert (call["title"], call["status"], call["kind"]) == ("Read a.txt", "completed", "read")
        assert "alpha" in call["content"][0]["content"]["text"]
        assert answer["result"]["modes"]["currentModeId"] == "ask"
        await client.turn(session, "again?")
    kinds = [type(message) for message in model.requests[0].messages]
    assert kinds == [UserMessage, AssistantMessage, ToolResult, AssistantMessage, UserMessage]
    assert text_of(model.requests[0].messages[-1]) == "again?"


async def test_resume_restores_history_without_replay(harness: AgentHarness):
    async with harness.client(["Hello."]) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "hi")
    model = ScriptedModel()
    async with harness.client(model=model) as client:
        await client.call("session/resume", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        await client.turn(session, "more")
        assert client.updates_of("user_message_chunk") == []
    assert model.prompts == ["hi", "Hello.", "more"]


async def test_fork_has_the_history_of_its_source_and_then_diverges(harness: AgentHarness):
    model = ScriptedModel(["one"], ["two"], ["three"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "first")
        forked = await client.call(
            "session/fork", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []}
        )
        fork = forked["sessionId"]
        assert fork != session
        await client.turn(fork, "in the fork")
        assert model.prompts == ["first", "one", "in the fork"]
        await client.turn(session, "in the source")
        assert model.prompts == ["first", "one", "in the source"]


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_session_cannot_be_opened_from_another_folder(harness: AgentHarness, method: str):
    other = harness.project.parent / "other"
    other.mkdir()
    async with harness.client(["hi"]) as client:
        session = await client.new_session(harness.cwd)
        error = await client.error(method, {"sessionId": session, "cwd": str(other), "mcpServers": []})
        assert error["code"] == -32602
        assert str(other) in error["message"]
        assert harness.cwd in error["message"]


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_unknown_session_is_not_found(harness: AgentHarness, method: str):
    async with harness.client(["hi"]) as client:
        error = await client.error(method, {"sessionId": "nope", "cwd": harness.cwd, "mcpServers": []})
        assert error["code"] == -32002


@pytest.mark.parametrize("cwd", ["relative", "/no/such/folder", __file__])
async def test_new_session_needs_an_existing_absolute_folder(harness: AgentHarness, cwd: str):
    async with harness.client(["hi"]) as client:
        error = await client.error("session/new", {"cwd": cwd, "mcpServers": []})
        assert error["code"] == -32602
        assert cwd in error["message"]


async def test_session_list_filters_by_folder_and_pages(harness: AgentHarness):
    other = harness.project.parent / "other"
    other.mkdir()
    async with harness.client() as client:
        ids = []
        for number in range(55):
            ids.append(await client.new_session(harness.cwd))
            await client.turn(ids[-1], f"think: {number}")
        elsewhere = await client.new_session(str(other))
        await client.turn(elsewhere, "think: there")
        first = await client.call("session/list", {"cwd": harness.cwd})
        assert len(first["sessions"]) == 50
        rest = await client.call("session/list", {"cwd": harness.cwd, "cursor": first["nextCursor"]})
        listed = [*first["sessions"], *rest["sessions"]]
        assert [entry["sessionId"] for entry in listed] == ids[::-1]
        assert listed[0]["title"] == "think: 54"
        assert "nextCursor" not in rest
        everywhere = await client.call("session/list", {})
        assert everywhere["sessions"][0]["cwd"] == str(other)


async def test_session_without_a_prompt_is_not_listed_and_no_title_is_null(harness: AgentHarness):
    """Editors show the list to users, and one of them fails on `"title": null`."""
    async with harness.client() as client:
        empty = await client.new_session(harness.cwd)
        used = await client.new_session(harness.cwd)
        await client.turn(used, "think: of it")
        (listed,) = (await client.call("session/list", {}))["sessions"]
        assert listed["sessionId"] == used
        await client.turn(empty, "!")
        listed = (await client.call("session/list", {}))["sessions"]
        assert [entry["sessionId"] for entry in listed] == [empty, used]
        assert all(entry.get("title", "") is not None for entry in listed)


async def test_deleted_session_is_not_listed_and_closed_session_is(harness: AgentHarness):
    async with harness.client() as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "think: x")
        await client.call("session/close", {"sessionId": session})
        listed = await client.call("session/list", {"cwd": harness.cwd})
        assert [entry["sessionId"] for entry in listed["sessions"]] == [session]
        await client.call("session/delete", {"sessionId": session})
        listed = await client.call("session/list", {"cwd": harness.cwd})
        assert listed["sessions"] == []
        await client.call("session/delete", {"sessionId": session})


async def test_resume_option_replays_into_the_first_new_session_after_its_response(harness: AgentHarness):
    async with harness.client(["Hello."]) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "hi")
    async with harness.client(["Go on."], resume=True) as client:
        opened = await client.call("session/new", {"cwd": harness.cwd, "mcpServers": []})
        assert opened["sessionId"] == session
        assert (await client.update("user_message_chunk"))["content"]["text"] == "hi"
        assert (await client.update("agent_message_chunk"))["content"]["text"] == "Hello."
        second = await client.new_session(harness.cwd)
        assert second != session


async def test_resume_option_with_unknown_id_starts_a_new_session_with_a_warning(
    harness: AgentHarness, capsys: pytest.CaptureFixture[str]
):
    async with harness.client(["hi"], resume="nope") as client:
        session = await client.new_session(harness.cwd)
        assert session != "nope"
    assert "nope" not in session
    assert "starting a new session" in capsys.readouterr().err
