"""Sub-agents in whole turns: what they know, what is shown of them, whom they ask, and how they end."""

import asyncio
from typing import Any

import pytest
from tests.agent.scene import Client
from tests.coder.agent.desk import Desk, ScriptedModel, use

from accord.coder.messages import ToolResult, text_of
from accord.coder.models import ModelError, ModelRequest
from accord.testing import FakeClock

PLAIN: dict[str, Any] = {}
SHOWING: dict[str, Any] = {"subagents": {}}


def delegate(prompt: str = "look into a.txt", **more: Any) -> Any:
    return use("agent", prompt=prompt, **more)


class Turns:
    """The client's part of a turn: says yes to the sub-agent itself, and to everything else what the test says."""

    def __init__(self, client: Client, session: str) -> None:
        self.client = client
        self.session = session
        self.asked: list[Any] = []

    async def take(self, prompt: str = "go", *, answer: str = "allow_once") -> Any:
        return await self.rest(self.client.prompt(self.session, prompt), answer=answer)

    async def rest(self, id: Any, *, answer: str = "allow_once") -> Any:
        while True:
            message = await self.client.raw.next()
            if message.get("method") == "session/request_permission":
                self.agree(message, answer)
            elif "method" not in message and message["id"] == id:
                assert "result" in message, message
                return message["result"]

    def agree(self, question: Any, answer: str) -> None:
        params = question["params"]
        announced = [call["toolCallId"] for call in self.calls()]
        assert params["sessionId"] == self.session
        assert params["toolCall"]["toolCallId"] in announced, "asked about a call that nobody has announced"
        own = any(
            call["toolCallId"] == params["toolCall"]["toolCallId"] and call.get("name") == "agent"
            for call in self.calls()
        )
        if not own:
            self.asked.append(params)
        outcome = {"outcome": "selected", "optionId": "allow_once" if own else answer}
        self.client.raw.reply(question, {"outcome": outcome})

    def calls(self) -> list[Any]:
        """The tool calls of the session, as announced."""
        return [
            message["params"]["update"]
            for message in self.client.raw.heard
            if message.get("method") == "session/update"
            and message["params"]["sessionId"] == self.session
            and message["params"]["update"]["sessionUpdate"] == "tool_call"
        ]

    def course(self, name: str) -> dict[str, Any]:
        """Everything that was told of the call of this tool, folded."""
        [first] = [call for call in self.calls() if call.get("name") == name]
        whole = dict(first)
        for update in self.client.said("tool_call_update"):
            if update["toolCallId"] == first["toolCallId"]:
                whole |= update
        return whole


def texts(call: dict[str, Any]) -> list[str]:
    return [item["content"]["text"] for item in call["content"] if item["type"] == "content"]


def results(request: ModelRequest) -> list[str]:
    """What the tools gave, in the history of a request."""
    return [text_of(message) for message in request.messages if isinstance(message, ToolResult)]


async def begin(client: Client, desk: Desk, mode: str | None = None) -> Turns:
    session = await client.new_session(desk.cwd)
    if mode is not None:
        await client.call("session/set_mode", {"sessionId": session, "modeId": mode})
    return Turns(client, session)


# -- what they know ---------------------------------------------------------------------------------------------


