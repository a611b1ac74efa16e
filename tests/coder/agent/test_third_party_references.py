"""Speaks to the agent process as the iac-code, Agentao and quick references describe a server.

The messages have the form that the references print.
"""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.coder.agent.harness import AgentHarness
from tests.coder.process.editor import Chat, Editor, started

pytestmark = pytest.mark.asyncio(loop_scope="module")

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Editor]:
    """Start one process that most tests share."""
    home = tmp_path_factory.mktemp("home")
    async with started(home, home, edition="schema.unstable") as editor:
        yield editor


@pytest_asyncio.fixture(loop_scope="module")
async def editor(agent: Editor, tmp_path: Path) -> Editor:
    """Give the shared process a new project."""
    agent.folder = tmp_path / "project"
    agent.folder.mkdir()
    (agent.folder / "a.py").write_text("alpha = 1\n")
    agent.choose = "allow_once"
    agent.answers = {"session/request_permission": agent.decide}
    agent.questions.clear()
    return agent


def current_values(update: Any) -> dict[str, str]:
    """Return the current values of the options, by id."""
    return {option["id"]: option["currentValue"] for option in update["configOptions"]}


# -- iac-code ------------------------------------------------------------------------------------------------


async def test_iac_code_session_lifecycle(editor: Editor) -> None:
    opened = await editor.call("session/new", cwd=str(editor.folder))  # `mcpServers` may be left out
    session = opened["sessionId"]
    assert opened["modes"]["currentModeId"] == "ask"
    record = await Chat(editor, opened, editor.folder).turn("read a.py")
    assert record.stop == "end_turn"
    assert set(record.result["usage"]) >= {"inputTokens", "outputTokens", "totalTokens"}
    where = {"cwd": str(editor.folder), "sessionId": session}
    forked = await editor.call("session/fork", **where)
    assert forked["sessionId"] != session
    assert forked["modes"]
    assert await editor.call("session/close", sessionId=session) == {}
    assert "error" in await editor.answer(Chat(editor, opened, editor.folder).prompt("list"))
    listed = await editor.call("sessions/list", cwd=str(editor.folder))
    assert {entry["sessionId"] for entry in listed["sessions"]} == {session, forked["sessionId"]}
    since = len(editor.wire.heard)
    assert (await editor.call("session/load", **where))["modes"]
    assert "alpha" in json.dumps(editor.wire.heard[since:])
    await editor.call("session/close", sessionId=session)
    resumed = await editor.call("session/resume", **where)
    assert "sessionId" not in resumed
    assert resumed["modes"]


async def test_iac_code_config_set(editor: Editor) -> None:
    chat = await editor.new()
    result = await chat.do("config/set", configId="mode", value="plan")
    assert current_values(result)["mode"] == "plan"
    error = await editor.error("config/set", sessionId=chat.id, configId="colour", value="red")
    assert error["code"] == -32602
    assert (await editor.error("session/prompt", sessionId="abc123", prompt=[]))["code"] == -32002


