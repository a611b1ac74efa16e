"""Commands in files: the user's own, the project's once trusted, and everything that is none."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.agent.scene import Client
from tests.coder.agent.desk import Desk, ScriptedModel

from accord.coder.commands.filling import fill
from accord.coder.commands.frontmatter import read
from accord.policy import Trust

PLAIN: dict[str, Any] = {}


def own(desk: Desk, name: str, text: str | bytes) -> Path:
    """A command of the user."""
    return _put(desk.home / "config" / "commands" / name, text)


def projects(desk: Desk, name: str, text: str | bytes) -> Path:
    """A command that comes with the project."""
    return _put(desk.project / ".accord" / "commands" / name, text)


def _put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


async def offered(client: Client) -> dict[str, Any]:
    """The commands that are offered next, by name."""
    update = await client.update("available_commands_update")
    return {command["name"]: command for command in update["availableCommands"]}


async def say(client: Client, session: str, prompt: str) -> str:
    updates, _ = await client.turn(session, prompt)
    return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk")


# -- the user's own ---------------------------------------------------------------------------------------------


async def test_a_file_of_the_user_is_a_command(desk: Desk) -> None:
    own(
        desk,
        "review.md",
        "---\ndescription: Look at a change\nargument-hint: '[branch]'\n---\nReview $1. All: $ARGUMENTS\n",
    )
    model = ScriptedModel(["Fine."])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        review = (await offered(client))["review"]
        assert review == {"name": "review", "description": "Look at a change", "input": {"hint": "[branch]"}}
        assert await say(client, session, '/review "my branch" now') == "Fine."
        assert model.prompts == ['Review my branch. All: "my branch" now']
        assert "Your own:\n\n- `/review [branch]`: Look at a change" in await say(client, session, "/help")


async def test_a_command_that_takes_text_has_a_hint(desk: Desk) -> None:
    own(desk, "some.md", "Do $1")
    own(desk, "none.md", r"Do \$1")
    async with desk.client(capabilities=PLAIN) as client:
        await client.new_session(desk.cwd)
        commands = await offered(client)
    assert commands["some"]["input"] == {"hint": "arguments"}
    assert "input" not in commands["none"]


async def test_changes_of_files_count_from_the_next_turn_on_and_are_told(desk: Desk) -> None:
    file = own(desk, "a.md", "First")
    model = ScriptedModel(["one"], ["two"], ["three"])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        assert "a" in await offered(client)
        file.write_text("Second")
        own(desk, "b.md", "Another")
        updates, _ = await client.turn(session, "/b")
        [told] = [update for update in updates if update["sessionUpdate"] == "available_commands_update"]
        assert [command["name"] for command in told["availableCommands"]][-2:] == ["a", "b"]
        assert model.prompts[-1] == "Another"
        file.unlink()
        updates, _ = await client.turn(session, "/a")
        assert model.prompts[-1] == "/a", "what is gone is a prompt again"
        assert any(update["sessionUpdate"] == "available_commands_update" for update in updates)
        updates, _ = await client.turn(session, "x")
        assert not any(update["sessionUpdate"] == "available_commands_update" for update in updates)


async def test_nobody_takes_a_name_from_the_agent_or_from_the_user(desk: Desk) -> None:
    own(desk, "help.md", "Mine")
    own(desk, "Usage.md", "Mine")
    own(desk, "fix.md", "The user's")
    projects(desk, "fix.md", "The project's")
    projects(desk, "mode.md", "The project's")
    model = ScriptedModel(["ok"])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        names = list(await offered(client))
        assert names.count("help") == names.count("fix") == names.count("mode") == 1
        assert "Usage" not in names
        said = await say(client, session, "/help")
        assert "`/help` is the agent's own; rename the file" in said
        assert "`/usage` is the agent's own" in said
        assert "`/fix` is yours" in said
        await say(client, session, "/fix")
        assert model.prompts == ["The user's"]


async def test_what_cannot_be_a_command_is_named_with_its_reason(desk: Desk) -> None:
    own(desk, "empty.md", "---\ndescription: nothing\n---\n\n")
    own(desk, "two words.md", "x")
    own(desk, "latin.md", b"caf\xe9")
    own(desk, "huge.md", "x" * 70_000)
    own(desk, "notes.txt", "no command, and not meant as one")
    own(desk, ".hidden.md", "x")
    os.mkfifo(desk.home / "config" / "commands" / "pipe.md")
    (desk.home / "config" / "commands" / "folder.md").mkdir()
    (desk.home / "config" / "commands" / "gone.md").symlink_to("/no/such/file")
    async with desk.client(capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        assert "empty" not in await offered(client)
        said = await say(client, session, "/help")
    for name, reason in {
        "empty.md": "it says nothing",
        "two words.md": "letters, digits",
        "latin.md": "not UTF-8",
        "huge.md": "more than 65,536 bytes",
        "pipe.md": "it is no file",
        "folder.md": "it is no file",
        "gone.md": "No such file",
    }.items():
        [line] = [line for line in said.splitlines() if f"/{name}`: " in line]
        assert reason in line
    assert "notes.txt" not in said
    assert ".hidden" not in said


# -- the project's ----------------------------------------------------------------------------------------------


def answer(client: Client, question: Any, option: str) -> None:
    client.raw.reply(question, {"outcome": {"outcome": "selected", "optionId": option}})


async def test_a_command_of_the_project_counts_once_it_is_trusted(desk: Desk) -> None:
    file = projects(
        desk, "deploy.md", "---\ndescription: Trust me\nargument-hint: now\n---\nDeploy $ARGUMENTS"
    )
    model = ScriptedModel(["one"], ["two"])
    async with desk.client(model=model, capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        deploy = (await offered(client))["deploy"]
        assert "not trusted yet" in deploy["description"]
        assert "Trust me" not in str(deploy), "nothing of the file is shown in a menu"

        id = client.prompt(session, "/deploy today")
        question = await client.asked("session/request_permission")
        kinds = [option["kind"] for option in question["params"]["options"]]
        assert kinds == ["allow_always", "reject_once"], (
            "whoever allows all there is once, does not agree to this"
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
        assert Trust().is_trusted(file, file.read_bytes())

        updates, _ = await client.turn(session, "/deploy again")
        assert model.prompts[-1] == "Deploy again"
        [told] = [update for update in updates if update["sessionUpdate"] == "available_commands_update"]
        [deploy] = [command for command in told["availableCommands"] if command["name"] == "deploy"]
        assert deploy == {"name": "deploy", "description": "Trust me", "input": {"hint": "now"}}


@pytest.mark.parametrize("mode", ["ask", "full-access"])
async def test_trust_is_for_the_content_and_no_mode_stands_in_for_it(desk: Desk, mode: str) -> None:
    file = projects(desk, "deploy.md", "Deploy")
    Trust().trust(file, "Deploy")
    file.write_text("Destroy")
    model = ScriptedModel()
    async with desk.client(model=model, capabilities=PLAIN, mode=mode) as client:
        session = await client.new_session(desk.cwd)
        id = client.prompt(session, "/deploy")
        client.raw.reply(
            await client.asked("session/request_permission"), {"outcome": {"outcome": "cancelled"}}
        )
        await client.turn_of(id)
    assert model.requests == []


async def test_a_command_that_leads_out_of_the_project_is_none(desk: Desk) -> None:
    secret = desk.home / "diary.md"
    secret.write_text("Dear diary")
    folder = desk.project / ".accord" / "commands"
    folder.mkdir(parents=True)
    (folder / "diary.md").symlink_to(secret)
    async with desk.client(capabilities=PLAIN) as client:
        session = await client.new_session(desk.cwd)
        assert "diary" not in await offered(client)
        said = await say(client, session, "/help")
    assert "leads out of the project" in said
    assert "Dear diary" not in said


# -- what stands in a file --------------------------------------------------------------------------------------


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
def test_the_head_of_a_file_is_read(text: str, description: str, hint: str | None, prompt: str) -> None:
    written = read(text)
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
def test_what_was_typed_is_put_in_once_and_nothing_is_run(prompt: str, text: str, filled: str) -> None:
    assert fill(prompt, text) == filled


@settings(deadline=None)
@given(st.text(max_size=300), st.text(max_size=100))
def test_no_file_and_no_argument_breaks_a_command(text: str, argument: str) -> None:
    written = read(text)
    assert len(written.description) <= 200
    assert "\n" not in written.description
    filled = fill(written.prompt, argument)
    assert argument in filled or not argument or "$" in written.prompt
