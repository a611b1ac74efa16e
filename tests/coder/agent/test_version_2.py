"""The coding agent with a client in version 2. All its messages match the official schema."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.agent.client_v2 import ClientV2, OfficialPeerV2
from tests.coder.agent.harness import NAME, SANDBOX_OFF, AgentHarness, ScriptedModel, choose, configure, use

from accord.coder.coding_agent import coding_agent
from accord.coder.resources import CoderOptions, CoderResources
from accord.store import CommitTransport
from accord.wire.memory_transport import memory_pair

ENDLESS = "echo begun; exec sleep 1000"


class Turns:
    """The turns of one session."""

    def __init__(self, client: ClientV2, session: str) -> None:
        self.client = client
        self.session = session

    def updates(self, kind: str) -> list[Any]:
        return self.client.raw.updates(kind)

    def state(self, id: str) -> dict[str, Any]:
        """A tool call or a terminal, as its updates add up."""
        found: dict[str, Any] = {}
        for update in (*self.updates("tool_call_update"), *self.updates("terminal_update")):
            if id in (update.get("toolCallId"), update.get("terminalId")):
                found |= update
        return found

    def output(self, terminal_id: str) -> str:
        chunks = self.updates("terminal_output_chunk")
        return b"".join(b64decode(one["data"]) for one in chunks if one["terminalId"] == terminal_id).decode()

    async def until(self, method: str, **members: Any) -> Any:
        """The next message of a method, or the next update with these members."""
        while True:
            message = await self.client.raw.next()
            found = message.get("params", {}).get("update", {}) if members else message.get("params", {})
            if message.get("method") == method and members.items() <= found.items():
                return message if not members else found

    async def cancel(self, method: str, **item: str) -> None:
        assert await self.client.call(f"{method}/cancel", sessionId=self.session, **item) == {}


@asynccontextmanager
async def turns_of(
    harness: AgentHarness, model: ScriptedModel, mode: str = "full-access"
) -> AsyncGenerator[Turns]:
    configure(harness, SANDBOX_OFF)
    coder = CoderResources(CoderOptions(environment={}, model=str(NAME), resolver=model))
    ours, theirs = memory_pair()
    connection = coding_agent(coder).connect(CommitTransport(ours, coder))
    client = ClientV2(OfficialPeerV2(theirs), connection)
    try:
        await client.initialize()
        session = (await client.call("session/new", cwd=harness.cwd))["sessionId"]
        choice = {"configId": "mode", "type": "id", "value": mode}
        await client.call("session/set_config_option", sessionId=session, **choice)
        yield Turns(client, session)
    finally:
        await connection.aclose()
        await coder.aclose()


async def test_a_command_is_shown_in_a_terminal_of_the_agent(harness: AgentHarness) -> None:
    model = ScriptedModel([use("bash", command="echo one; echo two >&2; exit 3")])
    async with turns_of(harness, model) as turns:
        turns.client.prompt(turns.session)
        assert (await turns.client.until_idle())[-1]["stopReason"] == "end_turn"
        begun, ended = turns.updates("terminal_update")
        assert (begun["command"], begun["cwd"]) == ("echo one; echo two >&2; exit 3", harness.cwd)
        assert (begun["capabilities"], ended["capabilities"]) == ({"cancel": {}}, None)
        assert ended["exitStatus"] == {"exitCode": 3, "signal": None}
        assert turns.output(begun["terminalId"]) == "one\ntwo\n"
        call = turns.state(turns.updates("tool_call_update")[0]["toolCallId"])
        assert call["content"] == [{"type": "terminal", "terminalId": begun["terminalId"]}]
        assert (call["status"], call["capabilities"]) == ("failed", None)
    assert model.prompts[-1] == "one\ntwo\n[exit code 3]"


async def test_the_user_ends_a_command_and_the_turn_goes_on(harness: AgentHarness) -> None:
    model = ScriptedModel([use("bash", command=ENDLESS)])
    async with turns_of(harness, model) as turns:
        turns.client.prompt(turns.session)
        chunk = await turns.until("session/update", sessionUpdate="terminal_output_chunk")
        await turns.cancel("terminal", terminalId=chunk["terminalId"])
        assert (await turns.client.until_idle())[-1]["stopReason"] == "end_turn"
        assert turns.state(chunk["terminalId"])["exitStatus"]["signal"]
    assert model.prompts[-1].startswith("begun\n[ended by ")
    assert model.prompts[-1].endswith("[the user canceled this command]")


@pytest.mark.parametrize("in_subagent", [False, True])
async def test_the_user_ends_a_running_call_and_the_turn_goes_on(
    harness: AgentHarness, in_subagent: bool
) -> None:
    script: list[Any] = [[use("bash", command=ENDLESS)], ["ended"]]
    if in_subagent:
        script.insert(0, [use("agent", prompt="run it", description="Run")])
    model = ScriptedModel(*script)
    async with turns_of(harness, model) as turns:
        turns.client.prompt(turns.session)
        chunk = await turns.until("session/update", sessionUpdate="terminal_output_chunk")
        [call_id] = {
            update["toolCallId"]
            for update in turns.updates("tool_call_update")
            if any(item.get("terminalId") for item in update.get("content") or ())
        }
        await turns.cancel("tool_call", toolCallId=call_id)
        assert (await turns.client.until_idle())[-1]["stopReason"] == "end_turn"
        assert turns.state(call_id)["status"] == "cancelled"
        assert turns.state(chunk["terminalId"])["exitStatus"]["signal"]
        error = await turns.client.error("tool_call/cancel", sessionId=turns.session, toolCallId=call_id)
        assert error["code"] == -32602
    text = (
        "The user canceled this call before it was done. It may have had effects. "
        "Its output until then:\\nbegun'"
    )
    assert any(text in str(request.messages) for request in model.requests)


async def test_a_call_that_is_ended_at_its_question_is_not_run(harness: AgentHarness) -> None:
    model = ScriptedModel([use("bash", command="touch made")])
    async with turns_of(harness, model, "ask") as turns:
        turns.client.prompt(turns.session)
        question = await turns.until("session/request_permission")
        call_id = question["params"]["subject"]["toolCall"]["toolCallId"]
        await turns.cancel("tool_call", toolCallId=call_id)
        withdrawn = [m for m in turns.client.raw.received if m.get("method") == "$/cancel_request"]
        withdrawn = withdrawn or [await turns.until("$/cancel_request")]
        assert withdrawn[0]["params"]["requestId"] == question["id"]
        choose(turns.client, question, "allow_once")  # type: ignore[arg-type]  # too late
        assert (await turns.client.until_idle())[-1]["stopReason"] == "end_turn"
        assert turns.state(call_id)["status"] == "cancelled"
    assert not (harness.project / "made").exists()
    assert model.prompts[-1] == "The user canceled this call; it was not run."


async def test_background_commands_are_listed_until_they_end(harness: AgentHarness) -> None:
    look = asyncio.Event()

    async def wait(request: Any) -> Any:
        await look.wait()
        return [use("job", id="job_1", wait=60)]

    model = ScriptedModel([use("bash", command=ENDLESS, background=True)], ["started"], wait)
    async with turns_of(harness, model) as turns:
        turns.client.prompt(turns.session)
        idle = (await turns.client.until_idle())[-1]
        [terminal] = turns.updates("terminal_update")
        item = {"type": "terminal", "terminalId": terminal["terminalId"]}
        assert idle["background"] == [item]
        assert item in turns.state(turns.updates("tool_call_update")[0]["toolCallId"])["content"]
        turns.client.raw.notify("session/cancel", {"sessionId": turns.session})  # ends no background work
        await turns.cancel("terminal", terminalId=terminal["terminalId"])
        await turns.until("session/update", sessionUpdate="state_update", background=[])
        assert turns.state(terminal["terminalId"])["exitStatus"]["signal"]
        look.set()
        turns.client.prompt(turns.session)
        assert (await turns.client.until_idle())[-1]["background"] == []
    assert "the user canceled it" in model.prompts[-1]


async def test_closing_the_session_ends_background_commands_and_says_so(harness: AgentHarness) -> None:
    model = ScriptedModel([use("bash", command=ENDLESS, background=True)])
    async with turns_of(harness, model) as turns:
        turns.client.prompt(turns.session)
        await turns.client.until_idle()
        assert await turns.client.call("session/close", sessionId=turns.session) == {}
        [begun, ended] = turns.updates("terminal_update")
        assert ended["terminalId"] == begun["terminalId"]
        assert ended["exitStatus"]["signal"]
        assert turns.updates("state_update")[-1]["background"] == []
