"""What other coding agents were found to do wrong in a turn or with a session: none of it happens here.

Each test is one such defect, named after what a user would notice.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.agent.scene import Client
from tests.coder.agent.desk import Desk, ScriptedModel, use
from tests.coder.agent.user import NOTHING_CONFINES, choose, configure

from accord.coder.messages import AssistantMessage, ToolResult, text_of
from accord.coder.models import ModelEvent, ModelRequest


def opening(desk: Desk, session: str, **more: Any) -> dict[str, Any]:
    """The params that load a session."""
    return {"sessionId": session, "cwd": desk.cwd, "mcpServers": [], **more}


def answered(client: Client) -> dict[Any, Any]:
    """The results heard so far, by the id of their request."""
    return {message["id"]: message["result"] for message in client.raw.heard if "result" in message}


async def told_before(client: Client, method: str, session: str, desk: Desk) -> list[Any]:
    """What a session's client is told between this request and its answer."""
    since = len(client.raw.heard)
    message = await client.raw.answer_to(client.raw.ask(method, opening(desk, session)))
    told = client.raw.heard[since : client.raw.heard.index(message)]
    return [heard["params"]["update"] for heard in told if heard.get("method") == "session/update"]


# -- turns -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [[], [{"type": "text", "text": ""}], [{"type": "text", "text": " \n"}]])
async def test_a_prompt_that_says_nothing_is_refused_and_leaves_no_trace(desk: Desk, prompt: list[Any]):
    model = ScriptedModel(["ok"])
    async with desk.client(model=model) as client:
        session = await client.new_session(desk.cwd)
        error = await client.error("session/prompt", {"sessionId": session, "prompt": prompt})
        assert error["code"] == -32602
        await client.turn(session, "something")
        await client.call("session/close", {"sessionId": session})
        await client.call("session/load", opening(desk, session))
        assert [update["content"]["text"] for update in client.said("user_message_chunk")] == ["something"]
    assert model.prompts == ["something"]


async def test_a_cancelled_command_has_ended_and_the_next_request_has_its_result(desk: Desk):
    command = use("bash", command="echo up; exec tail -f /dev/null")
    model = ScriptedModel(["I start it.", command], ["Back."])
    async with desk.client(model=model, mode="full-access") as client:
        session = await client.new_session(desk.cwd)
        turn = client.prompt(session, "start the server")
        while "up" not in str((await client.update("tool_call_update")).get("content")):
            pass
        client.cancel(session)
        _, result = await client.turn_of(turn)
        assert result["stopReason"] == "cancelled"
        assert client.said("tool_call_update")[-1]["status"] == "failed"
        await client.turn(session, "and now?")
    _, said, came, *_ = model.requests[-1].messages
    assert isinstance(said, AssistantMessage)
    assert text_of(said) == "I start it."
    assert isinstance(came, ToolResult)
    assert (came.id, came.failed) == (command.id, True)


