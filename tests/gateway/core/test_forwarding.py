"""One client and one agent: everything passes, in order, and only ids are mapped."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.core.house import house, open_session

from accord.errors import HandshakeFailed
from accord.gateway.access.audit import Audit
from accord.gateway.access.passes import Pass
from accord.wire.transport import Transport


async def test_the_welcome_is_the_agents_with_what_the_gateway_adds(audit: Audit) -> None:
    async with house({"promptCapabilities": {"image": True}}, audit=audit) as home:
        guest = home.guest()
        welcome = await guest.hello()
        capabilities = welcome["agentCapabilities"]
        assert capabilities["promptCapabilities"] == {"image": True}
        assert capabilities["loadSession"] is True
        assert set(capabilities["sessionCapabilities"]) == {"list", "resume", "close", "delete"}
        assert capabilities["_meta"]["accord"]["gateway"] == {"version": 1, "agent": "hand"}
        offered = (await home.agent.next("initialize"))["params"]["clientCapabilities"]
        assert offered["fs"] == {"readTextFile": True, "writeTextFile": True}
        assert offered["terminal"] is True


async def test_initialize_comes_first_and_once(audit: Audit) -> None:
    async with house(audit=audit) as home:
        guest = home.guest()
        assert (await guest.error("session/list"))["code"] == -32600
        await guest.hello()
        assert (await guest.error("initialize", {"protocolVersion": 1}))["code"] == -32600


async def test_a_turn_passes_in_order_and_right_frames_are_forwarded_as_they_came(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        asked = guest.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await home.agent.opened("s1")
        assert (await guest.answer_to(asked))["result"] == {"sessionId": "s1"}
        turn = guest.prompt("s1")
        prompt = await home.agent.until_method("session/prompt")
        odd = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1", "update":'
            b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}},"_meta":{"x":1}}}'
        )
        home.agent.send(odd)
        home.agent.reply(prompt, {"stopReason": "end_turn", "_meta": {"y": 2}})
        updates, result = await guest.updates_until(turn)
        assert [update["content"]["text"] for update in updates] == ["hi"]
        assert result == {"stopReason": "end_turn", "_meta": {"y": 2}}
        assert odd in [frame.body for frame, _ in guest.line.sent]


@pytest.mark.dialect(9)
async def test_a_dialect_leaves_in_official_shape(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        home.agent.tell("s1", {"sessionUpdate": "agent_message_chunk", "content": blocks})
        assert [(await guest.update())["content"]["text"] for _ in range(2)] == ["a", "b"]


async def test_an_update_that_comes_before_its_session_is_named_is_not_lost(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        asked = guest.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        request = await home.agent.until_method("session/new")
        home.agent.say("s1", "early")
        home.agent.reply(request, {"sessionId": "s1"})
        await guest.answer_to(asked)
        assert (await guest.update())["content"]["text"] == "early"


async def test_an_agents_request_for_a_file_is_served_by_the_gateway_within_the_folders(
    audit: Audit, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("text")
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        read = home.agent.ask("fs/read_text_file", {"sessionId": "s1", "path": str(tmp_path / "a.txt")})
        assert (await home.agent.answer_to(read))["result"] == {"content": "text"}
        outside = home.agent.ask("fs/read_text_file", {"sessionId": "s1", "path": "/etc/passwd"})
        assert "error" in await home.agent.answer_to(outside)
        elsewhere = home.agent.ask("fs/read_text_file", {"sessionId": "s9", "path": str(tmp_path / "a.txt")})
        assert (await home.agent.answer_to(elsewhere))["error"]["code"] == -32002


async def test_a_terminal_runs_at_the_gateway_and_clients_that_know_it_see_what_it_prints(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client(_meta={"accord": {"terminal": True}})
        await open_session(home, guest, tmp_path)
        create = home.agent.ask("terminal/create", {"sessionId": "s1", "command": "echo", "args": ["hello"]})
        terminal = (await home.agent.answer_to(create))["result"]["terminalId"]
        printed = await guest.until_method("_accord/terminal")
        assert printed["params"]["terminalId"] == terminal
        assert "hello" in printed["params"]["data"]
        wait = home.agent.ask("terminal/wait_for_exit", {"sessionId": "s1", "terminalId": terminal})
        assert (await home.agent.answer_to(wait))["result"]["exitCode"] == 0
        release = home.agent.ask("terminal/release", {"sessionId": "s1", "terminalId": terminal})
        await home.agent.answer_to(release)
        told = await guest.call("_accord/terminal/output", {"sessionId": "s1", "terminalId": terminal})
        assert "hello" in told["output"]
        assert told["exitStatus"]["exitCode"] == 0


async def test_cancelling_a_request_reaches_the_agent_under_the_agents_id(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        asked = guest.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        request = await home.agent.until_method("session/new")
        guest.notify("$/cancel_request", {"requestId": asked})
        note = await home.agent.until_method("$/cancel_request")
        assert note["params"]["requestId"] == request["id"]
        home.agent.refuse(request, -32800, "Request cancelled")
        assert (await guest.answer_to(asked))["error"]["code"] == -32800


async def test_unknown_things_pass_both_ways(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        asked = guest.ask("_vendor/thing", {"deep": [1, {"x": None}]})
        request = await home.agent.until_method("_vendor/thing")
        assert request["params"] == {"deep": [1, {"x": None}]}
        home.agent.reply(request, {"odd": [None]})
        assert (await guest.answer_to(asked))["result"] == {"odd": [None]}
        home.agent.notify("_vendor/news", {"n": 1})
        assert (await guest.until_method("_vendor/news"))["params"] == {"n": 1}
        assert (await guest.error("no/such"))["code"] == -32601
        assert (await guest.error("_accord/no_such"))["code"] == -32601


async def test_a_pretty_printed_frame_goes_to_the_agent_on_one_line(audit: Audit) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "_vendor/thing", "params": {"a": 1}}
        guest.line.client.frames([json.dumps(message, indent=2).encode()])
        request = await home.agent.until_method("_vendor/thing")
        home.agent.reply(request, {})
        assert (await guest.answer_to(7))["result"] == {}


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"x"}', -32600),
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
async def test_bad_frames_are_refused_and_the_line_goes_on(audit: Audit, frame: bytes, code: int) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        guest.send(frame)
        answer = await guest.next()
        assert answer["error"]["code"] == code
        await guest.call("_accord/agents")


async def test_a_token_keeps_to_its_folders_and_agents(audit: Audit, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    visa = Pass("t2", "guest", folders=(str(inside),))
    async with house(audit=audit) as home:
        guest = await home.client(visa)
        for folder in (outside, inside / "link", inside / ".." / "out"):
            error = await guest.error("session/new", {"cwd": str(folder), "mcpServers": []})
            assert error["code"] == -32003, folder
        error = await guest.error(
            "session/new", {"cwd": str(inside), "mcpServers": [], "additionalDirectories": [str(outside)]}
        )
        assert error["code"] == -32003
        with pytest.raises(Exception, match="no agent"):
            home.guest(Pass("t3", agents=frozenset({"other"})))


async def test_a_token_that_only_reads_changes_nothing(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        owner, reader = home.guest(), home.guest(Pass("t4", "reader", read_only=True))
        told = [(await guest.hello())["agentCapabilities"]["_meta"]["accord"] for guest in (owner, reader)]
        assert [own["gateway"].get("readOnly", False) for own in told] == [False, True]
        for method, params in (
            ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
            ("session/delete", {"sessionId": "s1"}),
            ("_vendor/thing", {}),
            ("authenticate", {"methodId": "x"}),
        ):
            assert (await reader.error(method, params))["code"] == -32003, method


async def test_an_agent_that_cannot_start_says_why_and_which_others_there_are(audit: Audit) -> None:
    def start() -> Transport:
        raise HandshakeFailed("hand: it exited with code 7", exit_code=7, stderr="no such model\n")

    async with house(audit=audit, start=start) as home:
        error = await home.guest().error("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        assert error["message"] == "hand: it exited with code 7"
        assert error["data"] == {"exitCode": 7, "stderr": "no such model\n", "agents": ["hand"]}


async def test_a_client_that_knows_nothing_of_terminals_is_told_what_they_printed(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        create = home.agent.ask("terminal/create", {"sessionId": "s1", "command": "echo", "args": ["hello"]})
        terminal = (await home.agent.answer_to(create))["result"]["terminalId"]
        content = [{"type": "terminal", "terminalId": terminal}]
        home.agent.tell(
            "s1", {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Run", "content": content}
        )
        assert (await guest.update())["content"] == content
        wait = home.agent.ask("terminal/wait_for_exit", {"sessionId": "s1", "terminalId": terminal})
        await home.agent.answer_to(wait)
        told = await guest.update()
        assert told["toolCallId"] == "c"
        assert [item["content"]["text"] for item in told["content"]] == ["```\nhello\n```"]
        other = await home.client()
        updates, _ = await other.load("s1", str(tmp_path))
        assert [item["content"]["text"] for item in updates[0]["content"]] == ["```\nhello\n```"]


async def test_a_cancellation_sent_as_a_request_is_done_and_answered(audit: Audit, tmp_path: Path) -> None:
    async with house(audit=audit) as home:
        guest = await home.client()
        await open_session(home, guest, tmp_path)
        assert await guest.call("session/cancel", {"sessionId": "s1"}) == {}
        await home.agent.until_method("session/cancel")
        assert await guest.call("session/cancel", {"sessionId": "none"}) == {}


async def test_a_token_bound_to_folders_reaches_the_agent_only_through_its_sessions(
    audit: Audit, tmp_path: Path
) -> None:
    async with house(audit=audit) as home:
        guest = await home.client(Pass("t2", "guest", folders=(str(tmp_path),)))
        for method, params in (
            ("logout", {}),
            ("providers/list", {}),
            ("_vendor/read", {"path": "/etc/passwd", "session": "of somebody else"}),
        ):
            assert (await guest.error(method, params))["code"] == -32003, method
        guest.notify("_vendor/note", {"path": "/etc/passwd"})
        asked = guest.ask("authenticate", {"methodId": "key"})
        home.agent.reply(await home.agent.until_method("authenticate"), {})
        await guest.answer_to(asked)
        session = guest.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        await home.agent.opened("s1")
        await guest.answer_to(session)
        own = guest.ask("_vendor/thing", {"sessionId": "s1"})
        home.agent.reply(await home.agent.until_method("_vendor/thing"), {"fine": True})
        assert (await guest.answer_to(own))["result"] == {"fine": True}
        heard = [message.get("method") for message in home.agent.heard]
        assert not {"logout", "providers/list", "_vendor/read", "_vendor/note"} & set(heard)
