"""A token is limited to its folders in every method that reaches a session."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import ALL, DrivenClient, GatewayHarness, gateway_harness, open_session
from tests.gateway.test_shared_sessions import CALL, OPTIONS

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.store import open_store


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def limited_to(folder: Path, **more: Any) -> TokenRights:
    return TokenRights("t2", "guest", folders=(str(folder),), **more)


FORKING = {**ALL, "sessionCapabilities": {**ALL["sessionCapabilities"], "fork": {}}}


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_a_token_opens_an_agents_stored_session_only_if_it_lies_in_its_folders(
    audit: AuditLog, inside: Path, outside: Path, method: str
) -> None:
    async with gateway_harness(FORKING, audit=audit) as harness:
        client = await harness.client(limited_to(inside))
        listed = [{"sessionId": "theirs", "cwd": str(outside)}, {"sessionId": "ours", "cwd": str(inside)}]
        for session, fits in (("theirs", False), ("unheard", False), ("ours", True)):
            asked = client.ask(method, {"sessionId": session, "cwd": str(inside), "mcpServers": []})
            harness.agent.reply(await harness.agent.until_method("session/list"), {"sessions": listed})
            if not fits:
                assert (await client.answer_to(asked))["error"]["code"] == -32002, session
                continue
            opener = await harness.agent.until_method(method)
            harness.agent.reply(opener, {"sessionId": "new"} if method == "session/fork" else {})
            assert "result" in await client.answer_to(asked)
        opened = [m["params"]["sessionId"] for m in harness.agent.received if m.get("method") == method]
        assert opened == ["ours"]


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/fork"])
async def test_a_session_of_another_folder_stays_closed_after_a_gateway_restart(
    audit: AuditLog, inside: Path, outside: Path, tmp_path: Path, method: str
) -> None:
    store = open_store(tmp_path / "log.db")
    async with gateway_harness(FORKING, store=store, audit=audit) as harness:
        await open_session(harness, await harness.client(), outside)
    async with gateway_harness(FORKING, store=store, audit=audit) as harness:
        client = await harness.client(limited_to(inside))
        error = await client.error(method, {"sessionId": "s1", "cwd": str(inside), "mcpServers": []})
        assert error["code"] == -32003
        assert not [m for m in harness.agent.received if m.get("method") == method]
    store.close()


async def test_a_session_with_an_extra_folder_needs_a_token_that_covers_it(
    audit: AuditLog, inside: Path, outside: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        owner, client = await harness.client(), await harness.client(limited_to(inside))
        await client.call("_accord/inbox", {"subscribe": True})
        await client.call("_accord/sessions", {"subscribe": True})
        asked = owner.ask(
            "session/new", {"cwd": str(inside), "mcpServers": [], "additionalDirectories": [str(outside)]}
        )
        await harness.agent.answer_new_session("s1")
        await owner.answer_to(asked)
        harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        await owner.until_method("session/request_permission")
        for method in ("session/load", "session/resume"):
            error = await client.error(method, {"sessionId": "s1", "cwd": str(inside), "mcpServers": []})
            assert error["code"] == -32003
        assert (await client.call("_accord/sessions"))["sessions"] == []
        assert (await client.call("_accord/inbox"))["items"] == []
        result = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        (item,) = (await owner.call("_accord/inbox"))["items"]
        error = await client.error("_accord/inbox/answer", {"id": item["id"], "result": result})
        assert error["code"] == -32002
        assert not [m for m in client.received if m.get("method", "").startswith("_accord/")]


async def restart_agent(harness: GatewayHarness, client: DrivenClient) -> None:
    """End the agent and wait until its replacement runs and the client knows."""
    dead = harness.agent
    await dead.aclose()
    await harness.gateway.agents["hand"].ensure_started()
    assert harness.agent is not dead
    await client.call("_accord/agents")


async def test_a_load_with_extra_folders_detaches_clients_that_may_not_see_them(
    audit: AuditLog, inside: Path, outside: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        owner, client = await harness.client(), await harness.client(limited_to(inside))
        await open_session(harness, owner, inside)
        await client.load("s1", str(inside))
        await restart_agent(harness, client)
        asked = owner.ask(
            "session/load",
            {
                "sessionId": "s1",
                "cwd": str(outside),
                "mcpServers": [],
                "additionalDirectories": [str(outside)],
            },
        )
        load = await harness.agent.until_method("session/load")
        assert load["params"]["cwd"] == str(inside)
        harness.agent.reply(load, {})
        await owner.answer_to(asked)
        harness.agent.say("s1", "from outside")
        await owner.update()
        prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "x"}]}
        assert (await client.error("session/prompt", prompt))["code"] == -32002
        assert not [m for m in client.received if m.get("method") == "session/update"]


async def test_a_token_cannot_add_folders_beyond_its_own_to_a_session(
    audit: AuditLog, inside: Path, outside: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(limited_to(inside))
        await open_session(harness, client, inside)
        await restart_agent(harness, client)
        for method in ("session/load", "session/resume"):
            wide = {
                "sessionId": "s1",
                "cwd": str(inside),
                "mcpServers": [],
                "additionalDirectories": [str(outside)],
            }
            assert (await client.error(method, wide))["code"] == -32003


async def test_an_ambiguous_path_is_covered_only_if_both_readings_are(
    audit: AuditLog, inside: Path, outside: Path
) -> None:
    (inside / "a" / "b").mkdir(parents=True)
    (inside / "out").mkdir()
    (inside / "link").symlink_to(inside / "a" / "b")
    crooked = f"{inside}/link/../../out"  # resolved by the system it is in/out, resolved as text it is out
    assert Path(crooked).resolve() == (inside / "out").resolve()
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(limited_to(inside))
        error = await client.error("session/new", {"cwd": crooked, "mcpServers": []})
        assert error["code"] == -32003
        assert (await client.error("_accord/folders", {"path": crooked}))["code"] == -32003


async def test_a_reused_session_id_is_another_session(audit: AuditLog, inside: Path, outside: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        owner, client = await harness.client(), await harness.client(limited_to(inside))
        await open_session(harness, owner, outside, "1")
        harness.agent.say("1", "said outside")
        await owner.update()
        await restart_agent(harness, client)
        await open_session(harness, client, inside, "1")
        harness.agent.say("1", "said inside")
        assert (await client.update())["content"]["text"] == "said inside"
        other = await harness.client(limited_to(inside))
        updates, _ = await other.load("1", str(inside))
        assert [update["content"]["text"] for update in updates] == ["said inside"]
        prompt = {"sessionId": "1", "prompt": [{"type": "text", "text": "x"}]}
        assert (await owner.error("session/prompt", prompt))["code"] == -32002
        rotated_files = (await owner.call("_accord/sessions"))["sessions"]
        (former,) = [entry for entry in rotated_files if entry["cwd"] == str(outside)]
        asked = owner.ask(
            "session/load", {"sessionId": former["sessionId"], "cwd": str(outside), "mcpServers": []}
        )
        harness.agent.refuse(await harness.agent.until_method("session/load"), -32002, "no such session")
        updates, _ = await owner.updates_until(asked)
        assert [update["content"]["text"] for update in updates] == ["said outside"]
        assert [entry["cwd"] for entry in (await client.call("_accord/sessions"))["sessions"]] == [
            str(inside)
        ]


async def test_a_reused_session_id_is_refused_if_the_earlier_log_cannot_be_kept(
    audit: AuditLog, inside: Path, outside: Path, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    async with gateway_harness(store=open_store(path), audit=audit) as harness:
        owner, client = await harness.client(), await harness.client(limited_to(inside))
        await open_session(harness, owner, outside, "1")
        harness.agent.say("1", "said outside")
        await owner.update()
        await restart_agent(harness, client)
        with closing(sqlite3.connect(path)) as database:
            database.execute(
                "CREATE TRIGGER full BEFORE INSERT ON heads WHEN new.session LIKE '%~%' "
                "BEGIN SELECT RAISE(ABORT, 'no space'); END"
            )
        asked = client.ask("session/new", {"cwd": str(inside), "mcpServers": []})
        await harness.agent.answer_new_session("1")
        error = (await client.answer_to(asked))["error"]
        assert (error["code"], "cannot be logged" in error["message"]) == (-32600, True)


async def test_a_session_id_of_another_gateway_shows_nothing_of_its_session(
    audit: AuditLog, inside: Path, outside: Path, tmp_path: Path
) -> None:
    stores = [open_store(tmp_path / "log.db") for _ in range(2)]
    async with (
        gateway_harness(store=stores[0], audit=audit) as one,
        gateway_harness(store=stores[1], audit=audit) as two,
    ):
        owner, client = await one.client(), await two.client(limited_to(inside))
        await open_session(one, owner, outside, "1")
        one.agent.say("1", "said outside")
        await owner.update()
        asked = client.ask("session/new", {"cwd": str(inside), "mcpServers": []})
        await two.agent.answer_new_session("1")
        assert "error" in await client.answer_to(asked)
        params = {"sessionId": "1", "cwd": str(inside), "mcpServers": []}
        error = await client.error("session/load", params)
        assert error == {"code": -32003, "message": f"this token does not cover the folder {str(outside)!r}"}
        assert len(list(stores[1].list().sessions)) == 1
        assert (await client.call("_accord/sessions"))["sessions"] == []
        (entry,) = (await (await two.client()).call("_accord/sessions"))["sessions"]
        assert entry["cwd"] == str(outside)
    for store in stores:
        store.close()


async def test_messages_without_a_session_go_only_to_tokens_that_cover_all_sessions(
    audit: AuditLog, inside: Path, outside: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        owner, client = await harness.client(), await harness.client(limited_to(inside))
        harness.agent.notify("_vendor/news", {"about": "nothing"})
        await client.until_method("_vendor/news")
        await owner.until_method("_vendor/news")
        await open_session(harness, owner, outside)
        harness.agent.notify("_vendor/news", {"about": str(outside)})
        await owner.until_method("_vendor/news")
        await client.call("_accord/agents")
        assert len([m for m in client.received if m.get("method") == "_vendor/news"]) == 1
