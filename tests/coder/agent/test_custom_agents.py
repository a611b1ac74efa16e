"""Custom agents in files, as sub-agents and as modes: what they restrict, trust, and broken files."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, ScriptedModel, configure, use
from tests.coder.agent.test_command_files import prompt_text
from tests.coder.agent.test_skills import answered, trusted

from accord.coder.definitions.agents import AgentDefinition, parse_agent
from accord.coder.definitions.definition_files import DefinitionFile, UnusableDefinition
from accord.coder.model_history import ToolResult, text_of
from accord.coder.models.model_name import ModelName

REVIEWER = (
    "---\ndescription: Reviews code\ntools: Read, Grep, Bash\nmode: ask\n---\nYou review code sternly.\n"
)


@pytest.fixture(autouse=True)
def home(harness: AgentHarness, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(harness.home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    configure(harness, SANDBOX_OFF)
    return harness.home


def put(folder: Path, name: str, text: str = REVIEWER) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(text)
    return path


def own_agent(harness: AgentHarness, name: str, text: str = REVIEWER) -> Path:
    return put(harness.home / "config" / "agents", name, text)


def tools_of(request: Any) -> set[str]:
    return {tool.name for tool in request.tools}


def results(request: Any) -> list[str]:
    return [text_of(message) for message in request.messages if isinstance(message, ToolResult)]


def delegate(**more: Any) -> Any:
    return use("agent", prompt="look at a.txt", **more)


async def mode_ids(client: Client, session: dict[str, Any]) -> list[str]:
    return [mode["id"] for mode in session["modes"]["availableModes"]]


class NamedModels:
    """Resolves each name to a model of its own."""

    def __init__(self, **models: ScriptedModel) -> None:
        self.models = models

    def __call__(self, name: ModelName) -> ScriptedModel:
        return self.models[name.name]


# -- sub-agents ----------------------------------------------------------------------------------------------


async def test_a_custom_agent_does_a_task_with_its_prompt_tools_and_model(harness: AgentHarness) -> None:
    own_agent(harness, "reviewer", REVIEWER.replace("mode: ask", "model: openai/other\nmaxTurns: 7"))
    main = ScriptedModel([delegate(agent="reviewer")], ["ok"])
    other = ScriptedModel(["Looks fine."])
    models = NamedModels(scripted=main, other=other)
    async with harness.client(model=models) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    [schema] = [tool.schema for tool in main.requests[0].tools if tool.name == "agent"]
    [description] = [tool.description for tool in main.requests[0].tools if tool.name == "agent"]
    assert schema["properties"]["agent"]["enum"] == ["reviewer"]
    assert "- reviewer: Reviews code" in description
    [request] = other.requests
    assert '<agent name="reviewer">\nYou review code sternly.\n</agent>' in text_of(request.messages[1])
    assert tools_of(request) == {"read_file", "grep", "bash", "job"}
    assert results(main.requests[-1]) == ["Looks fine."]


async def test_a_model_of_claude_code_is_one_of_anthropic(harness: AgentHarness) -> None:
    own_agent(harness, "reviewer", REVIEWER.replace("mode: ask", "model: claude-opus-5"))
    main, named = ScriptedModel([delegate(agent="reviewer")], ["ok"]), list[str]()

    def resolver(name: ModelName) -> ScriptedModel:
        named.append(str(name))
        return main if name.name == "scripted" else ScriptedModel(["Fine."])

    async with harness.client(model=resolver) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert named[-1] == "anthropic:claude-opus-5"
    assert results(main.requests[-1]) == ["Fine."]


async def test_the_mode_of_an_agent_restricts_its_acts_and_nothing_else(harness: AgentHarness) -> None:
    own_agent(harness, "reviewer")
    write = use("bash", command="touch made")
    model = ScriptedModel([delegate(agent="reviewer")], [write], ["Tried."], [write], ["ok"])
    async with harness.client(model=model, mode="full-access") as client:
        question = await answered(client, await client.new_session(harness.cwd), "go", "reject_once")
        assert question["toolCall"]["title"].startswith("Sub-agent reviewer: ")
    assert results(model.requests[2])[0].startswith("Permission denied.")
    assert (harness.project / "made").exists(), "the session itself still has full access"


async def test_an_agent_cannot_widen_the_mode_of_the_session(harness: AgentHarness) -> None:
    text = "---\ndescription: Anything\npermissionMode: bypassPermissions\nmode: full-access\n---\nDo it.\n"
    own_agent(harness, "bold", text)
    model = ScriptedModel([delegate(agent="bold")], [use("bash", command="touch made")], ["No."], ["ok"])
    async with harness.client(model=model, mode="ask") as client:
        question = await answered(client, await client.new_session(harness.cwd), "go", "reject_once")
    assert question["toolCall"]["title"].startswith("Sub-agent bold: ")
    assert results(model.requests[2])[0].startswith("Permission denied.")
    assert not (harness.project / "made").exists()


async def test_an_unknown_agent_is_one_line_for_the_model(harness: AgentHarness) -> None:
    own_agent(harness, "reviewer")
    model = ScriptedModel([delegate(agent="nobody")], ["ok"])
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert results(model.requests[-1]) == ["there is no agent 'nobody'; the agents are: reviewer"]


# -- modes ---------------------------------------------------------------------------------------------------


async def test_a_custom_agent_is_a_mode_of_the_session(harness: AgentHarness) -> None:
    own_agent(harness, "reviewer")
    own_agent(harness, "helper", REVIEWER.replace("mode: ask", "mode: subagent"))
    model = ScriptedModel(["one"], [use("bash", command="touch made")], ["two"], ["three"])
    async with harness.client(model=model, mode="full-access") as client:
        opened = await client.call("session/new", {"cwd": harness.cwd, "mcpServers": []})
        session = opened["sessionId"]
        assert "reviewer" in await mode_ids(client, opened)
        assert "helper" not in await mode_ids(client, opened)
        await client.turn(session, "go")
        await client.call("session/set_mode", {"sessionId": session, "modeId": "reviewer"})
        question = await answered(client, session, "review", "reject_once")
        assert "touch made" in json.dumps(question), "it works in `ask` although the session had full access"
        assert tools_of(model.requests[1]) == {"read_file", "grep", "bash", "job"}
        assert "You review code sternly." in "".join(map(text_of, model.requests[1].messages))
        assert "works in the mode `ask`" not in await prompt_text(client, session, "/mode workspace-write")
        await client.turn(session, "go on")
        assert "write_file" in tools_of(model.requests[-1])
        assert "no longer apply" in "".join(map(text_of, model.requests[-1].messages))


async def test_a_mode_restricts_the_subagents_of_the_session_as_well(harness: AgentHarness) -> None:
    own_agent(harness, "lead", "---\ndescription: Leads\ntools: Task, Read\n---\nDelegate.\n")
    model = ScriptedModel([delegate()], ["Read it."], ["ok"])
    async with harness.client(model=model, mode="full-access") as client:
        session = await client.new_session(harness.cwd)
        assert "It works in the mode `full-access`." in await prompt_text(client, session, "/mode lead")
        await client.turn(session, "go")
    assert tools_of(model.requests[0]) == {"agent", "read_file"}
    assert tools_of(model.requests[1]) == {"read_file"}


async def test_the_mode_is_kept_by_a_restart_and_never_widened(harness: AgentHarness) -> None:
    file = own_agent(harness, "reviewer", REVIEWER.replace("mode: ask", ""))
    async with harness.client(model=ScriptedModel(["one"]), mode="full-access") as client:
        session = await client.new_session(harness.cwd)
        await client.call("session/set_mode", {"sessionId": session, "modeId": "read-only"})
        await client.call("session/set_mode", {"sessionId": session, "modeId": "reviewer"})
        await client.turn(session, "go")
        file.unlink()
        await client.turn(session, "go on")
    file.write_text(REVIEWER.replace("mode: ask", ""))
    model = ScriptedModel([use("bash", command="touch made")])
    async with harness.client(model=model, mode="full-access") as client:
        opened = await client.call(
            "session/load", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []}
        )
        assert opened["modes"]["currentModeId"] == "reviewer"
        await answered(client, session, "again", "reject_once")
        assert tools_of(model.requests[0]) == {"read_file", "grep", "bash", "job"}


# -- projects ------------------------------------------------------------------------------------------------


async def test_agents_of_a_project_count_only_once_trusted(harness: AgentHarness) -> None:
    file = put(harness.project / ".claude" / "agents", "reviewer")
    model = ScriptedModel(["one"], ["two"], ["three"])
    async with harness.client(model=model, mode="full-access") as client:
        opened = await client.call("session/new", {"cwd": harness.cwd, "mcpServers": []})
        session = opened["sessionId"]
        assert "reviewer" not in await mode_ids(client, opened)
        await client.turn(session, "go")
        assert "reviewer" not in repr(model.requests[-1])
        question = await answered(client, session, "/agents trust", "allow_always")
        assert "You review code sternly." in json.dumps(question)
        listed = [u["configOptions"] for u in client.updates_of("config_option_update")][-1]
        [mode] = [option for option in listed if option["id"] == "mode"]
        assert mode["options"][-1]["value"] == "reviewer"
        await client.turn(session, "go on")
        assert "- reviewer: Reviews code" in repr(model.requests[-1].tools)

        await client.call("session/set_mode", {"sessionId": session, "modeId": "reviewer"})
        file.write_text(REVIEWER.replace("tools: Read, Grep, Bash\n", "") + "Now with everything.\n")
        await client.turn(session, "and on")
        assert tools_of(model.requests[-1]) == {"read_file", "grep", "bash", "job"}, "as it was when chosen"
        assert "everything" not in repr(model.requests[-1].messages)
        await client.call("session/set_mode", {"sessionId": session, "modeId": "ask"})
        await client.turn(session, "/help")
        error = await client.error("session/set_mode", {"sessionId": session, "modeId": "reviewer"})
        assert error["code"] == -32602


# -- files ---------------------------------------------------------------------------------------------------


def parsed(text: str, name: str = "reviewer") -> AgentDefinition:
    return parse_agent(DefinitionFile(name, "/a.md", "/", "a.md", text, False))


def kept(agent: AgentDefinition) -> set[str]:
    names = ["read_file", "write_file", "edit_file", "bash", "web_fetch", "github__issues", "plan"]
    return {name for name in names if agent.tools.keeps(name)}


@pytest.mark.parametrize(
    ("header", "tools", "mode"),
    [
        ("tools: Read, Write", {"read_file", "write_file"}, None),
        ("tools: [read_file, 'Bash(git *)']\npermissionMode: plan", {"read_file", "bash"}, "read-only"),
        ("disallowedTools: Write, Edit, mcp__github", {"read_file", "bash", "web_fetch", "plan"}, None),
        ("mode: subagent\ntools:\n  write: false\n  edit: false\n  bash: false\n  github*: false",
         {"read_file", "web_fetch", "plan"}, None),
        ("tools:\n  '*': false\n  read: true", {"read_file"}, None),
        ("permission:\n  edit: deny\n  bash:\n    'git *': allow\n    '*': ask\n  webfetch: deny",
         {"read_file", "bash", "github__issues", "plan"}, "ask"),
        ("permission:\n  bash:\n    '*': deny\n    'git *': allow", {"read_file", "write_file", "edit_file",
         "web_fetch", "github__issues", "plan"}, None),
        ("mode: read-only\ntools: '*'", None, "read-only"),
        ("disallowedTools: [Write,\n  Edit, Bash, WebFetch]", {"read_file", "github__issues", "plan"}, None),
        ("disallowed-tools:\n  [Write, Edit, Bash, mcp__*]", {"read_file", "web_fetch", "plan"}, None),
        ("permission: {edit: deny, bash: {'*': deny, 'git *': allow}}",
         {"read_file", "web_fetch", "github__issues", "plan"}, None),
        ("permission: {\n  edit: deny,\n  bash: ask\n}\nmode: primary",
         {"read_file", "bash", "web_fetch", "github__issues", "plan"}, "ask"),
        ("permission:\n\tedit: deny", {"read_file", "bash", "web_fetch", "github__issues", "plan"}, None),
        ("mode: whatever\ntools: []", set[str](), "read-only"),
    ],
)  # fmt: skip
def test_files_of_other_agents_are_read(header: str, tools: set[str] | None, mode: str | None) -> None:
    agent = parsed(f"---\ndescription: D\n{header}\n---\nP")
    assert kept(agent) == (kept(AgentDefinition("a", "", "", "", "", False)) if tools is None else tools)
    assert agent.mode == mode


@pytest.mark.parametrize(
    ("model", "read"),
    [
        ("sonnet", None),
        ("opus[1m]", None),
        ("inherit", None),
        ("haiku", "haiku"),
        ("claude-opus-4-1-20250805", "claude-opus-4-1-20250805"),
        ("anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gpt-5", "gpt-5"),
    ],
)
def test_names_of_models_are_read(model: str, read: str | None) -> None:
    assert parsed(f"---\ndescription: D\nmodel: {model}\n---\nP").model == read


@pytest.mark.parametrize(
    "header",
    [
        "disallowedTools: [Bash, [Write]",
        "disallowedTools: &all [Bash]",
        "permission: {bash: deny",
        "permission:\n  bash: &no deny",
        "permission:\n  - bash",
        "permission: {a: " + "[" * 9000,
    ],
)
def test_what_a_file_denies_is_never_lost(header: str) -> None:
    with pytest.raises(UnusableDefinition):
        parsed(f"---\ndescription: D\n{header}\n---\nP")


async def test_files_that_cannot_be_used_are_named_with_the_reason(harness: AgentHarness) -> None:
    own_agent(harness, "plain", "No header")
    own_agent(harness, "ask", REVIEWER)
    own_agent(harness, "two words", REVIEWER)
    own_agent(harness, "off", REVIEWER.replace("mode: ask", "disable: true"))
    own_agent(harness, "huge", REVIEWER + "x" * 70_000)
    own_agent(harness, "opus", REVIEWER.replace("mode: ask", "model: opus"))
    own_agent(harness, "checked", REVIEWER.replace("mode: ask", "hooks:\n  PreToolUse: []"))
    trusted(put(harness.project / ".opencode" / "agent", "opus", REVIEWER))
    async with harness.client(["ok"]) as client:
        session = await client.new_session(harness.cwd)
        told = await prompt_text(client, session, "/help")
        listed = await prompt_text(client, session, "/agents")
    for name, reason in {
        "plain.md": "its header has no description",
        "ask.md": "`ask` is a mode of Accord",
        "two words.md": "letters, digits",
        "off.md": "its header disables it",
        "huge.md": "more than 65,536 bytes",
        "agents/opus.md": "has no version",
        "checked.md": "its `hooks` are not used",
    }.items():
        assert any(name in line and reason in line for line in told.splitlines()), (name, told)
    assert "has the same name and is nearer" in told
    assert "- `opus`: Reviews code (in `.opencode/agent/opus.md`; at most mode `ask`" in listed
