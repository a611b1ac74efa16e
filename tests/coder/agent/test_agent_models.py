"""Another ACP agent in place of the model: `--model acp:NAME`."""

from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, choose, configure
from tests.coder.agent.test_acp_subagents import helper
from tests.coder.agent.test_command_files import prompt_text
from tests.coder.agent.test_prompts_during_turn import steer

OTHER = {"ACCORD_MODEL": "acp:helper"}
ANSWER = """
await turn.say(f"You said: {task}")
"""


@pytest.fixture(autouse=True)
def home(harness: AgentHarness, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(harness.home))
    configure(harness, SANDBOX_OFF)
    return harness.home


def said(updates: list[Any]) -> str:
    return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")


async def test_everything_that_the_agent_sends_is_passed_on(harness: AgentHarness) -> None:
    helper(
        harness,
        """
await turn.think("Hm.")
await turn.plan([("Look", "completed"), "Write"])
async with turn.tool_call("Look around", kind="read", raw_input={"path": "a"}) as call:
    await call.text("found it")
await turn.session.update(UsageUpdate(10, 100, Cost(0.25, "USD")))
await turn.say(f"You said: {task}")
return PromptResponse("end_turn", usage=Usage(12, 7, 5))
""",
    )
    async with harness.client(environment=OTHER) as client:
        session = await client.new_session(harness.cwd)
        updates, result = await client.turn(session, "hello")
        assert "$0.2500" in await prompt_text(client, session, "/usage")
    assert result["stopReason"] == "end_turn"
    assert result["usage"]["inputTokens"] == 7
    assert said(updates) == "You said: hello"
    kinds = [update["sessionUpdate"] for update in updates]
    assert "agent_thought_chunk" in kinds
    [plan] = [update for update in updates if update["sessionUpdate"] == "plan"]
    assert [entry["content"] for entry in plan["entries"]] == ["Look", "Write"]
    [call] = [update for update in updates if update["sessionUpdate"] == "tool_call"]
    assert (call["title"], call["kind"], call["rawInput"]) == ("Look around", "read", {"path": "a"})
    ends = [u for u in updates if u["sessionUpdate"] == "tool_call_update" and u.get("status") == "completed"]
    assert ends[-1]["content"][0]["content"]["text"] == "found it"


async def test_its_questions_reach_the_user_in_its_tool_call(harness: AgentHarness) -> None:
    helper(
        harness,
        """
async with turn.tool_call("Drop the table", kind="execute", raw_input={"command": "drop"}) as call:
    answer = await call.ask_permission()
await turn.say(f"allowed: {bool(answer)}")
""",
    )
    async with harness.client(environment=OTHER) as client:
        session = await client.new_session(harness.cwd)
        for kind, allowed in (("allow_once", "True"), ("reject_once", "False")):
            id = client.prompt(session, "go")
            question = await client.asked("session/request_permission")
            assert question["params"]["toolCall"]["title"] == "Drop the table"
            choose(client, question, kind)
            updates, _ = await client.turn_of(id)
            assert said(updates).endswith(f"allowed: {allowed}")
            calls = client.updates_of("tool_call")
            assert question["params"]["toolCall"]["toolCallId"] == calls[-1]["toolCallId"]


MODES = """
from accord.agent import Agent
from accord.schema import SessionMode, SessionModeState
import asyncio

agent = Agent("helper")

@agent.new_session
async def opened(session):
    modes = [SessionMode("default", "Default"), SessionMode("plan", "Plan")]
    session.modes = SessionModeState("default", modes)

@agent.set_mode
async def changed(session, mode_id):
    pass

@agent.prompt
async def answer(turn):
    await turn.say(f"I work in {turn.session.mode}.")

asyncio.run(agent.serve_stdio())
"""


async def test_its_mode_follows_that_of_the_session(harness: AgentHarness) -> None:
    helper(harness, "pass")
    (harness.home / "helper.py").write_text(MODES)
    async with harness.client(environment=OTHER, mode="plan") as client:
        session = await client.new_session(harness.cwd)
        assert "I work in plan." in await prompt_text(client, session, "go")
        await prompt_text(client, session, "/mode ask")
        assert "I work in default." in await prompt_text(client, session, "go")


async def test_an_agent_without_a_reading_mode_does_not_work_in_plan_mode(harness: AgentHarness) -> None:
    helper(harness, ANSWER)
    async with harness.client(environment=OTHER, mode="read-only") as client:
        error = await failed(client, await client.new_session(harness.cwd), "go")
        assert "it has no mode that only reads" in error


async def failed(client: Client, session: str, text: str) -> str:
    """Send a prompt that fails, and return the message."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return (await client.error("session/prompt", params))["message"]


async def test_a_new_agent_is_told_the_conversation_before_it(harness: AgentHarness) -> None:
    helper(harness, ANSWER)
    async with harness.client() as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "list .")
        assert "acp:helper" in await prompt_text(client, session, "/model acp:helper")
        first = await prompt_text(client, session, "and now?")
        assert "list ." in first
        assert first.endswith("and now?")
        assert await prompt_text(client, session, "again") == "You said: again", "only once"


STORED = """
from accord.agent import Agent
import asyncio, os

agent = Agent("helper")
folder = os.path.dirname(os.path.abspath(__file__))

