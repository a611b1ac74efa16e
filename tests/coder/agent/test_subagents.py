"""Sub-agents in whole turns: their context, their updates, their permission requests, and how they end."""

import asyncio
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, ScriptedModel, configure, use

from accord.coder.model_history import ToolResult, text_of
from accord.coder.models import ModelError, ModelRequest
from accord.coder.turn.subagent_steps import SubagentSteps
from accord.schema.content import Content, TextContent
from accord.testing import FakeClock

NO_CAPABILITIES: dict[str, Any] = {}
SUBAGENT_UPDATES: dict[str, Any] = {"subagents": {}}


def delegate(prompt: str = "look into a.txt", **more: Any) -> Any:
    return use("agent", prompt=prompt, **more)


class TurnDriver:
    """The client side of turns. Gives the test's answer to all permission requests."""

    def __init__(self, client: Client, session: str) -> None:
        self.client = client
        self.session = session
        self.asked: list[Any] = []

    async def run(self, prompt: str = "go", *, answer: str = "allow_once") -> Any:
        return await self.finish(self.client.prompt(self.session, prompt), answer=answer)

    async def finish(self, id: Any, *, answer: str = "allow_once") -> Any:
        while True:
            message = await self.client.raw.next()
            if message.get("method") == "session/request_permission":
                self.answer_question(message, answer)
            elif "method" not in message and message["id"] == id:
                assert "result" in message, message
                return message["result"]

    def answer_question(self, question: Any, answer: str) -> None:
        params = question["params"]
        announced = [call["toolCallId"] for call in self.calls()]
        assert params["sessionId"] == self.session
        assert params["toolCall"]["toolCallId"] in announced, (
            "permission request for a call that was not announced"
        )
        self.asked.append(params)
        self.client.raw.reply(question, {"outcome": {"outcome": "selected", "optionId": answer}})

    def calls(self) -> list[Any]:
        """Return the announced tool calls of the session."""
        return [
            message["params"]["update"]
            for message in self.client.raw.received
            if message.get("method") == "session/update"
            and message["params"]["sessionId"] == self.session
            and message["params"]["update"]["sessionUpdate"] == "tool_call"
        ]

    def merged_call(self, name: str) -> dict[str, Any]:
        """Return the call of this tool with all its updates merged."""
        [first] = [call for call in self.calls() if call.get("name") == name]
        whole = dict(first)
        for update in self.client.updates_of("tool_call_update"):
            if update["toolCallId"] == first["toolCallId"]:
                whole |= update
        return whole


def texts(call: dict[str, Any]) -> list[str]:
    return [item["content"]["text"] for item in call["content"] if item["type"] == "content"]


def results(request: ModelRequest) -> list[str]:
    """Return the tool results in the history of a request."""
    return [text_of(message) for message in request.messages if isinstance(message, ToolResult)]


async def start(client: Client, harness: AgentHarness, mode: str | None = None) -> TurnDriver:
    session = await client.new_session(harness.cwd)
    if mode is not None:
        await client.call("session/set_mode", {"sessionId": session, "modeId": mode})
    return TurnDriver(client, session)


# -- context -------------------------------------------------------------------------------------------------


async def test_subagent_gets_its_task_and_only_its_final_text_returns(harness: AgentHarness) -> None:
    (harness.project / "a.txt").write_text("alpha\n")
    model = ScriptedModel(
        ["I hand it over.", delegate()],
        ["Let me see.", use("read_file", path="a.txt")],
        ["a.txt says alpha."],
        ["Found."],
    )
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness)
        assert (await turns.run("what is in a.txt?"))["stopReason"] == "end_turn"
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


async def test_subagent_usage_counts_for_turn_and_session_but_not_for_the_window(
    harness: AgentHarness,
) -> None:
    model = ScriptedModel([delegate()], ["looked"], ["ok"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness)
        result = await turns.run()
        assert (result["usage"]["inputTokens"], result["usage"]["outputTokens"]) == (300, 30)
        windows = client.updates_of("usage_update")
        assert len(windows) == 2  # one for each request of the session itself
        assert windows[-1]["cost"]["amount"] == pytest.approx(0.03)


async def test_subagent_must_read_files_itself_and_its_edits_outdate_the_parents_reads(
    harness: AgentHarness,
) -> None:
    (harness.project / "a.txt").write_text("alpha\n")
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
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness, "workspace-write")
        await turns.run()
    assert "read it first" in results(model.requests[3])[0].lower()
    assert "changed" in results(model.requests[-1])[-1]
    assert (harness.project / "a.txt").read_text() == "beta\n"


# -- updates -------------------------------------------------------------------------------------------------


