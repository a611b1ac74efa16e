"""Initialization and the envelope: the first request, the answers to it, and malformed input."""

import asyncio

import pytest
from tests.client.raw_agent import EventCollector, RawAgent, both, connected, in_session, kinds

from accord.client import ClientFeatures, ClientHandlers, ClientOptions, connect_transport, local_workspace
from accord.errors import ConnectionClosed, HandshakeFailed, NotOffered
from accord.schema import Implementation
from accord.session import text_of
from accord.testing.fake_clock import settle
from accord.wire.memory_transport import memory_pair


def start_connecting(**more):
    ours, theirs = memory_pair()
    return asyncio.create_task(connect_transport(ours, **more).__aenter__()), RawAgent(theirs)


@pytest.mark.rule(
    "extension.client-announced",
    "initialize.first",
    "initialize.version-sent",
    "initialize.client-info",
    "initialize.client-capabilities-member",
)
async def test_initialize_is_sent_first_with_version_name_and_capabilities():
    handlers = ClientHandlers(workspace=local_workspace, forms=lambda form: None, urls=lambda address: None)
    info = Implementation("my-editor", "2.1", title="My Editor")
    options = ClientOptions(
        info=info, features=ClientFeatures(plans=True, subagents=True, meta={"me.dev/x": 1})
    )
    async with connected(handlers=handlers, options=options) as (_, peer):
        (opening,) = peer.received
    assert opening["method"] == "initialize"
    assert opening["params"] == {
        "protocolVersion": 1,
        "clientInfo": {"name": "my-editor", "version": "2.1", "title": "My Editor"},
        "clientCapabilities": {
            "fs": {"readTextFile": True, "writeTextFile": True},
            "terminal": True,
            "session": {"compaction": {}, "notices": {}, "configOptions": {"boolean": {}}},
            "elicitation": {"form": {}, "url": {}},
            "plan": {},
            "subagents": {},
            "_meta": {"me.dev/x": 1},
        },
    }


@pytest.mark.rule("auth.terminal-capability")
async def test_only_implemented_features_are_advertised():
    handlers = ClientHandlers(workspace=local_workspace, offer=("read",), login=_never)
    options = ClientOptions(features=ClientFeatures(notices=False, compaction=False, boolean_options=False))
    async with connected(handlers=handlers, options=options) as (_, peer):
        offered = peer.received[0]["params"]["clientCapabilities"]
    assert offered["fs"] == {"readTextFile": True, "writeTextFile": False}
    assert offered["terminal"] is False
    assert offered["session"] == {}
    assert "elicitation" not in offered
    assert "auth" not in offered, "only a program that the client started can run again in a terminal"


async def _never(_launch):
    raise AssertionError


@pytest.mark.rule("initialize.unsupported-version")
@pytest.mark.parametrize("version", [0, 2, 9])
async def test_another_protocol_version_fails_and_closes_the_connection(version):
    task, peer = start_connecting()
    asked = await peer.next("initialize")
    peer.reply(asked, {"protocolVersion": version})
    with pytest.raises(HandshakeFailed, match=f"speaks protocol version {version}, this client speaks 1"):
        await task
    await peer.wait_end()
    assert len(peer.received) == 1


@pytest.mark.parametrize("answer", [None, 5, {}, {"protocolVersion": "one"}, [1]])
async def test_an_invalid_initialize_response_fails_the_handshake(answer):
    task, peer = start_connecting()
    peer.reply(await peer.next("initialize"), answer)
    with pytest.raises(HandshakeFailed, match="initialize failed"):
        await task
    await peer.wait_end()


async def test_an_error_response_fails_the_handshake():
    task, peer = start_connecting()
    peer.refuse(await peer.next("initialize"), -32603, "no licence")
    with pytest.raises(HandshakeFailed, match="initialize failed: no licence"):
        await task
    await peer.wait_end()


