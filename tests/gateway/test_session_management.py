"""Rename, archive, search and export over the gateway, and which tokens may do what."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import DrivenClient, GatewayHarness, gateway_harness, open_session

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.store import open_store, store_path

SESSION = {"sessionId": "s1"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path / "home"))
    return tmp_path


@asynccontextmanager
async def told_session(audit: AuditLog, home: Path) -> AsyncGenerator[tuple[GatewayHarness, DrivenClient]]:
    """A session in `home/project`, in which the agent has said something."""
    (home / "project").mkdir(exist_ok=True)
    with open_store(store_path("gateway")) as store:
        async with gateway_harness(store=store, audit=audit) as harness:
            client = await harness.client()
            await open_session(harness, client, home / "project")
            turn = client.prompt("s1", "Where is the lighthouse?")
            prompt = await harness.agent.until_method("session/prompt")
            harness.agent.say("s1", "It stands behind the *harbor*.")
            harness.agent.reply(prompt, {"stopReason": "end_turn"})
            await client.updates_until(turn)
            yield harness, client


async def listed(client: DrivenClient, **params: Any) -> list[Any]:
    return (await client.call("_accord/sessions", params))["sessions"]


async def test_a_renamed_session_has_its_title_in_every_list_and_keeps_it(
    audit: AuditLog, home: Path
) -> None:
    async with told_session(audit, home) as (harness, client):
        other = await harness.client()
        await listed(other, subscribe=True)
        assert await client.call("_accord/session/rename", {**SESSION, "title": " Sea\x1b marks "}) == {
            "title": "Sea marks"
        }
        changed = (await other.until_method("_accord/sessions"))["params"]["changed"]
        assert changed["title"] == "Sea marks"
        harness.agent.tell("s1", {"sessionUpdate": "session_info_update", "title": "By the agent"})
        await client.update()
        assert (await listed(client))[0]["title"] == "Sea marks"
        assert "empty" in (await client.error("_accord/session/rename", {**SESSION, "title": " "}))["message"]


async def test_an_archived_session_leaves_the_lists_until_it_is_taken_out(
    audit: AuditLog, home: Path
) -> None:
    async with told_session(audit, home) as (harness, client):
        await client.call("_accord/session/archive", SESSION)
        assert await listed(client) == []
        (entry,) = await listed(client, archived=True)
        assert entry["archived"] is True
        asked = client.ask("session/list", {})
        harness.agent.reply(await harness.agent.until_method("session/list"), {"sessions": []})
        assert (await client.answer_to(asked))["result"]["sessions"] == []
        await client.call("_accord/session/archive", {**SESSION, "archived": False})
        assert len(await listed(client)) == 1


async def test_search_finds_what_was_said_and_marks_the_words(audit: AuditLog, home: Path) -> None:
    async with told_session(audit, home) as (_, client):
        (found,) = (await client.call("_accord/session/search", {"query": "harb behind"}))["sessions"]
        match = found["matches"][0]
        assert (found["sessionId"], match["role"]) == ("s1", "agent")
        assert [match["text"][start:end] for start, end in match["marked"]] == ["behind", "harbor"]
        for query in ("submarine", "?!"):
            assert (await client.call("_accord/session/search", {"query": query}))["sessions"] == []
        assert (await client.error("_accord/session/search", {"query": "x" * 401}))["code"] == -32602


async def test_export_is_the_conversation_as_a_document(audit: AuditLog, home: Path) -> None:
    async with told_session(audit, home) as (_, client):
        document = await client.call("_accord/session/export", SESSION)
        assert document["name"] == "where-is-the-lighthouse.md"
        assert "It stands behind the *harbor*." in document["text"]
        assert (await client.error("_accord/session/export", {"sessionId": "s2"}))["code"] == -32002


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("_accord/session/rename", {"title": "mine"}),
        ("_accord/session/archive", {}),
        ("_accord/session/export", {}),
        ("_accord/share", {"expiresIn": 3600, "url": "https://host/"}),
    ],
)
async def test_a_token_of_another_folder_reaches_no_session(
    audit: AuditLog, home: Path, method: str, params: dict[str, Any]
) -> None:
    (home / "other").mkdir()
    async with told_session(audit, home) as (harness, owner):
        guest = await harness.client(TokenRights("t2", "guest", folders=(str(home / "other"),)))
        error = await guest.error(method, {**SESSION, **params})
        assert error["code"] == -32003, error
        assert (await guest.call("_accord/session/search", {"query": "harbor"}))["sessions"] == []
        (entry,) = await listed(owner)
        assert entry["title"] == "Where is the lighthouse?"


@pytest.mark.parametrize("method", ["_accord/session/rename", "_accord/session/archive", "_accord/share"])
async def test_a_read_only_token_changes_nothing(audit: AuditLog, home: Path, method: str) -> None:
    async with told_session(audit, home) as (harness, owner):
        guest = await harness.client(TokenRights("t2", "guest", read_only=True))
        error = await guest.error(method, {**SESSION, "title": "mine", "expiresIn": 3600})
        assert (error["code"], error["message"]) == (-32003, "this token is read-only")
        assert "harbor" in (await guest.call("_accord/session/export", SESSION))["text"]
        assert len(await listed(owner)) == 1
