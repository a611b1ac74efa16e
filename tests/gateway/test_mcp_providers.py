"""MCP servers that clients of the gateway provide over their connections."""

from pathlib import Path
from typing import Any

from tests.gateway.gateway_harness import (
    ALL,
    DrivenAgent,
    DrivenClient,
    GatewayHarness,
    gateway_harness,
)

from accord.gateway.access.audit_log import AuditLog

SERVER = {"type": "acp", "name": "editor", "serverId": "ide"}
CAPABILITIES: dict[str, Any] = {**ALL, "mcpCapabilities": {"acp": True}}


async def open_with_server(harness: GatewayHarness, client: DrivenClient, cwd: Path, session: str) -> str:
    """Open a session whose client provides a server; return the server's id at the agent."""
    asked = client.ask("session/new", {"cwd": str(cwd), "mcpServers": [SERVER]})
    request = await harness.agent.answer_new_session(session)
    assert "result" in await client.answer_to(asked)
    (server,) = request["params"]["mcpServers"]
    return server["serverId"]


def call(agent: DrivenAgent, server: str, **more: Any) -> Any:
    params = {"serverId": server, "requestId": "r", "method": "tools/list", **more}
    return agent.ask("mcp/message", params)


async def test_each_client_serves_its_own_server(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(CAPABILITIES, audit=audit) as harness:
        first, second = await harness.client(), await harness.client_v2()
        one = await open_with_server(harness, first, tmp_path, "s1")
        two = await open_with_server(harness, second, tmp_path, "s2")
        assert (one, two) == ("ide", "ide-2")
        for client, server in ((first, one), (second, two)):
            asked = call(harness.agent, server)
            request = await client.until_method("mcp/message")
            assert request["params"]["serverId"] == "ide"
            client.notify("mcp/message", {"serverId": "ide", "requestId": "r", "method": "progress"})
            assert (await harness.agent.until_method("mcp/message"))["params"]["serverId"] == server
            client.reply(request, {"result": {"tools": []}})
            assert (await harness.agent.answer_to(asked))["result"] == {"result": {"tools": []}}


async def test_a_call_that_the_agent_cancels_is_withdrawn(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(CAPABILITIES, audit=audit) as harness:
        client = await harness.client()
        server = await open_with_server(harness, client, tmp_path, "s1")
        asked = call(harness.agent, server)
        request = await client.until_method("mcp/message")
        harness.agent.notify("$/cancel_request", {"requestId": asked})
        cancel = await client.until_method("$/cancel_request")
        assert cancel["params"] == {"requestId": request["id"]}
        assert (await harness.agent.answer_to(asked))["error"]["code"] == -32800


async def test_a_client_that_is_gone_serves_nothing_until_it_is_back(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(CAPABILITIES, audit=audit) as harness:
        client = await harness.client()
        server = await open_with_server(harness, client, tmp_path, "s1")
        for unknown in ("other", server):
            if unknown == server:
                await client.aclose()
            error = (await harness.agent.answer_to(call(harness.agent, unknown)))["error"]
            assert error["code"] == -33001
        again = await harness.client()
        params = {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": [SERVER]}
        await again.updates_until(again.ask("session/load", params))
        asked = call(harness.agent, server)
        again.reply(await again.until_method("mcp/message"), {"result": 1})
        assert (await harness.agent.answer_to(asked))["result"] == {"result": 1}