async def test_a_gateway_whose_agent_failed_does_not_double_the_reason():
    task, peer = start_connecting()
    peer.refuse(await peer.next("initialize"), -32603, "hand: initialize failed: no licence")
    with pytest.raises(HandshakeFailed, match=r"^[^:]+: hand: initialize failed: no licence"):
        await task
    await peer.wait_end()


async def test_a_connection_closed_before_the_response_fails_the_handshake():
    task, peer = start_connecting()
    await peer.next("initialize")
    peer.send("Segmentation fault (core dumped)")
    await settle()
    await peer.aclose()
    with pytest.raises(HandshakeFailed, match=r"before initialize was answered(.|\n)*Segmentation fault"):
        await task


@pytest.mark.rule("initialize.missing-agent-capability", "initialize.minimal-agent")
async def test_an_agent_without_capabilities_can_only_be_prompted():
    async with connected({}) as (agent, peer):
        assert agent.info is None
        assert agent.auth_methods == ()
        session, _ = await both(agent.new_session("/project"), peer.open())
        turn = EventCollector(session.prompt("hi"))
        peer.reply(await peer.next("session/prompt"), {"stopReason": "end_turn"})
        assert kinds(await turn.end()) == ["TurnStarted", "TurnEnded"]
        for call in (
            agent.load_session("x", "/"),
            agent.resume_session("x", "/"),
            agent.list_page(),
            agent.delete_session("x"),
            agent.fork_session(session),
            agent.archive_session("x"),
            agent.unarchive_session("x"),
            agent.session_status("x"),
            agent.set_title("x", "y"),
            agent.logout(),
            agent.auth_status(),
            agent.providers.list(),
            agent.providers.set("x", "openai", "https://x"),
            agent.providers.disable("x"),
            session.close(),
        ):
            with pytest.raises(NotOffered):
                await call
        assert [message["method"] for message in peer.received] == [
            "initialize",
            "session/new",
            "session/prompt",
        ]


@pytest.mark.rule("initialize.missing-agent-capability", "initialize.minimal-agent")
async def test_a_missing_capabilities_member_means_no_capabilities():
    task, peer = start_connecting()
    peer.reply(await peer.next("initialize"), {"protocolVersion": 1})
    agent = await task
    with pytest.raises(NotOffered, match="session/list is not offered"):
        await agent.list_page()
    await agent.aclose()


@pytest.mark.rule("initialize.client-malformed-capability")
async def test_malformed_capabilities_count_as_missing():
    odd = {"loadSession": "yes", "sessionCapabilities": False, "auth": {"logout": None}, "mcpCapabilities": 5}
    async with connected(odd) as (agent, peer):
        for call in (agent.load_session("x", "/"), agent.list_page(), agent.logout()):
            with pytest.raises(NotOffered):
                await call
        assert len(peer.received) == 1


@pytest.mark.rule("framing.client-survives-invalid-json")
async def test_noise_on_the_agents_stdout_is_skipped_and_reported():
    reports: list[str] = []
    options = ClientOptions(observer=lambda report: reports.append(report.kind))
    task, peer = start_connecting(options=options)
    peer.send("Welcome to SuperAgent 3000!")
    peer.send("[INFO] loading model...")
    asked = await peer.next("initialize")
    peer.send(b"\xff\xfe binary \x00")
    peer.send("null")
    peer.send("42")
    peer.send('{"level":"info","msg":"structured log"}')
    peer.reply(asked, {"protocolVersion": 1})
    agent = await task
    session, _ = await both(agent.new_session("/project"), peer.open())
    turn = EventCollector(session.prompt("hi"))
    prompt = await peer.next("session/prompt")
    peer.send("DEBUG in the middle of a turn")
    peer.say("hello")
    peer.reply(prompt, {"stopReason": "end_turn"})
    assert text_of((await turn.end())[1]) == "hello"
    await agent.aclose()
    assert [message.get("method") for message in peer.received] == [
        "initialize",
        "session/new",
        "session/prompt",
    ]
    assert sorted(reports) == ["invalid"] * 3 + ["noise"] * 4


