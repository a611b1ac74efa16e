"""The built-in slash commands in whole turns: their output, their effects, and what reaches the model."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import AgentHarness, ScriptedModel, use

from accord.coder.model_history import text_of

NO_CAPABILITIES: dict[str, Any] = {}
EVERYTHING = Path(__file__).parents[1] / "mcp" / "everything_server.py"


def agent_text(updates: list[Any]) -> str:
    return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")


async def prompt_text(client: Client, session: str, prompt: str | list[Any]) -> str:
    """Send a prompt and return the agent's text."""
    updates, result = await client.turn(session, prompt)
    assert result["stopReason"] == "end_turn"
    return agent_text(updates)


async def test_commands_are_announced_when_a_session_opens(harness: AgentHarness) -> None:
    async with harness.client(capabilities=NO_CAPABILITIES) as client:
        await client.new_session(harness.cwd)
        offered = (await client.update("available_commands_update"))["availableCommands"]
    names = [command["name"] for command in offered]
    assert names == [
        "help",
        "model",
        "mode",
        "plan",
        "compact",
        "undo",
        "redo",
        "rewind",
        "usage",
        "init",
        "memory",
        "tools",
        "skills",
        "agents",
        "hooks",
        "mcp",
    ]
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
async def test_text_that_is_not_a_command_is_a_prompt(harness: AgentHarness, prompt: str) -> None:
    model = ScriptedModel(["I see."])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        assert await prompt_text(client, await client.new_session(harness.cwd), prompt) == "I see."
    assert model.prompts == [prompt]


