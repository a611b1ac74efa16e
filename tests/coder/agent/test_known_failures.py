"""Calls that cannot succeed fail at once: the user is not asked about them, and no file is read in vain."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import AgentHarness, ScriptedModel, use

from accord.coder.model_history import ToolResult, text_of

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


@pytest.fixture
def project_files(harness: AgentHarness) -> Path:
    project = harness.project
    (project / "seen.txt").write_text("one\ntwo\none\n")
    (project / "unseen.txt").write_text("secret plan\n")
    (project / "latin.txt").write_bytes("caf\u00e9 au lait\n".encode("latin-1"))
    (project / "full").mkdir()
    (project / "full" / "a").write_text("a")
    return project


def result_of(model: ScriptedModel) -> str:
    """Return the text of the last tool result that the model received."""
    return [text_of(message) for message in model.requests[-1].messages if isinstance(message, ToolResult)][
        -1
    ]


def tool_updates(client: Client) -> list[Any]:
    """Return the updates of tool calls that have content."""
    return [update for update in client.updates_of("tool_call_update") if update.get("content")]


async def run_turn(
    client: Client, harness: AgentHarness, on_question: Callable[[], object] = int
) -> list[str]:
    """Run a turn, serve files from the disk and allow what is asked; return the names of the read files."""
    turn = client.prompt(await client.new_session(harness.cwd))
    reads: list[str] = []
    while True:
        message = await client.raw.next()
        method, params = message.get("method"), message.get("params", {})
        if method is None and message["id"] == turn:
            return reads
        if method == "fs/read_text_file":
            path = Path(params["path"])
            reads.append(path.name)
            if path.exists():
                client.raw.reply(message, {"content": path.read_text()})
            else:
                client.raw.refuse(message, -32002, "no such file")
        elif method == "fs/write_text_file":
            Path(params["path"]).write_text(params["content"])
            client.raw.reply(message, {})
        elif method == "session/request_permission":
            on_question()
            client.raw.reply(message, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})


@pytest.mark.parametrize("capabilities", [{}, FILES], ids=["disk", "client"])
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (use("edit_file", path="unseen.txt", old_text="plan", new_text="x"), "exists but was not read"),
        (use("edit_file", path="none.txt", old_text="a", new_text="b"), "does not exist; create it"),
        (use("edit_file", path="seen.txt", old_text="three", new_text="b"), "old_text is not in"),
        (use("edit_file", path="seen.txt", old_text="one", new_text="b"), "2 times"),
        (use("edit_file", path="seen.txt", old_text="two", new_text="two"), "are the same"),
        (use("write_file", path="unseen.txt", content="x"), "exists but was not read"),
        (use("delete_file", path="none.txt"), "does not exist"),
        (use("delete_file", path="full"), "the folder is not empty"),
        (use("move_file", source="none.txt", destination="b.txt"), "does not exist"),
        (use("move_file", source="seen.txt", destination="unseen.txt"), "exists already"),
        (use("move_file", source="full", destination="full/inner"), "into itself"),
        (use("move_file", source="seen.txt", destination="unseen.txt/new/b"), "unseen.txt is not a folder"),
        (use("edit_file", path="latin.txt", old_text="caf", new_text="\u2600"), "which has no"),
        (use("write_file", path="latin.txt", content="\u2600"), "which has no"),
        (use("web_fetch", url="http://localhost:8000/"), "localhost may not be fetched: it is this machine"),
        (use("web_fetch", url="http://[::1]/"), "::1 may not be fetched"),
        (use("web_fetch", url="https://10.1.2.3/"), "it is a private address"),
        (use("bash", command="make all", cwd="none"), "must be an existing folder"),
        (use("read_file", path="/nonexistent/a.txt"), "/nonexistent/a.txt does not exist"),
        (use("list_files", path="/nonexistent"), "/nonexistent does not exist"),
        (use("grep", pattern="a", path="/nonexistent"), "/nonexistent does not exist"),
        (use("glob", pattern="*.py", path="/nonexistent"), "not an existing folder"),
    ],
    ids=lambda value: None if isinstance(value, str) else value.name,
)
async def test_call_that_cannot_succeed_fails_without_a_question(
    harness: AgentHarness, project_files: Path, capabilities: dict[str, Any], call: Any, expected: str
) -> None:
    read = [use("read_file", path="seen.txt"), use("read_file", path="latin.txt")]
    model = ScriptedModel(read, [call], ["ok"])
    async with harness.client(model=model, capabilities=capabilities) as client:
        reads = await run_turn(client, harness)
        assert "session/request_permission" not in client.methods()
    assert expected in result_of(model)
    assert "secret plan" not in result_of(model)
    assert "unseen.txt" not in reads, "a file that may not be changed is not read"


async def test_file_that_changed_since_it_was_read_is_not_asked_about(
    harness: AgentHarness, project_files: Path
) -> None:
    def change(request: Any) -> Any:
        (project_files / "seen.txt").write_text("another text\n")
        return [use("write_file", path="seen.txt", content="new")]

    model = ScriptedModel([use("read_file", path="seen.txt")], change, ["ok"])
    async with harness.client(model=model) as client:
        await run_turn(client, harness)
        assert "session/request_permission" not in client.methods()
    assert "has changed since it was read" in result_of(model)


async def test_denied_call_is_not_checked(harness: AgentHarness, project_files: Path) -> None:
    """What the rules deny is not looked at: the model does not learn whether the file exists."""
    (harness.home / "config").mkdir()
    (harness.home / "config" / "config.toml").write_text('[permissions]\ndeny = ["edit"]\n')
    model = ScriptedModel([use("edit_file", path="unseen.txt", old_text="a", new_text="b")], ["ok"])
    async with harness.client(model=model) as client:
        await run_turn(client, harness)
    assert result_of(model).startswith("Permission denied.")


@pytest.mark.parametrize("mode", ["ask", "workspace-write"])
async def test_creating_a_file_through_the_client_reads_it_at_most_once(
    harness: AgentHarness, mode: str
) -> None:
    model = ScriptedModel([use("write_file", path="new.txt", content="hello\n")], ["ok"])
    async with harness.client(model=model, capabilities=FILES, mode=mode) as client:
        reads = await run_turn(client, harness)
        assert client.methods().count("session/request_permission") == (mode == "ask")
        assert any(update.get("content", [{}])[0].get("type") == "diff" for update in tool_updates(client))
    assert reads.count("new.txt") <= 1
    assert (harness.project / "new.txt").read_text() == "hello\n"


async def test_file_that_appears_during_the_question_is_not_overwritten(harness: AgentHarness) -> None:
    model = ScriptedModel([use("write_file", path="new.txt", content="hello\n")], ["ok"])
    async with harness.client(model=model, capabilities=FILES) as client:
        await run_turn(client, harness, lambda: (harness.project / "new.txt").write_text("mine\n"))
    assert (harness.project / "new.txt").read_text() == "mine\n"
    assert "exists but was not read" in result_of(model)
