"""MCP servers that the client offers to the agent over ACP (unstable)."""

import asyncio

import pytest
from tests.client.raw_agent import both, connected

from accord.client import ClientHandlers, McpMethodFailed
from accord.schema import McpServerAcp
from accord.testing.fake_clock import settle


def message(method="tools/list", request_id="r1", **more):
    return {"serverId": "srv", "requestId": request_id, "method": method, **more}


@pytest.mark.rule("mcp.needs-capability", "mcp.result-or-error", "mcp.notification-of-active-request")
async def test_mcp_calls_return_results_errors_and_progress():
    calls = []

    async def serve(call):
        calls.append(call)
        if call.method == "tools/call":
            call.notify("notifications/progress", {"progress": 1})
            return {"content": [call.params]}
        if call.method == "ping":
            return None
        raise McpMethodFailed(-32601, "Method not found")

    async with connected(handlers=ClientHandlers(mcp={"srv": serve})) as (agent, peer):
        _, asked = await both(agent.new_session("/", mcp_servers=[McpServerAcp("ide", "srv")]), peer.open())
        assert asked["params"]["mcpServers"] == [{"type": "acp", "name": "ide", "serverId": "srv"}]
        called = peer.ask("mcp/message", message("tools/call", params={"name": "open"}))
        progress = await peer.next("mcp/message")
        assert progress["params"] == message("notifications/progress", params={"progress": 1})
        assert "id" not in progress
        assert (await peer.answer_to(called))["result"] == {"result": {"content": [{"name": "open"}]}}
        assert await peer.result_of("mcp/message", message("ping")) == {"result": None}
        failed = await peer.result_of("mcp/message", message("no/such"))
        assert failed == {"error": {"code": -32601, "message": "Method not found"}}
        calls[0].notify("notifications/progress", {"progress": 2})
        await settle()
        assert sum(m.get("method") == "mcp/message" for m in peer.received) == 1, (
            "no progress after the response"
        )


@pytest.mark.rule("mcp.malformed-refused")
@pytest.mark.parametrize(
    ("broken", "code"),
    [({"requestId": None}, -32602), ({"params": []}, -32602), ({"serverId": "no"}, -33001)],
)
async def test_a_malformed_mcp_message_is_answered_with_an_acp_error(broken, code):
    async def serve(_call):
        raise AssertionError

    async with connected(handlers=ClientHandlers(mcp={"srv": serve})) as (_, peer):
        assert (await peer.error_of("mcp/message", message() | broken))["code"] == code


async def test_failures_of_a_server_have_codes_of_their_own(caplog):
    async def serve(call):
        if call.method == "fail":
            raise ZeroDivisionError
        await asyncio.Event().wait()

    async with connected(handlers=ClientHandlers(mcp={"srv": serve})) as (_, peer):
        assert (await peer.error_of("mcp/message", message("fail")))["code"] == -33002
        assert "ZeroDivisionError" in caplog.text
        for number in range(64):
            peer.ask("mcp/message", message("wait", f"r{number}"))
        assert (await peer.error_of("mcp/message", message("wait", "r1")))["code"] == -32602
        assert (await peer.error_of("mcp/message", message("wait", "r64")))["code"] == -33000


async def test_another_revision_of_mcp_is_refused_by_the_server():
    async def serve(_call):
        return {}

    def about(version):
        return {"_meta": {"io.modelcontextprotocol/protocolVersion": version}}

    async with connected(handlers=ClientHandlers(mcp={"srv": serve})) as (_, peer):
        assert await peer.result_of("mcp/message", message(params=about("2026-07-28"))) == {"result": {}}
        answer = await peer.result_of("mcp/message", message(params=about("2025-06-18")))
        data = {"supported": ["2026-07-28"], "requested": "2025-06-18"}
        expected = {"code": -32022, "message": "Unsupported protocol version", "data": data}
        assert answer == {"error": expected}


async def test_the_connections_of_older_drafts_are_served():
    async def serve(call):
        if call.method == "initialize":
            return {"protocolVersion": call.params["protocolVersion"]}
        call.notify("notifications/progress", {"progress": 1})
        raise McpMethodFailed(-32601, "Method not found")

    async with connected(handlers=ClientHandlers(mcp={"srv": serve}), checked=False) as (_, peer):
        assert (await peer.error_of("mcp/connect", {"serverId": "no"}))["code"] == -33001
        connection = await peer.result_of("mcp/connect", {"serverId": "srv"})
        first = {**connection, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
        assert await peer.result_of("mcp/message", first) == {"protocolVersion": "2025-06-18"}
        failed = peer.ask("mcp/message", {**connection, "method": "tools/list"})
        progress = {**connection, "method": "notifications/progress", "params": {"progress": 1}}
        assert (await peer.next("mcp/message"))["params"] == progress
        assert (await peer.answer_to(failed))["error"] == {"code": -32601, "message": "Method not found"}
        assert await peer.result_of("mcp/disconnect", connection) == {}
        assert (await peer.error_of("mcp/message", first))["code"] == -33001


async def test_an_mcp_call_is_cancelled_by_its_acp_request_id():
    cancelled = asyncio.Event()

    async def serve(_call):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with connected(handlers=ClientHandlers(mcp={"srv": serve})) as (_, peer):
        asked = peer.ask("mcp/message", message())
        await settle()
        peer.notify("$/cancel_request", {"requestId": asked})
        assert (await peer.answer_to(asked))["error"]["code"] == -32800
        await cancelled.wait()


async def test_without_mcp_servers_the_method_is_not_found():
    async with connected() as (_, peer):
        assert (await peer.error_of("mcp/message", message()))["code"] == -32601