@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        ({"outcome": "allowed", "option_id": "allow_once"}, True),
        ({"outcome": "denied"}, False),
        ({"outcome": "allowed", "option_id": "reject_once"}, False),
        ({"outcome": "allowed"}, False),
        ({"outcome": {"outcome": "selected", "optionId": "allow_once"}}, True),
        ({"outcome": {"outcome": "cancelled"}}, False),
    ],
)
async def test_iac_code_permission_answers(editor: Editor, answer: Any, runs: bool) -> None:
    editor.answers["session/request_permission"] = lambda question: answer
    record = await (await editor.new()).turn("write new.txt: hello")
    assert record.stop == "end_turn"
    assert (editor.folder / "new.txt").exists() is runs
    assert record.call["status"] == ("completed" if runs else "failed")
    assert ("Permission denied." in json.dumps(record.call["content"])) is not runs
    [question] = editor.asked_for("session/request_permission")
    assert [option["optionId"] for option in question["options"]] == [
        "allow_once",
        "allow_always",
        "reject_once",
        "reject_always",
        "allow_project",
        "allow_user",
    ]
    assert question["toolCall"]["title"]
    assert question["toolCall"]["kind"] == "edit"
    assert question["toolCall"]["rawInput"] == {"path": "new.txt", "content": "hello"}


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("read a.py", "read"),
        ("list .", "read"),
        ("find *.py", "search"),
        ("search alpha", "search"),
        ("write b.py: x", "edit"),
        ("read a.py then replace 1 with 2 in a.py", "edit"),
        ("run true", "execute"),
        ("delegate: list .", "execute"),
        ("fetch http://localhost/", "fetch"),
    ],
)
async def test_iac_code_tool_kinds(editor: Editor, prompt: str, kind: str) -> None:
    record = await (await editor.new()).turn(prompt)
    assert kind in [call["kind"] for call in record.calls]
    assert {call["statuses"][0] for call in record.calls} == {"pending"}
    assert all(call["statuses"][-1] in ("completed", "failed") for call in record.calls)


