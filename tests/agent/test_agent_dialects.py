"""Clients that speak a dialect: understood by default, reported once, and judged as sent by a strict agent."""

from typing import Any

import pytest
from tests.agent.keeper import keeper
from tests.agent.scene import STRICT, agent_that, silent, talk

from accord.agent import AgentOptions
from accord.wire.routes import Report


@pytest.mark.rule(390)
@pytest.mark.dialect(43, 202)
async def test_old_names_of_methods_work_unless_the_agent_is_strict() -> None:
    async with talk(keeper()) as client:
        session = await client.new_session()
        listed = await client.call("sessions/list", {"cwd": "/home/me/app"})
        await client.call("session/stop", {"sessionId": session})
        assert (await client.error("session/prompt", {"sessionId": session, "prompt": []}))["code"] == -32002
    assert [info["sessionId"] for info in listed["sessions"]] == [session]
    async with talk(keeper(), options=STRICT) as client:
        session = await client.new_session()
        for method in ("sessions/list", "session/stop", "session/cancel"):
            assert (await client.error(method, {"sessionId": session}))["code"] == -32601


async def test_an_old_name_serves_nothing_that_is_not_served_under_the_new_one() -> None:
    async with talk(agent_that(silent)) as client:
        assert (await client.error("sessions/list", {}))["code"] == -32601


@pytest.mark.rule(390)
@pytest.mark.dialect(301)
async def test_keys_in_snake_case_are_understood_unless_the_agent_is_strict() -> None:
    async with talk(agent_that(silent)) as client:
        session = await client.new_session()
        result = await client.call("session/prompt", {"session_id": session, "prompt": []})
    assert result == {"stopReason": "end_turn"}
    async with talk(agent_that(silent), options=STRICT) as client:
        session = await client.new_session()
        assert (await client.error("session/prompt", {"session_id": session, "prompt": []}))["code"] == -32602


async def test_a_dialect_is_reported_once_to_each_client() -> None:
    met: list[int] = []
    options = AgentOptions(on_dialect=lambda row, text: met.append(row))
    agent = agent_that(silent)
    for _ in range(2):
        async with talk(agent, options=options) as client:
            session = await client.new_session()
            for _ in range(3):
                await client.call("session/prompt", {"sessionId": session, "prompt": "hi"})
            await client.call("session/new", {"cwd": "/a"})
    assert met == [1, 32, 1, 32]


async def test_dialects_and_noise_are_logged_where_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "accord.agent")
    async with talk(agent_that(silent)) as client:
        await client.call("session/new", {"cwd": "/a"})
        client.raw.send("{oops")
        await client.raw.next()
    assert "dialect, row 32" in caplog.text
    assert "noise" in caplog.text


async def test_an_observer_hears_what_was_survived() -> None:
    heard: list[Report] = []
    async with talk(agent_that(silent), options=AgentOptions(observer=heard.append)) as client:
        client.raw.send("{oops")
        await client.raw.next()
        client.raw.send({"jsonrpc": "2.0", "id": 99, "result": {}})
        client.raw.notify("_nobody/listens", {})
        await client.new_session()
    assert [report.kind for report in heard] == ["noise", "unmatched", "unknown"]


async def test_a_client_that_omits_jsonrpc_is_refused_by_a_strict_agent_only() -> None:
    line: Any = '{"id":1,"method":"session/new","params":{"cwd":"/a","mcpServers":[]}}'
    for options in (None, STRICT):
        async with talk(agent_that(silent), options=options) as client:
            client.raw.send(line)
            answer = await client.raw.next()
        assert ("error" in answer) is (options is STRICT)
