"""Clients that use a dialect: repaired by default and reported once; refused by a strict agent."""

from typing import Any

import pytest
from tests.agent.agent_client import STRICT, connected_client, make_agent, silent
from tests.agent.memory_agent import memory_agent

from accord.agent import AgentOptions
from accord.wire.calls import ConnectionReport


@pytest.mark.rule("accord.agent-strict-mode")
@pytest.mark.dialect(43, 202)
async def test_old_method_names_work_unless_the_agent_is_strict() -> None:
    async with connected_client(memory_agent()) as client:
        session = await client.new_session()
        listed = await client.call("sessions/list", {"cwd": "/home/me/app"})
        await client.call("session/stop", {"sessionId": session})
        assert (await client.error("session/prompt", {"sessionId": session, "prompt": []}))["code"] == -32002
    assert [info["sessionId"] for info in listed["sessions"]] == [session]
    async with connected_client(memory_agent(), options=STRICT) as client:
        session = await client.new_session()
        for method in ("sessions/list", "session/stop", "session/cancel"):
            assert (await client.error(method, {"sessionId": session}))["code"] == -32601


async def test_an_old_method_name_is_not_found_when_the_new_one_is_not_served() -> None:
    async with connected_client(make_agent(silent)) as client:
        assert (await client.error("sessions/list", {}))["code"] == -32601


@pytest.mark.rule("accord.agent-strict-mode")
@pytest.mark.dialect(301)
async def test_snake_case_keys_are_accepted_unless_the_agent_is_strict() -> None:
    async with connected_client(make_agent(silent)) as client:
        session = await client.new_session()
        result = await client.call("session/prompt", {"session_id": session, "prompt": []})
    assert result == {"stopReason": "end_turn"}
    async with connected_client(make_agent(silent), options=STRICT) as client:
        session = await client.new_session()
        assert (await client.error("session/prompt", {"session_id": session, "prompt": []}))["code"] == -32602


async def test_a_dialect_is_reported_once_to_each_client() -> None:
    rows: list[int] = []
    options = AgentOptions(on_dialect=lambda row, text: rows.append(row))
    agent = make_agent(silent)
    for _ in range(2):
        async with connected_client(agent, options=options) as client:
            session = await client.new_session()
            for _ in range(3):
                await client.call("session/prompt", {"sessionId": session, "prompt": "hi"})
            await client.call("session/new", {"cwd": "/a"})
    assert rows == [1, 32, 1, 32]


async def test_dialects_and_noise_are_logged_without_an_observer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "accord.agent")
    async with connected_client(make_agent(silent)) as client:
        await client.call("session/new", {"cwd": "/a"})
        client.raw.send("{oops")
        await client.raw.next()
    assert "dialect, row 32" in caplog.text
    assert "noise" in caplog.text


async def test_the_observer_gets_noise_unmatched_responses_and_unknown_notifications() -> None:
    reports: list[ConnectionReport] = []
    async with connected_client(make_agent(silent), options=AgentOptions(observer=reports.append)) as client:
        client.raw.send("{oops")
        await client.raw.next()
        client.raw.send({"jsonrpc": "2.0", "id": 99, "result": {}})
        client.raw.notify("_vendor/unknown", {})
        await client.new_session()
    assert [report.kind for report in reports] == ["noise", "unmatched", "unknown"]


async def test_a_missing_jsonrpc_member_is_refused_by_a_strict_agent_only() -> None:
    line: Any = '{"id":1,"method":"session/new","params":{"cwd":"/a","mcpServers":[]}}'
    for options in (None, STRICT):
        async with connected_client(make_agent(silent), options=options) as client:
            client.raw.send(line)
            answer = await client.raw.next()
        assert ("error" in answer) is (options is STRICT)
