"""One client and one agent: all messages are forwarded in order, and only ids are translated."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.gateway_harness import DrivenAgent, gateway_harness, open_session

from accord.errors import HandshakeFailed
from accord.gateway.access.access_tokens import TokenRights
from accord.gateway.access.audit_log import AuditLog
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import Transport


async def test_the_initialize_result_is_the_agents_plus_the_gateways_additions(audit: AuditLog) -> None:
    async with gateway_harness({"promptCapabilities": {"image": True}}, audit=audit) as harness:
        client = harness.connect()
        initialize_result = await client.initialize()
        capabilities = initialize_result["agentCapabilities"]
        assert capabilities["promptCapabilities"] == {"image": True}
        assert capabilities["loadSession"] is True
        assert set(capabilities["sessionCapabilities"]) == {"list", "resume", "close", "delete"}
        assert capabilities["_meta"]["accord"]["gateway"] == {"version": 1, "agent": "hand"}
        offered = (await harness.agent.next("initialize"))["params"]["clientCapabilities"]
        assert offered["fs"] == {"readTextFile": True, "writeTextFile": True}
        assert offered["terminal"] is True


async def test_initialize_must_come_first_and_once(audit: AuditLog) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = harness.connect()
        assert (await client.error("session/list"))["code"] == -32600
        await client.initialize()
        assert (await client.error("initialize", {"protocolVersion": 1}))["code"] == -32600


async def test_an_update_over_the_limit_is_reported_with_its_size(audit: AuditLog, tmp_path: Path) -> None:
    agents = list[DrivenAgent]()

    def start() -> Transport:
        ours, theirs = memory_pair(limit=5000)
        agents.append(DrivenAgent(theirs, {}))
        return ours

    async with gateway_harness(audit=audit, start=start) as harness:
        client = await harness.client(session={"notices": {}})
        asked = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await agents[0].answer_new_session("s1")
        await client.answer_to(asked)
        turn = client.prompt("s1")
        prompt = await agents[0].until_method("session/prompt")
        agents[0].say("s1", "x" * 80_000)
        agents[0].say("s1", "after it")
        agents[0].reply(prompt, {"stopReason": "end_turn"})
        (notice, after), _ = await client.updates_until(turn)
        assert (notice["sessionUpdate"], notice["severity"]) == ("notice", "error")
        assert notice["description"] == (
            "a message of 80170 bytes is over the size limit; the gateway accepts 64 MiB"
        )
        assert after["content"]["text"] == "after it"


async def test_a_turn_is_forwarded_in_order_and_valid_frames_are_unchanged(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        asked = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await harness.agent.answer_new_session("s1")
        assert (await client.answer_to(asked))["result"] == {"sessionId": "s1"}
        turn = client.prompt("s1")
        prompt = await harness.agent.until_method("session/prompt")
        odd = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1", "update":'
            b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}},"_meta":{"x":1}}}'
        )
        harness.agent.send(odd)
        harness.agent.reply(prompt, {"stopReason": "end_turn", "_meta": {"y": 2}})
        updates, result = await client.updates_until(turn)
        assert [update["content"]["text"] for update in updates] == ["hi"]
        assert result == {"stopReason": "end_turn", "_meta": {"y": 2}}
        assert odd in [frame.body for frame, _ in client.connection.sent]


@pytest.mark.dialect(9)
async def test_a_dialect_is_forwarded_in_official_form(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        harness.agent.tell("s1", {"sessionUpdate": "agent_message_chunk", "content": blocks})
        assert [(await client.update())["content"]["text"] for _ in range(2)] == ["a", "b"]


async def test_the_log_has_the_time_of_a_prompt_and_the_agent_does_not(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client, other = await harness.client(), await harness.client()
        await open_session(harness, client, tmp_path)
        await other.load("s1", str(tmp_path))
        client.prompt("s1", "go")
        prompt = await harness.agent.until_method("session/prompt")
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "go"}]
        live = await other.update()
        updates, _ = await (await harness.client()).load("s1", str(tmp_path))
        replayed = next(update for update in updates if update["sessionUpdate"] == "user_message_chunk")
        for update in (live, replayed):
            time = datetime.fromisoformat(update["content"]["_meta"]["accord"]["time"])
            assert time.tzinfo is not None


async def test_an_update_before_the_session_new_answer_is_not_lost(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        asked = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        request = await harness.agent.until_method("session/new")
        harness.agent.say("s1", "early")
        harness.agent.reply(request, {"sessionId": "s1"})
        await client.answer_to(asked)
        assert (await client.update())["content"]["text"] == "early"


async def test_file_requests_are_served_by_the_gateway_within_the_folders(
    audit: AuditLog, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("text")
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        read = harness.agent.ask("fs/read_text_file", {"sessionId": "s1", "path": str(tmp_path / "a.txt")})
        assert (await harness.agent.answer_to(read))["result"] == {"content": "text"}
        outside = harness.agent.ask("fs/read_text_file", {"sessionId": "s1", "path": "/etc/passwd"})
        assert "error" in await harness.agent.answer_to(outside)
        elsewhere = harness.agent.ask(
            "fs/read_text_file", {"sessionId": "s9", "path": str(tmp_path / "a.txt")}
        )
        assert (await harness.agent.answer_to(elsewhere))["error"]["code"] == -32002


async def test_terminals_run_at_the_gateway_and_stream_to_clients_that_support_it(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(_meta={"accord": {"terminal": True}})
        await open_session(harness, client, tmp_path)
        create = harness.agent.ask(
            "terminal/create", {"sessionId": "s1", "command": "echo", "args": ["hello"]}
        )
        terminal = (await harness.agent.answer_to(create))["result"]["terminalId"]
        printed = await client.until_method("_accord/terminal")
        assert printed["params"]["terminalId"] == terminal
        assert "hello" in printed["params"]["data"]
        wait = harness.agent.ask("terminal/wait_for_exit", {"sessionId": "s1", "terminalId": terminal})
        assert (await harness.agent.answer_to(wait))["result"]["exitCode"] == 0
        release = harness.agent.ask("terminal/release", {"sessionId": "s1", "terminalId": terminal})
        await harness.agent.answer_to(release)
        output = await client.call("_accord/terminal/output", {"sessionId": "s1", "terminalId": terminal})
        assert "hello" in output["output"]
        assert output["exitStatus"]["exitCode"] == 0


async def test_cancel_request_reaches_the_agent_with_the_agents_id(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        asked = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        request = await harness.agent.until_method("session/new")
        client.notify("$/cancel_request", {"requestId": asked})
        note = await harness.agent.until_method("$/cancel_request")
        assert note["params"]["requestId"] == request["id"]
        harness.agent.refuse(request, -32800, "Request cancelled")
        assert (await client.answer_to(asked))["error"]["code"] == -32800


async def test_extension_methods_are_forwarded_both_ways(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        asked = client.ask("_vendor/thing", {"deep": [1, {"x": None}]})
        request = await harness.agent.until_method("_vendor/thing")
        assert request["params"] == {"deep": [1, {"x": None}]}
        harness.agent.reply(request, {"odd": [None]})
        assert (await client.answer_to(asked))["result"] == {"odd": [None]}
        harness.agent.notify("_vendor/news", {"n": 1})
        assert (await client.until_method("_vendor/news"))["params"] == {"n": 1}
        assert (await client.error("no/such"))["code"] == -32601
        assert (await client.error("_accord/no_such"))["code"] == -32601


async def test_a_pretty_printed_frame_reaches_the_agent_on_one_line(audit: AuditLog) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "_vendor/thing", "params": {"a": 1}}
        client.connection.frames([json.dumps(message, indent=2).encode()])
        request = await harness.agent.until_method("_vendor/thing")
        harness.agent.reply(request, {})
        assert (await client.answer_to(7))["result"] == {}


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b'{"jsonrpc":"2.0"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":5}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":[1]}', -32602),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":["x"],"prompt":[]}}',
            -32602,
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"relative","mcpServers":[]}}',
            -32602,
        ),
    ],
)
async def test_an_invalid_frame_is_rejected_and_the_connection_stays_open(
    audit: AuditLog, frame: bytes, code: int
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        client.send(frame)
        answer = await client.next()
        assert answer["error"]["code"] == code
        await client.call("_accord/agents")


async def test_a_token_is_limited_to_its_folders_and_agents(audit: AuditLog, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    rights = TokenRights("t2", "guest", folders=(str(inside),))
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(rights)
        for folder in (outside, inside / "link", inside / ".." / "out"):
            error = await client.error("session/new", {"cwd": str(folder), "mcpServers": []})
            assert error["code"] == -32003, folder
        error = await client.error(
            "session/new", {"cwd": str(inside), "mcpServers": [], "additionalDirectories": [str(outside)]}
        )
        assert error["code"] == -32003
        with pytest.raises(Exception, match="no agent"):
            harness.connect(TokenRights("t3", agents=frozenset({"other"})))


async def test_a_read_only_token_changes_nothing(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        owner, reader = harness.connect(), harness.connect(TokenRights("t4", "reader", read_only=True))
        gateway_info = [
            (await client.initialize())["agentCapabilities"]["_meta"]["accord"] for client in (owner, reader)
        ]
        assert [own["gateway"].get("readOnly", False) for own in gateway_info] == [False, True]
        for method, params in (
            ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
            ("session/delete", {"sessionId": "s1"}),
            ("_vendor/thing", {}),
            ("authenticate", {"methodId": "x"}),
        ):
            assert (await reader.error(method, params))["code"] == -32003, method


async def test_an_agent_that_cannot_start_is_reported_with_the_other_agents(audit: AuditLog) -> None:
    def start() -> Transport:
        raise HandshakeFailed("hand: it exited with code 7", exit_code=7, stderr="no such model\n")

    async with gateway_harness(audit=audit, start=start) as harness:
        error = await harness.connect().error("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert error["message"] == "hand: it exited with code 7"
        assert error["data"] == {"exitCode": 7, "stderr": "no such model\n", "agents": ["hand"]}


async def test_a_client_without_terminal_support_gets_the_output_as_text(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        create = harness.agent.ask(
            "terminal/create", {"sessionId": "s1", "command": "echo", "args": ["hello"]}
        )
        terminal = (await harness.agent.answer_to(create))["result"]["terminalId"]
        content = [{"type": "terminal", "terminalId": terminal}]
        harness.agent.tell(
            "s1", {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run", "content": content}
        )
        assert "terminal" not in str((await client.update()).get("content"))  # at most what it printed so far
        wait = harness.agent.ask("terminal/wait_for_exit", {"sessionId": "s1", "terminalId": terminal})
        await harness.agent.answer_to(wait)
        update = await client.update()
        assert update["toolCallId"] == "c"
        assert [item["content"]["text"] for item in update["content"]] == ["```\nhello\n```"]
        done = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}
        harness.agent.tell("s1", {**done, "content": content})
        update = await client.update()
        assert [item["content"]["text"] for item in update["content"]] == ["```\nhello\n```"]
        other = await harness.client()
        updates, _ = await other.load("s1", str(tmp_path))
        assert [item["content"]["text"] for item in updates[0]["content"]] == ["```\nhello\n```"]


async def test_a_cancel_sent_as_a_request_is_forwarded_and_answered(audit: AuditLog, tmp_path: Path) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client()
        await open_session(harness, client, tmp_path)
        assert await client.call("session/cancel", {"sessionId": "s1"}) == {}
        await harness.agent.until_method("session/cancel")
        assert await client.call("session/cancel", {"sessionId": "none"}) == {}


async def test_a_token_limited_to_folders_reaches_the_agent_only_through_its_sessions(
    audit: AuditLog, tmp_path: Path
) -> None:
    async with gateway_harness(audit=audit) as harness:
        client = await harness.client(TokenRights("t2", "guest", folders=(str(tmp_path),)))
        for method, params in (
            ("logout", {}),
            ("providers/list", {}),
            ("_vendor/read", {"path": "/etc/passwd", "session": "of another client"}),
        ):
            assert (await client.error(method, params))["code"] == -32003, method
        client.notify("_vendor/note", {"path": "/etc/passwd"})
        asked = client.ask("authenticate", {"methodId": "key"})
        harness.agent.reply(await harness.agent.until_method("authenticate"), {})
        await client.answer_to(asked)
        session = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await harness.agent.answer_new_session("s1")
        await client.answer_to(session)
        own = client.ask("_vendor/thing", {"sessionId": "s1"})
        harness.agent.reply(await harness.agent.until_method("_vendor/thing"), {"fine": True})
        assert (await client.answer_to(own))["result"] == {"fine": True}
        methods = [message.get("method") for message in harness.agent.received]
        assert not {"logout", "providers/list", "_vendor/read", "_vendor/note"} & set(methods)


async def test_the_list_of_the_agent_is_not_offered(audit: AuditLog, tmp_path: Path) -> None:
    """Clients see the list of the gateway, which has no archive and no subscriptions."""
    sessions = {"list": {}, "archive": {}, "status": {}, "title": {}}
    async with gateway_harness({"sessionCapabilities": sessions}, audit=audit) as harness:
        client = harness.connect()
        capabilities = (await client.initialize())["agentCapabilities"]["sessionCapabilities"]
        assert "title" in capabilities
        assert not {"archive", "status"} & capabilities.keys()
        session = await open_session(harness, client, tmp_path)
        for method in ("session/archive", "_session/rename", "_session/archive", "_session/list/subscribe"):
            params = {"sessionId": session, "title": "x", "cwd": str(tmp_path)}
            assert (await client.error(method, params))["code"] == -32601
