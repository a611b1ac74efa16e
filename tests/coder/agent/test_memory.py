"""`/memory` adds a note to the right file, after showing the change."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import SANDBOX_OFF, AgentHarness, ScriptedModel, choose, configure

from accord.coder.session.memory_command import with_note
from accord.policy.trust_store import TrustStore


async def memory(
    client: Client, session: str, text: str, answer: str | None = "allow_once"
) -> tuple[Any, str]:
    """Type the command and answer its question. Returns the shown diff, and the reply."""
    prompt = client.prompt(session, text)
    diff = None
    if answer is not None:
        question = await client.asked("session/request_permission")
        call = question["params"]["toolCall"]["toolCallId"]
        updates = [m["params"]["update"] for m in client.raw.received if m.get("method") == "session/update"]
        shown = [u for u in updates if u.get("toolCallId") == call and u.get("content")]
        diff = next(item for item in shown[-1]["content"] if item["type"] == "diff")
        choose(client, question, answer)
    updates, _ = await client.turn_of(prompt)
    texts = [u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk"]
    return diff, "".join(texts)


async def test_note_of_a_project_is_shown_written_and_told_to_the_model(harness: AgentHarness) -> None:
    (harness.project / ".git").mkdir()
    file = harness.project / "AGENTS.md"
    model = ScriptedModel(["first"], ["second"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        diff, reply = await memory(client, session, "/memory Use tabs\nnot blanks")
        text = "## Notes\n\n- Use tabs\n  not blanks\n"
        assert (diff["path"], diff["newText"], diff.get("oldText")) == (str(file), text, None)
        assert file.read_text() == text
        assert reply == "Added to `AGENTS.md`. Sessions in this project read it."
        await client.turn(session, "go")
        assert model.requests[0].system.count("Use tabs") == 1
        _, reply = await memory(client, session, "/memory Use tabs\nnot blanks", None)
        assert reply == "`AGENTS.md` has this note already."
        await memory(client, session, "/memory project Run make")
        await client.turn(session, "go")
    assert file.read_text() == f"{text}- Run make\n"
    assert "The user added a note to AGENTS.md:\nRun make" in repr(model.prompts).replace("\\n", "\n")


async def test_without_a_project_the_note_is_for_all_projects(harness: AgentHarness) -> None:
    file = harness.home / "config" / "AGENTS.md"
    async with harness.client() as client:
        session = await client.new_session(harness.cwd)
        _, reply = await memory(client, session, "/memory", None)
        assert reply.index(str(file)) < reply.index("`AGENTS.md`: it will be created, for this project")
        _, reply = await memory(client, session, "/memory Answer in German")
        assert "Your sessions in all projects read it." in reply
        assert file.read_text() == "## Notes\n\n- Answer in German\n"
        await memory(client, session, "/memory project Local")
        assert (harness.project / "AGENTS.md").read_text() == "## Notes\n\n- Local\n"
        await memory(client, session, "/memory user Mine")
        assert file.read_text() == "## Notes\n\n- Answer in German\n- Mine\n"


async def test_the_file_that_is_read_gets_the_note(harness: AgentHarness) -> None:
    folder = harness.project / "part"
    folder.mkdir()
    (harness.project / ".git").mkdir()
    (harness.project / "CLAUDE.md").write_bytes(b"# Rules\r\n\r\n## Notes\r\n- old\r\n\r\n## More\r\nx\r\n")
    async with harness.client() as client:
        session = await client.new_session(harness.cwd)
        await memory(client, session, "/memory new")
        # The folder above is none of the session: nothing is written there.
        inner = await client.new_session(str(folder))
        await memory(client, inner, "/memory inner")
    text = b"# Rules\r\n\r\n## Notes\r\n- old\r\n- new\r\n\r\n## More\r\nx\r\n"
    assert (harness.project / "CLAUDE.md").read_bytes() == text
    assert (folder / "AGENTS.md").read_text() == "## Notes\n\n- inner\n"
    assert not (harness.project / "AGENTS.md").exists()


async def test_a_refusal_changes_nothing(harness: AgentHarness) -> None:
    (harness.project / ".git").mkdir()
    async with harness.client() as client:
        session = await client.new_session(harness.cwd)
        _, reply = await memory(client, session, "/memory x", "reject_once")
        assert "Nothing was changed" in reply
        prompt = client.prompt(session, "/memory y")
        question = await client.asked("session/request_permission")
        (harness.project / "AGENTS.md").write_text("made meanwhile")
        choose(client, question, "allow_once")
        updates, _ = await client.turn_of(prompt)
    assert "has changed meanwhile" in json.dumps(updates)
    assert (harness.project / "AGENTS.md").read_text() == "made meanwhile"


def outward_link(file: Path) -> None:
    outside = file.parent.parent / "outside.md"
    outside.write_text("theirs")
    file.symlink_to(outside)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (outward_link, "outside the project"),
        (lambda file: file.symlink_to(file.parent / ".env"), "a file that holds secrets"),
        (lambda file: file.write_bytes(b"\0\1\2"), "is not text"),
        (lambda file: file.write_text("x" * 300_000), "is too large: 300,000 bytes"),
        (lambda file: file.mkdir(), "is not a regular file"),
        (lambda file: os.mkfifo(file), "is not a regular file"),
    ],
)  # fmt: skip
async def test_unusable_files_are_refused_without_a_question(
    make: Any, reason: str, harness: AgentHarness
) -> None:
    (harness.project / ".git").mkdir()
    make(harness.project / "AGENTS.md")
    async with harness.client() as client:
        _, reply = await memory(client, await client.new_session(harness.cwd), "/memory x", None)
    assert reply.startswith("The note was not added: ")
    assert reason in reply
    assert "\n" not in reply


async def test_a_rule_protects_the_file(harness: AgentHarness) -> None:
    (harness.project / ".git").mkdir()
    configure(harness, f'{SANDBOX_OFF}[permissions]\ndeny = [{{ path = "AGENTS.md" }}]\n')
    async with harness.client(mode="full-access") as client:
        _, reply = await memory(client, await client.new_session(harness.cwd), "/memory x", None)
    assert reply == "The note was not added: `AGENTS.md`: your rules deny changing it."


async def test_limits_are_named(harness: AgentHarness) -> None:
    (harness.project / ".git").mkdir()
    file = harness.project / "AGENTS.md"
    file.write_text("x" * 40_000)
    TrustStore().distrust(file)
    async with harness.client() as client:
        session = await client.new_session(harness.cwd)
        prompt = client.prompt(session, "/help")
        choose(
            client, await client.asked("session/request_permission"), "reject_once"
        )  # whether it is trusted
        await client.turn_of(prompt)
        _, reply = await memory(client, session, "/memory x")
        assert "longer than the 32 kB that are read" in reply
        assert "A command wrote this file" in reply
        _, reply = await memory(client, session, f"/memory {'x' * 5000}", None)
        assert "5,000 characters, more than 4,000" in reply


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "## Notes\n\n- n\n"),
        ("# A\n", "# A\n\n## Notes\n\n- n\n"),
        ("## Notes", "## Notes\n\n- n\n"),
        ("## Notes\n\n- a\n\n# B\n", "## Notes\n\n- a\n- n\n\n# B\n"),
        ("## Notes\n- a\n  more\n### c\n", "## Notes\n- a\n  more\n### c\n- n\n"),
        ("## Notes\n- n\n", None),
    ],
)
def test_place_of_a_note(text: str, expected: str | None) -> None:
    assert with_note(text, "n") == expected
