"""Titles, archive, status and subscriptions of the session list."""

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import Client
from tests.coder.agent.harness import AgentHarness, ScriptedModel, configure
from tests.coder.tools.harness import until

from accord.client import RemoteAgent, connect_transport
from accord.coder.coding_agent import coding_agent
from accord.coder.resources import CoderOptions, CoderResources
from accord.errors import ConnectionClosed
from accord.store import CommitTransport
from accord.testing import FakeClock
from accord.wire.memory_transport import memory_pair


async def used_session(client: Client, harness: AgentHarness, prompt: str = "hello") -> str:
    session = await client.new_session(harness.cwd)
    await client.turn(session, prompt)
    return session


async def listed(client: Client, **params: Any) -> dict[str, Any]:
    page = await client.call("session/list", params)
    return {row["sessionId"]: row for row in page["sessions"]}


def told(client: Client) -> list[dict[str, Any]]:
    """The changes that the client was told so far."""
    received = client.raw.received
    return [message["params"] for message in received if message.get("method") == "_session/list/changes"]


async def changes(client: Client, number: int) -> dict[str, Any]:
    """Wait for the notification with this number, counted from 1."""
    await until(lambda: len(told(client)) >= number)
    return told(client)[number - 1]


async def test_methods_are_announced(harness: AgentHarness) -> None:
    async with harness.client() as client:
        capabilities = client.initialized["agentCapabilities"]["sessionCapabilities"]
        assert {"archive", "title", "status"} <= capabilities.keys()
        assert client.initialized["_meta"]["sessionIndex"] == {"supported": True}


@pytest.mark.parametrize("method", ["session/set_title", "_session/rename"])
async def test_no_generated_title_replaces_the_users(method: str, harness: AgentHarness) -> None:
    configure(harness, 'small_model = "openai:small"\n')
    model = ScriptedModel(["one"], ["A generated title"], ["two"])
    async with harness.client(model=model) as client:
        session = await client.new_session(harness.cwd)
        answer = await client.call(method, {"sessionId": session, "title": "  Mine\n "})
        assert answer == ({"title": "Mine"} if method == "session/set_title" else {})
        assert client.updates_of("session_info_update")[0]["title"] == "Mine"
        await client.turn(session, "hello")
        await client.turn(session, "again")
        assert (await listed(client))[session]["title"] == "Mine"
        titles = [u["title"] for u in client.updates_of("session_info_update") if u.get("title")]
        assert titles == ["Mine"]
        await client.call("session/close", {"sessionId": session})
        # A session that is not open can be renamed as well, and is loaded with that title.
        await client.call(method, {"sessionId": session, "title": "Later"})
        loaded = {"sessionId": session, "cwd": harness.cwd, "mcpServers": []}
        await client.call("session/load", loaded)
        titles = [u["title"] for u in client.updates_of("session_info_update") if u.get("title")]
        assert titles[-1] == "Later"


@pytest.mark.parametrize("prefix", ["session/", "_session/"])
async def test_archived_sessions_are_hidden_and_closed(prefix: str, harness: AgentHarness) -> None:
    async with harness.client() as client:
        session = await used_session(client, harness)
        assert await client.call("session/status", {"sessionId": session}) == {"status": "open"}
        for _ in range(2):
            assert await client.call(f"{prefix}archive", {"sessionId": session}) == {}
        assert await client.call("session/status", {"sessionId": session}) == {"status": "saved"}
        error = await client.error("session/prompt", {"sessionId": session, "prompt": []})
        assert error["code"] in (-32002, -32602)
        assert session not in await listed(client)
        only = await listed(client, archived="only", cwd=harness.cwd)
        assert only[session]["archived"] is True
        assert session in await listed(client, archived="include")
        assert (await client.error("session/list", {"archived": "other"}))["code"] == -32602
        for _ in range(2):
            assert await client.call(f"{prefix}unarchive", {"sessionId": session}) == {}
        assert (await listed(client))[session]["archived"] is False


async def test_unknown_sessions_and_bad_params(harness: AgentHarness) -> None:
    async with harness.client() as client:
        for method in ("session/status", "session/archive", "_session/unarchive"):
            error = await client.error(method, {"sessionId": "nothing"})
            assert (error["code"], error["data"]["sessionId"]) == (-32002, "nothing")
        session = await used_session(client, harness)
        for method, params in (
            ("_session/rename", {"sessionId": session}),
            ("_session/rename", {"sessionId": session, "title": " "}),
            ("session/set_title", {"sessionId": session, "title": "\n"}),
            ("_session/archive", {}),
            ("_session/list/subscribe", {"cwd": "relative"}),
            ("_session/list/subscribe", []),
            ("_session/batch_get", {"sessionIds": "x"}),
            ("_session/batch_get", {"sessionIds": [session, session]}),
            ("_session/batch_get", {"sessionIds": [" "]}),
            ("_session/batch_get", {"sessionIds": [], "more": 1}),
        ):
            assert (await client.error(method, params))["code"] == -32602, (method, params)
        found = await client.call("_session/batch_get", {"sessionIds": [session, "nothing"]})
        assert [row["sessionId"] for row in found["sessions"]] == [session]