async def test_parent_call_lists_the_steps_and_ends_with_the_final_text(harness: AgentHarness) -> None:
    (harness.project / "a.txt").write_text("alpha\n")
    looks = [
        use("read_file", path="a.txt"),
        use("read_file", path="missing.txt"),
        use("list_files", path="."),
    ]
    clock = FakeClock()
    async with harness.client(
        [delegate(description="Look")], looks, ["All seen."], capabilities=NO_CAPABILITIES, clock=clock
    ) as client:
        turns = await start(client, harness)
        await turns.run()
    call = turns.merged_call("agent")
    assert (call["title"], call["kind"], call["status"]) == ("Delegate: Look", "execute", "completed")
    assert texts(call) == ["```\n✓ Read a.txt\n✗ Read missing.txt\n✓ List .\n```", "All seen."]
    assert call["rawOutput"] == {"stopReason": "end_turn", "toolCalls": 3}
    shown = [update for update in client.updates_of("tool_call_update") if "content" in update]
    assert len(shown) <= 2, "the clock stands still, so only the first and the last list are sent"
    assert [call.get("name") for call in turns.calls()] == ["agent"], (
        "read-only calls must not be session calls"
    )


async def test_long_step_list_is_shortened(harness: AgentHarness) -> None:
    steps = [[use("list_files", path=".", limit=number)] for number in range(1, 31)]
    async with harness.client([delegate()], *steps, ["done"], capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness)
        await turns.run()
    lines = texts(turns.merged_call("agent"))[0].splitlines()
    assert len(lines) == 23
    assert lines[1] == "(10 earlier)"


def test_steps_that_never_end_are_not_all_shown() -> None:
    steps = SubagentSteps()
    for number in range(500):
        steps.add_call(f"step {number}")
    [block] = steps.content()
    assert isinstance(block, Content)
    assert isinstance(block.content, TextContent)
    lines = block.content.text.splitlines()
    assert len(lines) == 63
    assert lines[1] == "(440 earlier)"


async def test_writes_of_a_subagent_are_calls_of_the_session(harness: AgentHarness) -> None:
    async with harness.client(
        [delegate()],
        [use("write_file", path="b.txt", content="hi")],
        ["Written."],
        capabilities=NO_CAPABILITIES,
    ) as client:
        turns = await start(client, harness, "workspace-write")
        await turns.run()
    assert turns.asked == []
    call = turns.merged_call("write_file")
    assert (call["title"], call["kind"], call["status"]) == ("Sub-agent: Write b.txt", "edit", "completed")
    assert call["content"][0]["type"] == "diff"


