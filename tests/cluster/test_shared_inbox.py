"""The inbox of all nodes: shown everywhere, answered once, without the requests of nodes that are gone."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.nats_servers import RunningServer
from tests.cluster.test_many_nodes import ASK, RunningNode, running_node
from tests.gateway.gateway_harness import DrivenClient, open_session
from tests.patience import PATIENCE

from accord.cluster import shared_inbox
from accord.gateway.contracts import InboxItem


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))


async def _call(client: DrivenClient, method: str, params: Any) -> Any:
    return await asyncio.wait_for(client.answer_to(client.ask(method, params)), PATIENCE)


async def _ask(owner: RunningNode, prompter: DrivenClient) -> int:
    """Begin a turn whose agent asks for permission; return the id of its request."""
    prompter.prompt("s1")
    await owner.harness.agent.until_method("session/prompt")
    return owner.harness.agent.ask("session/request_permission", {"sessionId": "s1", **ASK})


async def test_a_request_is_shown_at_every_node_and_answered_once(
    server: RunningServer, tmp_path: Path
) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        prompter = await a.harness.client()
        await open_session(a.harness, prompter, tmp_path)
        watchers = [await b.harness.client() for _ in range(3)]
        for watcher in watchers:
            assert (await _call(watcher, "_accord/inbox", {"subscribe": True}))["result"] == {"items": []}
        asked = await _ask(a, prompter)
        added = [
            (await asyncio.wait_for(watcher.until_method("_accord/inbox"), PATIENCE))["params"]["added"]
            for watcher in watchers
        ]
        assert added[0] == added[1] == added[2]
        assert added[0]["params"]["toolCall"]["title"] == "Touch it"
        listed = (await _call(watchers[0], "_accord/inbox", {}))["result"]["items"]
        assert listed == added[:1]

        choice = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        answer = {"id": added[0]["id"], "result": choice}
        results = await asyncio.gather(
            *(_call(watcher, "_accord/inbox/answer", answer) for watcher in watchers[:2])
        )
        assert sorted("result" in result for result in results) == [False, True]
        assert (await a.harness.agent.answer_to(asked))["result"]["outcome"]["optionId"] == "yes"
        removed = await asyncio.wait_for(watchers[2].until_method("_accord/inbox"), PATIENCE)
        assert removed["params"]["removed"]["id"] == added[0]["id"]
        assert (await _call(watchers[0], "_accord/inbox", {}))["result"] == {"items": []}


async def test_requests_of_a_node_that_is_gone_are_not_shown(server: RunningServer, tmp_path: Path) -> None:
    settings = server.settings()
    async with running_node(settings, tmp_path, "b") as b:
        shown = asyncio.Event()
        assert b.node.inbox is not None
        b.node.inbox.on_change = lambda item, is_pending: shown.set()
        async with running_node(settings, tmp_path, "a") as a:
            assert a.node.inbox is not None
            a.node.inbox.add(InboxItem("log.1.1", "hand", "s1", (str(tmp_path),), b'{"id":"log.1.1"}'))
            await asyncio.wait_for(shown.wait(), PATIENCE)
            assert [item.id for item in b.node.inbox.others()] == ["log.1.1"]
        gone = asyncio.Event()
        b.node.registry.on_change.append(gone.set)
        while b.node.registry.find("a") is not None:
            await asyncio.wait_for(gone.wait(), PATIENCE)
            gone.clear()
        assert b.node.inbox.others() == []


async def test_a_request_that_the_bucket_lost_is_shown_again(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_inbox, "_CHECK_SECONDS", 0.1)
    settings = server.settings()
    async with running_node(settings, tmp_path, "a") as a, running_node(settings, tmp_path, "b") as b:
        assert a.node.inbox is not None
        assert b.node.inbox is not None
        changes: asyncio.Queue[bool] = asyncio.Queue()
        b.node.inbox.on_change = lambda item, is_pending: changes.put_nowait(is_pending)
        a.node.inbox.add(InboxItem("log.1.1", "hand", "s1", (str(tmp_path),), b'{"id":"log.1.1"}'))
        assert await asyncio.wait_for(changes.get(), PATIENCE)
        bucket = b.node.streams.bucket("inbox")
        entry = await bucket.get("log.1.1")
        assert entry is not None
        await bucket.delete("log.1.1", entry.revision)
        assert not await asyncio.wait_for(changes.get(), PATIENCE)
        assert await asyncio.wait_for(changes.get(), PATIENCE)
        assert [item.id for item in b.node.inbox.others()] == ["log.1.1"]