@pytest.mark.parametrize(
    "prompt", ["/help", "  /help  ", "/help\n", "/mcp", "/usage", "/tools", "/mode", "/model"]
)
async def test_command_is_answered_without_the_model_and_stays_out_of_its_history(
    harness: AgentHarness, prompt: str
) -> None:
    model = ScriptedModel(["Hello."])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        said = await prompt_text(client, session, prompt)
        assert said
        assert model.requests == []
        await prompt_text(client, session, "hi")
        assert model.prompts == ["hi"]
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        await client.call("session/load", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        replayed = [update["content"]["text"] for update in client.updates_of("agent_message_chunk")]
    assert replayed == [said, "Hello."], "the output of a command is logged"


async def test_help_lists_all_commands(harness: AgentHarness) -> None:
    async with harness.client(capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        said = await prompt_text(client, session, "/help")
        for name in [
            "help",
            "model",
            "mode",
            "plan",
            "compact",
            "undo",
            "redo",
            "rewind",
            "usage",
            "init",
            "tools",
            "skills",
            "agents",
            "mcp",
        ]:
            assert f"`/{name}" in said
        assert "is an ordinary prompt" in said
        assert (await prompt_text(client, session, "/help /mode")).startswith("`/mode [name]`:")
        assert "There is no command `/nope`" in await prompt_text(client, session, "/help nope")


async def test_mode_command_lists_changes_and_rejects(harness: AgentHarness) -> None:
    async with harness.client(capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        said = await prompt_text(client, session, "/mode")
        assert "`ask` **(current)**" in said
        assert said.count("(current)") == 1
        updates, _ = await client.turn(session, "/mode Read_Only")
        assert {"sessionUpdate": "current_mode_update", "currentModeId": "read-only"} in updates
        assert "`read-only` now" in agent_text(updates)
        assert "already" in await prompt_text(client, session, "/mode read-only")
        updates, _ = await client.turn(session, "/mode god")
        assert agent_text(updates).startswith("There is no mode `god`; the modes are read-only, ask")
        assert [update["sessionUpdate"] for update in updates] == ["agent_message_chunk"]


async def test_plan_command_changes_mode_and_prompts_the_model(harness: AgentHarness) -> None:
    model = ScriptedModel(["A plan."], ["Done."])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        updates, _ = await client.turn(session, "/plan\nhow to paint the shed\nin two days")
        assert {"sessionUpdate": "current_mode_update", "currentModeId": "plan"} in updates
        assert agent_text(updates) == "A plan."
        assert "how to paint the shed\nin two days" in model.prompts
        assert "leave_plan_mode" in [tool.name for tool in model.requests[0].tools]
        assert "already `plan`" in await prompt_text(client, session, "/plan")
        assert len(model.requests) == 1


async def test_leaving_plan_mode_restores_the_previous_mode(harness: AgentHarness) -> None:
    model = ScriptedModel([use("leave_plan_mode", plan="paint it")], ["Painting."])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "/mode workspace-write")
        id = client.prompt(session, "/plan paint the shed")
        question = await client.asked("session/request_permission")
        client.raw.reply(question, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        updates, _ = await client.turn_of(id)
        assert {"sessionUpdate": "current_mode_update", "currentModeId": "workspace-write"} in updates


async def test_model_command_lists_changes_and_rejects(harness: AgentHarness) -> None:
    environment = {
        "ACCORD_MODEL": "rehearsal",
        "OPENAI_API_KEY": "sk-none",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
    }
    async with harness.client(capabilities=NO_CAPABILITIES, environment=environment) as client:
        session = await client.new_session(harness.cwd)
        assert "`rehearsal` **(current)**" in await prompt_text(client, session, "/model")
        said = await prompt_text(client, session, "/model gpt-5")
        assert said.startswith("The model stays `rehearsal`: ")
        assert "provider:name" in said
        updates, _ = await client.turn(session, "/model openai/gpt-5")
        assert agent_text(updates) == "The model is `openai:gpt-5` now."
        [received] = [update for update in updates if update["sessionUpdate"] == "config_option_update"]
        assert {o["id"]: o["currentValue"] for o in received["configOptions"]}["model"] == "openai:gpt-5"
        assert "is already `openai:gpt-5`" in await prompt_text(client, session, "/model gpt-5")
        said = await prompt_text(client, session, "/model anthropic:claude")
        assert said.startswith("The model stays `openai:gpt-5`: ")
        assert "ANTHROPIC_API_KEY" in said


async def test_usage_command_reports_tokens_and_cost(harness: AgentHarness) -> None:
    async with harness.client(["Hello."], capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        assert "Nothing used yet" in await prompt_text(client, session, "/usage")
        await client.turn(session, "hi")
        said = await prompt_text(client, session, "/usage")
    assert "Requests to the model: 1" in said
    assert "Tokens read: 100" in said
    assert "Cost: $0.0100" in said
    assert "110 of 100,000 tokens" in said


async def test_tools_command_reports_tools_sandbox_and_rules(harness: AgentHarness) -> None:
    (harness.home / "config").mkdir()
    (harness.home / "config" / "config.toml").write_text(
        '[sandbox]\nenabled = false\n[permissions]\ndeny = [{ command = "rm *" }]\n'
    )
    async with harness.client(capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        said = await prompt_text(client, session, "/tools")
        assert "Mode `ask`" in said
        for name in ("read_file", "edit_file", "bash"):
            assert f"`{name}`" in said
        assert "`leave_plan_mode`" not in said
        assert "switched off in your config; commands run with all your rights" in said
        assert "1 deny" in said
        await client.turn(session, "/mode plan")
        assert "`leave_plan_mode`" in await prompt_text(client, session, "/tools")


def wait_for_servers(harness: AgentHarness) -> None:
    """Allow slow machines a long server start."""
    (harness.home / "config").mkdir()
    (harness.home / "config" / "config.toml").write_text("[mcp]\nstart_seconds = 60\n")


async def test_mcp_command_reports_server_state(harness: AgentHarness) -> None:
    wait_for_servers(harness)
    async with harness.client(capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        assert "no MCP servers" in await prompt_text(client, session, "/mcp")
        broken = {"name": "broken", "command": "/no/such/program", "args": [], "env": []}
        session = await client.new_session(harness.cwd, mcpServers=[broken])
        said = await prompt_text(client, session, "/mcp")
    assert "`broken` (stdio): failed: " in said


async def test_the_session_and_the_mcp_command_show_the_started_command_without_secrets(
    harness: AgentHarness,
) -> None:
    wait_for_servers(harness)
    words = [str(EVERYTHING), "--api-key", "sk-verysecret1", "--note", "from-the-variable"]
    server = {
        "name": "every",
        "command": sys.executable,
        "args": words,
        "env": [{"name": "X", "value": "from-the-variable"}],
    }
    shown = f"{sys.executable} {EVERYTHING} --api-key "
    async with harness.client(capabilities={"session": {"notices": {}}}) as client:
        session = await client.new_session(harness.cwd, mcpServers=[server])
        while not (notices := [n for n in client.updates_of("notice") if "MCP" in n["title"]]):
            await client.update("notice")
        said = await prompt_text(client, session, "/mcp")
    assert notices[0]["title"] == "Started MCP servers of the client"
    assert notices[0]["description"].startswith(f"every: {shown}")
    assert f"; started with `{shown}" in said
    for text in (said, notices[0]["description"]):
        assert "sk-verysecret1" not in text
        assert "from-the-variable" not in text


async def test_a_client_without_notices_finds_the_started_command_on_stderr(
    harness: AgentHarness, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for_servers(harness)
    broken = {"name": "broken", "command": "/no/such/program", "args": ["-v"], "env": []}
    async with harness.client(capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd, mcpServers=[broken])
        assert "started with `/no/such/program -v`" in await prompt_text(client, session, "/mcp")
    assert "accord agent: started the MCP server broken: /no/such/program -v\n" in capsys.readouterr().err


async def test_mcp_prompts_are_commands(harness: AgentHarness) -> None:
    wait_for_servers(harness)
    server = {"name": "every", "command": sys.executable, "args": [str(EVERYTHING)], "env": []}
    model = ScriptedModel(["Reviewed."])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd, mcpServers=[server])
        said = await prompt_text(client, session, "/mcp")
        assert "`every` (stdio): ready; " in said
        assert "1 prompt" in said
        offered = client.updates_of("available_commands_update")[-1]["availableCommands"]
        assert offered[-1]["name"] == "every:review"
        assert offered[-1]["input"] == {"hint": "file [style]"}
        said = await prompt_text(client, session, "/every:review")
        assert "The prompt was not sent: /every:review needs file" in said
        assert model.requests == []
        assert await prompt_text(client, session, "/every:review a.py") == "Reviewed."
    assert "Review {'file': 'a.py'}." in model.prompts


async def test_init_command_asks_for_agents_md_with_the_user_text(harness: AgentHarness) -> None:
    model = ScriptedModel(["Written."])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        assert (
            await prompt_text(client, await client.new_session(harness.cwd), "/init mention the harbour")
            == "Written."
        )
    [task] = model.prompts
    assert "AGENTS.md" in task
    assert task.endswith("mention the harbour")


async def test_compact_command_shrinks_the_history(harness: AgentHarness) -> None:
    long = "word " * 3000
    model = ScriptedModel([long], [long], [long], [long], ["We spoke of words."], ["And on."])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        assert "nothing to compact" in await prompt_text(client, session, "/compact")
        for number in range(4):
            await client.turn(session, f"speak {number}")
        said = await prompt_text(client, session, "/compact the colours")
        assert "Context compacted" in said
        assert any("the colours" in text_of(message) for message in model.requests[4].messages)
        await client.turn(session, "go on")
    assert sum(map(len, model.prompts)) < 4 * len(long)
    assert model.prompts[-1] == "go on"


async def test_attachments_of_a_command_reach_the_model(harness: AgentHarness) -> None:
    model = ScriptedModel(["Planned."])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        prompt = [
            {"type": "text", "text": "/plan paint it"},
            {"type": "resource_link", "uri": "file:///shed.md", "name": "shed.md"},
            {"type": "text", "text": "and soon"},
        ]
        await prompt_text(client, session, prompt)
    prompted = [message for message in model.requests[0].messages if "paint it" in text_of(message)]
    assert "file:///shed.md" in text_of(prompted[0])
    assert "and soon" in text_of(prompted[0])
