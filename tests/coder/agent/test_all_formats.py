"""Features of the coding agent that touch the history, over the wire, in all four provider formats."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import AgentHarness, choose, provider_client
from tests.coder.agent.test_rewind import said
from tests.coder.models.harness import KINDS
from tests.coder.tools.test_pdf_and_notebooks import pdf

from accord.coder.user_config import Kind
from accord.testing.model_script import ModelAnswer, ModelToolCall
from accord.testing.model_server import ModelServer

pytestmark = pytest.mark.parametrize("kind", KINDS)


async def answered(client: Client, session: str, prompt: str, option: str) -> list[str]:
    """Run a turn whose permission requests get this answer; return their titles."""
    turn = client.prompt(session, prompt)
    titles: list[str] = []
    while True:
        message = await client.raw.next()
        if message.get("method") == "session/request_permission":
            titles.append(message["params"]["toolCall"]["title"])
            choose(client, message, option)
        elif "method" not in message and message["id"] == turn:
            return titles


async def test_after_a_rewind_the_model_gets_neither_the_prompt_nor_its_calls(
    harness: AgentHarness, kind: Kind
) -> None:
    write = ModelToolCall("write_file", {"path": "a.txt", "content": "one"})
    script = [ModelAnswer("Kept."), ModelAnswer(write), ModelAnswer("Written."), ModelAnswer("Again.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        await client.turn(session, "the first")
        assert await answered(client, session, "the second", "allow_once") == ["Write a.txt"]
        assert Path(harness.cwd, "a.txt").exists()
        await client.turn(session, "/undo")
        await client.turn(session, "the third")
        body = json.dumps(server.requests[-1].body)
    assert not Path(harness.cwd, "a.txt").exists()
    assert [text in body for text in ("the first", "Kept.", "the third")] == [True] * 3
    assert [text in body for text in ("the second", "a.txt", "Written.")] == [False] * 3


async def test_pages_and_cells_are_read_and_a_cell_is_edited(harness: AgentHarness, kind: Kind) -> None:
    Path(harness.cwd, "a.pdf").write_bytes(pdf("The only page"))
    cell: dict[str, Any] = {"cell_type": "code", "id": "c1", "metadata": {}, "outputs": [], "source": "x = 1"}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    file = Path(harness.cwd, "a.ipynb")
    file.write_text(json.dumps(notebook))
    reads = [ModelToolCall("read_file", {"path": path}) for path in ("a.pdf", "a.ipynb")]
    edit = ModelToolCall("edit_file", {"path": "a.ipynb", "cell": "c1", "new_text": "x = 2"})
    script = [ModelAnswer(*reads), ModelAnswer(edit), ModelAnswer("Done.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        await answered(client, session, "double it", "allow_once")
        body = json.dumps(server.requests[-1].body)
    assert "--- page 1" in body
    assert "The only page" in body
    assert "cell 1: code, id c1" in body
    assert json.loads(file.read_text())["cells"][0]["source"] == "x = 2"


async def test_a_subagent_is_not_asked_about_but_each_of_its_acts_is(
    harness: AgentHarness, kind: Kind
) -> None:
    script = [
        ModelAnswer(ModelToolCall("agent", {"prompt": "write it"})),
        ModelAnswer(ModelToolCall("write_file", {"path": "b.txt", "content": "hi"})),
        ModelAnswer("Written."),
        ModelAnswer("All done."),
    ]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        session = await client.new_session(harness.cwd)
        assert await answered(client, session, "delegate", "allow_once") == ["Sub-agent: Write b.txt"]
        assert Path(harness.cwd, "b.txt").read_text() == "hi"
        undone = said((await client.turn(session, "/undo"))[0])
    assert not Path(harness.cwd, "b.txt").exists()
    assert "not kept" not in undone  # no command ran


async def test_an_answer_for_the_project_counts_in_the_next_session(
    harness: AgentHarness, kind: Kind
) -> None:
    run = ModelAnswer(ModelToolCall("bash", {"command": "touch made.txt"}))
    script = [run, ModelAnswer("Made."), run, ModelAnswer("Again.")]
    async with ModelServer(script) as server, provider_client(harness, server, kind) as client:
        first = await client.new_session(harness.cwd)
        turn = client.prompt(first, "make it")
        request = await client.asked("session/request_permission")
        client.raw.reply(request, {"outcome": {"outcome": "selected", "optionId": "allow_project"}})
        await client.turn_of(turn)
        second = await client.new_session(harness.cwd)
        assert await answered(client, second, "again", "reject_once") == []
    assert Path(harness.cwd, "made.txt").exists()
