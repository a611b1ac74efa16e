import pytest
from tests.coder.agent.desk import Desk, ScriptedModel, use

from accord.coder.messages import AssistantMessage, ToolResult, UserMessage, text_of


async def test_a_loaded_session_is_told_whole_before_the_answer_and_the_model_has_its_history_back(
    desk: Desk,
):
    (desk.project / "a.txt").write_text("alpha\n")
    async with desk.client(["I look.", use("read_file", path="a.txt")], ["It says alpha."]) as client:
        session = await client.new_session(desk.cwd)
        await client.turn(session, "what does a.txt say?")
    model = ScriptedModel(["As I said."])
    async with desk.client(model=model) as client:
        loading = client.raw.ask("session/load", {"sessionId": session, "cwd": desk.cwd, "mcpServers": []})
        answer = await client.raw.answer_to(loading)
        told = [update["sessionUpdate"] for update in client.updates()]
        assert told == [
            "user_message_chunk",
            "agent_message_chunk",
            "tool_call",
            "agent_message_chunk",
            "session_info_update",
            "usage_update",
        ]
        call = client.said("tool_call")[0]
        assert (call["title"], call["status"], call["kind"]) == ("Read a.txt", "completed", "read")
        assert "alpha" in call["content"][0]["content"]["text"]
        assert answer["result"]["modes"]["currentModeId"] == "ask"
        await client.turn(session, "again?")
    kinds = [type(message) for message in model.requests[0].messages]
    assert kinds == [UserMessage, AssistantMessage, ToolResult, AssistantMessage, UserMessage]
    assert text_of(model.requests[0].messages[-1]) == "again?"


async def test_a_resumed_session_is_not_told_but_remembered(desk: Desk):
    async with desk.client(["Hello."]) as client:
        session = await client.new_session(desk.cwd)
        await client.turn(session, "hi")
    model = ScriptedModel()
    async with desk.client(model=model) as client:
        await client.call("session/resume", {"sessionId": session, "cwd": desk.cwd, "mcpServers": []})
        await client.turn(session, "more")
        assert client.said("user_message_chunk") == []
    assert model.prompts == ["hi", "Hello.", "more"]


async def test_a_fork_knows_what_its_source_knew_and_goes_its_own_way(desk: Desk):
    model = ScriptedModel(["one"], ["two"], ["three"])
    async with desk.client(model=model) as client:
        session = await client.new_session(desk.cwd)
        await client.turn(session, "first")
        forked = await client.call("session/fork", {"sessionId": session, "cwd": desk.cwd, "mcpServers": []})
        fork = forked["sessionId"]
        assert fork != session
        await client.turn(fork, "in the fork")
        assert model.prompts == ["first", "one", "in the fork"]
        await client.turn(session, "in the source")
        assert model.prompts == ["first", "one", "in the source"]


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_a_session_belongs_to_its_folder(desk: Desk, method: str):
    other = desk.project.parent / "other"
    other.mkdir()
    async with desk.client(["hi"]) as client:
        session = await client.new_session(desk.cwd)
        error = await client.error(method, {"sessionId": session, "cwd": str(other), "mcpServers": []})
        assert error["code"] == -32602
        assert str(other) in error["message"]
        assert desk.cwd in error["message"]


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_an_unknown_session_is_not_found(desk: Desk, method: str):
    async with desk.client(["hi"]) as client:
        error = await client.error(method, {"sessionId": "nope", "cwd": desk.cwd, "mcpServers": []})
        assert error["code"] == -32002


@pytest.mark.parametrize("cwd", ["relative", "/no/such/folder", __file__])
async def test_a_session_needs_an_existing_folder(desk: Desk, cwd: str):
    async with desk.client(["hi"]) as client:
        error = await client.error("session/new", {"cwd": cwd, "mcpServers": []})
        assert error["code"] == -32602
        assert cwd in error["message"]


async def test_sessions_are_listed_by_folder_with_titles_page_by_page(desk: Desk):
    other = desk.project.parent / "other"
    other.mkdir()
    async with desk.client() as client:
        ids = []
        for number in range(55):
            ids.append(await client.new_session(desk.cwd))
            await client.turn(ids[-1], f"think: {number}")
        await client.new_session(str(other))
        first = await client.call("session/list", {"cwd": desk.cwd})
        assert len(first["sessions"]) == 50
        rest = await client.call("session/list", {"cwd": desk.cwd, "cursor": first["nextCursor"]})
        listed = [*first["sessions"], *rest["sessions"]]
        assert [entry["sessionId"] for entry in listed] == ids[::-1]
        assert listed[0]["title"] == "think: 54"
        assert "nextCursor" not in rest
        everywhere = await client.call("session/list", {})
        assert everywhere["sessions"][0]["cwd"] == str(other)


async def test_a_deleted_session_is_gone_and_a_closed_one_is_not(desk: Desk):
    async with desk.client() as client:
        session = await client.new_session(desk.cwd)
        await client.turn(session, "think: x")
        await client.call("session/close", {"sessionId": session})
        listed = await client.call("session/list", {"cwd": desk.cwd})
        assert [entry["sessionId"] for entry in listed["sessions"]] == [session]
        await client.call("session/delete", {"sessionId": session})
        listed = await client.call("session/list", {"cwd": desk.cwd})
        assert listed["sessions"] == []
        await client.call("session/delete", {"sessionId": session})


async def test_a_first_session_that_resumes_is_told_after_its_answer(desk: Desk):
    async with desk.client(["Hello."]) as client:
        session = await client.new_session(desk.cwd)
        await client.turn(session, "hi")
    async with desk.client(["Go on."], resume=True) as client:
        opened = await client.call("session/new", {"cwd": desk.cwd, "mcpServers": []})
        assert opened["sessionId"] == session
        assert (await client.update("user_message_chunk"))["content"]["text"] == "hi"
        assert (await client.update("agent_message_chunk"))["content"]["text"] == "Hello."
        second = await client.new_session(desk.cwd)
        assert second != session


async def test_a_session_to_resume_that_is_not_there_begins_afresh_and_says_so(
    desk: Desk, capsys: pytest.CaptureFixture[str]
):
    async with desk.client(["hi"], resume="nope") as client:
        session = await client.new_session(desk.cwd)
        assert session != "nope"
    assert "nope" not in session
    assert "a new session begins" in capsys.readouterr().err
