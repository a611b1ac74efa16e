"""Concurrent events: clients disconnect, agents die and requests are cancelled while others wait for them."""

import asyncio
from pathlib import Path
from typing import Any

from tests.gateway.gateway_harness import ALL, DrivenClient, GatewayHarness, gateway_harness, open_session
from tests.gateway.test_folder_rights import restart_agent
from tests.gateway.test_session_lifetime import run_turn, texts_of
from tests.gateway.test_shared_sessions import CALL, OPTIONS

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.gateway.access.resource_limits import GatewayLimits
from accord.gateway.client_connection import OutgoingFrame
from accord.testing import FakeClock

LOADING: dict[str, Any] = {"loadSession": True, "sessionCapabilities": {"close": {}}}


def load_params(session: str, cwd: Path) -> dict[str, Any]:
    return {"sessionId": session, "cwd": str(cwd), "mcpServers": []}


async def disconnect(harness: GatewayHarness, client: DrivenClient) -> None:
    """Close the client's connection and wait until the gateway has dropped it."""
    handler = client.connection.client
    client.connection.end(1000, "bye")
    assert handler not in harness.gateway.clients
    await asyncio.sleep(0)


async def test_a_session_whose_client_left_before_its_id_came_can_be_loaded(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await harness.client(), await harness.client()
        first.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        asked = await harness.agent.until_method("session/new")
        await disconnect(harness, first)
        harness.agent.reply(asked, {"sessionId": "s1"})
        harness.agent.say("s1", "hello")
        harness.agent.notify("_done", {})
        await second.until_method("_done")
        (entry,) = (await second.call("_accord/sessions"))["sessions"]
        assert (entry["sessionId"], entry["clients"], entry["live"]) == ("s1", 0, True)
        updates, _ = await second.load("s1", str(tmp_path))
        assert texts_of(updates) == [("agent_message_chunk", "hello")]


async def test_two_concurrent_loads_open_the_session_once_at_the_agent(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await harness.client(), await harness.client()
        one = first.ask("session/load", load_params("old", tmp_path))
        two = second.ask("session/load", load_params("old", tmp_path))
        load = await harness.agent.until_method("session/load")
        harness.agent.say("old", "before")
        harness.agent.reply(load, {})
        assert texts_of((await first.updates_until(one))[0]) == [("agent_message_chunk", "before")]
        assert texts_of((await second.updates_until(two))[0]) == [("agent_message_chunk", "before")]
        assert len([m for m in harness.agent.received if m.get("method") == "session/load"]) == 1


async def test_a_load_continues_without_its_client_and_gives_the_next_the_history_once(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await harness.client(), await harness.client()
        first.ask("session/load", load_params("old", tmp_path))
        load = await harness.agent.until_method("session/load")
        harness.agent.say("old", "one ")
        assert (await first.update())["content"]["text"] == "one "
        await disconnect(harness, first)
        two = second.ask("session/load", load_params("old", tmp_path))
        harness.agent.say("old", "two")
        harness.agent.reply(load, {})
        assert texts_of((await second.updates_until(two))[0]) == [("agent_message_chunk", "one two")]
        assert len([m for m in harness.agent.received if m.get("method") == "session/load"]) == 1
        (entry,) = (await second.call("_accord/sessions"))["sessions"]
        assert entry["clients"] == 1


async def test_an_agent_that_dies_during_a_load_is_reported_and_the_next_load_is_complete(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        harness.agent.say("s1", "logged")
        await client.update()
        await restart_agent(harness, client)
        asked = client.ask("session/load", load_params("s1", tmp_path))
        await harness.agent.until_method("session/load")
        harness.agent.say("s1", "lo")
        await client.update()
        dead = harness.agent
        await dead.aclose()
        assert "session/load" in (await client.answer_to(asked))["error"]["message"]
        again = client.ask("session/load", load_params("s1", tmp_path))
        await harness.gateway.agents["hand"].ensure_started()
        load = await harness.agent.until_method("session/load")
        harness.agent.say("s1", "logged")
        harness.agent.reply(load, {})
        assert texts_of((await client.updates_until(again))[0]) == [("agent_message_chunk", "logged")]


async def test_a_prompt_and_its_cancel_wait_until_the_session_is_restored(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        await restart_agent(harness, client)
        turn = client.prompt("s1", "go")
        resume = await harness.agent.until_method("session/resume")
        client.notify("session/cancel", {"sessionId": "s1"})
        harness.agent.reply(resume, {})
        prompt = await harness.agent.until_method("session/prompt")
        await harness.agent.until_method("session/cancel")
        harness.agent.reply(prompt, {"stopReason": "cancelled"})
        assert (await client.answer_to(turn))["result"]["stopReason"] == "cancelled"


async def test_a_prompt_runs_after_its_client_left_during_the_agents_start(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client, other = await harness.client(), await harness.client()
        await open_session(harness, client, tmp_path)
        await restart_agent(harness, client)
        client.prompt("s1", "go")
        resume = await harness.agent.until_method("session/resume")
        await disconnect(harness, client)
        harness.agent.reply(resume, {})
        prompt = await harness.agent.until_method("session/prompt")
        harness.agent.say("s1", "done")
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        harness.agent.notify("_done", {})
        await other.until_method("_done")
        updates, _ = await other.load("s1", str(tmp_path))
        assert texts_of(updates) == [("user_message_chunk", "go"), ("agent_message_chunk", "done")]
        assert not harness.gateway.busy


async def test_a_request_can_be_cancelled_while_the_agent_restarts(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        await restart_agent(harness, client)
        turn = client.prompt("s1", "go")
        resume = await harness.agent.until_method("session/resume")
        client.notify("$/cancel_request", {"requestId": turn})
        assert (await client.answer_to(turn))["error"]["code"] == -32800
        harness.agent.reply(resume, {})
        again = client.prompt("s1", "something else")
        prompt = await harness.agent.until_method("session/prompt")
        assert prompt["params"]["prompt"][0]["text"] == "something else"
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await client.answer_to(again))["result"]["stopReason"] == "end_turn"


async def test_a_resumed_session_gets_the_mcp_servers_of_the_resuming_client(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        await restart_agent(harness, client)
        servers = [{"name": "mine", "command": "/bin/mine", "args": [], "env": []}]
        client.ask("session/resume", {**load_params("s1", tmp_path), "mcpServers": servers})
        resume = await harness.agent.until_method("session/resume")
        assert resume["params"]["mcpServers"] == servers
        harness.agent.reply(resume, {})


async def test_sessions_of_an_ended_agent_no_longer_count(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness({}, audit=audit, limits=GatewayLimits(sessions=1)) as harness:
        client = await harness.client()
        for number in range(3):
            await open_session(harness, client, tmp_path, f"s{number}")
            assert harness.gateway.limit_counter.sessions == 1
            await restart_agent(harness, client)
            assert harness.gateway.limit_counter.sessions == 0


async def test_a_repeated_session_id_counts_once(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        await open_session(harness, client, tmp_path)
        assert harness.gateway.limit_counter.sessions == 1


async def test_loaded_and_forked_sessions_count_and_failed_ones_do_not(
    audit: AuditLog, tmp_path: Path
) -> None:
    forking = {**ALL, "sessionCapabilities": {**ALL["sessionCapabilities"], "fork": {}}}
    async with gateway_harness(forking, audit=audit, limits=GatewayLimits(sessions=2)) as harness:
        client = await harness.client()
        asked = client.ask("session/load", load_params("old", tmp_path))
        harness.agent.refuse(await harness.agent.until_method("session/load"), -32002)
        await client.answer_to(asked)
        assert harness.gateway.limit_counter.sessions == 0
        asked = client.ask("session/load", load_params("old", tmp_path))
        harness.agent.reply(await harness.agent.until_method("session/load"), {})
        await client.answer_to(asked)
        asked = client.ask("session/fork", load_params("old", tmp_path))
        harness.agent.reply(await harness.agent.until_method("session/fork"), {"sessionId": "forked"})
        await client.answer_to(asked)
        assert harness.gateway.limit_counter.sessions == 2
        error = await client.error("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        assert "live sessions" in error["message"]


async def test_an_unused_session_is_closed_to_make_room_for_a_new_one(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit, limits=GatewayLimits(sessions=1)) as harness:
        first = await harness.client()
        await open_session(harness, first, tmp_path)
        await disconnect(harness, first)
        second = await harness.client()
        asked = second.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        closing = await harness.agent.until_method("session/close")
        assert closing["params"]["sessionId"] == "s1"
        harness.agent.reply(closing, {})
        await harness.agent.answer_new_session("s2")
        assert (await second.answer_to(asked))["result"]["sessionId"] == "s2"


async def test_a_client_that_does_not_read_does_not_block_a_joining_one(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first = await harness.client()
        await open_session(harness, first, tmp_path)
        for number in range(40):
            harness.agent.tell(
                "s1", {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "x" * 100_000}
            )
        for _ in range(40):
            await first.update()
        stalled = await harness.client()
        stalled.connection.pause()
        stalled.ask("session/load", load_params("s1", tmp_path))
        await asyncio.sleep(0)
        joining = await harness.client()
        updates, _ = await joining.load("s1", str(tmp_path))
        assert len(updates) == 40
        assert stalled.connection.unsent < 4 << 20, "too much is buffered for a client that does not read"
        assert not stalled.connection.client.sessions
        await disconnect(harness, stalled)


async def test_a_history_sent_faster_than_it_is_read_arrives_once_and_complete(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client, other = await harness.client(), await harness.client()
        asked = client.ask("session/load", load_params("old", tmp_path))
        load = await harness.agent.until_method("session/load")
        client.connection.pause()
        for number in range(100):
            harness.agent.tell(
                "old", {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "x" * 100_000}
            )
        harness.agent.notify("_sent", {})
        await other.until_method("_sent")
        assert client.connection.unsent < 4 << 20
        harness.agent.reply(load, {})
        harness.agent.tell("old", {"sessionUpdate": "tool_call", "toolCallId": "after", "title": "live"})
        harness.agent.notify("_sent", {})
        await other.until_method("_sent")
        client.connection.resume()
        updates, _ = await client.updates_until(asked)
        harness.agent.tell("old", {"sessionUpdate": "tool_call", "toolCallId": "last", "title": "live"})
        seen = [update["toolCallId"] for update in updates]
        seen.append((await client.update())["toolCallId"])
        assert seen == [*(f"c{number}" for number in range(100)), "after", "last"]


async def test_a_cancelled_permission_request_cannot_be_answered(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        asking = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        asked = await client.until_method("session/request_permission")
        id = await client.inbox_id()
        harness.agent.notify("$/cancel_request", {"requestId": asking})
        await client.until_method("$/cancel_request")
        result = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        client.reply(asked, result)
        error = await client.error("_accord/inbox/answer", {"id": id, "result": result})
        assert error["code"] == -32002
        answers = [m for m in harness.agent.received if m.get("id") == asking and "method" not in m]
        assert [m["error"]["code"] for m in answers] == [-32800]


async def test_only_the_first_of_two_answers_reaches_the_agent(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await harness.client(), await harness.client()
        await open_session(harness, first, tmp_path)
        await second.load("s1", str(tmp_path))
        asking = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        one = await first.until_method("session/request_permission")
        two = await second.until_method("session/request_permission")
        id = await second.inbox_id()
        first.reply(one, {"outcome": {"outcome": "selected", "optionId": "no"}})
        second.reply(two, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        error = await second.error(
            "_accord/inbox/answer",
            {"id": id, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}},
        )
        assert error["code"] == -32002
        answers = [m for m in harness.agent.received if m.get("id") == asking and "method" not in m]
        assert [m["result"]["outcome"].get("optionId") for m in answers] == ["no"]


async def test_a_duplicate_answer_of_the_agent_is_forwarded_once(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        turn = client.prompt("s1")
        prompt = await harness.agent.until_method("session/prompt")
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        harness.agent.reply(prompt, {"stopReason": "refusal"})
        harness.agent.send({"jsonrpc": "2.0", "id": "9" * 5000, "result": {}})
        harness.agent.notify("_done", {"sessionId": "s1"})
        await client.until_method("_done")
        answers = [m for m in client.received if m.get("id") == turn and "method" not in m]
        assert [m["result"]["stopReason"] for m in answers] == ["end_turn"]


async def test_a_session_can_be_deleted_during_its_turn(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await harness.client(), await harness.client()
        await open_session(harness, first, tmp_path)
        turn = first.prompt("s1")
        prompt = await harness.agent.until_method("session/prompt")
        deleting = second.ask("session/delete", {"sessionId": "s1"})
        await harness.agent.until_method("session/cancel")
        harness.agent.reply(await harness.agent.until_method("session/delete"), {})
        await second.answer_to(deleting)
        for number in range(300):
            harness.agent.say("s1", f"late {number}")
        harness.agent.reply(prompt, {"stopReason": "cancelled"})
        assert (await first.answer_to(turn))["result"]["stopReason"] == "cancelled"
        assert not harness.gateway.busy
        asked = second.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        naming = await harness.agent.until_method("session/new")
        harness.agent.say("s2", "early")
        harness.agent.reply(naming, {"sessionId": "s2"})
        await second.answer_to(asked)
        assert (await second.update())["content"]["text"] == "early"


async def test_a_prompt_to_an_agent_that_is_stopping_restarts_it(audit: AuditLog, tmp_path: Path) -> None:
    clock = FakeClock()
    async with gateway_harness(audit=audit, clock=clock, idle=600) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        stopping = asyncio.ensure_future(harness.gateway.agents["hand"].stop())
        await asyncio.sleep(0)
        turn = client.prompt("s1", "again")
        await stopping
        while len(harness.agents) < 2:
            await harness.gateway.agents["hand"].ensure_started()
        harness.agent.reply(await harness.agent.until_method("session/resume"), {})
        harness.agent.reply(await harness.agent.until_method("session/prompt"), {"stopReason": "end_turn"})
        assert (await client.answer_to(turn))["result"]["stopReason"] == "end_turn"


async def test_an_inbox_answer_does_not_wait_for_a_session_list(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        asking = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        id = await client.inbox_id()
        listing = client.ask("session/list")
        theirs = await harness.agent.until_method("session/list")
        result = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        assert await client.call("_accord/inbox/answer", {"id": id, "result": result}) == {}
        assert (await harness.agent.answer_to(asking))["result"] == result
        harness.agent.reply(theirs, {"sessions": []})
        await client.answer_to(listing)


async def test_a_form_is_answered_when_its_client_cannot_show_it_or_leaves(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        plain, showing = await harness.client(), await harness.client(elicitation={"form": {}})
        for client in (plain, showing):
            client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
            naming = await harness.agent.until_method("session/new")
            form = {
                "mode": "form",
                "requestId": naming["id"],
                "message": "Which?",
                "requestedSchema": {"type": "object", "properties": {}},
            }
            asking = harness.agent.ask("elicitation/create", form)
            if client is showing:
                await showing.until_method("elicitation/create")
                await disconnect(harness, showing)
            answer = await harness.agent.answer_to(asking)
            assert answer.get("result", {}).get("action") == "cancel" or "error" in answer
            assert len(harness.gateway.pending_requests) == 0


async def test_a_number_id_and_the_same_text_id_are_two_requests(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        for id in (7, "7"):
            client.send({"jsonrpc": "2.0", "id": id, "method": "_vendor/slow", "params": {}})
        one = await harness.agent.until_method("_vendor/slow")
        two = await harness.agent.until_method("_vendor/slow")
        harness.agent.reply(two, {"was": "second"})
        harness.agent.reply(one, {"was": "first"})
        answers = {repr(m["id"]): m["result"]["was"] for m in [await client.next(), await client.next()]}
        assert answers == {"7": "first", "'7'": "second"}


async def test_unused_sessions_are_dropped_from_memory_and_can_be_loaded(
    audit: AuditLog, tmp_path: Path
) -> None:
    clock = FakeClock()
    async with gateway_harness(audit=audit, clock=clock) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        await disconnect(harness, client)
        other = await harness.client(TokenRights("t9"))
        await restart_agent(harness, other)
        await clock.advance(60)
        assert len(harness.gateway.sessions) == 0
        asked = other.ask("session/load", load_params("s1", tmp_path))
        harness.agent.reply(await harness.agent.until_method("session/load"), {})
        await other.answer_to(asked)


async def test_a_list_that_the_agent_does_not_answer_comes_from_the_gateway(
    audit: AuditLog, tmp_path: Path
) -> None:
    clock = FakeClock()
    async with gateway_harness(audit=audit, clock=clock) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        await run_turn(harness, client, "hello", "hi")
        listing = client.ask("session/list")
        await harness.agent.until_method("session/list")
        await clock.advance(20)
        listed = (await client.answer_to(listing))["result"]["sessions"]
        assert [entry["sessionId"] for entry in listed] == ["s1"]


async def test_invalid_notifications_are_not_forwarded(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        harness.agent.notify("elicitation/complete", {"nothing": 1})
        harness.agent.notify("elicitation/complete", {"elicitationId": "e1"})
        notification = await client.until_method("elicitation/complete")
        assert notification["params"] == {"elicitationId": "e1"}


def test_a_line_break_in_a_frame_does_not_end_the_event() -> None:
    frame = OutgoingFrame(b'{"jsonrpc":"2.0",\r"method":"session/update"}')
    assert frame.event == b'data: {"jsonrpc":"2.0", "method":"session/update"}\n\n'