@pytest.mark.rule(
    "framing.client-returns-id",
    "framing.client-one-answer",
    "framing.client-unknown-method",
    "framing.client-unknown-extension",
    "framing.client-error-members",
)
async def test_ids_are_echoed_exactly_and_unknown_methods_are_refused():
    async with in_session() as (_, peer):
        for id in (0, -7, 2**62, "perm_1", "ü 1", ""):
            error = await peer.error_of("nope/nope", {}, id=id)
            assert error["code"] == -32601
            assert isinstance(error["message"], str)
        assert (await peer.error_of("_test/x", {}))["code"] == -32601
        answers = [message["id"] for message in peer.received if "method" not in message]
        assert answers == [0, -7, 2**62, "perm_1", "ü 1", "", "raw-1"]
        assert all(("result" in m) != ("error" in m) for m in peer.received if "method" not in m)


@pytest.mark.rule("framing.client-silent-on-notification")
async def test_notifications_are_never_answered():
    async with in_session() as (session, peer):
        for number in range(50):
            peer.say(f"{number}")
        peer.notify("session/update", {"nonsense": True})
        peer.notify("nope/nope", {})
        peer.notify("session/request_permission", {"sessionId": "s1"})
        await settle()
        assert [message["method"] for message in peer.received] == ["initialize", "session/new"]
        assert session.state.messages[0].text == "".join(map(str, range(50)))


@pytest.mark.rule(
    "framing.client-extra-members", "extension.client-accepts-meta", "extension.client-malformed-meta"
)
async def test_unknown_members_and_meta_are_accepted_everywhere():
    meta = {"_meta": {"vendor.dev/x": {"deep": [1]}}, "zzz": 1}
    async with connected({"loadSession": True, **meta}, **meta) as (agent, peer):
        session, _ = await both(agent.new_session("/project"), peer.open("s1", **meta))
        turn = EventCollector(session.prompt("hi"))
        prompt = await peer.next("session/prompt")
        peer.update("s1", "tool_call", toolCallId="c1", title="T", **meta)
        entry = {"content": "Do", "priority": "high", "status": "pending", **meta}
        peer.update("s1", "plan", entries=[entry], **meta)
        peer.update("s1", "agent_message_chunk", content={"type": "text", "text": "a", **meta}, **meta)
        peer.update(
            "s1", "agent_message_chunk", content={"type": "text", "text": "b", "_meta": []}, _meta="x"
        )
        question = {
            "sessionId": "s1",
            "toolCall": {"toolCallId": "c1", **meta},
            "options": [{"optionId": "n", "name": "No", "kind": "reject_once", **meta}],
            **meta,
        }
        assert (await peer.result_of("session/request_permission", question))["outcome"]["optionId"] == "n"
        peer.reply(prompt, {"stopReason": "end_turn", **meta})
        await turn.end()
        assert session.state.messages[-1].text == "ab"
        assert session.state.plan[0].content == "Do"
        assert session.state.tool_calls["c1"].meta == {"vendor.dev/x": {"deep": [1]}}


async def test_unmatched_and_repeated_responses_are_ignored():
    async with in_session() as (session, peer):
        peer.send({"jsonrpc": "2.0", "id": 999, "result": {}})
        peer.send({"jsonrpc": "2.0", "id": {"an": "object"}, "result": {}})
        turn = EventCollector(session.prompt("hi"))
        prompt = await peer.next("session/prompt")
        peer.reply(prompt, {"stopReason": "end_turn"})
        peer.reply(prompt, {"stopReason": "refusal"})
        ended = (await turn.end())[-1]
        assert ended.stop_reason == "end_turn"


