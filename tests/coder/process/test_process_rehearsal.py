"""Every instruction that the rehearsal model understands, as turns of the real process."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.coder.process.editor import Chat, Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def editor(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Editor]:
    """Start one agent for all tests; each test has its own session and folder."""
    folder = tmp_path_factory.mktemp("agent")
    async with started(folder / "home", folder) as editor:
        yield editor


@pytest_asyncio.fixture(loop_scope="module")
async def chat(editor: Editor, project: Path) -> Chat:
    editor.choose = "allow_once"
    editor.questions.clear()
    return await editor.new(project)


def content(call: Any) -> str:
    """Return the final text of a call."""
    [shown] = call["content"]
    return shown["content"]["text"]


async def test_read(chat: Chat) -> None:
    record = await chat.turn("read a.py")
    call = record.call
    assert (call["title"], call["kind"], call["name"]) == ("Read a.py", "read", "read_file")
    assert call["statuses"] == ["pending", "in_progress", "completed"]
    assert call["locations"] == [{"path": str(chat.folder / "a.py")}]
    assert call["rawInput"] == {"path": "a.py"}
    assert call["rawOutput"]["text"] == "alpha = 1  # TODO"
    assert "alpha = 1" in content(call)
    assert record.stop == "end_turn"


@pytest.mark.parametrize(
    ("prompt", "kind", "shown"),
    [
        ("list src", "read", "b.py"),
        ("find *.py", "search", "src/b.py"),
        ("search TODO", "search", "1: alpha"),
    ],
)
async def test_read_only_instructions_run_without_permission(
    chat: Chat, prompt: str, kind: str, shown: str
) -> None:
    record = await chat.turn(prompt)
    assert record.call["kind"] == kind
    assert record.call["statuses"] == ["pending", "in_progress", "completed"]
    assert shown in content(record.call)
    assert chat.editor.questions == []


async def test_instructions_joined_by_and_are_calls_of_one_answer(chat: Chat) -> None:
    record = await chat.turn("read a.py and list src and search beta")
    assert [call["title"] for call in record.calls] == ["Read a.py", "List src", "Search for beta"]
    assert {call["status"] for call in record.calls} == {"completed"}


async def test_write(chat: Chat) -> None:
    record = await chat.turn("write notes.txt: hello")
    path = str(chat.folder / "notes.txt")
    assert Path(path).read_text().strip() == "hello"
    assert record.call["kind"] == "edit"
    assert record.call["content"] == [{"type": "diff", "path": path, "oldText": None, "newText": "hello"}]
    [question] = chat.editor.asked_for("session/request_permission")
    assert question["toolCall"]["toolCallId"] == record.call["toolCallId"]
    assert question["toolCall"]["content"] == record.call["content"], (
        "the permission request must show the change"
    )


async def test_replace(chat: Chat) -> None:
    record = await chat.turn("replace alpha with gamma in a.py")
    [diff] = record.calls[-1]["content"]
    assert (diff["oldText"], diff["newText"]) == ("alpha = 1  # TODO\n", "gamma = 1  # TODO\n")
    assert (chat.folder / "a.py").read_text() == "gamma = 1  # TODO\n"


async def test_run(chat: Chat) -> None:
    record = await chat.turn("run echo out; echo err >&2; exit 3")
    assert (record.call["kind"], record.call["title"]) == ("execute", "echo out; echo err >&2; exit 3")
    assert record.call["rawOutput"]["exit_code"] == 3
    assert {"out", "err"} <= set(record.call["rawOutput"]["output"].splitlines())
    assert record.stop == "end_turn"


@pytest.mark.parametrize("host", ["127.0.0.1:9", "localhost:9", "[::1]:9", "169.254.169.254"])
async def test_fetch_of_local_addresses_is_refused(chat: Chat, host: str) -> None:
    record = await chat.turn(f"fetch http://{host}/secret")
    assert (record.call["kind"], record.call["status"]) == ("fetch", "failed")
    assert "may not be fetched" in content(record.call)


async def test_plan(chat: Chat) -> None:
    record = await chat.turn("plan: look; change; test")
    [plan] = record.of("plan")
    assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
        ("look", "pending"),
        ("change", "pending"),
        ("test", "pending"),
    ]
    assert record.call["status"] == "completed"


async def test_ask_without_a_capable_client(chat: Chat) -> None:
    record = await chat.turn("ask: which colour?")
    assert content(record.call) == "(user unavailable)"
    assert record.stop == "end_turn"


async def test_think(chat: Chat) -> None:
    record = await chat.turn("think: what if it rains")
    assert record.thoughts == "what if it rains"
    assert record.calls == []
    ids = [
        {update["messageId"] for update in record.of(f"agent_{kind}_chunk")}
        for kind in ("thought", "message")
    ]
    assert [len(one) for one in ids] == [1, 1], "the chunks of a message must share an id"
    assert ids[0] != ids[1]


async def test_delegate(chat: Chat) -> None:
    record = await chat.turn('delegate: "read a.py then list src" then list')
    first, second = record.calls
    assert (first["name"], first["kind"], first["status"]) == ("agent", "execute", "completed")
    assert "✓ Read a.py" in first["content"][0]["content"]["text"]
    assert second["title"] == "List ."


async def test_instructions_joined_by_then_run_in_order(chat: Chat) -> None:
    record = await chat.turn(
        "write x.txt: one then replace one with two in x.txt then run cat x.txt then plan: rest"
    )
    assert [call["name"] for call in record.calls if call["name"] != "read_file"] == [
        "write_file",
        "edit_file",
        "bash",
        "plan",
    ]
    assert {call["status"] for call in record.calls} == {"completed"}
    assert record.calls[-2]["rawOutput"]["output"].strip() == "two"
    assert "4. plan: rest" in record.text


async def test_usage_of_turn_and_context_is_reported(chat: Chat) -> None:
    record = await chat.turn("list")
    usage = record.result["usage"]
    assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"] > 0
    last = record.of("usage_update")[-1]
    assert 0 < last["used"] < last["size"]


async def test_session_title_comes_from_the_first_prompt(chat: Chat) -> None:
    record = await chat.turn("list src")
    assert [update["title"] for update in record.of("session_info_update")] == ["list src"]
    assert (await chat.turn("read a.py")).of("session_info_update") == []


async def test_second_prompt_in_a_running_turn_is_held(chat: Chat) -> None:
    chat.editor.choose = None
    first = chat.prompt("write x.txt: 1")
    question = await chat.asked()
    second = chat.prompt("list")
    chat.editor.reply(question, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
    assert (await chat.finish(first)).stop == "end_turn"
    assert (await chat.finish(second)).stop == "end_turn"


async def test_slash_text_that_is_not_a_command_is_a_prompt(chat: Chat) -> None:
    assert "no AI" in (await chat.turn("/etc/hosts is where?")).text