async def test_subagent_without_final_text_is_reported(harness: AgentHarness) -> None:
    model = ScriptedModel([delegate()], [], ["ok"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        await (await start(client, harness)).run()
    assert "without an answer" in results(model.requests[-1])[0]


# -- permissions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "written"), [("allow_once", True), ("reject_once", False)])
async def test_subagent_permission_request_is_about_an_announced_call(
    harness: AgentHarness, answer: str, written: bool
) -> None:
    model = ScriptedModel([delegate()], [use("write_file", path="b.txt", content="hi")], ["Tried."], ["ok"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness)
        await turns.run(answer=answer)
    [question] = turns.asked
    assert question["toolCall"]["title"] == "Sub-agent: Write b.txt"
    assert question["toolCall"]["content"][0]["type"] == "diff"
    assert (harness.project / "b.txt").exists() == written
    call = turns.merged_call("write_file")
    assert call["status"] == ("completed" if written else "failed")
    mark = "✓" if written else "✗"
    assert f"{mark} Write b.txt" in texts(turns.merged_call("agent"))[0]
    result_text = results(model.requests[2])[0]
    assert result_text.startswith("Permission denied.") != written


async def test_a_rule_of_the_user_still_decides_about_subagents(harness: AgentHarness) -> None:
    configure(harness, f'{SANDBOX_OFF}[permissions]\nask = [{{ tool = "agent" }}]\n')
    model = ScriptedModel([delegate()], ["ok"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness)
        await turns.run(answer="reject_once")
    [question] = turns.asked
    assert question["toolCall"]["title"].startswith("Delegate: ")


async def test_subagent_read_of_a_secret_needs_permission(harness: AgentHarness) -> None:
    (harness.project / ".env").write_text("TOKEN=1\n")
    model = ScriptedModel([delegate()], [use("read_file", path=".env")], ["No."], ["ok"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness)
        await turns.run(answer="reject_once")
    [question] = turns.asked
    assert question["toolCall"]["title"] == "Sub-agent: Read .env"
    assert "TOKEN" not in results(model.requests[2])[0]


@pytest.mark.parametrize("mode", ["plan", "read-only"])
async def test_subagent_reads_and_changes_nothing_in_a_reading_mode(harness: AgentHarness, mode: str) -> None:
    (harness.project / "a.txt").write_text("alpha\n")
    acts = [use("read_file", path="a.txt"), use("write_file", path="b.txt", content="hi")]
    model = ScriptedModel([delegate()], acts, ["Read it."], ["ok"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness, mode)
        await turns.run()
    assert turns.asked == []
    read, written = results(model.requests[2])
    assert "alpha" in read
    assert written.startswith("Permission denied.")
    assert not (harness.project / "b.txt").exists()


async def test_subagent_cannot_start_subagents(harness: AgentHarness) -> None:
    model = ScriptedModel([delegate()], [delegate("deeper")], ["Then not."], ["ok"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness)
        await turns.run()
    assert "There is no tool 'agent'" in results(model.requests[2])[0]
    assert len(turns.calls()) == 1


# -- ends ----------------------------------------------------------------------------------------------------


async def test_failing_model_fails_the_call_and_not_the_turn(harness: AgentHarness) -> None:
    model = ScriptedModel([delegate()], ModelError("other", "openai: no such thing"), ["Then without."])
    async with harness.client(model=model, capabilities=SUBAGENT_UPDATES) as client:
        turns = await start(client, harness)
        assert (await turns.run())["stopReason"] == "end_turn"
        states = [update["state"] for update in client.updates_of("subagent_update")]
    assert turns.merged_call("agent")["status"] == "failed"
    assert "no such thing" in results(model.requests[-1])[0]
    assert states[-1]["stopReason"] == "error"
    assert "no such thing" in states[-1]["error"]["message"]


async def test_subagent_requests_are_limited(harness: AgentHarness) -> None:
    (harness.home / "config").mkdir()
    (harness.home / "config" / "config.toml").write_text("[turn]\nsubagent_requests = 2\n")
    looks = [[f"Look {number}.", use("list_files", path=".", limit=number)] for number in (1, 2)]
    model = ScriptedModel([delegate()], *looks, ["ok"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness)
        assert (await turns.run())["stopReason"] == "end_turn"
    assert turns.merged_call("agent")["status"] == "failed"
    [result_text] = results(model.requests[-1])
    assert result_text.startswith("Look 2.")
    assert "reached its limit of requests" in result_text


async def test_cancelling_the_turn_ends_the_subagent(harness: AgentHarness) -> None:
    reached, left = asyncio.Event(), asyncio.Event()

    async def never(request: ModelRequest) -> Any:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    model = ScriptedModel([delegate()], never, ["Back again."])
    async with harness.client(model=model, capabilities=SUBAGENT_UPDATES) as client:
        turns = await start(client, harness)
        id = client.prompt(turns.session, "go")
        await reached.wait()
        client.cancel(turns.session)
        assert (await turns.finish(id))["stopReason"] == "cancelled"
        assert left.is_set()
        assert turns.merged_call("agent")["status"] == "failed"
        assert client.updates_of("subagent_update")[-1]["state"] == {
            "state": "idle",
            "stopReason": "cancelled",
        }
        assert (await turns.run("again"))["stopReason"] == "end_turn"
    assert len(results(model.requests[-1])) == 1, "the cancelled call must have a result"


# -- clients that show child sessions ------------------------------------------------------------------------


async def test_subagent_capability_shows_the_child_session(harness: AgentHarness) -> None:
    (harness.project / "a.txt").write_text("alpha\n")
    model = ScriptedModel(
        [delegate(description="Look")],
        ["Let me see.", use("read_file", path="a.txt")],
        [use("write_file", path="b.txt", content="hi")],
        ["Done so."],
        ["ok"],
    )
    async with harness.client(model=model, capabilities=SUBAGENT_UPDATES) as client:
        turns = await start(client, harness)
        await turns.run()
        announced = client.updates_of("subagent_update")[0]
    child = announced["sessionId"]
    assert announced["title"] == "Look"
    received = [
        message["params"]["update"]
        for message in client.raw.received
        if message.get("method") == "session/update" and message["params"]["sessionId"] == child
    ]
    assert [update["title"] for update in received if update["sessionUpdate"] == "tool_call"] == [
        "Read a.txt",
        "Write b.txt",
    ]
    ends = [update.get("status") for update in received if update["sessionUpdate"] == "tool_call_update"]
    assert ends.count("completed") == 2
    words = [
        update["content"]["text"] for update in received if update["sessionUpdate"] == "agent_message_chunk"
    ]
    assert words == ["Let me see.", "Done so."]
    states = [update["state"]["state"] for update in client.updates_of("subagent_update")]
    assert states == ["running", "requires_action", "running", "idle"]
    assert client.updates_of("session_message")[0]["content"][0]["text"] == "look into a.txt"


async def test_cancelling_a_child_does_not_stop_the_turn(harness: AgentHarness) -> None:
    reached = asyncio.Event()

    async def never(request: ModelRequest) -> Any:
        reached.set()
        await asyncio.Event().wait()

    model = ScriptedModel([delegate()], never, ["Then I stop, too."])
    async with harness.client(model=model, capabilities=SUBAGENT_UPDATES) as client:
        turns = await start(client, harness)
        id = client.prompt(turns.session, "go")
        await reached.wait()
        client.cancel((await client.update("subagent_update"))["sessionId"])
        assert (await turns.finish(id))["stopReason"] == "end_turn"
    assert results(model.requests[-1]) == ["The user stopped the sub-agent."]
    assert turns.merged_call("agent")["status"] == "failed"


async def test_rehearsal_model_delegates(harness: AgentHarness) -> None:
    (harness.project / "a.txt").write_text("alpha\n")
    async with harness.client(capabilities=NO_CAPABILITIES) as client:
        turns = await start(client, harness)
        await turns.run("delegate: read a.txt")
    call = turns.merged_call("agent")
    assert call["status"] == "completed"
    assert "read a.txt" in texts(call)[1]
