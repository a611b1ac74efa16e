"""The agent's own slash commands in whole turns: what they say, what they change, and what the model hears of it."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.agent.scene import Client
from tests.coder.agent.desk import Desk, ScriptedModel, use

from accord.coder.messages import text_of

PLAIN: dict[str, Any] = {}
EVERYTHING = Path(__file__).parents[1] / "mcp" / "everything.py"


def words(updates: list[Any]) -> str:
    return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")


async def say(client: Client, session: str, prompt: str | list[Any]) -> str:
    """What is answered to a prompt."""
    updates, result = await client.turn(session, prompt)
    assert result["stopReason"] == "end_turn"
    return words(updates)


async def test_the_commands_are_offered_when_a_session_opens(desk: Desk) -> None:
    async with desk.client(capabilities=PLAIN) as client:
        await client.new_session(desk.cwd)
        offered = (await client.update("available_commands_update"))["availableCommands"]
    names = [command["name"] for command in offered]
    assert names == ["help", "model", "mode", "plan", "compact", "usage", "init", "tools", "mcp"]
    hints = {command["name"]: command.get("input", {}).get("hint") for command in offered}
    assert hints["model"] == "provider:name"
    assert hints["help"] is None


@pytest.mark.parametrize(
    "prompt",
    [
        "/etc/hosts, what is it?",
        "/nothing",
        "/",
        "//help",
        "/helpful",
        "help",
        "say /help",
        "/ help",
        "/HELP",
    ],
)
async def test_what_names_no_command_is_a_prompt(desk: Desk, prompt: str) -> None:
    model = ScriptedModel(["I see."])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        assert await say(client, await client.new_session(desk.cwd), prompt) == "I see."
    assert model.prompts == [prompt]


@pytest.mark.parametrize(
    "prompt", ["/help", "  /help  ", "/help\n", "/mcp", "/usage", "/tools", "/mode", "/model"]
)
async def test_a_command_is_answered_without_the_model_and_stays_out_of_its_memory(
    desk: Desk, prompt: str
) -> None:
    model = ScriptedModel(["Hello."])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        said = await say(client, session, prompt)
        assert said
        assert model.requests == []
        await say(client, session, "hi")
        assert model.prompts == ["hi"]
    async with desk.client(model=model, capabilities=PLAIN) as client:
        await client.call("session/load", {"sessionId": session, "cwd": desk.cwd, "mcpServers": []})
        replayed = [update["content"]["text"] for update in client.said("agent_message_chunk")]
    assert replayed == [said, "Hello."], "what a command said is in the log"


async def test_help_lists_them_all(desk: Desk) -> None:
    async with desk.client(capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        said = await say(client, session, "/help")
        for name in ("help", "model", "mode", "plan", "compact", "usage", "init", "tools", "mcp"):
            assert f"`/{name}" in said
        assert "is an ordinary prompt" in said
        assert (await say(client, session, "/help /mode")).startswith("`/mode [name]`:")
        assert "There is no command `/nope`" in await say(client, session, "/help nope")


async def test_mode_lists_changes_and_refuses(desk: Desk) -> None:
    async with desk.client(capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        said = await say(client, session, "/mode")
        assert "`ask` **(current)**" in said
        assert said.count("(current)") == 1
        updates, _ = await client.turn(session, "/mode Read_Only")
        assert {"sessionUpdate": "current_mode_update", "currentModeId": "read-only"} in updates
        assert "`read-only` now" in words(updates)
        assert "already" in await say(client, session, "/mode read-only")
        updates, _ = await client.turn(session, "/mode god")
        assert words(updates).startswith("There is no mode `god`; the modes are read-only, ask")
        assert [update["sessionUpdate"] for update in updates] == ["agent_message_chunk"]


async def test_plan_changes_the_mode_and_asks(desk: Desk) -> None:
    model = ScriptedModel(["A plan."], ["Done."])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        updates, _ = await client.turn(session, "/plan\nhow to paint the shed\nin two days")
        assert {"sessionUpdate": "current_mode_update", "currentModeId": "plan"} in updates
        assert words(updates) == "A plan."
        assert "how to paint the shed\nin two days" in model.prompts
        assert "leave_plan_mode" in [tool.name for tool in model.requests[0].tools]
        assert "`plan` already" in await say(client, session, "/plan")
        assert len(model.requests) == 1


async def test_plan_mode_is_left_for_the_mode_before_it(desk: Desk) -> None:
    model = ScriptedModel([use("leave_plan_mode", plan="paint it")], ["Painting."])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        await client.turn(session, "/mode workspace-write")
        id = client.prompt(session, "/plan paint the shed")
        question = await client.asked("session/request_permission")
        client.raw.reply(question, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        updates, _ = await client.turn_of(id)
        assert {"sessionUpdate": "current_mode_update", "currentModeId": "workspace-write"} in updates


async def test_model_lists_changes_and_refuses(desk: Desk) -> None:
    environment = {
        "ACCORD_MODEL": "rehearsal",
        "OPENAI_API_KEY": "sk-none",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
    }
    async with desk.client(capabilities=PLAIN, environment=environment) as client:
        session = await client.new_session(desk.cwd)
        assert "`rehearsal` **(current)**" in await say(client, session, "/model")
        said = await say(client, session, "/model gpt-5")
        assert said.startswith("The model stays `rehearsal`: ")
        assert "provider:name" in said
        updates, _ = await client.turn(session, "/model openai/gpt-5")
        assert words(updates) == "The model is `openai:gpt-5` now."
        [told] = [update for update in updates if update["sessionUpdate"] == "config_option_update"]
        assert {o["id"]: o["currentValue"] for o in told["configOptions"]}["model"] == "openai:gpt-5"
        assert "is `openai:gpt-5` already" in await say(client, session, "/model gpt-5")
        said = await say(client, session, "/model anthropic:claude")
        assert said.startswith("The model stays `openai:gpt-5`: ")
        assert "ANTHROPIC_API_KEY" in said


async def test_usage_tells_what_was_used(desk: Desk) -> None:
    async with desk.client(["Hello."], capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        assert "Nothing used yet" in await say(client, session, "/usage")
        await client.turn(session, "hi")
        said = await say(client, session, "/usage")
    assert "Requests to the model: 1" in said
    assert "Tokens read: 100" in said
    assert "Cost: $0.0100" in said
    assert "110 of 100,000 tokens" in said


async def test_tools_tells_what_is_in_force(desk: Desk) -> None:
    (desk.home / "config").mkdir()
    (desk.home / "config" / "config.toml").write_text(
        '[sandbox]\nenabled = false\n[permissions]\ndeny = [{ command = "rm *" }]\n'
    )
    async with desk.client(capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        said = await say(client, session, "/tools")
        assert "Mode `ask`" in said
        for name in ("read_file", "edit_file", "bash"):
            assert f"`{name}`" in said
        assert "`leave_plan_mode`" not in said
        assert "switched off in your config; commands run with all your rights" in said
        assert "1 deny" in said
        await client.turn(session, "/mode plan")
        assert "`leave_plan_mode`" in await say(client, session, "/tools")


def wait_for_servers(desk: Desk) -> None:
    """A machine may be slow; what is tested is not how fast servers start."""
    (desk.home / "config").mkdir()
    (desk.home / "config" / "config.toml").write_text("[mcp]\nstart_seconds = 60\n")


async def test_mcp_tells_how_the_servers_stand(desk: Desk) -> None:
    wait_for_servers(desk)
    async with desk.client(capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        assert "no MCP servers" in await say(client, session, "/mcp")
        broken = {"name": "broken", "command": "/no/such/program", "args": [], "env": []}
        session = await client.new_session(desk.cwd, mcpServers=[broken])
        said = await say(client, session, "/mcp")
    assert "`broken` (stdio): failed: " in said


async def test_prompts_of_servers_are_commands(desk: Desk) -> None:
    wait_for_servers(desk)
    server = {"name": "every", "command": sys.executable, "args": [str(EVERYTHING)], "env": []}
    model = ScriptedModel(["Reviewed."])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd, mcpServers=[server])
        said = await say(client, session, "/mcp")
        assert "`every` (stdio): ready; " in said
        assert "1 prompt" in said
        offered = client.said("available_commands_update")[-1]["availableCommands"]
        assert offered[-1]["name"] == "every:review"
        assert offered[-1]["input"] == {"hint": "file [style]"}
        said = await say(client, session, "/every:review")
        assert "Nothing was asked: /every:review needs file" in said
        assert model.requests == []
        assert await say(client, session, "/every:review a.py") == "Reviewed."
    assert "Review {'file': 'a.py'}." in model.prompts


async def test_init_asks_for_the_file_with_the_users_wishes(desk: Desk) -> None:
    model = ScriptedModel(["Written."])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        assert (
            await say(client, await client.new_session(desk.cwd), "/init mention the harbour") == "Written."
        )
    [task] = model.prompts
    assert "AGENTS.md" in task
    assert task.endswith("mention the harbour")


async def test_compact_makes_the_memory_smaller(desk: Desk) -> None:
    long = "word " * 3000
    model = ScriptedModel([long], [long], [long], [long], ["We spoke of words."], ["And on."])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        assert "nothing to compact" in await say(client, session, "/compact")
        for number in range(4):
            await client.turn(session, f"speak {number}")
        said = await say(client, session, "/compact the colours")
        assert "Context compacted" in said
        assert any("the colours" in text_of(message) for message in model.requests[4].messages)
        await client.turn(session, "go on")
    assert sum(map(len, model.prompts)) < 4 * len(long)
    assert model.prompts[-1] == "go on"


async def test_what_is_attached_to_a_command_goes_along(desk: Desk) -> None:
    model = ScriptedModel(["Planned."])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        prompt = [
            {"type": "text", "text": "/plan paint it"},
            {"type": "resource_link", "uri": "file:///shed.md", "name": "shed.md"},
            {"type": "text", "text": "and soon"},
        ]
        await say(client, session, prompt)
    prompted = [message for message in model.requests[0].messages if "paint it" in text_of(message)]
    assert "file:///shed.md" in text_of(prompted[0])
    assert "and soon" in text_of(prompted[0])