async def test_what_was_said_before_a_cancel_is_remembered(desk: Desk):
    never = asyncio.Event()

    class Halting(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            async for event in super().stream(request):
                yield event
                if len(self.requests) == 1:
                    await never.wait()

    model = Halting(["The answer is 42", " or so."], ["Yes."])
    async with desk.client(model=model) as client:
        session = await client.new_session(desk.cwd)
        turn = client.prompt(session, "tell me")
        await client.update("agent_message_chunk")
        client.cancel(session)
        await client.turn_of(turn)
        await client.turn(session, "really?")
    assert model.prompts[:2] == ["tell me", "The answer is 42"]


async def test_a_hundred_turns_that_wait_for_an_answer_hold_up_nobody(desk: Desk):
    configure(desk, NOTHING_CONFINES)
    (desk.project / "here").write_text("I am here")
    async with desk.client() as client:
        waiting = [await client.new_session(desk.cwd) for _ in range(100)]
        turns = [client.prompt(session, "write x: y") for session in waiting]
        for _ in waiting:
            await client.asked("session/request_permission")
        other = await client.new_session(desk.cwd)
        updates, result = await client.turn(other, "read here")
        assert result["stopReason"] == "end_turn"
        assert "I am here" in str(updates)
        assert (await client.call("session/list", {"cwd": desk.cwd}))["sessions"]
        await client.call("session/set_mode", {"sessionId": waiting[0], "modeId": "read-only"})
        for session in waiting[1:]:
            client.cancel(session)
        while not set(turns) <= answered(client).keys():
            await client.raw.next()
        reasons = [answered(client)[turn]["stopReason"] for turn in turns]
        assert reasons == ["end_turn", *["cancelled"] * 99]
    assert not (desk.project / "x").exists()


async def test_a_session_whose_servers_do_not_start_holds_up_no_other(desk: Desk):
    configure(desk, "[mcp]\nstart_seconds = 600\n")
    silent = {"name": "silent", "command": "/usr/bin/tail", "args": ["-f", "/dev/null"], "env": []}
    async with desk.client() as client:
        stuck = await client.call("session/new", {"cwd": desk.cwd, "mcpServers": [silent]})
        turn = client.prompt(stuck["sessionId"], "think: of it")
        other = await client.new_session(desk.cwd)
        _, result = await client.turn(other, "think: of something else")
        assert result["stopReason"] == "end_turn"
        client.cancel(stuck["sessionId"])
        assert (await client.turn_of(turn))[1]["stopReason"] == "cancelled"


async def test_a_long_prompt_without_a_break_takes_time_by_its_length_and_not_its_square(desk: Desk):
    """By its square this would take so many minutes that the test would be ended."""
    model = ScriptedModel(["one"], ["two"], context_size=None)
    async with desk.client(model=model) as client:
        session = await client.new_session(desk.cwd)
        for text in ("x" * 300_000, "./a-b\\c" * 50_000):
            _, result = await client.turn(session, text)
            assert result["stopReason"] == "end_turn"
    assert model.prompts[-1] == "./a-b\\c" * 50_000


async def test_no_command_forgets_anything(desk: Desk):
    model = ScriptedModel(["Noted."], ["What?"])
    async with desk.client(model=model) as client:
        session = await client.new_session(desk.cwd)
        await client.turn(session, "Remember the heron")
        await client.turn(session, "/clear")
    assert model.prompts == ["Remember the heron", "Noted.", "/clear"]


# -- tool calls --------------------------------------------------------------------------------------------------


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
async def test_a_call_shows_what_it_is_about_and_what_came_of_it(
    desk: Desk, call: Any, shown: str, place: str | None
):
    (desk.project / "a.txt").write_text("alpha\n")
    async with desk.client([call], mode="full-access") as client:
        await client.turn(await client.new_session(desk.cwd))
        [first] = client.said("tool_call")
        last = client.said("tool_call_update")[-1]
    whole = {**first, **last}
    assert whole["status"] == "completed"
    assert whole["title"] not in ("", call.name)
    assert whole["rawInput"] == call.arguments
    assert whole["rawOutput"]
    assert shown in str(whole["content"])
    if place is not None:
        assert str(desk.project / place) in [where["path"] for where in whole["locations"]]


async def test_a_question_says_all_that_is_known_of_its_call(desk: Desk):
    async with desk.client([use("write_file", path="a.txt", content="new")]) as client:
        session = await client.new_session(desk.cwd)
        turn = client.prompt(session)
        asked = await client.asked("session/request_permission")
        choose(client, asked, "reject_once")
        await client.turn_of(turn)
        [call] = client.said("tool_call")
    question = asked["params"]["toolCall"]
    for member in ("toolCallId", "title", "kind", "locations", "rawInput"):
        assert question[member] == call[member]
    assert question["content"][0]["type"] == "diff"


# -- what can be set ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/set_mode", {"modeId": "code"}),
        ("session/set_config_option", {"configId": "colour", "value": "red"}),
        ("session/set_config_option", {"configId": "thought_level", "value": "telepathy"}),
        ("authenticate", {"methodId": "magic"}),
    ],
)
async def test_what_does_not_exist_is_refused_and_not_answered_as_if_done(
    desk: Desk, method: str, params: dict[str, Any]
):
    async with desk.client(["ok"]) as client:
        opened = await client.call("session/new", {"cwd": desk.cwd, "mcpServers": []})
        session = opened["sessionId"]
        error = await client.error(method, {"sessionId": session, **params})
        assert error["code"] == -32602
        again = await client.call("session/load", opening(desk, session))
        assert {**again, "sessionId": session} == opened


async def test_a_mode_is_in_force_from_the_moment_it_is_set_also_in_a_running_turn(desk: Desk):
    steps = [use("write_file", path="a", content="1")], [use("write_file", path="b", content="2")]
    async with desk.client(*steps) as client:
        session = await client.new_session(desk.cwd)
        turn = client.prompt(session)
        asked = await client.asked("session/request_permission")
        await client.call("session/set_mode", {"sessionId": session, "modeId": "read-only"})
        choose(client, asked, "allow_once")
        await client.turn_of(turn)
        assert client.methods().count("session/request_permission") == 1
    assert list(desk.project.iterdir()) == []


async def test_meta_is_welcome_wherever_something_is_set(desk: Desk):
    async with desk.client() as client:
        session = await client.new_session(desk.cwd)
        told = await client.call(
            "session/set_config_option",
            {"sessionId": session, "configId": "mode", "value": "plan", "_meta": {"trace": 1}},
        )
        assert {option["id"]: option["currentValue"] for option in told["configOptions"]}["mode"] == "plan"


# -- sessions ----------------------------------------------------------------------------------------------------


async def test_a_session_that_is_open_is_told_again_whole_and_not_from_another_folder(desk: Desk):
    other = desk.project.parent / "other"
    other.mkdir()
    async with desk.client(["One."], ["Two."]) as client:
        session = await client.new_session(desk.cwd)
        await client.turn(session, "first")
        error = await client.error("session/load", opening(desk, session, cwd=str(other)))
        assert error["code"] == -32602
        kinds = [
            update["sessionUpdate"] for update in await told_before(client, "session/load", session, desk)
        ]
        assert [kind for kind in kinds if kind.endswith("_chunk")] == [
            "user_message_chunk",
            "agent_message_chunk",
        ]
        _, result = await client.turn(session, "second")
        assert result["stopReason"] == "end_turn"


async def test_nothing_is_said_of_a_session_before_the_client_knows_its_id(desk: Desk):
    async with desk.client() as client:
        session = await client.new_session(desk.cwd)
        forked = await client.call("session/fork", opening(desk, session))
        await client.turn(forked["sessionId"], "think: of it")
        known: set[str] = set()
        for message in client.raw.heard:
            if "method" in message:
                assert message["params"]["sessionId"] in known
            elif "sessionId" in (message.get("result") or {}):
                known.add(message["result"]["sessionId"])
    assert known == {session, forked["sessionId"]}
    assert all(str(uuid.UUID(id)) == id for id in known)


async def test_a_session_that_could_not_begin_is_not_listed(desk: Desk):
    async with desk.client(model=None, environment={"ACCORD_MODEL": "anthropic"}) as client:
        error = await client.error("session/new", {"cwd": desk.cwd, "mcpServers": []})
        assert error["code"] == -32000
        assert (await client.call("session/list", {"cwd": desk.cwd}))["sessions"] == []