async def test_unsupported_image_and_audio_blocks_do_not_fail_the_prompt(
    editor: Editor,
) -> None:
    assert editor.agent["agentCapabilities"]["promptCapabilities"] == {
        "image": False,
        "audio": False,
        "embeddedContext": True,
    }
    chat = await editor.new()
    record = await chat.turn(
        [
            {"type": "image", "mimeType": "image/png", "data": PIXEL},
            {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
            {"type": "resource", "resource": {"uri": "file:///x/y.py", "text": "y = 2"}},
            {"type": "resource_link", "uri": "file:///x/z.py", "name": "z.py"},
        ]
    )
    assert record.stop == "end_turn"


# -- Agentao -------------------------------------------------------------------------------------------------


async def test_agentao_initialize(harness: AgentHarness) -> None:
    async with started(harness.home, harness.project, initialize=False) as editor:
        before = await editor.error("session/new", cwd=harness.cwd, mcpServers=[])
        assert before["code"] == -32600
        refused = await editor.error("initialize", protocolVersion=True, clientCapabilities={})
        assert refused["code"] == -32602
        result = await editor.call(
            "initialize",
            protocolVersion=1,
            clientCapabilities={"fs": {"readFile": True, "writeFile": True}},
            clientInfo={"name": "host", "version": "1", "title": "Host"},
        )
        extensions = result["_meta"]["_agentao.cn/extensions"]
        assert [entry["method"] for entry in extensions] == ["_agentao.cn/set_model", "_agentao.cn/ask_user"]
        assert extensions == result["agentCapabilities"]["_meta"]["_agentao.cn/extensions"]
        chat = await editor.new()
        assert (await chat.turn("write a.txt: x")).stop == "end_turn"
        assert editor.asked_for("fs/write_text_file") == [], "readFile and writeFile are not protocol names"


@pytest.mark.parametrize(
    "server",
    [
        {
            "name": "s",
            "type": "stdio",
            "command": "/bin/true",
            "args": [],
            "env": [{"name": "A", "value": "b"}],
        },
        {"name": "s", "type": "http", "url": "http://127.0.0.1:9/", "headers": []},
        {"name": "s", "type": "sse", "url": "http://127.0.0.1:9/", "headers": [{"name": "A", "value": "b"}]},
    ],
    ids=lambda server: server["type"],
)
async def test_agentao_mcp_servers(editor: Editor, server: Any) -> None:
    opened = await editor.call("session/new", cwd=str(editor.folder), mcpServers=[server])
    record = await Chat(editor, opened, editor.folder).turn("think: x")
    assert record.stop == "end_turn"
    await editor.call("session/close", sessionId=opened["sessionId"])
    again = await editor.call(
        "session/load", sessionId=opened["sessionId"], cwd=str(editor.folder), mcpServers=[]
    )
    assert again["configOptions"] == opened["configOptions"]


async def test_agentao_model_selection(editor: Editor) -> None:
    chat = await editor.new()
    [model] = [option for option in chat.opened["configOptions"] if option["id"] == "model"]
    assert (model["category"], model["type"], model["currentValue"]) == ("model", "select", "rehearsal")
    result = await chat.do("session/set_config_option", configId="model", value="rehearsal")
    assert current_values(result)["model"] == "rehearsal"
    assert await chat.do("_agentao.cn/set_model", model=" rehearsal ") == {"model": "rehearsal"}
    for method, params in (
        ("session/set_config_option", {"configId": "model", "value": "rehearsal"}),
        ("_agentao.cn/set_model", {"model": "rehearsal"}),
    ):
        for member in ("apiKey", "baseUrl"):
            error = await editor.error(method, sessionId=chat.id, **params, **{member: "x"})
            assert error["code"] == -32602
        await chat.do(method, **params, _meta={"any": "thing"})
    error = await editor.error("_agentao.cn/set_model", sessionId=chat.id, model="nobody/knows")
    assert error["code"] == -32602
    error = await editor.error(
        "session/set_config_option", sessionId=chat.id, configId="model", value="openai/gpt-4o"
    )
    assert error["code"] == -32000, "the provider has no key"
    assert "OPENAI_API_KEY" in error["message"]


@pytest.mark.parametrize("mode", ["read-only", "workspace-write", "full-access", "plan"])
async def test_agentao_modes(editor: Editor, mode: str) -> None:
    chat, other = await editor.new(), await editor.new()
    await chat.do("session/set_mode", modeId=mode)
    for session, expected in ((chat, mode), (other, "ask")):
        result = await session.do("session/set_config_option", configId="model", value="rehearsal")
        assert current_values(result)["mode"] == expected


async def test_cancel_sent_as_a_request_is_answered(editor: Editor) -> None:
    editor.choose = None
    chat = await editor.new()
    request_id = chat.prompt("write a.txt: x")
    await chat.asked()
    assert await editor.call("session/cancel", sessionId=chat.id) == {}
    assert (await chat.finish(request_id)).stop == "cancelled"


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ({"answer": "red"}, "red"),
        ({"outcome": "answered", "text": "blue"}, "blue"),
        ({"answer": "(user unavailable)"}, "(user unavailable)"),
        ({}, "(user unavailable)"),
    ],
)
async def test_agentao_ask_user(editor: Editor, answer: Any, read: str) -> None:
    editor.answers["_agentao.cn/ask_user"] = lambda question: answer
    chat = await editor.new()
    record = await chat.turn("ask: which colour?")
    assert editor.asked_for("_agentao.cn/ask_user") == [{"sessionId": chat.id, "question": "which colour?"}]
    assert read in json.dumps(record.call["content"])


# -- the quick reference -------------------------------------------------------------------------------------


async def test_quick_reference_minimal_sequence(harness: AgentHarness) -> None:
    async with started(harness.home, harness.project, initialize=False) as editor:
        send = editor.wire.send
        send(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {"protocolVersion": 1, "capabilities": {}},
            }
        )
        assert (await editor.answer(1))["result"]["protocolVersion"] == 1
        send(
            {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "session/new",
                "params": {"cwd": harness.cwd, "mcpServers": []},
            }
        )
        session = (await editor.answer(2))["result"]["sessionId"]
        prompt = [{"type": "text", "text": "say hello"}]
        send(
            {
                "jsonrpc": "2.0",
                "id": 3,
                "method": "session/prompt",
                "params": {"sessionId": session, "prompt": prompt},
            }
        )
        assert (await editor.answer(3))["result"]["stopReason"] == "end_turn"


async def test_quick_reference_embedded_resource_name(editor: Editor) -> None:
    chat = await editor.new()
    block = {"type": "embedded_resource", "resource": {"uri": "file:///x/y.py", "text": "y = 2"}}
    assert (await chat.turn([{"type": "text", "text": "think: of it"}, block])).stop == "end_turn"
