"""Version 2 in real processes: Accord and the official SDKs, in both roles.

The TypeScript SDK has the newest draft, the pre-release of the Python SDK an earlier one.

Every message that Accord sends is validated against the official schema of version 2.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.interop.wire_record import Side, WireRecord
from tests.patience import PATIENCE
from tests.requirements import need_node, need_npm, need_official_prerelease

import accord
from accord.client import ClientHandlers, McpCall, McpMethodFailed, allow_all
from accord.errors import RpcError
from accord.schema import McpServerAcp

need_npm("@agentclientprotocol/sdk")
NODE = need_node()
HERE = Path(__file__).parent
PEERS = HERE.parent / "check" / "peers"
TS_AGENT = [NODE, str(PEERS / "official_ts_agent_v2.mjs")]
TS_MCP_AGENT = [NODE, str(HERE / "peers" / "official_ts_mcp_agent.mjs")]
TS_MCP_CLIENT = [NODE, str(HERE / "peers" / "official_ts_mcp_client.mjs")]
TS_CLIENT = [NODE, str(PEERS / "official_ts_client_v2.mjs")]
CODER = [sys.executable, "-m", "accord.cli", "agent", "--model", "rehearsal"]


def tee(folder: Path, command: list[str]) -> list[str]:
    """The command of a program that records what passes to and from an agent."""
    return [sys.executable, str(HERE / "tee.py"), str(folder), *command]


def check(folder: Path, side: Side) -> WireRecord:
    """The recorded messages; those of our side are official."""
    record = WireRecord.read(folder)
    assert record.unofficial(side, edition="schema.unstable", version=2) == []
    return record


@pytest.mark.parametrize("protocol", [2, "auto"])
async def test_our_client_uses_an_agent_of_the_official_sdk(tmp_path: Path, protocol: Any) -> None:
    handlers = ClientHandlers(permissions=allow_all)
    command = tee(tmp_path, TS_AGENT)
    async with accord.connect(*command, handlers=handlers, protocol=protocol) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("hello")).text == "hello"
        assert [message.kind for message in session.state.messages] == ["user", "agent"]
        await session.set_config_option("color", "blue")
        assert session.state.settings.config_options[0].current_value == "blue"
        await session.ask("ask made.txt")
        assert (tmp_path / "made.txt").read_text() == "made\n"
        turn = asyncio.create_task(session.ask("busy"))
        events = session.events()
        while session.state.activity != "running" or not session.state.tool_calls:
            await anext(events)
        session.cancel()
        assert (await turn).stop_reason == "cancelled"
        assert session.state.activity == "idle"
        assert [info.session_id async for info in agent.list_sessions()] == [session.id]
        await session.close()
        again = await agent.load_session(session.id, tmp_path)
        assert [message.text for message in again.state.messages][:2] == ["hello", "hello"]
        with pytest.raises(RpcError):
            await agent.resume_session("none", tmp_path)
    record = check(tmp_path, "client")
    (request,) = record.calls("client", "initialize")
    assert request["params"]["protocolVersion"] == 2
    assert record.calls("client", "session/load") == []


@pytest.mark.parametrize("protocol", [2, "auto"])
async def test_our_client_uses_an_agent_of_the_python_prerelease(tmp_path: Path, protocol: Any) -> None:
    python = need_official_prerelease()
    command = tee(tmp_path, [python, str(HERE / "peers" / "official_python_agent_v2.py")])
    handlers = ClientHandlers(permissions=allow_all)
    async with accord.connect(*command, handlers=handlers, protocol=protocol) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("hello")).text == "hello"
        assert (await session.ask("ask first")).text == "selected"
        assert [call.status for call in session.state.tool_calls.values()] == ["completed"] * 2
        turn = asyncio.create_task(session.ask("busy"))
        events = session.events()
        while session.state.activity != "running":
            await anext(events)
        session.cancel()
        assert (await turn).stop_reason == "cancelled"
        assert [info.session_id async for info in agent.list_sessions()] == [session.id]
        again = await agent.load_session(session.id, tmp_path)
        texts = ["hello", "hello", "ask first", "selected", "busy"]
        assert [message.text for message in again.state.messages] == texts
    check(tmp_path, "client")


def test_a_client_of_the_python_prerelease_uses_our_agent(tmp_path: Path) -> None:
    client = [need_official_prerelease(), str(HERE / "peers" / "official_python_client_v2.py")]
    folder, wire = tmp_path / "work", tmp_path / "wire"
    folder.mkdir()
    wire.mkdir()
    done = subprocess.run(
        [*client, str(folder), "write notes.txt: hello", *tee(wire, CODER)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "['running', 'requires_action', 'running', 'idle'] end_turn" in done.stdout
    assert (folder / "notes.txt").read_text() == "hello"
    check(wire, "agent")


@pytest.mark.parametrize(
    ("words", "text"),
    [("say: hello", "hello"), ("write notes.txt: hello", "notes.txt"), ("run echo hello", "hello")],
)
def test_a_client_of_the_official_sdk_uses_our_agent(tmp_path: Path, words: str, text: str) -> None:
    folder, wire = tmp_path / "work", tmp_path / "wire"
    folder.mkdir()
    wire.mkdir()
    done = subprocess.run(
        [*TS_CLIENT, str(folder), words, "--", *tee(wire, CODER)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert text in done.stdout
    record = check(wire, "agent")
    states = [
        update["state"]
        for message in record.calls("agent", "session/update")
        if (update := message["params"]["update"])["sessionUpdate"] == "state_update"
    ]
    assert (states[0], states[-1]) == ("running", "idle")
    (answer,) = record.answers_of("agent", "session/prompt")
    assert answer["result"]["messageId"] in json.dumps(record.calls("agent", "session/update"))


async def test_an_agent_of_the_official_sdk_calls_the_mcp_server_of_our_client(tmp_path: Path) -> None:
    async def serve(call: McpCall) -> Any:
        assert call.params is not None
        if call.params["name"] == "fail":
            raise McpMethodFailed(-32001, "it failed")
        return {"content": [{"type": "text", "text": f"heard {call.params['arguments']['word']}"}]}

    handlers = ClientHandlers(mcp={"editor-1": serve})
    async with accord.connect(*tee(tmp_path, TS_MCP_AGENT), handlers=handlers, protocol=2) as agent:
        session = await agent.new_session(tmp_path, mcp_servers=[McpServerAcp("editor", "editor-1")])
        assert (await session.ask("hello")).text == "heard hello"
        assert (await session.ask("fail")).text == "error -32001"
    check(tmp_path, "client")


def test_our_agent_uses_the_mcp_server_of_a_client_of_the_official_sdk(tmp_path: Path) -> None:
    folder, wire = tmp_path / "work", tmp_path / "wire"
    folder.mkdir()
    wire.mkdir()
    done = subprocess.run(
        [*TS_MCP_CLIENT, str(folder), "/mcp editor", *tee(wire, CODER)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "`editor` (acp): ready" in done.stdout
    assert "`echo`" in done.stdout
    check(wire, "agent")
