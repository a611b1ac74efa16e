"""The JSON-RPC envelope and malformed messages, as an agent answers them."""

from typing import Any

import pytest
from tests.agent.agent_client import EVERYTHING, connected_client, make_agent, silent

from accord.agent import AgentConnection, ClientRequest, Turn
from accord.errors import RpcError


async def chatty(turn: Turn) -> None:
    await turn.think("a\nb")
    async with turn.tool_call("Look", kind="read", locations=["a.py"]) as call:
        await call.text("line one\nline two\u2028line three")
    await turn.say("日本語 🎉\r\n\x00")


@pytest.mark.rule("framing.agent-returns-id", "framing.agent-one-answer")
@pytest.mark.parametrize("id", [0, -7, "a-1", "", 2**53 + 1, 2**63 - 1, "7"])
async def test_ids_are_echoed_exactly_as_sent(id: Any) -> None:
    async with connected_client(make_agent(silent)) as client:
        session = await client.new_session()
        client.raw.ask("session/prompt", {"sessionId": session, "prompt": []}, id=id)
        answer = await client.raw.answer_to(id)
        await client.new_session()
    assert type(answer["id"]) is type(id)
    assert [message for message in client.raw.received if message.get("id") == id] == [answer]


@pytest.mark.rule(
    "framing.agent-only-messages",
    "framing.agent-one-line",
    "framing.agent-utf8",
    "framing.agent-jsonrpc-member",
    "framing.agent-no-batch",
)
async def test_unicode_text_passes_in_both_directions() -> None:
    async with connected_client(make_agent(chatty)) as client:
        updates, _ = await client.turn(await client.new_session(), "bitte 🎉\n日本")
    assert updates[-1]["content"]["text"] == "日本語 🎉\r\n\x00"
    assert all(message["jsonrpc"] == "2.0" for message in client.raw.received)


@pytest.mark.rule(
    "framing.agent-silent-on-notification",
    "framing.agent-unknown-notification",
    "cancel-request.agent-other-notification",
)
async def test_known_and_unknown_notifications_are_never_answered() -> None:
    async with connected_client(make_agent(silent)) as client:
        for method in ("session/cancel", "_x/ping", "$/progress", "nope/nope", "session/prompt"):
            client.raw.notify(method, {"sessionId": "nope"})
        client.raw.notify("session/cancel", {"nonsense": 1})
        client.raw.notify("session/cancel", [])
        await client.new_session()
    assert len(client.raw.received) == 2


@pytest.mark.rule(
    "framing.agent-survives-invalid-json",
    "framing.survives-invalid-request",
    "framing.agent-error-members",
    "framing.survives-batch",
)
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{oops", -32700),
        ("\udc80".encode("utf-8", "surrogateescape"), -32700),
        ('{"jsonrpc":"2.0"}', -32600),
        ("5", -32600),
        ("null", -32600),
        ("[]", -32600),
        ('[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}]', -32600),
        ('{"jsonrpc":"2.0","id":{},"method":"session/new"}', -32600),
    ],
)
async def test_a_line_that_is_not_a_message_is_answered_and_the_agent_continues(line: Any, code: int) -> None:
    async with connected_client(make_agent(silent)) as client:
        client.raw.send(line)
        answer = await client.raw.next()
        await client.new_session()
    assert answer["id"] is None
    assert answer["error"]["code"] == code
    assert isinstance(answer["error"]["message"], str)


@pytest.mark.rule("framing.agent-invalid-params", "framing.agent-error-members")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/prompt", {"sessionId": "s"}),
        ("session/prompt", {"sessionId": 5, "prompt": []}),
        ("session/new", {"mcpServers": []}),
        ("session/new", {"cwd": 5, "mcpServers": []}),
        ("session/new", [1]),
        ("session/set_mode", {}),
        ("session/close", {}),
    ],
)
async def test_params_with_missing_or_mistyped_members_are_refused(method: str, params: Any) -> None:
    async with connected_client(make_agent(silent)) as client:
        error = await client.error(method, params)
    assert error["code"] == -32602
    assert isinstance(error["message"], str)


@pytest.mark.rule(
    "framing.agent-extra-members", "extension.agent-accepts-meta", "extension.agent-malformed-meta"
)
@pytest.mark.parametrize("meta", [{"vendor.example/x": {"deep": [1]}}, None, "x", 5, []])
async def test_extra_members_and_any_meta_are_accepted(meta: Any) -> None:
    more = {"_meta": meta, "zzz": 1}
    server = {
        "name": "a",
        "command": "/bin/a",
        "args": [],
        "env": [{"name": "A", "value": "1", **more}],
        **more,
    }
    async with connected_client(make_agent(silent), initialize=False) as client:
        capabilities = {"fs": {"readTextFile": True, **more}, **more}
        await client.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities, **more})
        result = await client.call("session/new", {"cwd": "/a", "mcpServers": [server], **more})
        _, ended = await client.turn(result["sessionId"], [{"type": "text", "text": "hi", **more}])
    assert ended == {"stopReason": "end_turn"}


