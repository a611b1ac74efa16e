"""Several clients on one session: all see the same order, and each request gets one answer."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import (
    ALL,
    DrivenAgent,
    DrivenClient,
    GatewayHarness,
    gateway_harness,
    open_session,
)

from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.schema.codec import encode
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import DEFAULT_LIMIT, Transport

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]
CALL = {"toolCallId": "c1", "title": "Run it", "kind": "execute"}


async def two_clients(
    harness: GatewayHarness, cwd: Path, **capabilities: Any
) -> tuple[DrivenClient, DrivenClient]:
    """Two clients on one session. The second has loaded its (empty) history."""
    first, second = await harness.client(**capabilities), await harness.client(**capabilities)
    session = await open_session(harness, first, cwd)
    await second.load(session, str(cwd))
    return first, second


async def test_a_joining_client_gets_the_history_and_then_live_updates(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first = await harness.client()
        modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
        await open_session(harness, first, tmp_path, modes=modes)
        turn = first.prompt("s1", "hello")
        prompt = await harness.agent.until_method("session/prompt")
        harness.agent.say("s1", "one ")
        harness.agent.say("s1", "two")
        harness.agent.tell("s1", {"sessionUpdate": "current_mode_update", "currentModeId": "b"})
        for _ in range(3):
            await first.update()
        second = await harness.client()
        updates, result = await second.load("s1", str(tmp_path))
        assert [(u["sessionUpdate"], u["content"]["text"]) for u in updates] == [
            ("user_message_chunk", "hello"),
            ("agent_message_chunk", "one two"),
        ]
        assert result["modes"]["currentModeId"] == "b"
        harness.agent.say("s1", " three")
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await second.update())["content"]["text"] == " three"
        updates, _ = await first.updates_until(turn)
        assert [u["content"]["text"] for u in updates] == [" three"]
        assert not [m for m in harness.agent.received if m.get("method") == "session/load"]


@pytest.mark.parametrize("mixed", ["", "plan", "notice", "session", "unknown session", "request"])
async def test_updates_of_one_read_go_to_all_clients_in_order_and_into_the_log(
    audit: AuditLog, tmp_path: Path, mixed: str
) -> None:
    def is_text(update: Any) -> bool:
        return update["sessionUpdate"] == "agent_message_chunk"

    async with gateway_harness(audit=audit) as harness:
        first = await harness.client()
        second = await harness.client()
        other = await harness.client()
        await open_session(harness, first, tmp_path)
        await second.load("s1", str(tmp_path))
        await open_session(harness, other, tmp_path, "s2")
        agent = harness.agent

        def send(session: str, **update: Any) -> None:
            """Without spaces, as most agents do."""
            params = {"sessionId": session, "update": update}
            agent.send(encode({"jsonrpc": "2.0", "method": "session/update", "params": params}).decode())

        def say(session: str, text: str) -> None:
            send(session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})

        for number in range(20):  # the gateway reads all of them together
            say("s1", f"é{number},")
            if number == 10 and mixed == "plan":
                send("s1", sessionUpdate="plan", entries=[])
            elif number == 10 and mixed == "notice":  # no client has asked for notices
                send("s1", sessionUpdate="notice", severity="info", title="t")
            elif number == 10 and mixed:
                say("s2" if mixed == "session" else "s9", "elsewhere")
        if mixed == "request":
            agent.ask("session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS})
        text = [f"é{number}," for number in range(20)]
        for client in (first, second):
            updates = [await client.update() for _ in range(21 if mixed == "plan" else 20)]
            assert [one["content"]["text"] for one in updates if is_text(one)] == text
            assert [number for number, one in enumerate(updates) if "entries" in one] == (
                [11] if mixed == "plan" else []
            )
        if mixed == "session":
            assert (await other.update())["content"]["text"] == "elsewhere"
        say("s2", "end")
        assert (await other.update())["content"]["text"] == "end"
        updates, _ = await (await harness.client()).load("s1", str(tmp_path))
        assert "".join([one["content"]["text"] for one in updates if is_text(one)]) == "".join(text)


async def test_prompts_of_two_clients_during_a_turn_are_two_messages_of_the_history(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await two_clients(harness, tmp_path)
        for client, text in ((first, "hello"), (first, "wait"), (second, "stop")):
            client.prompt("s1", text)
            await harness.agent.until_method("session/prompt")
        third = await harness.client()
        updates, _ = await third.load("s1", str(tmp_path))
        assert [update["content"]["text"] for update in updates] == ["hello", "wait", "stop"]


async def test_resuming_a_live_session_gives_its_state_without_history(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first = await harness.client()
        await open_session(harness, first, tmp_path)
        harness.agent.say("s1", "old")
        commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
        harness.agent.tell("s1", commands)
        await first.update()
        await first.update()
        second = await harness.client()
        asked = second.ask("session/resume", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []})
        updates, _ = await second.updates_until(asked)
        assert updates == []
        assert await second.update() == commands


async def test_a_prompt_and_its_end_are_shown_to_the_other_clients(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await two_clients(harness, tmp_path, _meta={"accord": {"turn": True}})
        for client in (first, second):
            attached = await client.until_method("_accord/turn")
            assert attached["params"] == {"sessionId": "s1", "state": "idle"}
        turn = first.prompt("s1", "question")
        prompt = await harness.agent.until_method("session/prompt")
        assert (await second.update())["content"]["text"] == "question"
        joined = await harness.client(_meta={"accord": {"turn": True}})
        await joined.load("s1", str(tmp_path))
        assert (await joined.until_method("_accord/turn"))["params"]["state"] == "running"
        started = await second.until_method("_accord/turn")
        assert started["params"] == {"sessionId": "s1", "state": "started"}
        harness.agent.tell(
            "s1", {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "question"}}
        )  # an echo that no client needs
        harness.agent.say("s1", "answer")
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await second.update())["content"]["text"] == "answer"
        ended = await second.until_method("_accord/turn")
        assert ended["params"] == {"sessionId": "s1", "state": "ended", "stopReason": "end_turn"}
        updates, _ = await first.updates_until(turn)
        assert [update["content"]["text"] for update in updates] == ["answer"]
        states = [message["params"] for message in first.received if message.get("method") == "_accord/turn"]
        assert states == [{"sessionId": "s1", "state": "idle"}]


@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_a_permission_request_goes_to_all_and_the_first_answer_wins(
    audit: AuditLog, tmp_path: Path, answer: str
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await two_clients(harness, tmp_path)
        asked = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        question = await first.until_method("session/request_permission")
        same = await second.until_method("session/request_permission")
        assert question["params"]["options"] == OPTIONS
        second.reply(same, {"outcome": {"outcome": "selected", "optionId": answer}, "_meta": {"why": "x"}})
        decided = await harness.agent.answer_to(asked)
        assert decided["result"]["outcome"] == {"outcome": "selected", "optionId": answer}
        over = await first.until_method("$/cancel_request")
        assert over["params"]["requestId"] == question["id"]
        first.reply(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})  # too late
        harness.agent.say("s1", "on")
        await first.update()
        assert [m for m in harness.agent.received if m.get("id") == asked and "result" in m] == [decided]


@pytest.mark.parametrize(
    "answer",
    [
        {"outcome": {"outcome": "selected", "optionId": "other"}},
        {"outcome": {"outcome": "selected"}},
        {"outcome": True},
        {},
        "go on",
        None,
    ],
)
async def test_an_unreadable_answer_is_a_rejection(audit: AuditLog, tmp_path: Path, answer: Any) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        asked = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        client.reply(await client.until_method("session/request_permission"), answer)
        outcome = (await harness.agent.answer_to(asked))["result"]["outcome"]
        assert outcome == {"outcome": "cancelled"}


@pytest.mark.dialect(75)
async def test_a_rejection_reaches_an_agent_that_runs_every_selected_option_as_cancelled(
    audit: AuditLog, tmp_path: Path
) -> None:
    def start() -> Transport:
        ours, theirs = memory_pair()
        harness.agents.append(DrivenAgent(theirs, ALL, agentInfo={"name": "iac-code", "version": "0.16.0"}))
        return ours

    async with gateway_harness(audit=audit, start=start) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        ran: dict[str, bool] = {}
        for option in ("no", "yes"):
            asked = harness.agent.ask(
                "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
            )
            client.reply(
                await client.until_method("session/request_permission"),
                {"outcome": {"outcome": "selected", "optionId": option}},
            )
            outcome = (await harness.agent.answer_to(asked))["result"]["outcome"]
            ran[option] = outcome["outcome"] == "selected"  # as iac-code reads it
        assert ran == {"no": False, "yes": True}
    lines = [json.loads(line) for line in audit.path.read_text().splitlines()]
    assert [line["decision"] for line in lines if line["event"] == "answer"] == ["reject_once", "allow_once"]


async def test_an_error_of_one_client_leaves_the_request_to_the_others(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await two_clients(harness, tmp_path)
        asked = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        first.refuse(await first.until_method("session/request_permission"), -32601)
        second.reply(
            await second.until_method("session/request_permission"),
            {"outcome": {"outcome": "selected", "optionId": "no"}},
        )
        assert (await harness.agent.answer_to(asked))["result"]["outcome"]["optionId"] == "no"


@pytest.mark.parametrize(
    "answer",
    [None, {}, True, {"outcome": {"outcome": "selected", "optionId": "other"}}, {"outcome": "selected"}],
)
async def test_an_answer_that_names_no_option_leaves_the_request_open(
    audit: AuditLog, tmp_path: Path, answer: Any
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await two_clients(harness, tmp_path)
        asking = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        asked = await first.until_method("session/request_permission")
        first.reply(asked, answer)
        error = await first.error("_accord/inbox/answer", {"id": await first.inbox_id(), "result": answer})
        assert "none of the options" in error["message"]
        right = {"outcome": {"outcome": "selected", "optionId": "no"}}
        second.reply(await second.until_method("session/request_permission"), right)
        assert (await harness.agent.answer_to(asking))["result"] == right


async def test_a_pending_permission_request_waits_for_the_next_client(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        turn = client.prompt("s1")
        prompt = await harness.agent.until_method("session/prompt")
        asked = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        await client.until_method("session/request_permission")
        client.connection.end(1006, "the client vanished")
        back = await harness.client()
        await back.load("s1", str(tmp_path))
        question = await back.until_method("session/request_permission")
        back.reply(question, {"outcome": {"outcome": "selected", "optionId": "yes"}})
        assert (await harness.agent.answer_to(asked))["result"]["outcome"]["optionId"] == "yes"
        harness.agent.say("s1", "done")
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        assert (await back.update())["content"]["text"] == "done"
        assert turn not in [message.get("id") for message in back.received]


async def test_any_client_can_cancel_and_pending_requests_are_answered_cancelled(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await two_clients(harness, tmp_path)
        turn = first.prompt("s1")
        prompt = await harness.agent.until_method("session/prompt")
        asked = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        await first.until_method("session/request_permission")
        second.notify("session/cancel", {"sessionId": "s1"})
        await harness.agent.until_method("session/cancel")
        assert (await harness.agent.answer_to(asked))["result"]["outcome"] == {"outcome": "cancelled"}
        await first.until_method("$/cancel_request")
        harness.agent.reply(prompt, {"stopReason": "cancelled"})
        assert (await first.answer_to(turn))["result"]["stopReason"] == "cancelled"


async def test_a_request_cancelled_by_the_agent_is_cancelled_for_all_clients(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await two_clients(harness, tmp_path)
        asked = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        for client in (first, second):
            await client.until_method("session/request_permission")
        harness.agent.notify("$/cancel_request", {"requestId": asked})
        for client in (first, second):
            await client.until_method("$/cancel_request")
        assert (await harness.agent.answer_to(asked))["error"]["code"] == -32800


async def test_a_mode_set_by_one_client_is_shown_to_the_others(audit: AuditLog, tmp_path: Path) -> None:
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
    async with gateway_harness(audit=audit) as harness:
        first, second = await harness.client(), await harness.client()
        await open_session(harness, first, tmp_path, modes=modes)
        await second.load("s1", str(tmp_path))
        asked = first.ask("session/set_mode", {"sessionId": "s1", "modeId": "b"})
        harness.agent.reply(await harness.agent.until_method("session/set_mode"), {})
        await first.answer_to(asked)
        assert await second.update() == {"sessionUpdate": "current_mode_update", "currentModeId": "b"}


async def test_forms_go_only_to_clients_that_show_them(audit: AuditLog, tmp_path: Path) -> None:
    form = {
        "mode": "form",
        "sessionId": "s1",
        "message": "Your name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    async with gateway_harness(audit=audit) as harness:
        plain = await harness.client()
        await open_session(harness, plain, tmp_path)
        showing = await harness.client(elicitation={"form": {}})
        await showing.load("s1", str(tmp_path))
        asked = harness.agent.ask("elicitation/create", form)
        question = await showing.until_method("elicitation/create")
        showing.reply(question, {"action": "accept", "content": {"name": "x"}})
        answer = (await harness.agent.answer_to(asked))["result"]
        assert answer == {"action": "accept", "content": {"name": "x"}}
        assert "elicitation/create" not in [message.get("method") for message in plain.received]


async def test_the_inbox_lists_streams_and_answers_requests_of_all_sessions(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        worker, watcher = await harness.client(), await harness.client()
        await open_session(harness, worker, tmp_path)
        assert await watcher.call("_accord/inbox", {"subscribe": True}) == {"items": []}
        asked = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        added = (await watcher.until_method("_accord/inbox"))["params"]["added"]
        assert added["method"] == "session/request_permission"
        assert (added["agent"], added["sessionId"], added["cwd"]) == ("hand", "s1", str(tmp_path))
        assert added["params"]["options"] == OPTIONS
        assert (await watcher.call("_accord/inbox"))["items"] == [added]
        choice = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        assert await watcher.call("_accord/inbox/answer", {"id": added["id"], "result": choice}) == {}
        assert (await harness.agent.answer_to(asked))["result"] == choice
        await worker.until_method("$/cancel_request")
        removed = [m["params"] for m in watcher.received if m.get("method") == "_accord/inbox"][-1]
        assert removed["removed"]["id"] == added["id"]
        again = await watcher.error("_accord/inbox/answer", {"id": added["id"], "result": choice})
        assert again["code"] == -32002


@pytest.mark.parametrize("more", [{}, {"locations": [{"path": "/project/Makefile"}]}], ids=["title", "path"])
async def test_the_inbox_shows_the_command_that_an_earlier_update_named(
    audit: AuditLog, tmp_path: Path, more: dict[str, Any]
) -> None:
    """A client that has not opened the session knows only the inbox."""
    async with gateway_harness(audit=audit) as harness:
        worker, watcher = await harness.client(), await harness.client()
        session = await open_session(harness, worker, tmp_path)
        command = {"command": "make all"}
        announced = {"toolCallId": "c7", "title": "Bash", "kind": "execute", "rawInput": command}
        update = {"sessionUpdate": "tool_call", **announced}
        harness.agent.notify("session/update", {"sessionId": session, "update": update})
        repeated = {"toolCallId": "c7", "title": "Run?", **more}
        params = {"sessionId": session, "toolCall": repeated, "options": OPTIONS}
        harness.agent.ask("session/request_permission", params)
        asked = await worker.until_method("session/request_permission")
        assert asked["params"] == params, "a client of the session gets the agent's own request"
        [item] = (await watcher.call("_accord/inbox"))["items"]
        call = item["params"]["toolCall"]
        assert (call["title"], call["kind"], call["rawInput"]) == ("Run?", "execute", command)


async def test_the_inbox_of_a_token_is_limited_to_its_folders(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        worker = await harness.client()
        elsewhere = await harness.client(TokenRights("t2", folders=(str(tmp_path / "else"),)))
        reader = await harness.client(TokenRights("t3", read_only=True))
        await open_session(harness, worker, tmp_path)
        harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        id = await worker.inbox_id()
        for other in (elsewhere, reader):
            assert (await other.call("_accord/inbox"))["items"] == []
        choice = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        error = await elsewhere.error("_accord/inbox/answer", {"id": id, "result": choice})
        assert error["code"] == -32002
        assert (
            await elsewhere.error("session/load", {"sessionId": "s1", "cwd": str(tmp_path), "mcpServers": []})
        )["code"] == -32003


async def test_a_read_only_client_sees_updates_and_gets_no_requests(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        worker, reader = await harness.client(), await harness.client(TokenRights("t3", read_only=True))
        await open_session(harness, worker, tmp_path)
        await reader.load("s1", str(tmp_path))
        harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        await worker.until_method("session/request_permission")
        harness.agent.say("s1", "seen")
        assert (await reader.update())["content"]["text"] == "seen"
        assert "session/request_permission" not in [message.get("method") for message in reader.received]
        prompt = {"sessionId": "s1", "prompt": [{"type": "text", "text": "do"}]}
        assert (await reader.error("session/prompt", prompt))["code"] == -32003


async def test_the_session_overview_shows_idle_running_and_waiting(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        worker, watcher = await harness.client(), await harness.client()
        await open_session(harness, worker, tmp_path)
        listed = (await watcher.call("_accord/sessions", {"subscribe": True}))["sessions"]
        assert [(entry["sessionId"], entry["state"], entry["clients"]) for entry in listed] == [
            ("s1", "idle", 1)
        ]
        turn = worker.prompt("s1", "work")
        prompt = await harness.agent.until_method("session/prompt")

        async def state() -> str:
            return (await watcher.until_method("_accord/sessions"))["params"]["changed"]["state"]

        assert await state() == "running"
        asked = harness.agent.ask(
            "session/request_permission", {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
        )
        while await state() != "waiting":
            pass
        question = await worker.until_method("session/request_permission")
        worker.reply(question, {"outcome": {"outcome": "selected", "optionId": "no"}})
        await harness.agent.answer_to(asked)
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        await worker.answer_to(turn)
        while await state() != "idle":
            pass


async def test_the_session_list_is_read_in_pages_and_filtered_by_words(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        for number in range(1, 8):
            await open_session(harness, client, tmp_path, f"s{number}")
        pages, cursor = [], None
        while True:
            page = await client.call("_accord/sessions", {"limit": 3, "cursor": cursor})
            pages.append([entry["sessionId"] for entry in page["sessions"]])
            if (cursor := page.get("nextCursor")) is None:
                break
        assert pages == [["s7", "s6", "s5"], ["s4", "s3", "s2"], ["s1"]]
        harness.agent.tell("s4", {"sessionUpdate": "session_info_update", "title": "Mend the parser"})
        await client.update()
        found = await client.call("_accord/sessions", {"query": f"PARSER {tmp_path.name}", "limit": 3})
        assert [entry["sessionId"] for entry in found["sessions"]] == ["s4"]
        assert "nextCursor" not in found
        for wrong in ({"limit": 0}, {"limit": True}, {"cursor": "x"}, {"cursor": "1.-2"}, {"query": 1}):
            assert (await client.error("_accord/sessions", wrong))["code"] == -32602


async def test_clients_are_told_that_a_message_was_too_large(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(session={"notices": {}})
        await open_session(harness, client, tmp_path)
        harness.agent.say("s1", "x" * DEFAULT_LIMIT)
        notice = await client.update()
        assert (notice["sessionUpdate"], notice["severity"]) == ("notice", "error")
        assert "67109034 bytes" in notice["description"]
        assert "64 MiB" in notice["description"]
        harness.agent.say("s1", "goes on")
        assert (await client.update())["content"]["text"] == "goes on"


async def test_boolean_options_go_only_to_clients_that_support_them(audit: AuditLog, tmp_path: Path) -> None:
    switch = {"type": "boolean", "id": "web", "name": "Web", "currentValue": True}
    choice = {
        "type": "select",
        "id": "model",
        "name": "Model",
        "currentValue": "a",
        "options": [{"value": "a", "name": "A"}],
    }
    async with gateway_harness(audit=audit) as harness:
        plain = await harness.client()
        knowing = await harness.client(session={"configOptions": {"boolean": {}}})
        asked = plain.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await harness.agent.answer_new_session("s1", configOptions=[switch, choice])
        assert (await plain.answer_to(asked))["result"]["configOptions"] == [choice]
        _, opened = await knowing.load("s1", str(tmp_path))
        assert opened["configOptions"] == [switch, choice]
        switch["currentValue"] = False
        harness.agent.tell("s1", {"sessionUpdate": "config_option_update", "configOptions": [switch, choice]})
        assert (await plain.update())["configOptions"] == [choice]
        assert (await knowing.update())["configOptions"] == [switch, choice]


async def test_a_session_without_a_title_is_listed_by_its_first_prompt(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness({}, audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        for asked in ("Mend the \x1b[31mparser\n please", "and the tests"):
            turn = client.prompt("s1", asked)
            harness.agent.reply(
                await harness.agent.until_method("session/prompt"), {"stopReason": "end_turn"}
            )
            await client.answer_to(turn)

        async def title() -> str:
            return (await client.call("_accord/sessions"))["sessions"][0]["title"]

        named = await title()
        assert named.startswith("Mend the")
        assert named.endswith("please")
        assert "\x1b" not in named
        assert (await client.call("session/list"))["sessions"][0]["title"] == named
        harness.agent.tell("s1", {"sessionUpdate": "session_info_update", "title": "The parser"})
        await client.update()
        assert await title() == "The parser"


async def test_text_that_is_only_in_the_prompt_result_reaches_all_clients_and_the_history(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await two_clients(harness, tmp_path)
        turn = first.prompt("s1", "question")
        prompt = await harness.agent.until_method("session/prompt")
        assert (await second.update())["content"]["text"] == "question"
        harness.agent.reply(prompt, {"stopReason": "end_turn", "content": "the answer"})
        updates, _ = await first.updates_until(turn)
        assert [update["content"]["text"] for update in updates] == ["the answer"]
        assert (await second.update())["content"]["text"] == "the answer"
        third = await harness.client()
        history, _ = await third.load("s1", str(tmp_path))
        assert [update["content"]["text"] for update in history] == ["question", "the answer"]


async def test_text_of_the_prompt_result_that_was_streamed_is_not_repeated(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        for streamed, rest in (("the answer", []), ("the ", ["answer"])):
            turn = client.prompt("s1")
            prompt = await harness.agent.until_method("session/prompt")
            harness.agent.say("s1", streamed)
            harness.agent.reply(prompt, {"stopReason": "end_turn", "content": "the answer"})
            updates, _ = await client.updates_until(turn)
            assert [update["content"]["text"] for update in updates] == [streamed, *rest]


async def test_a_message_to_a_running_turn_reaches_the_agent_and_the_other_clients(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await two_clients(harness, tmp_path)
        turn = first.prompt("s1", "hello")
        prompt = await harness.agent.until_method("session/prompt")
        params = {"sessionId": "s1", "prompt": [{"type": "text", "text": "use tabs"}]}
        steering = second.ask("_session/steering", params)
        forwarded = await harness.agent.until_method("_session/steering")
        assert forwarded["params"] == params
        harness.agent.reply(forwarded, {"outcome": "injected"})
        assert (await second.answer_to(steering))["result"] == {"outcome": "injected"}
        harness.agent.reply(prompt, {"stopReason": "end_turn"})
        updates, _ = await first.updates_until(turn)
        assert [update["content"]["text"] for update in updates] == ["use tabs"]
        third = await harness.client()
        replayed, _ = await third.load("s1", str(tmp_path))
        assert [update["content"]["text"] for update in replayed] == ["hello", "use tabs"]
        watcher = await harness.client(TokenRights("t2", "watcher", read_only=True))
        assert "read-only" in (await watcher.error("_session/steering", params))["message"]


async def test_a_rewind_reaches_all_clients_and_hides_messages_from_later_ones(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        first, second = await two_clients(harness, tmp_path)
        for text in ("one", "two"):
            turn = first.prompt("s1", text)
            harness.agent.reply(
                await harness.agent.until_method("session/prompt"), {"stopReason": "end_turn"}
            )
            await first.answer_to(turn)
        params = {"sessionId": "s1", "messageId": "m2", "scope": "both"}
        rewind = first.ask("_session/rewind", params)
        forwarded = await harness.agent.until_method("_session/rewind")
        assert forwarded["params"] == params
        marker = {"rewind": {"messageId": "m2", "messages": 1, "text": "two"}}
        update = {"sessionUpdate": "session_info_update", "_meta": marker}
        harness.agent.tell("s1", update)
        harness.agent.reply(forwarded, {"canRewind": True})
        updates, _ = await first.updates_until(rewind)
        assert updates == [update]
        while (seen := await second.update())["sessionUpdate"] != "session_info_update":
            pass
        assert seen == update
        third = await harness.client()
        replayed, _ = await third.load("s1", str(tmp_path))
        assert [item["content"]["text"] for item in replayed if "content" in item] == ["one"]
        assert not [item for item in replayed if item.get("_meta")], "the marker is applied once"
        watcher = await harness.client(TokenRights("t2", "watcher", read_only=True))
        assert "read-only" in (await watcher.error("_session/rewind", params))["message"]
