"""Commands from files: the user's, the project's after trust, and invalid ones."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.agent_client import Client
from tests.coder.agent.harness import AgentHarness, ScriptedModel

from accord.coder.session.command_registry import fill_prompt, parse_command_file
from accord.policy import TrustStore

NO_CAPABILITIES: dict[str, Any] = {}


def add_user_command(harness: AgentHarness, name: str, text: str | bytes) -> Path:
    """Write a command file of the user."""
    return _put(harness.home / "config" / "commands" / name, text)


def add_project_command(harness: AgentHarness, name: str, text: str | bytes) -> Path:
    """Write a command file of the project."""
    return _put(harness.project / ".accord" / "commands" / name, text)


def _put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


async def offered(client: Client) -> dict[str, Any]:
    """Return the commands of the next update, by name."""
    update = await client.update("available_commands_update")
    return {command["name"]: command for command in update["availableCommands"]}


async def prompt_text(client: Client, session: str, prompt: str) -> str:
    updates, _ = await client.turn(session, prompt)
    return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")


# -- user commands -------------------------------------------------------------------------------------------


async def test_user_file_becomes_a_command(harness: AgentHarness) -> None:
    add_user_command(
        harness,
        "review.md",
        "---\ndescription: Look at a change\nargument-hint: '[branch]'\n---\nReview $1. All: $ARGUMENTS\n",
    )
    model = ScriptedModel(["Fine."])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        review = (await offered(client))["review"]
        assert review == {"name": "review", "description": "Look at a change", "input": {"hint": "[branch]"}}
        assert await prompt_text(client, session, '/review "my branch" now') == "Fine."
        assert model.prompts == ['Review my branch. All: "my branch" now']
        assert "Your own:\n\n- `/review [branch]`: Look at a change" in await prompt_text(
            client, session, "/help"
        )


async def test_command_with_arguments_has_an_input_hint(harness: AgentHarness) -> None:
    add_user_command(harness, "some.md", "Do $1")
    add_user_command(harness, "none.md", r"Do \$1")
    async with harness.client(capabilities=NO_CAPABILITIES) as client:
        await client.new_session(harness.cwd)
        commands = await offered(client)
    assert commands["some"]["input"] == {"hint": "arguments"}
    assert "input" not in commands["none"]


async def test_file_changes_apply_from_the_next_turn_and_are_announced(harness: AgentHarness) -> None:
    file = add_user_command(harness, "a.md", "First")
    model = ScriptedModel(["one"], ["two"], ["three"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        assert "a" in await offered(client)
        file.write_text("Second")
        add_user_command(harness, "b.md", "Another")
        updates, _ = await client.turn(session, "/b")
        [received] = [update for update in updates if update["sessionUpdate"] == "available_commands_update"]
        assert [command["name"] for command in received["availableCommands"]][-2:] == ["a", "b"]
        assert model.prompts[-1] == "Another"
        file.unlink()
        updates, _ = await client.turn(session, "/a")
        assert model.prompts[-1] == "/a", "a removed command is a prompt again"
        assert any(update["sessionUpdate"] == "available_commands_update" for update in updates)
        updates, _ = await client.turn(session, "x")
        assert not any(update["sessionUpdate"] == "available_commands_update" for update in updates)


async def test_user_and_project_files_cannot_replace_existing_commands(harness: AgentHarness) -> None:
    add_user_command(harness, "help.md", "Mine")
    add_user_command(harness, "Usage.md", "Mine")
    add_user_command(harness, "fix.md", "The user's")
    add_project_command(harness, "fix.md", "The project's")
    add_project_command(harness, "mode.md", "The project's")
    model = ScriptedModel(["ok"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        names = list(await offered(client))
        assert names.count("help") == names.count("fix") == names.count("mode") == 1
        assert "Usage" not in names
        reply = await prompt_text(client, session, "/help")
        assert "`/help` is the agent's own; rename the file" in reply
        assert "`/usage` is the agent's own" in reply
        assert "`/fix` is yours" in reply
        await prompt_text(client, session, "/fix")
        assert model.prompts == ["The user's"]


async def test_invalid_command_files_are_listed_with_reasons(harness: AgentHarness) -> None:
    add_user_command(harness, "empty.md", "---\ndescription: nothing\n---\n\n")
    add_user_command(harness, "two words.md", "x")
    add_user_command(harness, "latin.md", b"caf\xe9")
    add_user_command(harness, "huge.md", "x" * 70_000)
    add_user_command(harness, "notes.txt", "no command, and not meant as one")
    add_user_command(harness, ".hidden.md", "x")
    os.mkfifo(harness.home / "config" / "commands" / "pipe.md")
    (harness.home / "config" / "commands" / "folder.md").mkdir()
    (harness.home / "config" / "commands" / "gone.md").symlink_to("/no/such/file")
    async with harness.client(capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        assert "empty" not in await offered(client)
        reply = await prompt_text(client, session, "/help")
    for name, reason in {
        "empty.md": "it is empty",
        "two words.md": "letters, digits",
        "latin.md": "not UTF-8",
        "huge.md": "more than 65,536 bytes",
        "pipe.md": "it is not a regular file",
        "folder.md": "it is not a regular file",
        "gone.md": "No such file",
    }.items():
        [line] = [line for line in reply.splitlines() if f"/{name}`: " in line]
        assert reason in line
    assert "notes.txt" not in reply
    assert ".hidden" not in reply


# -- project commands ----------------------------------------------------------------------------------------


def answer(client: Client, question: Any, option: str) -> None:
    client.raw.reply(question, {"outcome": {"outcome": "selected", "optionId": option}})


async def test_project_command_works_after_trust(harness: AgentHarness) -> None:
    file = add_project_command(
        harness, "deploy.md", "---\ndescription: Trust me\nargument-hint: now\n---\nDeploy $ARGUMENTS"
    )
    model = ScriptedModel(["one"], ["two"])
    async with harness.client(model=model, capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        deploy = (await offered(client))["deploy"]
        assert "not trusted yet" in deploy["description"]
        assert "Trust me" not in str(deploy), "untrusted file text must not appear in the menu"

        id = client.prompt(session, "/deploy today")
        question = await client.asked("session/request_permission")
        kinds = [option["kind"] for option in question["params"]["options"]]
        assert kinds == ["allow_always", "reject_once"], (
            "a client that allows everything once must not trust a file"
        )
        name, text = [item["content"]["text"] for item in question["params"]["toolCall"]["content"]]
        assert ".accord/commands/deploy.md" in name
        assert "Deploy $ARGUMENTS" in text
        answer(client, question, "ignore")
        updates, _ = await client.turn_of(id)
        assert "`/deploy` was not used" in updates[-1]["content"]["text"]
        assert model.requests == []

        id = client.prompt(session, "/deploy tomorrow")
        answer(client, await client.asked("session/request_permission"), "trust")
        await client.turn_of(id)
        assert model.prompts[-1] == "Deploy tomorrow"
        assert TrustStore().is_trusted(file, file.read_bytes())

        updates, _ = await client.turn(session, "/deploy again")
        assert model.prompts[-1] == "Deploy again"
        [received] = [update for update in updates if update["sessionUpdate"] == "available_commands_update"]
        [deploy] = [command for command in received["availableCommands"] if command["name"] == "deploy"]
        assert deploy == {"name": "deploy", "description": "Trust me", "input": {"hint": "now"}}


@pytest.mark.parametrize("mode", ["ask", "full-access"])
async def test_changed_file_needs_new_trust_in_every_mode(harness: AgentHarness, mode: str) -> None:
    file = add_project_command(harness, "deploy.md", "Deploy")
    TrustStore().trust(file, "Deploy")
    file.write_text("Destroy")
    model = ScriptedModel()
    async with harness.client(model=model, capabilities=NO_CAPABILITIES, mode=mode) as client:
        session = await client.new_session(harness.cwd)
        id = client.prompt(session, "/deploy")
        client.raw.reply(
            await client.asked("session/request_permission"), {"outcome": {"outcome": "cancelled"}}
        )
        await client.turn_of(id)
    assert model.requests == []


async def test_project_command_linked_outside_the_project_is_rejected(harness: AgentHarness) -> None:
    secret = harness.home / "diary.md"
    secret.write_text("Dear diary")
    folder = harness.project / ".accord" / "commands"
    folder.mkdir(parents=True)
    (folder / "diary.md").symlink_to(secret)
    async with harness.client(capabilities=NO_CAPABILITIES) as client:
        session = await client.new_session(harness.cwd)
        assert "diary" not in await offered(client)
        reply = await prompt_text(client, session, "/help")
    assert "leads out of the project" in reply
    assert "Dear diary" not in reply


# -- file contents -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "description", "hint", "prompt"),
    [
        ("Do it", "Do it", None, "Do it"),
        ("# Do it\n\nwell", "Do it", None, "# Do it\n\nwell"),
        ("---\ndescription: D\n---\nP", "D", None, "P"),
        ("---\r\ndescription: 'D: e'\r\nargument_hint: [a] [b]\r\n---\r\nP\r\nQ", "D: e", "[a] [b]", "P\nQ"),
        ("---\nmodel: x\nallowed-tools: Bash(*)\n---\nP", "P", None, "P"),
        ("---\nnever closed\nP", "never closed", None, "---\nnever closed\nP"),
        ("---\n---\nP", "P", None, "P"),
        ("---\ndescription: a\x1b[31mb\u202ec\n---\nP", "abc", None, "P"),
        ("---\ndescription: D\n---", "D", None, ""),
    ],
)
def test_front_matter_is_read(text: str, description: str, hint: str | None, prompt: str) -> None:
    written = parse_command_file(text)
    if text.startswith("---\nnever"):
        assert written.prompt == prompt
    else:
        assert written == (description, hint, prompt)


@pytest.mark.parametrize(
    ("prompt", "text", "filled"),
    [
        ("Do $1 and $2", "a b c", "Do a and b"),
        ("Do $ARGUMENTS!", "a b", "Do a b!"),
        ("Do $1", "", "Do "),
        ("Do it", "well", "Do it\n\nwell"),
        ("Do it", "", "Do it"),
        ("$2 $1", "'x y' z", "z x y"),
        ("$1", "don't", "don't"),
        (r"echo \$1 $1", "a", "echo $1 a"),
        ("$10 $ARGUMENTSX $0 $", "a", "$10 $ARGUMENTSX $0 $\n\na"),
        ("$1 $ARGUMENTS", "$2 $ARGUMENTS", "$2 $2 $ARGUMENTS"),
        ("!`rm -rf /` @secret", "", "!`rm -rf /` @secret"),
    ],
)
def test_arguments_are_inserted_once_and_nothing_is_executed(prompt: str, text: str, filled: str) -> None:
    assert fill_prompt(prompt, text) == filled


@settings(deadline=None)
@given(st.text(max_size=300), st.text(max_size=100))
def test_any_file_and_argument_can_be_filled(text: str, argument: str) -> None:
    written = parse_command_file(text)
    assert len(written.description) <= 200
    assert "\n" not in written.description
    filled = fill_prompt(written.prompt, argument)
    assert argument in filled or not argument or "$" in written.prompt