@pytest.mark.rule(
    "extension.agent-no-custom-members",
    "extension.agent-known-methods",
    "initialize.missing-client-capability",
)
async def test_a_client_without_capabilities_gets_only_session_updates() -> None:
    async with connected_client(make_agent(chatty)) as client:
        await client.turn(await client.new_session())
    assert set(client.methods()) == {"session/update"}


@pytest.mark.rule(
    "framing.agent-unknown-extension",
    "framing.agent-unknown-notification",
    "extension.agent-known-methods",
    "extension.agent-announced",
)
async def test_custom_methods_work_in_both_directions() -> None:
    notifications: list[Any] = []

    async def asks(turn: Turn) -> None:
        turn.client.notify("_vendor/event", {"n": 1})
        await turn.say(str(await turn.client.request("_vendor/question", {"n": 2})))
        with pytest.raises(RpcError) as refused:
            await turn.client.request("_vendor/unknown")
        await turn.say(str(refused.value.code))

    agent = make_agent(asks)

    @agent.on("_vendor/double")
    async def double(params: Any, call: ClientRequest) -> Any:
        return {"twice": params["n"] * 2, "method": call.method, "id": call.id}

    @agent.on_notification("_vendor/news")
    def news(params: Any, connection: AgentConnection) -> None:
        notifications.append((params, len(connection.sessions)))

    async with connected_client(agent, capabilities=EVERYTHING) as client:
        session = await client.new_session()
        assert await client.call("_vendor/double", {"n": 21}) == {
            "twice": 42,
            "method": "_vendor/double",
            "id": "raw-3",
        }
        client.raw.notify("_vendor/news", {"n": 3})
        turn = client.prompt(session)
        assert (await client.raw.next("_vendor/event"))["params"] == {"n": 1}
        client.raw.reply(await client.asked("_vendor/question"), [None, "plain"])
        client.raw.refuse(await client.asked("_vendor/unknown"), -32601)
        updates, _ = await client.turn_of(turn)
    assert notifications == [({"n": 3}, 1)]
    assert [update["content"]["text"] for update in updates] == ["-32601"]
    assert client.updates_of("agent_message_chunk")[0]["content"]["text"] == "[None, 'plain']"


async def test_a_failing_notification_handler_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    agent = make_agent(silent)

    @agent.on_notification("_vendor/now")
    def now(params: Any, connection: AgentConnection) -> None:
        raise ValueError("at once")

    @agent.on_notification("_vendor/later")
    async def later(params: Any, connection: AgentConnection) -> None:
        raise ValueError("in a while")

    async with connected_client(agent) as client:
        client.raw.notify("_vendor/now", {})
        client.raw.notify("_vendor/later", {})
        await client.new_session()
    assert "at once" in caplog.text
    assert "in a while" in caplog.text


@pytest.mark.rule("extension.trace-context")
async def test_trace_context_is_readable_and_never_generated() -> None:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}

    async def traced(turn: Turn) -> None:
        assert turn.request.meta == trace
        await turn.say("seen")

    async with connected_client(make_agent(traced)) as client:
        session = await client.new_session()
        updates, _ = await client.turn_of(client.prompt(session, _meta=trace))
    assert updates[0]["content"]["text"] == "seen"
    assert "traceparent" not in str(client.raw.received)


@pytest.mark.rule("accord.agent-lone-surrogate")
@pytest.mark.parametrize("text", ['"a\\ud83d"', '"\\ude00b"', '"ok"'])
async def test_a_lone_surrogate_becomes_a_replacement_character(text: str) -> None:
    async def echo(turn: Turn) -> None:
        await turn.say(turn.text)

    async with connected_client(make_agent(echo)) as client:
        session = await client.new_session()
        before = (
            '{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":{"prompt":[{"type":"text","text":'
        )
        client.raw.send(before + text + '}],"sessionId":"' + session + '"}}')
        updates, _ = await client.turn_of(9)
    assert updates[0]["content"]["text"] in ("a\ufffd", "\ufffdb", "ok")


@pytest.mark.rule("accord.agent-lone-surrogate")
async def test_a_lone_surrogate_in_agent_output_is_replaced() -> None:
    async def broken(turn: Turn) -> None:
        await turn.say("file \udce4")

    async with connected_client(make_agent(broken)) as client:
        updates, _ = await client.turn(await client.new_session())
    assert updates[0]["content"]["text"] == "file \ufffd"
