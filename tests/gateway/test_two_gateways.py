"""Two gateways on one store: each session is open, and logged, in one of them."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serve.gateway_process import GatewayProcess, running_gateway
from tests.cli.serve.gateway_process import accord as accord_command
from tests.gateway.gateway_harness import gateway_harness, open_session

import accord
from accord.errors import RpcError
from accord.gateway.access.audit_log import AuditLog
from accord.store import open_store
from accord.store.sqlite_store import SqliteStore


def load_params(session: str, cwd: Path) -> dict[str, Any]:
    return {"sessionId": session, "cwd": str(cwd), "mcpServers": []}


def token(home: Path) -> str:
    return accord_command(home, "serve", "token", "new", "--plain")[1].strip()


def connect(gateway: GatewayProcess, token: str) -> Any:
    return accord.connect(gateway.websocket, token=token)


async def test_a_session_of_another_gateway_is_refused_and_its_owner_is_named(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text('model = "rehearsal"\n')
    text = token(home)
    with running_gateway(home, "accord") as second:
        with running_gateway(home, "accord") as first:
            assert f"Another gateway runs at {second.url}" in first.output
            async with connect(first, text) as agent:
                session = await agent.new_session(project)
                await session.ask("hello")
                async with connect(second, text) as other:
                    for attempt in (
                        other.load_session(session.id, project),
                        other.resume_session(session.id, project),
                        other.delete_session(session.id),
                    ):
                        with pytest.raises(RpcError, match=f"open in the gateway at {first.url} ") as refused:
                            await attempt
                        assert refused.value.data["owner"]["url"] == first.url
                    (listed,) = [info async for info in other.list_sessions(cwd=str(project))]
                    assert listed.meta["accord"]["owner"]["url"] == first.url
                    (entry,) = (await other.request("_accord/sessions", {}))["sessions"]
                    assert entry["owner"]["url"] == first.url
                (entry,) = (await agent.request("_accord/sessions", {}))["sessions"]
                assert "owner" not in entry
                words = ("sessions", "list", "--all")
                _, shown, _ = await asyncio.to_thread(accord_command, home, *words)
                assert f"(open in the gateway at {first.url} (process " in shown
                _, shown, _ = await asyncio.to_thread(accord_command, home, *words, "--json")
                assert json.loads(shown)[0]["owner"]["url"] == first.url
        async with connect(second, text) as other:
            loaded = await other.load_session(session.id, project)
            assert [message.text for message in loaded.state.messages][:1] == ["hello"]
            (listed,) = [info async for info in other.list_sessions(cwd=str(project))]
            assert not listed.meta


async def test_a_new_session_that_cannot_be_logged_is_refused_and_closed_at_the_agent(
    audit: AuditLog, tmp_path: Path
) -> None:
    stores = [open_store(tmp_path / "log.db") for _ in range(2)]
    async with (
        gateway_harness(store=stores[0], audit=audit) as one,
        gateway_harness(store=stores[1], audit=audit) as two,
    ):
        owner, client = await one.client(), await two.client()
        await open_session(one, owner, tmp_path, "1")
        asked = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await two.agent.answer_new_session("1")
        error = (await client.answer_to(asked))["error"]
        assert error["code"] == -32600
        assert "session 1 is open in process " in error["message"]
        assert (await two.agent.until_method("session/close"))["params"] == {"sessionId": "1"}
        prompt = {"sessionId": "1", "prompt": [{"type": "text", "text": "go"}]}
        assert (await client.error("session/prompt", prompt))["code"] == -32002
        await open_session(two, client, tmp_path, "2")
    for store in stores:
        store.close()


async def test_a_closed_session_can_be_opened_in_another_gateway_at_once(
    audit: AuditLog, tmp_path: Path
) -> None:
    stores = [open_store(tmp_path / "log.db") for _ in range(2)]
    async with (
        gateway_harness(store=stores[0], audit=audit) as one,
        gateway_harness(store=stores[1], audit=audit) as two,
    ):
        owner, client = await one.client(), await two.client()
        await open_session(one, owner, tmp_path)
        assert (await client.error("session/load", load_params("s1", tmp_path)))["code"] == -32600
        closing = owner.ask("session/close", {"sessionId": "s1"})
        one.agent.reply(await one.agent.until_method("session/close"), {})
        await owner.answer_to(closing)
        loading = client.ask("session/load", load_params("s1", tmp_path))
        two.agent.reply(await two.agent.until_method("session/load"), {})
        assert "result" in await client.answer_to(loading)
    for store in stores:
        store.close()


async def test_a_session_is_refused_when_the_store_cannot_be_written(audit: AuditLog, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db", busy_seconds=0.05)
    async with gateway_harness(store=store, audit=audit) as harness:
        client = await harness.client()
        blocker = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        asked = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await harness.agent.answer_new_session("1")
        assert "cannot be logged" in (await client.answer_to(asked))["error"]["message"]
        blocker.close()
        await open_session(harness, client, tmp_path, "2")
    store.close()
