"""Only a token with the right may choose what an agent starts: MCP servers and a vendor's start options."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import DrivenClient, gateway_harness, open_session
from tests.gateway.test_folder_rights import FORKING

from accord.gateway.access.access_tokens import TokenRights, TokenStore
from accord.gateway.access.audit_log import AuditLog

NOT_ALLOWED = -32003
STDIO = {"name": "shell", "command": "sh", "args": ["-c", "id"], "env": []}
HTTP = {"type": "http", "name": "metadata", "url": "http://169.254.169.254/", "headers": []}
SSE = {"type": "sse", "name": "inner", "url": "http://127.0.0.1:9/", "headers": []}
OF_THE_CLIENT = {"type": "acp", "name": "mine", "serverId": "one"}
OPENING = ["session/new", "session/load", "session/resume", "session/fork"]


def restricted(tmp_path: Path) -> dict[str, TokenRights]:
    folder = (str(tmp_path),)
    return {
        "folder": TokenRights("t2", "guest", folders=folder),
        "agent": TokenRights("t2", "guest", agents=frozenset({"hand"})),
        "read-only": TokenRights("t2", "guest", read_only=True),
        "gateway folder": TokenRights("t2", "guest").restricted_to(folder),
    }


def opening(method: str, cwd: Path, **more: Any) -> dict[str, Any]:
    session = {} if method == "session/new" else {"sessionId": "s1"}
    return {**session, "cwd": str(cwd), "mcpServers": [], **more}


@pytest.mark.parametrize("kind", ["folder", "agent", "read-only", "gateway folder"])
@pytest.mark.parametrize("method", OPENING)
async def test_a_restricted_token_cannot_add_mcp_servers(
    audit: AuditLog, tmp_path: Path, kind: str, method: str
) -> None:
    async with gateway_harness(FORKING, audit=audit) as harness:
        owner, client = await harness.client(), await harness.client(restricted(tmp_path)[kind])
        await open_session(harness, owner, tmp_path)
        for servers in ([STDIO], [HTTP], [SSE], {"shell": {"command": "sh"}}, [OF_THE_CLIENT, STDIO]):
            error = await client.error(method, opening(method, tmp_path, mcpServers=servers))
            assert error["code"] == NOT_ALLOWED, (servers, error)
            if kind != "read-only":
                assert "may not add MCP servers" in error["message"]
                assert "--allow-mcp" in error["message"]
        assert not [m for m in harness.agent.received[2:] if "mcpServers" in json.dumps(m)]
    lines = [json.loads(line) for line in audit.path.read_text().splitlines()]
    assert [line["method"] for line in lines if line["event"] == "refused"] == [method] * 5


HIDDEN: list[dict[str, Any]] = [
    {"_meta": {"mcpServers": [STDIO]}},
    {"_meta": {"vendor": {"options": {"mcp_servers": {"x": STDIO}}}}},
    {"_meta": {"claudeCode": {"options": {"executableArgs": ["-e", "evil()"]}}}},
    {"MCPServers": [STDIO]},
    {"mcp_servers": [STDIO]},
    {"mcpServers": [{**OF_THE_CLIENT, "command": "sh"}]},
    {"mcpServers": STDIO},
]


@pytest.mark.parametrize("members", HIDDEN, ids=json.dumps)
@pytest.mark.parametrize("method", OPENING)
async def test_a_restricted_token_cannot_hide_commands_in_other_members(
    audit: AuditLog, tmp_path: Path, method: str, members: dict[str, Any]
) -> None:
    async with gateway_harness(FORKING, audit=audit) as harness:
        client = await harness.client(restricted(tmp_path)["folder"])
        error = await client.error(method, opening(method, tmp_path, **members))
        assert error["code"] in (NOT_ALLOWED, -32602), error
        assert len(harness.agent.received) == 1  # only `initialize`


async def test_a_restricted_token_cannot_add_mcp_servers_with_a_vendor_method(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(restricted(tmp_path)["folder"])
        await open_session(harness, client, tmp_path)
        for config in (
            {"mcpServers": [STDIO]},
            {"type": "stdio", "name": "x", "cmd": "sh", "args": ["-c", "id"]},
            {"name": "x", "Cmd": "sh", "envs": {}},
            {"extension": {"command": "sh", "args": []}},
            {"type": "streamable-http", "uri": "http://127.0.0.1:9/"},
        ):
            params = {"sessionId": "s1", "config": config}
            assert (await client.error("_vendor/configure", params))["code"] == NOT_ALLOWED, config
            client.notify("_vendor/configure", params)
        await client.call("_accord/agents")
        assert [m["method"] for m in harness.agent.received] == ["initialize", "session/new"]


async def test_a_repeated_member_reaches_the_agent_once(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(restricted(tmp_path)["folder"])
        client.send(
            b'{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"/","mcpServers":[%s],'
            b'"cwd":%s,"mcpServers":[]}}' % (json.dumps(STDIO).encode(), json.dumps(str(tmp_path)).encode())
        )
        asked = await harness.agent.until_method("session/new")
        assert asked["params"] == {"cwd": str(tmp_path), "mcpServers": []}
        assert "command" not in str(harness.agent.lines[-1])


async def open_with(client: DrivenClient, harness: Any, folder: Path, **members: Any) -> Any:
    """Open a session and return the parameters that reached the agent."""
    asked = client.ask("session/new", opening("session/new", folder, **members))
    params = (await harness.agent.answer_new_session("s1"))["params"]
    assert "result" in await client.answer_to(asked)
    return params


@pytest.mark.parametrize(
    "rights", [TokenRights("t1"), TokenRights("t1", agents=frozenset({"hand"}), allow_mcp=True)]
)
async def test_a_token_with_the_right_passes_servers_on(
    audit: AuditLog, tmp_path: Path, rights: TokenRights
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(rights)
        params = await open_with(client, harness, tmp_path, mcpServers=[STDIO, HTTP])
        assert params["mcpServers"] == [STDIO, HTTP]
        assert "mcpServers" not in client.initialize_result["agentCapabilities"]["_meta"]["accord"]["gateway"]


async def test_a_folder_token_can_get_the_right_and_keeps_its_folders(
    audit: AuditLog, tmp_path: Path
) -> None:
    rights = TokenRights("t1", folders=(str(tmp_path),), allow_mcp=True)
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(rights)
        params = await open_with(client, harness, tmp_path, mcpServers=[STDIO], _meta={"a": {"b": 1}})
        assert params["mcpServers"] == [STDIO]
        assert (await client.error("session/new", opening("session/new", Path("/"))))["code"] == NOT_ALLOWED


async def test_a_restricted_token_may_provide_servers_over_its_own_connection(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(restricted(tmp_path)["folder"])
        meta = {"traceparent": "00-1-2-01", "label": "mine"}
        params = await open_with(client, harness, tmp_path, mcpServers=[OF_THE_CLIENT], _meta=meta)
        assert (params["mcpServers"], params["_meta"]) == ([OF_THE_CLIENT], meta)
        announced = client.initialize_result["agentCapabilities"]["_meta"]["accord"]["gateway"]
        assert announced["mcpServers"] is False


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [({}, True), ({"folders": ["/"]}, False), ({"agents": ["a"]}, False), ({"read_only": True}, False)],
)
def test_a_token_stored_before_the_right_existed_is_judged_by_its_kind(
    tmp_path: Path, scope: dict[str, Any], allowed: bool
) -> None:
    tokens = TokenStore(tmp_path)
    made, text = tokens.new(**scope)
    file = tmp_path / f"{made.id}.json"
    members = json.loads(file.read_text())
    del members["allow_mcp"]
    file.write_text(json.dumps(members))
    stored = TokenStore(tmp_path).find(text)
    assert stored is not None
    assert stored.rights().may_add_mcp_servers is allowed