async def test_a_subagent_knows_its_task_and_only_its_last_words_come_back(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("alpha\n")
    model = ScriptedModel(
        ["I hand it over.", delegate()],
        ["Let me see.", use("read_file", path="a.txt")],
        ["a.txt says alpha."],
        ["Found."],
    )
    async with desk.client(model=model, capabilities=PLAIN) as client:
        turns = await begin(client, desk)
        assert (await turns.take("what is in a.txt?"))["stopReason"] == "end_turn"
    first, own, more, last = model.requests
    rules, task = map(text_of, own.messages)
    assert "You are a sub-agent" in rules
    assert task == "look into a.txt"
    assert "alpha" in results(more)[0]
    assert results(last) == ["a.txt says alpha."]
    assert "Let me see." not in "".join(map(text_of, last.messages))
    assert own.system == first.system
    offered = {tool.name for tool in own.tools}
    assert {"agent", "ask_user", "plan", "leave_plan_mode"}.isdisjoint(offered)
    assert {"read_file", "edit_file", "bash"} <= offered


async def test_what_a_subagent_uses_counts_for_turn_and_session_but_not_for_the_window(desk: Desk) -> None:
    model = ScriptedModel([delegate()], ["looked"], ["ok"])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        turns = await begin(client, desk)
        result = await turns.take()
        assert (result["usage"]["inputTokens"], result["usage"]["outputTokens"]) == (300, 30)
        windows = client.said("usage_update")
        assert len(windows) == 2  # those of the two requests of the session itself
        assert windows[-1]["cost"]["amount"] == pytest.approx(0.03)


async def test_a_subagent_has_read_nothing_yet_and_its_changes_are_news_to_its_parent(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("alpha\n")
    change = {"path": "a.txt", "old_text": "alpha", "new_text": "beta"}
    model = ScriptedModel(
        [use("read_file", path="a.txt")],
        [delegate()],
        [use("edit_file", **change)],
        [use("read_file", path="a.txt")],
        [use("edit_file", **change)],
        ["changed"],
        [use("edit_file", path="a.txt", old_text="beta", new_text="gamma")],
        ["ok"],
    )
    async with desk.client(model=model, capabilities=PLAIN) as client:
        turns = await begin(client, desk, "workspace-write")
        await turns.take()
    assert "read it first" in results(model.requests[3])[0].lower()
    assert "changed" in results(model.requests[-1])[-1]
    assert (desk.project / "a.txt").read_text() == "beta\n"


# -- what is shown ----------------------------------------------------------------------------------------------


async def test_the_parents_call_lists_what_was_done_and_ends_with_the_words(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("alpha\n")
    looks = [
        use("read_file", path="a.txt"),
        use("read_file", path="missing.txt"),
        use("list_files", path="."),
    ]
    clock = FakeClock()
    async with desk.client(
        [delegate(description="Look")], looks, ["All seen."], capabilities=PLAIN, clock=clock
    ) as client:
        turns = await begin(client, desk)
        await turns.take()
    call = turns.course("agent")
    assert (call["title"], call["kind"], call["status"]) == ("Delegate: Look", "execute", "completed")
    assert texts(call) == ["```\n✓ Read a.txt\n✗ Read missing.txt\n✓ List .\n```", "All seen."]
    assert call["rawOutput"] == {"stopReason": "end_turn", "toolCalls": 3}
    shown = [update for update in client.said("tool_call_update") if "content" in update]
    assert len(shown) <= 2, "the clock stood still: one list, and the last one"
    assert [call.get("name") for call in turns.calls()] == ["agent"], (
        "what only looks is no call of the session"
    )


async def test_a_long_list_is_cut(desk: Desk) -> None:
    steps = [[use("list_files", path=".", limit=number)] for number in range(1, 31)]
    async with desk.client([delegate()], *steps, ["done"], capabilities=PLAIN) as client:
        turns = await begin(client, desk)
        await turns.take()
    lines = texts(turns.course("agent"))[0].splitlines()
    assert len(lines) == 23
    assert lines[1] == "(10 earlier)"


async def test_changes_of_a_subagent_are_calls_of_the_session(desk: Desk) -> None:
    async with desk.client(
        [delegate()], [use("write_file", path="b.txt", content="hi")], ["Written."], capabilities=PLAIN
    ) as client:
        turns = await begin(client, desk, "workspace-write")
        await turns.take()
    assert turns.asked == []
    call = turns.course("write_file")
    assert (call["title"], call["kind"], call["status"]) == ("Sub-agent: Write b.txt", "edit", "completed")
    assert call["content"][0]["type"] == "diff"


async def test_a_subagent_without_last_words_says_so(desk: Desk) -> None:
    model = ScriptedModel([delegate()], [], ["ok"])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        await (await begin(client, desk)).take()
    assert "without a word" in results(model.requests[-1])[0]


# -- whom they ask ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "written"), [("allow_once", True), ("reject_once", False)])
async def test_a_permission_of_a_subagent_is_a_question_about_a_known_call(
    desk: Desk, answer: str, written: bool
) -> None:
    model = ScriptedModel([delegate()], [use("write_file", path="b.txt", content="hi")], ["Tried."], ["ok"])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        turns = await begin(client, desk)
        await turns.take(answer=answer)
    [question] = turns.asked
    assert question["toolCall"]["title"] == "Sub-agent: Write b.txt"
    assert question["toolCall"]["content"][0]["type"] == "diff"
    assert (desk.project / "b.txt").exists() == written
    call = turns.course("write_file")
    assert call["status"] == ("completed" if written else "failed")
    mark = "✓" if written else "✗"
    assert f"{mark} Write b.txt" in texts(turns.course("agent"))[0]
    told = results(model.requests[2])[0]
    assert told.startswith("Permission denied.") != written


async def test_even_looking_is_asked_about_where_it_must_be(desk: Desk) -> None:
    (desk.project / ".env").write_text("TOKEN=1\n")
    model = ScriptedModel([delegate()], [use("read_file", path=".env")], ["No."], ["ok"])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        turns = await begin(client, desk)
        await turns.take(answer="reject_once")
    [question] = turns.asked
    assert question["toolCall"]["title"] == "Sub-agent: Read .env"
    assert "TOKEN" not in results(model.requests[2])[0]


async def test_a_subagent_has_no_subagents(desk: Desk) -> None:
    model = ScriptedModel([delegate()], [delegate("deeper")], ["Then not."], ["ok"])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        turns = await begin(client, desk)
        await turns.take()
    assert "There is no tool 'agent'" in results(model.requests[2])[0]
    assert len(turns.calls()) == 1


# -- how they end -----------------------------------------------------------------------------------------------


async def test_a_failing_model_fails_the_call_and_not_the_turn(desk: Desk) -> None:
    model = ScriptedModel([delegate()], ModelError("other", "openai: no such thing"), ["Then without."])
    async with desk.client(model=model, capabilities=SHOWING) as client:
        turns = await begin(client, desk)
        assert (await turns.take())["stopReason"] == "end_turn"
        states = [update["state"] for update in client.said("subagent_update")]
    assert turns.course("agent")["status"] == "failed"
    assert "no such thing" in results(model.requests[-1])[0]
    assert states[-1]["stopReason"] == "error"
    assert "no such thing" in states[-1]["error"]["message"]


async def test_a_subagent_has_a_budget(desk: Desk) -> None:
    (desk.home / "config").mkdir()
    (desk.home / "config" / "config.toml").write_text("[turn]\nsubagent_requests = 2\n")
    looks = [[f"Look {number}.", use("list_files", path=".", limit=number)] for number in (1, 2)]
    model = ScriptedModel([delegate()], *looks, ["ok"])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        turns = await begin(client, desk)
        assert (await turns.take())["stopReason"] == "end_turn"
    assert turns.course("agent")["status"] == "failed"
    [told] = results(model.requests[-1])
    assert told.startswith("Look 2.")
    assert "used up its requests" in told


async def test_cancelling_the_turn_ends_the_subagent(desk: Desk) -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def never(request: ModelRequest) -> Any:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    model = ScriptedModel([delegate()], never, ["Back again."])
    async with desk.client(model=model, capabilities=SHOWING) as client:
        turns = await begin(client, desk)
        id = client.prompt(turns.session, "go")
        turns.agree(await client.asked("session/request_permission"), "allow_once")
        await reached.wait()
        client.cancel(turns.session)
        assert (await turns.rest(id))["stopReason"] == "cancelled"
        assert left.is_set()
        assert turns.course("agent")["status"] == "failed"
        assert client.said("subagent_update")[-1]["state"] == {"state": "idle", "stopReason": "cancelled"}
        assert (await turns.take("again"))["stopReason"] == "end_turn"
    assert len(results(model.requests[-1])) == 1, "the call that was cancelled has its result"


# -- where the client shows child sessions ----------------------------------------------------------------------


async def test_a_client_that_shows_subagents_sees_the_child_at_work(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("alpha\n")
    model = ScriptedModel(
        [delegate(description="Look")],
        ["Let me see.", use("read_file", path="a.txt")],
        [use("write_file", path="b.txt", content="hi")],
        ["Done so."],
        ["ok"],
    )
    async with desk.client(model=model, capabilities=SHOWING) as client:
        turns = await begin(client, desk)
        await turns.take()
        announced = client.said("subagent_update")[0]
    child = announced["sessionId"]
    assert announced["title"] == "Look"
    told = [
        message["params"]["update"]
        for message in client.raw.heard
        if message.get("method") == "session/update" and message["params"]["sessionId"] == child
    ]
    assert [update["title"] for update in told if update["sessionUpdate"] == "tool_call"] == [
        "Read a.txt",
        "Write b.txt",
    ]
    ends = [update.get("status") for update in told if update["sessionUpdate"] == "tool_call_update"]
    assert ends.count("completed") == 2
    words = [update["content"]["text"] for update in told if update["sessionUpdate"] == "agent_message_chunk"]
    assert words == ["Let me see.", "Done so."]
    states = [update["state"]["state"] for update in client.said("subagent_update")]
    assert states == ["running", "requires_action", "running", "idle"]
    assert client.said("session_message")[0]["content"][0]["text"] == "look into a.txt"


async def test_the_user_can_stop_a_child_without_stopping_the_turn(desk: Desk) -> None:
    reached = asyncio.Event()

    async def never(request: ModelRequest) -> Any:
        reached.set()
        await asyncio.Event().wait()

    model = ScriptedModel([delegate()], never, ["Then I stop, too."])
    async with desk.client(model=model, capabilities=SHOWING) as client:
        turns = await begin(client, desk)
        id = client.prompt(turns.session, "go")
        turns.agree(await client.asked("session/request_permission"), "allow_once")
        await reached.wait()
        client.cancel((await client.update("subagent_update"))["sessionId"])
        assert (await turns.rest(id))["stopReason"] == "end_turn"
    assert results(model.requests[-1]) == ["The user stopped the sub-agent."]
    assert turns.course("agent")["status"] == "failed"


async def test_the_rehearsal_delegates(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("alpha\n")
    async with desk.client(capabilities=PLAIN) as client:
        turns = await begin(client, desk)
        await turns.take("delegate: read a.txt")
    call = turns.course("agent")
    assert call["status"] == "completed"
    assert "read a.txt" in texts(call)[1]
