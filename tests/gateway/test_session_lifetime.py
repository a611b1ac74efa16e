"""Sessions that outlive clients, agents and the gateway itself."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import DrivenClient, GatewayHarness, gateway_harness, open_session
from tests.gateway.held_book import HeldBook
from tests.gateway.test_shared_sessions import CALL, OPTIONS

from accord.errors import StoreError
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.resource_limits import GatewayLimits
from accord.store import open_store
from accord.testing import FakeClock


async def run_turn(harness: GatewayHarness, client: DrivenClient, asked: str, answer: str) -> None:
    turn = client.prompt("s1", asked)
    prompt = await harness.agent.until_method("session/prompt")
    harness.agent.say("s1", answer)
    harness.agent.reply(prompt, {"stopReason": "end_turn"})
    await client.answer_to(turn)


def texts_of(updates: list[Any]) -> list[tuple[str, str]]:
    return [(u["sessionUpdate"], u["content"]["text"]) for u in updates if "content" in u]


HISTORY = [("user_message_chunk", "hello"), ("agent_message_chunk", "hi")]


async def test_a_turn_continues_without_its_client_and_is_in_the_history(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        client.prompt("s1", "hello")
        prompt = await harness.agent.until_method("session/prompt")
        client.connection.end(1006, "the client vanished")
        harness.agent.say("s1", "hi")
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        back = await harness.client()
        updates, _ = await back.load("s1", str(tmp_path))
        assert texts_of(updates) == HISTORY


async def test_a_dead_agent_fails_the_turn_and_the_next_prompt_restarts_it(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        await run_turn(harness, client, "hello", "hi")
        turn = client.prompt("s1", "again")
        await harness.agent.until_method("session/prompt")
        harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        await client.until_method("session/request_permission")
        harness.agent.tell("s1", {"sessionUpdate": "tool_call", **CALL, "status": "in_progress"})
        await harness.agent.aclose()
        error = (await client.answer_to(turn))["error"]
        assert error["code"] == -32603
        assert "session/prompt was not answered" in error["message"]
        assert not harness.gateway.pending_requests
        closed = await client.update()
        assert (closed["toolCallId"], closed["status"]) == ("c1", "failed"), "the running tool call ends too"

        turn = client.prompt("s1", "once more")
        while len(harness.agents) < 2:
            await harness.gateway.agents["hand"].ensure_started()
        resume = await harness.agent.until_method("session/resume")
        assert resume["params"]["sessionId"] == "s1"
        assert resume["params"]["cwd"] == str(tmp_path)
        harness.agent.reply(resume, {})
        prompt = await harness.agent.until_method("session/prompt")
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await client.answer_to(turn))["result"]["stopReason"] == "end_turn"


async def test_an_agent_that_can_only_load_is_restored_without_repeating_updates(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness({"loadSession": True}, audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        await run_turn(harness, client, "hello", "hi")
        await harness.agent.aclose()
        turn = client.prompt("s1", "more")
        while len(harness.agents) < 2:
            await harness.gateway.agents["hand"].ensure_started()
        load = await harness.agent.until_method("session/load")
        harness.agent.say("s1", "hi")  # its replay
        harness.agent.reply(load, {})
        prompt = await harness.agent.until_method("session/prompt")
        harness.agent.say("s1", "yes")
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        updates, _ = await client.updates_until(turn)
        assert texts_of(updates) == [("agent_message_chunk", "yes")]
        other = await harness.client()
        updates, _ = await other.load("s1", str(tmp_path))
        assert texts_of(updates) == [
            *HISTORY,
            ("user_message_chunk", "more"),
            ("agent_message_chunk", "yes"),
        ]


async def test_after_a_gateway_restart_a_session_loads_through_the_agent(
    audit: AuditLog, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    async with gateway_harness(audit=audit, store=(store := open_store(path))) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        await run_turn(harness, client, "hello", "hi")
    store.close()
    async with gateway_harness(audit=audit, store=(store := open_store(path))) as harness:
        client = await harness.client()
        listed = client.ask("session/list")
        harness.agent.reply(await harness.agent.until_method("session/list"), {"sessions": []})
        sessions = (await client.answer_to(listed))["result"]["sessions"]
        assert [(entry["sessionId"], entry["cwd"]) for entry in sessions] == [("s1", str(tmp_path))]
        loading = client.ask("session/load", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []})
        load = await harness.agent.until_method("session/load")
        harness.agent.tell(
            "s1", {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hello"}}
        )
        harness.agent.say("s1", "hi, as the agent remembers it")
        harness.agent.reply(load, {})
        updates, _ = await client.updates_until(loading)
        seen = [("user_message_chunk", "hello"), ("agent_message_chunk", "hi, as the agent remembers it")]
        assert texts_of(updates) == seen
        other = await harness.client()
        updates, _ = await other.load("s1", str(tmp_path))
        assert texts_of(updates) == seen
    store.close()


async def test_a_session_of_an_agent_that_cannot_load_is_read_from_the_log(
    audit: AuditLog, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    async with gateway_harness({}, audit=audit, store=(store := open_store(path))) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        await run_turn(harness, client, "hello", "hi")
    store.close()
    async with gateway_harness({}, audit=audit, store=(store := open_store(path))) as harness:
        client = await harness.client()
        sessions = (await client.call("session/list"))["sessions"]
        assert [entry["sessionId"] for entry in sessions] == ["s1"]
        updates, _ = await client.load("s1", str(tmp_path))
        assert texts_of(updates) == HISTORY
        assert [update["title"] for update in updates if "title" in update] == ["hello"]
        error = (await client.answer_to(client.prompt("s1", "and?")))["error"]
        assert "start a new one" in error["message"]
    store.close()


async def test_a_turn_cut_off_by_a_kill_of_the_gateway_is_closed_in_the_log(
    audit: AuditLog, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    async with gateway_harness({}, audit=audit, store=open_store(path)) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        client.prompt("s1", "hello")
        await harness.agent.until_method("session/prompt")
        harness.agent.tell(
            "s1", {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Work", "status": "in_progress"}
        )
        await client.update()
        copy = tmp_path / "copy.db"  # the files that a kill at this moment would leave
        for suffix in ("", "-wal"):
            left = Path(f"{path}{suffix}")
            if left.exists():
                Path(f"{copy}{suffix}").write_bytes(left.read_bytes())
    async with gateway_harness({}, audit=audit, store=(store := open_store(copy))) as harness:
        client = await harness.client()
        updates, _ = await client.load("s1", str(tmp_path))
        calls = [update for update in updates if update["sessionUpdate"] == "tool_call"]
        assert [call["status"] for call in calls] == ["failed"]
    store.close()


async def test_a_session_created_elsewhere_is_loaded_through_the_agent_and_shared(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first = await harness.client()
        loading = first.ask("session/load", {"sessionId": "old", "cwd": str(tmp_path), "mcpServers": []})
        load = await harness.agent.until_method("session/load")
        harness.agent.say("old", "from before")
        harness.agent.reply(load, {})
        updates, _ = await first.updates_until(loading)
        assert texts_of(updates) == [("agent_message_chunk", "from before")]
        second = await harness.client()
        updates, _ = await second.load("old", str(tmp_path))
        assert texts_of(updates) == [("agent_message_chunk", "from before")]


async def test_an_unknown_session_is_not_found_and_not_kept(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        loading = client.ask("session/load", {"sessionId": "none", "cwd": str(tmp_path), "mcpServers": []})
        harness.agent.refuse(await harness.agent.until_method("session/load"), -32002, "no such session")
        assert (await client.answer_to(loading))["error"]["code"] == -32002
        assert (await client.call("_accord/sessions"))["sessions"] == []
    async with gateway_harness({}, audit=audit) as harness:
        client = await harness.client()
        error = await client.error(
            "session/load", {"sessionId": "none", "cwd": str(tmp_path), "mcpServers": []}
        )
        assert error["code"] == -32002


async def test_the_session_list_merges_agent_and_gateway_within_the_folders(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)

        async def listed(asker: DrivenClient) -> list[str]:
            asked = asker.ask("session/list")
            theirs = [
                {
                    "sessionId": "s1",
                    "cwd": str(tmp_path),
                    "title": "Ours",
                    "updatedAt": "2031-01-01T00:00:00Z",
                },
                {"sessionId": "s2", "cwd": "/elsewhere", "updatedAt": "2001-01-01T00:00:00Z"},
            ]
            harness.agent.reply(await harness.agent.until_method("session/list"), {"sessions": theirs})
            return [entry["sessionId"] for entry in (await asker.answer_to(asked))["result"]["sessions"]]

        assert await listed(client) == ["s1", "s2"]
        assert await listed(await harness.client(TokenRights("t2", folders=(str(tmp_path),)))) == ["s1"]


async def test_a_session_without_a_prompt_is_not_listed_and_no_title_is_null(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)

        async def listed(*theirs: dict[str, Any]) -> list[dict[str, Any]]:
            request = client.ask("session/list")
            harness.agent.reply(await harness.agent.until_method("session/list"), {"sessions": [*theirs]})
            return (await client.answer_to(request))["result"]["sessions"]

        assert await listed() == []
        (entry,) = await listed({"sessionId": "s1", "cwd": str(tmp_path), "title": None})
        assert "title" not in entry
        await run_turn(harness, client, "hello", "hi")
        (entry,) = await listed()
        assert entry["sessionId"] == "s1"
        assert entry.get("title", "") is not None


async def test_the_last_client_to_close_a_session_closes_it_at_the_agent(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await harness.client(), await harness.client()
        await open_session(harness, first, tmp_path)
        await second.load("s1", str(tmp_path))
        await first.call("session/close", {"sessionId": "s1"})
        assert not [m for m in harness.agent.received if m.get("method") == "session/close"]
        closing = second.ask("session/close", {"sessionId": "s1"})
        harness.agent.reply(await harness.agent.until_method("session/close"), {})
        assert (await second.answer_to(closing))["result"] == {}
        prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "x"}]}
        assert (await second.error("session/prompt", prompt))["code"] == -32002


async def test_a_deleted_session_is_removed_for_all_clients(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await harness.client(), await harness.client()
        await open_session(harness, first, tmp_path)
        await second.call("_accord/sessions", {"subscribe": True})
        deleting = first.ask("session/delete", {"sessionId": "s1"})
        harness.agent.reply(await harness.agent.until_method("session/delete"), {})
        assert (await first.answer_to(deleting))["result"] == {}
        notification = await second.until(lambda m: "removed" in m.get("params", {}))
        assert notification["params"]["removed"] == {"agent": "hand", "sessionId": "s1"}
        assert (await second.call("_accord/sessions"))["sessions"] == []


async def test_an_idle_agent_is_stopped_and_restarted_when_needed(audit: AuditLog, tmp_path: Path) -> None:
    clock = FakeClock()
    async with gateway_harness(audit=audit, clock=clock, idle=600) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        first = harness.agent
        turn = client.prompt("s1", "long work")
        prompt = await first.until_method("session/prompt")
        await clock.advance(3600)
        assert first.end is None, "stopped during a turn"
        first.reply(prompt, {"stopReason": "end_turn"})
        await client.answer_to(turn)
        await clock.advance(3600)
        await first.wait_end()
        turn = client.prompt("s1", "again")
        while len(harness.agents) < 2:
            await harness.gateway.agents["hand"].ensure_started()
        harness.agent.reply(await harness.agent.until_method("session/resume"), {})
        harness.agent.reply(await harness.agent.until_method("session/prompt"), {"stopReason": "end_turn"})
        assert (await client.answer_to(turn))["result"]["stopReason"] == "end_turn"


async def test_a_closed_gateway_starts_no_agent_again(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await harness.gateway.aclose()
        error = await client.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert "cannot start hand: the gateway is stopping" in error["message"]
        assert len(harness.agents) == 1


async def test_the_session_limit_is_reported_and_freed_by_close(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit, limits=GatewayLimits(sessions=1)) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        error = await client.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert "live sessions" in error["message"]
        closing = client.ask("session/close", {"sessionId": "s1"})
        harness.agent.reply(await harness.agent.until_method("session/close"), {})
        await client.answer_to(closing)
        await open_session(harness, client, tmp_path, "s2")


@pytest.mark.parametrize("capabilities", [None, {}])
async def test_a_client_that_joins_gets_every_update_once_and_in_order(
    audit: AuditLog, tmp_path: Path, capabilities: dict[str, Any] | None
) -> None:
    async with gateway_harness(capabilities, audit=audit) as harness:
        first = await harness.client()
        await open_session(harness, first, tmp_path)
        for number in range(200):
            harness.agent.tell(
                "s1",
                {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "x" * 20_000},
            )
        joining: list[DrivenClient] = []
        for number in range(200, 400):
            harness.agent.tell("s1", {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "y"})
            if number % 50 == 0:
                client = await harness.client()
                client.ask(
                    "session/load", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []}, id="load"
                )
                joining.append(client)
        wanted = [f"c{number}" for number in range(400)]
        for client in joining:
            seen: list[str] = []
            while len(seen) < 400:
                seen.append((await client.update())["toolCallId"])
            assert seen == wanted


class UndeletableBook(HeldBook):
    """Its storage does not answer when a session is deleted."""

    async def delete(self, agent: str, session_id: str) -> bool:
        raise StoreError("no storage answers")


async def test_a_session_that_cannot_be_deleted_says_so_and_the_agent_s_error_is_kept(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(book=UndeletableBook(), audit=audit) as harness:
        client = await harness.client()
        resume = client.ask("session/resume", {"sessionId": "s9", "cwd": str(tmp_path), "mcpServers": []})
        harness.agent.refuse(await harness.agent.until_method("session/resume"), -32002, "unknown session")
        harness.agent.refuse(await harness.agent.until_method("session/load"), -32002, "unknown session")
        assert (await client.answer_to(resume))["error"]["message"] == "unknown session"
        await open_session(harness, client, tmp_path)
        deleting = client.ask("session/delete", {"sessionId": "s1"})
        harness.agent.reply(await harness.agent.until_method("session/delete"), {})
        error = (await client.answer_to(deleting))["error"]
        assert error["message"] == "the session is not deleted: no storage answers; try again"


async def test_work_that_fails_after_its_caller_has_gone_is_no_error_of_the_log(
    audit: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    may_fail, failed = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await may_fail.wait()
            raise StoreError("no storage answers")
        finally:
            failed.set()

    async with gateway_harness(audit=audit) as harness:
        caller = asyncio.ensure_future(harness.gateway.run_to_end(work()))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        may_fail.set()
        await failed.wait()
    del caller
    gc.collect()
    assert "never retrieved" not in caplog.text
