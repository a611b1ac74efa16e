"""Skills in whole turns: where they are found, what the model and the user see, trust, and broken files."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, ScriptedModel, choose, configure, use
from tests.coder.agent.test_command_files import offered, prompt_text

from accord.coder.definitions import definition_files
from accord.coder.definitions.front_matter import read_markdown
from accord.coder.model_history import ToolResult, text_of
from accord.policy import TrustStore

SKILL = "---\nname: {name}\ndescription: Make {name} things\n---\nHow to make {name} things: carefully.\n"


@pytest.fixture(autouse=True)
def home(harness: AgentHarness, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(harness.home))
    configure(harness, SANDBOX_OFF)
    return harness.home


def put(folder: Path, name: str, text: str = SKILL, file: str = "SKILL.md") -> Path:
    """Write a file of a skill."""
    path = folder / name / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("{name}", name))
    return path


def trusted(path: Path) -> Path:
    TrustStore().trust(path, path.read_bytes())
    return path


def names_of(model: ScriptedModel) -> list[str]:
    """The names that the tool `skill` offers."""
    tools = {tool.name: tool for tool in model.requests[-1].tools}
    return tools["skill"].schema["properties"]["name"]["enum"] if "skill" in tools else []


def results(model: ScriptedModel) -> list[str]:
    return [text_of(message) for message in model.requests[-1].messages if isinstance(message, ToolResult)]


async def test_the_model_knows_skills_by_description_and_loads_one(harness: AgentHarness, home: Path) -> None:
    folder = home / ".agents" / "skills"
    put(folder, "pdf")
    put(folder, "pdf", "A form\n", "references/form.md")
    put(harness.home / "config" / "skills", "chart")
    model = ScriptedModel([use("skill", name="pdf")], [use("skill", name="pdf")])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "make a pdf")
    assert "- pdf: Make pdf things\n- chart: Make chart things" in model.requests[0].system
    assert "carefully" not in model.requests[0].system
    assert names_of(model) == ["pdf", "chart"]
    first, again = results(model)
    real = os.path.realpath(folder / "pdf")
    assert first.startswith(
        f'<skill name="pdf" folder="{real}">\nHow to make pdf things: carefully.\n</skill>'
    )
    assert "references/form.md" in first
    assert "loaded already" in again


async def test_without_skills_there_is_no_tool_and_no_section(harness: AgentHarness) -> None:
    model = ScriptedModel()
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert "# Skills" not in model.requests[0].system
    assert names_of(model) == []


async def test_files_of_a_loaded_skill_are_read_without_a_question(harness: AgentHarness, home: Path) -> None:
    folder = home / ".agents" / "skills"
    put(folder, "pdf")
    form = put(folder, "pdf", "A form\n", "references/form.md")
    other = put(folder, "other", "Another\n", "notes.md")
    model = ScriptedModel(
        [use("skill", name="pdf")],
        [use("read_file", path=str(form)), use("grep", pattern="form", path=str(folder / "pdf"))],
        [use("read_file", path=str(other))],
    )
    async with harness.client(model=model) as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        question = await client.asked("session/request_permission")
        assert "notes.md" in question["params"]["toolCall"]["title"], "only the loaded skill's folder is open"
        choose(client, question, "reject_once")
        await client.turn_of(prompt)
    assert "A form" in results(model)[1]


async def test_writing_beside_a_loaded_skill_needs_permission(harness: AgentHarness, home: Path) -> None:
    put(home / ".agents" / "skills", "pdf")
    model = ScriptedModel(
        [use("skill", name="pdf")],
        [use("write_file", path=str(home / ".agents" / "skills" / "pdf" / "new.md"), content="x")],
    )
    async with harness.client(model=model, mode="workspace-write") as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        choose(client, await client.asked("session/request_permission"), "reject_once")
        await client.turn_of(prompt)


async def test_a_skill_is_a_command_with_arguments(harness: AgentHarness, home: Path) -> None:
    text = (
        "---\nname: release\ndescription: Release it\nargument-hint: [version]\n"
        "allowed-tools: Bash(git:*) Read\ndisable-model-invocation: true\n---\nRelease $ARGUMENTS now.\n"
    )
    put(home / ".claude" / "skills", "release", text)
    put(home / ".claude" / "skills", "help")
    model = ScriptedModel(["ok"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        commands = await offered(client)
        assert commands["release"] == {
            "name": "release", "description": "Release it", "input": {"hint": "[version]"},
        }  # fmt: skip
        assert "skill:help" in commands, "a taken name gets a prefix"
        await prompt_text(client, session, "/release 1.2")
        assert "Release 1.2 now." in model.prompts[-1]
        assert model.prompts[-1].endswith("/release 1.2")
        assert names_of(model) == ["help"], "the model may not start it"
        told = await prompt_text(client, session, "/help release")
        assert "`Bash(git:*) Read`. This is not granted." in told


async def test_a_loaded_session_knows_its_skills(harness: AgentHarness, home: Path) -> None:
    folder = home / ".agents" / "skills"
    put(folder, "pdf", SKILL.replace("---\nHow", "user-invocable: false\n---\nHow"))
    form = put(folder, "pdf", "A form\n", "form.md")
    async with harness.client(model=ScriptedModel([use("skill", name="pdf")])) as client:
        session = await client.new_session(harness.cwd)
        assert "pdf" not in await offered(client), "only the model may start it"
        await client.turn(session, "go")
    model = ScriptedModel([use("skill", name="pdf"), use("read_file", path=str(form))])
    async with harness.client(model=model) as client:
        await client.call("session/load", {"sessionId": session, "cwd": harness.cwd, "mcpServers": []})
        await client.turn(session, "go on")
    assert "loaded already" in results(model)[-2]
    assert "A form" in results(model)[-1]


async def test_allowed_tools_permit_nothing(harness: AgentHarness, home: Path) -> None:
    put(home / ".agents" / "skills", "shell", SKILL.replace("---\nHow", "allowed-tools: Bash\n---\nHow"))
    model = ScriptedModel([use("skill", name="shell")], [use("bash", command="touch made")])
    async with harness.client(model=model) as client:
        prompt = client.prompt(await client.new_session(harness.cwd))
        choose(client, await client.asked("session/request_permission"), "reject_once")
        await client.turn_of(prompt)
    assert not (harness.project / "made").exists()


# -- projects ------------------------------------------------------------------------------------------------


async def answered(client: Client, session: str, prompt: str, kind: str) -> dict[str, Any]:
    """Run a prompt and answer its question. Returns the question."""
    id = client.prompt(session, prompt)
    question = await client.asked("session/request_permission")
    choose(client, question, kind)
    await client.turn_of(id)
    return question["params"]


@pytest.mark.parametrize("mode", ["ask", "full-access"])
async def test_skills_of_a_project_count_only_once_trusted(harness: AgentHarness, mode: str) -> None:
    file = put(harness.project / ".agents" / "skills", "deploy")
    model = ScriptedModel(["one"], ["two"], ["three"])
    async with harness.client(model=model, mode=mode) as client:
        session = await client.new_session(harness.cwd)
        deploy = (await offered(client))["deploy"]
        assert "not trusted yet" in deploy["description"]
        assert "Make deploy" not in json.dumps(deploy)
        await client.turn(session, "go")
        assert "deploy" not in model.requests[-1].system
        assert names_of(model) == []

        question = await answered(client, session, "/deploy", "reject_once")
        assert "carefully" in json.dumps(question)
        assert len(model.requests) == 1

        await answered(client, session, "/skills trust", "allow_always")
        assert TrustStore().is_trusted(file, file.read_bytes())
        await client.turn(session, "go on")
        assert names_of(model) == ["deploy"]
        assert "There are new skills now:\n- deploy: Make deploy things" in "".join(model.prompts)

        file.write_text(file.read_text() + "Now with fire.\n")
        await client.turn(session, "again")
        assert names_of(model) == [], "a changed file must be trusted again"


async def test_a_skill_outside_of_a_folder_hides_no_others(harness: AgentHarness, home: Path) -> None:
    folder = home / ".agents" / "skills"
    put(folder, "house")
    put(folder, ".")
    model = ScriptedModel()
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    assert "house" in names_of(model)


async def test_the_nearest_skill_of_a_repository_wins(harness: AgentHarness, home: Path) -> None:
    (harness.project / ".git").mkdir()
    below = harness.project / "app"
    below.mkdir()
    trusted(put(below / ".claude" / "skills", "deploy", SKILL.replace("carefully", "near")))
    trusted(put(harness.project / ".agents" / "skills", "deploy", SKILL.replace("carefully", "far")))
    put(home / ".agents" / "skills", "deploy", SKILL.replace("carefully", "mine"))
    put(harness.project.parent / ".agents" / "skills", "above")
    model = ScriptedModel([use("skill", name="deploy")])
    async with harness.client(model=model) as client:
        session = await client.new_session(str(below))
        await client.turn(session, "go")
        assert "near" in results(model)[0]
        assert names_of(model) == ["deploy"], "folders above the repository do not count"
        told = await prompt_text(client, session, "/help")
    assert told.count("has the same name and is nearer") == 2


async def test_many_untrusted_skills_displace_none_of_the_user(
    harness: AgentHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition_files, "MAX_FILES", 3)
    for number in range(4):
        put(harness.project / ".agents" / "skills", f"theirs{number}")
        put(harness.home / ".agents" / "skills", f"mine{number}")
    async with harness.client(["ok"]) as client:
        told = await prompt_text(client, await client.new_session(harness.cwd), "/skills")
    assert told.count("- `theirs") == 3
    assert told.count("- `mine") == 3


async def test_an_untrusted_skill_does_not_replace_one_of_the_user(harness: AgentHarness, home: Path) -> None:
    put(home / ".agents" / "skills", "deploy", SKILL.replace("carefully", "mine"))
    put(harness.project / ".agents" / "skills", "deploy", SKILL.replace("carefully", "theirs"))
    model = ScriptedModel([use("skill", name="deploy")])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        commands = await offered(client)
        assert commands["deploy"]["description"] == "Make deploy things"
        assert "not trusted" in commands["skill:deploy"]["description"]
        await client.turn(session, "go")
    assert "mine" in results(model)[0]


# -- compaction ----------------------------------------------------------------------------------------------


async def test_a_loaded_skill_survives_compaction(harness: AgentHarness, home: Path) -> None:
    put(home / ".agents" / "skills", "pdf", SKILL + "word " * 2000)
    looks = [[use("bash", command=f"seq {number} {number}000")] for number in range(4)]
    model = ScriptedModel(
        [use("skill", name="pdf")], *looks, ["done"], ["A summary."], ["ok"], context_size=60_000
    )
    async with harness.client(model=model, mode="full-access") as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "go")
        await client.turn(session, "/compact")
        await client.turn(session, "go on")
        whole = "\n".join(model.prompts)
        assert whole.count("How to make pdf things: carefully.") == 1
        assert "A summary." in whole
        await client.turn(session, "/compact")
        await client.turn(session, "and on")
        assert "\n".join(model.prompts).count("How to make pdf things: carefully.") == 1


# -- broken and large files ----------------------------------------------------------------------------------


async def test_files_that_cannot_be_used_are_named_with_the_reason(harness: AgentHarness, home: Path) -> None:
    folder = home / ".agents" / "skills"
    put(folder, "plain", "No header\n")
    put(folder, "empty", "---\nname: empty\n---\nBody\n")
    put(folder, "broken", "---\nname: 'broken\n\t: :\n---\nBody\n")
    put(folder, "huge", SKILL + "x" * 70_000)
    put(folder, "Odd_Name", "---\nname: Odd Name!\ndescription: |\n  Two\n  lines: here\n---\nBody\n")
    (folder / "latin").mkdir()
    (folder / "latin" / "SKILL.md").write_bytes(b"---\ndescription: caf\xe9\n---\n")
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe" / "SKILL.md")
    (harness.project / ".agents" / "skills").mkdir(parents=True)
    (harness.project / ".agents" / "skills" / "out").symlink_to(folder / "plain")
    model = ScriptedModel(["ok"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        told = await prompt_text(client, session, "/help")
        await client.turn(session, "go")
    for name, reason in {
        "plain/": "does not begin with a `---` header",
        "empty/": "its header has no description",
        "broken/": "its header has no description; its header cannot be read at",
        "huge/": "more than 65,536 bytes",
        "latin/": "not UTF-8",
        "pipe/": "not a regular file",
        "Odd_Name/": "is not lower-case letters",
        "out/": "leads out of the project",
    }.items():
        assert any(name in line and reason in line for line in told.splitlines()), (name, told)
    assert names_of(model) == ["Odd-Name"]
    assert "- Odd-Name: Two lines: here" in model.requests[0].system


async def test_many_skills_fit_into_a_small_context(harness: AgentHarness, home: Path) -> None:
    for number in range(210):
        put(
            home / ".agents" / "skills",
            f"s{number:03}",
            SKILL.replace("things\n", f"things {'very ' * 150}\n"),
        )
    model = ScriptedModel(["ok"], context_size=50_000)
    async with harness.client(model=model) as client:
        await client.turn(await client.new_session(harness.cwd), "go")
    catalog = model.requests[0].system.partition("# Skills")[2].partition("\n# ")[0]
    assert len(catalog) < 50_000 * 4 / 50 + 500
    assert "more, which do not fit" in catalog
    assert len(names_of(model)) == 200


@pytest.mark.parametrize(
    ("header", "values"),
    [
        ("description: Use when: it rains", {"description": "Use when: it rains"}),
        ("description: >-\n  Two\n  lines\nname: x", {"description": "Two lines", "name": "x"}),
        ("description: |\n  Two\n   lines\n\nname: x", {"description": "Two\n lines", "name": "x"}),
        ("description:\n  on the\n  next line", {"description": "on the next line"}),
        ("description: plain\n  goes on # comment", {"description": "plain goes on"}),
        ("description: \"a \\\"b\\\"\n  c\"", {"description": 'a "b" c'}),
        ("tools: [Read, 'Bash(git *)']", {"tools": ["Read", "Bash(git *)"]}),
        ("tools:\n- Read\n- Bash", {"tools": ["Read", "Bash"]}),
        ("tools:\n  - Read\nname: x", {"tools": ["Read"], "name": "x"}),
        ("tools: {write: false, 'a*': true}", {"tools": {"write": "false", "a*": "true"}}),
        ("permission:\n  bash:\n    \"git *\": allow\n    '*': deny\n  edit: ask\nmodel: a/b",
         {"permission": {"bash": {"git *": "allow", "*": "deny"}, "edit": "ask"}, "model": "a/b"}),
        ("Allowed_Tools:Read", {"allowed-tools": "Read"}),
    ],
)  # fmt: skip
def test_headers_are_read_as_yaml(header: str, values: dict[str, Any]) -> None:
    file = read_markdown(f"---\n{header}\n---\nBody")
    assert (file.values, file.body, file.problem) == (values, "Body", "")