@pytest.mark.rule(
    "cancel-request.client-still-answered",
    "cancel-request.client-unknown-id",
    "cancel-request.client-other-notification",
)
async def test_the_agent_can_cancel_its_own_request():
    cancelled = asyncio.Event()

    async def think(_request):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with in_session(handlers=ClientHandlers(permissions=think)) as (session, peer):
        question = {"sessionId": "s1", "toolCall": {"toolCallId": "c1"}, "options": []}
        asked = peer.ask("session/request_permission", question)
        await settle()
        peer.notify("$/cancel_request", {"requestId": 9999})
        peer.notify("$/cancel_request", {"requestId": {"odd": 1}})
        peer.notify("$/progress", {"token": 1})
        peer.notify("$/cancel_request", {"requestId": asked})
        answer = await peer.answer_to(asked)
        assert answer["error"]["code"] == -32800
        peer.notify("$/cancel_request", {"requestId": asked})
        await cancelled.wait()
        await settle()
        assert session.state.permissions == {}
        assert [m.get("id") for m in peer.received if "method" not in m] == [asked]


@pytest.mark.rule("cancel-request.client-own-abort")
async def test_closing_answers_pending_requests_as_cancelled(tmp_path):
    handlers = ClientHandlers(workspace=local_workspace)
    async with in_session(handlers=handlers, cwd=tmp_path) as (_, peer):
        made = await peer.result_of(
            "terminal/create", {"sessionId": "s1", "command": "cat /dev/zero > /dev/null"}
        )
        waiting = peer.ask("terminal/wait_for_exit", {"sessionId": "s1", **made})
        await settle()
    assert (await peer.answer_to(waiting))["error"]["code"] == -32800


@pytest.mark.rule("framing.agent-dies")
async def test_every_open_call_fails_when_the_agent_closes_the_connection():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("hi"))
        await peer.next("session/prompt")
        closing = asyncio.create_task(session.close())
        await peer.next("session/close")
        await peer.aclose()
        with pytest.raises(ConnectionClosed, match="closed the connection"):
            await turn.end()
        with pytest.raises(ConnectionClosed):
            await closing
        assert kinds(turn.events)[-2:] == ["AgentEnded", "TurnEnded"]
        with pytest.raises(ConnectionClosed):
            await session.ask("again")


@pytest.mark.rule("extension.client-known-methods")
async def test_extension_methods_work_in_both_directions():
    notifications: list[object] = []

    async def ask_user(params):
        return {"answer": params["question"] + "!"}

    handlers = ClientHandlers(extensions={"_vendor/ask": ask_user, "_vendor/tell": notifications.append})
    async with connected(handlers=handlers) as (agent, peer):
        assert await peer.result_of("_vendor/ask", {"question": "why"}) == {"answer": "why!"}
        peer.notify("_vendor/tell", {"x": 1})
        await settle()
        assert notifications == [{"x": 1}]

        calling = asyncio.create_task(agent.request("_agent/thing", {"a": 1}))
        asked = await peer.next("_agent/thing")
        assert asked["params"] == {"a": 1}
        peer.reply(asked, ["any", "json"])
        assert await calling == ["any", "json"]
        await agent.notify("_agent/note")
        assert "id" not in await peer.next("_agent/note")


async def test_extension_methods_must_start_with_an_underscore():
    from accord.errors import UsageError

    with pytest.raises(UsageError, match="not an extension method; use a name such as `_vendor/name`"):
        ClientHandlers(extensions={"vendor/ask": print})
    async with connected() as (agent, _):
        with pytest.raises(UsageError, match="not an extension method; use a name such as `_vendor/name`"):
            await agent.request("session/set_model", {})


async def test_a_connection_can_be_awaited_and_closed_explicitly():
    ours, theirs = memory_pair()
    peer = RawAgent(theirs)

    async def connect():
        return await connect_transport(ours)

    agent, _ = await both(
        connect(), peer.initialize({}, agentInfo={"name": "x", "version": "1", "title": "X!"})
    )
    assert agent.name == "X!"
    await agent.aclose()
    await agent.aclose()
    await peer.wait_end()