async def test_a_subscription_tells_changes_at_most_once_a_second(harness: AgentHarness) -> None:
    clock = FakeClock()
    elsewhere = harness.home / "elsewhere"
    elsewhere.mkdir()
    async with harness.client(clock=clock) as client:
        answer = await client.call("_session/list/subscribe", {"cwd": f"{harness.cwd}/"})
        other = await client.new_session(str(elsewhere))
        await client.turn(other, "hello")  # of another folder: not told
        session = await client.new_session(harness.cwd)
        prompt = client.prompt(session, "hello")
        await client.turn_of(prompt)
        await clock.advance(0)
        first = await changes(client, 1)
        assert first["subscriptionId"] == answer["subscriptionId"]
        assert [row["sessionId"] for row in first["sessions"]] == [session]
        assert (first["sessions"][0]["title"], first["removed"]) == ("hello", [])
        await client.call("session/set_title", {"sessionId": session, "title": "A"})
        await client.call("session/set_title", {"sessionId": session, "title": "B"})
        await clock.advance(0.9)
        await client.call("_session/batch_get", {"sessionIds": []})  # nothing was told before this answer
        assert len(told(client)) == 1
        await clock.advance(0.2)
        second = await changes(client, 2)
        assert [row["title"] for row in second["sessions"]] == ["B"]
        await client.call("session/delete", {"sessionId": session})
        await clock.advance(1.1)
        assert (await changes(client, 3))["removed"] == [session]
        for _ in range(2):
            assert await client.call("_session/list/unsubscribe", answer) == {}
        await used_session(client, harness)
        await clock.advance(2)
        await client.call("_session/batch_get", {"sessionIds": []})
        assert len(told(client)) == 3


async def test_an_ended_subscription_tells_no_change_that_waited(harness: AgentHarness) -> None:
    clock = FakeClock()
    async with harness.client(clock=clock) as client:
        session = await used_session(client, harness)
        subscription = await client.call("_session/list/subscribe", {"cwd": harness.cwd})
        await client.call("session/set_title", {"sessionId": session, "title": "A"})
        await clock.advance(0)
        await changes(client, 1)
        await client.call("session/set_title", {"sessionId": session, "title": "B"})
        await client.call("_session/list/unsubscribe", subscription)
        await clock.advance(2)
        await client.call("_session/batch_get", {"sessionIds": []})
        assert len(told(client)) == 1


async def test_subscriptions_are_bounded(harness: AgentHarness) -> None:
    async with harness.client() as client:
        ids = [await client.call("_session/list/subscribe", {"cwd": harness.cwd}) for _ in range(128)]
        error = await client.error("_session/list/subscribe", {"cwd": harness.cwd})
        assert (error["code"], error["data"]) == (-32602, {"reason": "too_many_subscriptions"})
        await client.call("_session/list/unsubscribe", ids[0])
        await client.call("_session/list/subscribe", {"cwd": harness.cwd})


async def test_sessions_of_worktrees_are_told(harness: AgentHarness) -> None:
    def git(*words: str) -> None:
        settings = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *settings, *words], cwd=harness.project, check=True, capture_output=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("worktree", "add", "-q", str(harness.home / "tree"))
    clock = FakeClock()
    async with harness.client(clock=clock) as client:
        await client.call("_session/list/subscribe", {"cwd": harness.cwd})
        session = await client.new_session(str(harness.home / "tree"))
        await client.turn(session, "hello")
        await clock.advance(0)
        assert [row["sessionId"] for row in (await changes(client, 1))["sessions"]] == [session]


@asynccontextmanager
async def remote(harness: AgentHarness, clock: FakeClock) -> AsyncGenerator[RemoteAgent]:
    coder = CoderResources(
        CoderOptions(environment={"ACCORD_MODEL": "rehearsal"}, clock=clock, model="rehearsal")
    )
    ours, theirs = memory_pair()
    connection = coding_agent(coder).connect(CommitTransport(ours, coder))
    try:
        async with connect_transport(theirs) as agent:
            yield agent
    finally:
        await connection.aclose()
        await coder.aclose()


async def test_client_library_renames_archives_and_follows(harness: AgentHarness, tmp_path: Path) -> None:
    clock = FakeClock()
    async with remote(harness, clock) as agent:
        assert agent.can_follow_sessions
        async with agent.follow_sessions(harness.cwd) as following:
            session = await agent.new_session(harness.cwd)
            await session.ask("hello")
            assert await agent.set_title(session.id, "Mine") == "Mine"
            await clock.advance(1.5)
            change = await anext(following)
            assert [(info.session_id, info.title) for info in change.sessions] == [(session.id, "Mine")]
            await agent.archive_session(session.id)
            await clock.advance(1.5)
            change = await anext(following)
            assert change.sessions[0].archived is True
            assert await agent.session_status(session.id) == "saved"
            await agent.unarchive_session(session.id)
            await agent.delete_session(session.id)
            await clock.advance(1.5)
            assert (await anext(following)).removed == (session.id,)
        async with agent.follow_sessions(harness.cwd) as following:
            waiting = asyncio.ensure_future(anext(following))
            await agent.aclose()
            with pytest.raises(ConnectionClosed):
                await waiting