@agent.new_session
async def opened(session):
    open(os.path.join(folder, session.id), "w")

@agent.load_session
async def loaded(session):
    if not os.path.exists(os.path.join(folder, session.id)):
        from accord.errors import NotFound
        raise NotFound("no such session")

@agent.prompt
async def answer(turn):
    open(os.path.join(folder, turn.session.id), "a").write(turn.text + ";")
    await turn.say(open(os.path.join(folder, turn.session.id)).read())

asyncio.run(agent.serve_stdio())
"""


async def test_a_loaded_session_continues_that_of_the_agent(harness: AgentHarness) -> None:
    helper(harness, "pass")
    (harness.home / "helper.py").write_text(STORED)
    async with harness.client(environment=OTHER) as client:
        session = await client.new_session(harness.cwd)
        assert await prompt_text(client, session, "one") == "one;"
    load = {"sessionId": session, "cwd": harness.cwd, "mcpServers": []}
    async with harness.client(environment=OTHER) as client:
        await client.call("session/load", load)
        assert said(client.updates_of("agent_message_chunk")) == "one;", "our log has the conversation"
        assert await prompt_text(client, session, "two") == "one;two;"
    for file in harness.home.glob("*-*-*"):
        file.unlink()
    async with harness.client(environment=OTHER) as client:
        await client.call("session/load", load)
        told = await prompt_text(client, session, "three")
        assert "helper cannot continue its session" in told
        assert "one" in told.partition("<earlier-conversation>")[2], "it is told what was said before"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os._exit(3)", "acp:helper: "),
        ("raise ValueError('oops')", "acp:helper: "),
        (
            "raise AuthRequired('Not signed in')",
            "acp:helper: Not signed in; sign in to it first: accord agents",
        ),
        ("return 'refusal'", ""),
    ],
)
async def test_an_agent_that_fails_is_one_line_and_the_session_goes_on(
    harness: AgentHarness, code: str, reason: str
) -> None:
    helper(harness, f"if task == 'break':\n    {code}\nelse:\n    await turn.say('fine')")
    async with harness.client(environment=OTHER) as client:
        session = await client.new_session(harness.cwd)
        if reason:
            error = await failed(client, session, "break")
            assert error.startswith(reason)
            assert "\n" not in error
        else:
            assert (await client.turn(session, "break"))[1]["stopReason"] == "refusal"
        assert "fine" in await prompt_text(client, session, "work")


async def test_an_unknown_or_untrusted_agent_is_one_line(harness: AgentHarness) -> None:
    helper(harness, ANSWER, folder=harness.project)
    async with harness.client(environment=OTHER) as client:
        session = await client.new_session(harness.cwd)
        assert "not trusted" in await failed(client, session, "go")
        assert "acp:nobody" in await prompt_text(client, session, "/model acp:nobody")
        assert "unknown agent 'nobody'" in await failed(client, session, "go")
        assert "name an agent of acp.json" in await prompt_text(client, session, "/model acp:")


async def test_a_message_during_its_turn_is_its_next_prompt(harness: AgentHarness) -> None:
    go = harness.home / "go"
    helper(
        harness,
        f"""
await turn.say(f"You said: {{task}}. ")
while task == "one" and not os.path.exists({str(go)!r}):
    await asyncio.sleep(0.01)
""",
    )
    async with harness.client(environment=OTHER) as client:
        session = await client.new_session(harness.cwd)
        id = client.prompt(session, "one")
        await client.update("agent_message_chunk")
        answer = await client.raw.answer_to(steer(client, session, "two"))
        assert answer["result"] == {"outcome": "injected"}
        go.write_text("")
        updates, result = await client.turn_of(id)
    assert said(updates) == "You said: two. "
    assert result["stopReason"] == "end_turn"


async def test_a_limit_of_the_cost_holds_for_an_agent_that_reports_none(harness: AgentHarness) -> None:
    configure(harness, f"{SANDBOX_OFF}[session]\ncost = 1\n")
    helper(harness, ANSWER)
    async with harness.client(environment=OTHER) as client:
        session = await client.new_session(harness.cwd)
        assert await prompt_text(client, session, "one") == "You said: one"
        updates, result = await client.turn(session, "two")
        assert result["stopReason"] == "max_turn_requests"
        assert "the price of the model is unknown" in said(updates)


async def test_cancel_reaches_the_agent(harness: AgentHarness) -> None:
    helper(harness, "await turn.say('begun')\nawait asyncio.Event().wait()")
    async with harness.client(environment=OTHER) as client:
        session = await client.new_session(harness.cwd)
        id = client.prompt(session, "go")
        await client.update("agent_message_chunk")
        client.cancel(session)
        assert (await client.turn_of(id))[1]["stopReason"] == "cancelled"


async def test_undo_takes_back_its_files_and_lets_it_begin_anew(harness: AgentHarness) -> None:
    helper(harness, "open(os.path.join(turn.session.cwd, 'made'), 'w')\nawait turn.say(f'You said: {task}')")
    async with harness.client(environment=OTHER, mode="full-access") as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "first")
        assert (harness.project / "made").exists()
        await client.turn(session, "/undo")
        assert await prompt_text(client, session, "second") == "You said: second"
