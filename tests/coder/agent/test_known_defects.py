"""Defects found in other coding agents, in turns and sessions.

Each test covers one defect and is named after what a user would notice.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, ScriptedModel, choose, configure, use

from accord.coder.model_history import AssistantMessage, ToolResult, text_of
from accord.coder.models import ModelEvent, ModelRequest


def load_params(harness: AgentHarness, session: str, **more: Any) -> dict[str, Any]:
    """Return the params that load a session."""
    return {"sessionId": session, "cwd": harness.cwd, "mcpServers": [], **more}


def results_by_id(client: Client) -> dict[Any, Any]:
    """Return the results received so far, by request id."""
    return {message["id"]: message["result"] for message in client.raw.received if "result" in message}


async def updates_before_response(
    client: Client, method: str, session: str, harness: AgentHarness
) -> list[Any]:
    """Send the request and return the session updates that arrive before its response."""
    since = len(client.raw.received)
    message = await client.raw.answer_to(client.raw.ask(method, load_params(harness, session)))
    received = client.raw.received[since : client.raw.received.index(message)]
    return [heard["params"]["update"] for heard in received if heard.get("method") == "session/update"]


# -- turns ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [[], [{"type": "text", "text": ""}], [{"type": "text", "text": " \n"}]])
async def test_empty_prompt_is_refused_and_not_logged(harness: AgentHarness, prompt: list[Any]):
    model = ScriptedModel(["ok"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        error = await client.error("session/prompt", {"sessionId": session, "prompt": prompt})
        assert error["code"] == -32602
        await client.turn(session, "something")
        await client.call("session/close", {"sessionId": session})
        await client.call("session/load", load_params(harness, session))
        assert [update["content"]["text"] for update in client.updates_of("user_message_chunk")] == [
            "something"
        ]
    assert model.prompts == ["something"]


async def test_cancelled_command_fails_and_its_result_is_in_the_next_request(harness: AgentHarness):
    command = use("bash", command="echo up; exec tail -f /dev/null")
    model = ScriptedModel(["I start it.", command], ["Back."])
    async with harness.client(model=model, mode="full-access") as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session, "start the server")
        while "up" not in str((await client.update("tool_call_update")).get("content")):
            pass
        client.cancel(session)
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"
        assert client.updates_of("tool_call_update")[-1]["status"] == "failed"
        await client.turn(session, "and now?")
    _, said, came, *_ = model.requests[-1].messages
    assert isinstance(said, AssistantMessage)
    assert text_of(said) == "I start it."
    assert isinstance(came, ToolResult)
    assert (came.id, came.failed) == (command.id, True)


async def test_text_before_a_cancel_stays_in_history(harness: AgentHarness):
    never = asyncio.Event()

    class Halting(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            async for event in super().stream(request):
                yield event
                if len(self.requests) == 1:
                    await never.wait()

    model = Halting(["The answer is 42", " or so."], ["Yes."])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session, "tell me")
        await client.update("agent_message_chunk")
        client.cancel(session)
        await client.turn_of(turn)
        await client.turn(session, "really?")
    assert model.prompts[:2] == ["tell me", "The answer is 42"]


async def test_a_hundred_waiting_turns_do_not_block_other_requests(harness: AgentHarness):
    configure(harness, SANDBOX_OFF)
    (harness.project / "here").write_text("I am here")
    async with harness.client() as client:
        waiting = [await client.new_session(harness.cwd) for _ in range(100)]
        turns = [client.prompt(session, "write x: y") for session in waiting]
        for _ in waiting:
            await client.asked("session/request_permission")
        other = await client.new_session(harness.cwd)
        updates, result = await client.turn(other, "read here")
        assert result["stopReason"] == "end_turn"
        assert "I am here" in str(updates)
        assert (await client.call("session/list", {"cwd": harness.cwd}))["sessions"]
        await client.call("session/set_mode", {"sessionId": waiting[0], "modeId": "read-only"})
        for session in waiting[1:]:
            client.cancel(session)
        while not set(turns) <= results_by_id(client).keys():
            await client.raw.next()
        reasons = [results_by_id(client)[turn]["stopReason"] for turn in turns]
        assert reasons == ["end_turn", *["cancelled"] * 99]
    assert not (harness.project / "x").exists()


async def test_session_with_hanging_mcp_server_does_not_block_other_sessions(harness: AgentHarness):
    configure(harness, "[mcp]\nstart_seconds = 600\n")
    silent = {"name": "silent", "command": "/usr/bin/tail", "args": ["-f", "/dev/null"], "env": []}
    async with harness.client() as client:
        stuck = await client.call("session/new", {"cwd": harness.cwd, "mcpServers": [silent]})
        turn = client.prompt(stuck["sessionId"], "think: of it")
        other = await client.new_session(harness.cwd)
        _, result = await client.turn(other, "think: of something else")
        assert result["stopReason"] == "end_turn"
        client.cancel(stuck["sessionId"])
        assert (await client.turn_of(turn))[1]["stopReason"] == "cancelled"


async def test_long_prompt_without_spaces_takes_linear_time(harness: AgentHarness):
    """Quadratic time would exceed the test timeout."""
    model = ScriptedModel(["one"], ["two"], context_size=None)
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        for text in ("x" * 300_000, "./a-b\\c" * 50_000):
            _, result = await client.turn(session, text)
            assert result["stopReason"] == "end_turn"
    assert model.prompts[-1] == "./a-b\\c" * 50_000


async def test_unknown_clear_command_does_not_clear_history(harness: AgentHarness):
    model = ScriptedModel(["Noted."], ["What?"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "Remember the heron")
        await client.turn(session, "/clear")
    assert model.prompts == ["Remember the heron", "Noted.", "/clear"]


# -- tool calls ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "shown", "place"),
    [
        (use("read_file", path="a.txt"), "alpha", "a.txt"),
        (use("list_files"), "a.txt", None),
        (use("glob", pattern="*.txt"), "a.txt", None),
        (use("grep", pattern="alpha"), "alpha", "a.txt"),
        (use("write_file", path="new.txt", content="fresh"), "fresh", "new.txt"),
        (use("bash", command="cat a.txt"), "alpha", None),
        (use("move_file", source="a.txt", destination="b.txt"), "b.txt", "a.txt"),
        (use("delete_file", path="a.txt"), "a.txt", "a.txt"),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
async def test_tool_call_reports_title_input_output_and_location(
    harness: AgentHarness, call: Any, shown: str, place: str | None
):
    (harness.project / "a.txt").write_text("alpha\n")
    async with harness.client([call], mode="full-access") as client:
        await client.turn(await client.new_session(harness.cwd))
        [first] = client.updates_of("tool_call")
        last = client.updates_of("tool_call_update")[-1]
    whole = {**first, **last}
    assert whole["status"] == "completed"
    assert whole["title"] not in ("", call.name)
    assert whole["rawInput"] == call.arguments
    assert whole["rawOutput"]
    assert shown in str(whole["content"])
    if place is not None:
        assert str(harness.project / place) in [where["path"] for where in whole["locations"]]


async def test_permission_request_repeats_the_details_of_its_tool_call(harness: AgentHarness):
    async with harness.client([use("write_file", path="a.txt", content="new")]) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session)
        asked = await client.asked("session/request_permission")
        choose(client, asked, "reject_once")
        await client.turn_of(turn)
        [call] = client.updates_of("tool_call")
    question = asked["params"]["toolCall"]
    for member in ("toolCallId", "title", "kind", "locations", "rawInput"):
        assert question[member] == call[member]
    assert question["content"][0]["type"] == "diff"


# -- settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/set_mode", {"modeId": "code"}),
        ("session/set_config_option", {"configId": "colour", "value": "red"}),
        ("session/set_config_option", {"configId": "thought_level", "value": "telepathy"}),
        ("authenticate", {"methodId": "magic"}),
    ],
)
async def test_unknown_setting_values_are_refused_and_change_nothing(
    harness: AgentHarness, method: str, params: dict[str, Any]
):
    async with harness.client(["ok"]) as client:
        opened = await client.call("session/new", {"cwd": harness.cwd, "mcpServers": []})
        session = opened["sessionId"]
        error = await client.error(method, {"sessionId": session, **params})
        assert error["code"] == -32602
        again = await client.call("session/load", load_params(harness, session))
        assert {**again, "sessionId": session} == opened


async def test_mode_change_applies_to_the_running_turn(harness: AgentHarness):
    steps = [use("write_file", path="a", content="1")], [use("write_file", path="b", content="2")]
    async with harness.client(*steps) as client:
        session = await client.new_session(harness.cwd)
        turn = client.prompt(session)
        asked = await client.asked("session/request_permission")
        await client.call("session/set_mode", {"sessionId": session, "modeId": "read-only"})
        choose(client, asked, "allow_once")
        await client.turn_of(turn)
        assert client.methods().count("session/request_permission") == 1
    assert list(harness.project.iterdir()) == []


async def test_meta_is_accepted_in_set_config_option(harness: AgentHarness):
    async with harness.client() as client:
        session = await client.new_session(harness.cwd)
        result = await client.call(
            "session/set_config_option",
            {"sessionId": session, "configId": "mode", "value": "plan", "_meta": {"trace": 1}},
        )
        assert {option["id"]: option["currentValue"] for option in result["configOptions"]}["mode"] == "plan"


# -- sessions ------------------------------------------------------------------------------------------------


async def test_open_session_can_be_loaded_again_but_not_from_another_folder(harness: AgentHarness):
    other = harness.project.parent / "other"
    other.mkdir()
    async with harness.client(["One."], ["Two."]) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "first")
        error = await client.error("session/load", load_params(harness, session, cwd=str(other)))
        assert error["code"] == -32602
        kinds = [
            update["sessionUpdate"]
            for update in await updates_before_response(client, "session/load", session, harness)
        ]
        assert [kind for kind in kinds if kind.endswith("_chunk")] == [
            "user_message_chunk",
            "agent_message_chunk",
        ]
        _, result = await client.turn(session, "second")
        assert result["stopReason"] == "end_turn"


async def test_updates_follow_the_response_with_the_session_id(harness: AgentHarness):
    async with harness.client() as client:
        session = await client.new_session(harness.cwd)
        forked = await client.call("session/fork", load_params(harness, session))
        await client.turn(forked["sessionId"], "think: of it")
        known: set[str] = set()
        for message in client.raw.received:
            if "method" in message:
                assert message["params"]["sessionId"] in known
            elif "sessionId" in (message.get("result") or {}):
                known.add(message["result"]["sessionId"])
    assert known == {session, forked["sessionId"]}
    assert all(str(uuid.UUID(id)) == id for id in known)


async def test_session_that_failed_to_start_is_not_listed(harness: AgentHarness):
    async with harness.client(model=None, environment={"ACCORD_MODEL": "anthropic"}) as client:
        error = await client.error("session/new", {"cwd": harness.cwd, "mcpServers": []})
        assert error["code"] == -32000
        assert (await client.call("session/list", {"cwd": harness.cwd}))["sessions"] == []
