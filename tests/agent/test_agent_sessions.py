"""How sessions are opened, which directories they use, and how they end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import STRICT, connected_client, make_agent, silent
from tests.agent.memory_agent import memory_agent

from accord.agent import AgentFeatures, AgentOptions, AgentSession, ClientRequest, Turn
from accord.errors import RpcError, UsageError
from accord.schema import (
    CloseSessionRequest,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionResponse,
    SetSessionModeRequest,
    TextContent,
    UsageUpdate,
    UserMessageChunk,
)
from accord.testing.fake_clock import FakeClock, settle
from accord.testing.raw_peer import raw_pair
from accord.workspace import OutsideRoots, Roots

HERE = {"cwd": "/home/me/app", "mcpServers": []}


@pytest.mark.rule("session.unique-id")
async def test_session_ids_are_unique() -> None:
    async with connected_client(make_agent(silent)) as client:
        ids = {await client.new_session() for _ in range(20)}
    assert len(ids) == 20
    assert all(len(id) == 36 for id in ids)


@pytest.mark.rule(
    "session.relative-cwd-refused", "session.roots-invalid-refused", "session.roots-forbidden-refused"
)
@pytest.mark.parametrize(
    "params",
    [
        {"cwd": "."},
        {"cwd": ""},
        {"cwd": "a/b"},
        {"additionalDirectories": ["x"]},
        {"additionalDirectories": [""]},
        {"additionalDirectories": ["/ok", "../up"]},
        {"additionalDirectories": [1]},
        {"additionalDirectories": "x"},
    ],
)
@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume", "session/fork"])
async def test_relative_directories_are_refused(method: str, params: Any) -> None:
    async with connected_client(memory_agent()) as client:
        old = await client.new_session()
        error = await client.error(method, {"sessionId": old, **HERE, **params})
        listed = await client.call("session/list", {})
    assert error["code"] == -32602
    assert [info["sessionId"] for info in listed["sessions"]] == [old]


@pytest.mark.rule("session.roots-forbidden-refused")
async def test_additional_directories_are_refused_without_the_capability() -> None:
    async with connected_client(make_agent(silent)) as client:
        error = await client.error("session/new", {**HERE, "additionalDirectories": ["/lib"]})
        await client.call("session/new", {**HERE, "additionalDirectories": []})
    assert error["code"] == -32602


@pytest.mark.rule("session.mcp-servers-invalid-refused", "session.roots-invalid-on-load")
@pytest.mark.parametrize("method", ["session/new", "session/load", "session/resume"])
@pytest.mark.parametrize(
    "params",
    [
        {"mcpServers": "x"},
        {"mcpServers": [{"name": "a"}]},
        {"mcpServers": [5]},
        {"mcpServers": {"a": {"command": "/bin/a"}}},
        {"mcpServers": [{"name": "a", "command": "/bin/a", "args": [], "env": {"A": "1"}}]},
        {"additionalDirectories": "x"},
        {"additionalDirectories": [5]},
    ],
)
async def test_in_strict_mode_one_invalid_server_or_directory_fails_the_request(
    method: str, params: Any
) -> None:
    async with connected_client(memory_agent(), options=STRICT) as client:
        old = await client.new_session()
        await client.call("session/close", {"sessionId": old})
        error = await client.error(method, {"sessionId": old, **HERE, **params})
        count = len(client.connection.sessions)
    assert error["code"] == -32602
    assert count == 0


@pytest.mark.rule("session.null-reads-as-empty")
async def test_null_lists_are_read_as_empty() -> None:
    seen: list[AgentSession] = []
    agent = make_agent(silent, accepts=AgentFeatures(mcp_http=True))

    @agent.new_session
    def begin(session: AgentSession) -> None:
        seen.append(session)

    async with connected_client(agent, options=STRICT) as client:
        await client.call("session/new", {"cwd": "/a", "mcpServers": None, "additionalDirectories": None})
        servers = [
            {"name": "a", "command": "/bin/a", "args": None, "env": None},
            {"type": "http", "name": "b", "url": "https://b", "headers": None},
        ]
        await client.call("session/new", {"cwd": "/a", "mcpServers": servers})
    assert seen[0].mcp_servers == ()
    assert seen[0].roots == ("/a",)
    assert [server.name for server in seen[1].mcp_servers] == ["a", "b"]


@pytest.mark.dialect(32, 33, 34, 35)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"mcpServers": {"a": {"command": "/bin/a"}}},
        {"mcpServers": [{"type": "stdio", "name": "a", "command": "/bin/a", "env": {"A": "1"}}]},
    ],
)
async def test_mcp_servers_in_dialect_forms_are_accepted(params: Any) -> None:
    async with connected_client(make_agent(silent)) as client:
        await client.call("session/new", {"cwd": "/a", **params})


async def test_an_mcp_transport_that_is_not_supported_is_refused() -> None:
    servers: list[dict[str, Any]] = [
        {"type": "http", "name": "w", "url": "https://h", "headers": []},
        {"type": "sse", "name": "w", "url": "https://h", "headers": []},
        {"type": "acp", "name": "w", "serverId": "s"},
    ]
    for server in servers:
        async with connected_client(make_agent(silent)) as client:
            error = await client.error("session/new", {"cwd": "/a", "mcpServers": [server]})
        assert error["code"] == -32602
        assert server["type"] in error["message"]


@pytest.mark.rule(
    "session.works-in-cwd",
    "session.relative-paths-in-cwd",
    "session.files-inside-roots",
    "session.independent",
)
async def test_a_tool_can_read_only_in_the_directories_of_its_session(tmp_path: Path) -> None:
    for name in ("one", "two", "extra"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.txt").write_text(name)

    async def reads(turn: Turn) -> None:
        session = turn.session
        roots = Roots(session.cwd, session.additional_directories)
        try:
            async with turn.tool_call(f"Read {turn.text}", kind="read", locations=[turn.text]) as call:
                await call.text(roots.resolve(session.path(turn.text)).read_text())
        except OutsideRoots:
            await turn.say("not allowed")

    agent = make_agent(reads, accepts=AgentFeatures(additional_directories=True))
    async with connected_client(agent) as client:
        one = await client.new_session(str(tmp_path / "one"), additionalDirectories=[str(tmp_path / "extra")])
        two = await client.new_session(str(tmp_path / "two"))
        results: list[Any] = []
        for session, path in (
            (one, "note.txt"),
            (two, "note.txt"),
            (one, str(tmp_path / "two" / "note.txt")),
        ):
            await client.turn(session, path)
            shown = [update for update in client.updates_of("tool_call_update") if "content" in update][-1]
            results.append(
                (client.updates_of("tool_call_update")[-1]["status"], shown["content"][0]["content"]["text"])
            )
    assert results[:2] == [("completed", "one"), ("completed", "two")]
    assert results[2][0] == "failed"
    assert client.updates_of("agent_message_chunk")[-1]["content"]["text"] == "not allowed"


@pytest.mark.rule("session.independent")
async def test_sessions_run_concurrently_and_stay_separate() -> None:
    ready = asyncio.Event()

    async def waits(turn: Turn) -> None:
        turn.session.data = turn.text
        await turn.say("a" + turn.text)
        if turn.text == "1":
            await ready.wait()
        else:
            ready.set()
        await turn.say("b" + turn.session.data)

    async with connected_client(make_agent(waits)) as client:
        one, two = await client.new_session(), await client.new_session()
        first, second = client.prompt(one, "1"), client.prompt(two, "2")
        await client.raw.answer_to(second)
        if not any(message.get("id") == first and "result" in message for message in client.raw.received):
            await client.raw.answer_to(first)
    messages = [
        (message["params"]["sessionId"], message["params"]["update"]["content"]["text"])
        for message in client.raw.received
        if message.get("method") == "session/update"
    ]
    assert [text for session, text in messages if session == one] == ["a1", "b1"]
    assert [text for session, text in messages if session == two] == ["a2", "b2"]


async def test_updates_from_the_new_session_handler_follow_its_response() -> None:
    agent = make_agent(silent)
    order: list[str] = []

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        await session.commands([("test", "Run the tests", "filter"), ("clear", "Start over")])
        session.after_open(lambda: order.append(session.state))
        await session.title("Fresh")
        order.append(session.state)

    async with connected_client(agent) as client:
        id = client.raw.ask("session/new", HERE)
        first = await client.raw.next()
        commands = await client.raw.next("session/update")
        title = await client.raw.next("session/update")
    assert first["id"] == id
    assert commands["params"]["sessionId"] == first["result"]["sessionId"]
    assert commands["params"]["update"]["availableCommands"] == [
        {"name": "test", "description": "Run the tests", "input": {"hint": "filter"}},
        {"name": "clear", "description": "Start over"},
    ]
    assert title["params"]["update"] == {"sessionUpdate": "session_info_update", "title": "Fresh"}
    assert order == ["opening", "idle"]


async def test_a_failed_session_new_leaves_no_session_and_no_updates() -> None:
    agent = make_agent(silent)

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        await session.title("never seen")
        if session.cwd == "/bad":
            raise ZeroDivisionError("secret detail")
        raise RpcError("Out of seats", {"seats": 0}, code=-31000)

    async with connected_client(agent) as client:
        broken = await client.error("session/new", {**HERE, "cwd": "/bad"})
        refused = await client.error("session/new", HERE)
        sessions = dict(client.connection.sessions)
    assert broken["code"] == -32603
    assert "secret" not in str(broken)
    assert refused == {"code": -31000, "message": "Out of seats", "data": {"seats": 0}}
    assert sessions == {}
    assert client.updates() == []


async def test_a_handler_may_choose_the_session_id() -> None:
    agent = make_agent(silent)

    @agent.new_session
    async def begin(session: AgentSession) -> NewSessionResponse:
        return NewSessionResponse("own-1", meta={"vendor/first": True})

    async with connected_client(agent) as client:
        result = await client.call("session/new", HERE)
        _, ended = await client.turn("own-1")
    assert result == {"sessionId": "own-1", "_meta": {"vendor/first": True}}
    assert ended == {"stopReason": "end_turn"}


@pytest.mark.rule("framing.agent-empty-results", "session.close-cancels-turn")
async def test_closing_cancels_the_turn_before_the_close_handler_runs() -> None:
    order: list[str] = []

    async def busy(turn: Turn) -> None:
        try:
            await turn.say("busy")
            await asyncio.Event().wait()
        finally:
            order.append("turn over")

    agent = make_agent(busy)

    @agent.close_session
    async def close(session: AgentSession) -> None:
        order.append(f"{session.data} freed")

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        session.data = "data"

    async with connected_client(agent) as client:
        session = await client.new_session()
        prompt = client.prompt(session)
        await client.update("agent_message_chunk")
        closing = client.raw.ask("session/close", {"sessionId": session})
        ended = await client.raw.next()
        closed = await client.raw.next()
    assert (ended["id"], ended["result"]) == (prompt, {"stopReason": "cancelled"})
    assert (closed["id"], closed["result"]) == (closing, {})
    assert order == ["turn over", "data freed"]


@pytest.mark.rule(
    "session.load-exists",
    "session.closed-refuses-prompts",
    "prompt.unknown-session-refused",
    "accord.agent-unknown-session",
)
async def test_an_unknown_or_closed_session_is_not_found() -> None:
    async with connected_client(memory_agent()) as client:
        closed = await client.new_session()
        await client.call("session/close", {"sessionId": closed})
        errors: list[Any] = []
        for session in ("nope", closed):
            for method in ("prompt", "close", "set_mode", "set_config_option"):
                more = {"prompt": [], "modeId": "a", "configId": "b", "value": "c"}
                errors.append(
                    (session, await client.error(f"session/{method}", {"sessionId": session, **more}))
                )
        for method in ("load", "resume", "fork"):
            error = await client.error(f"session/{method}", {"sessionId": "nope", **HERE})
            errors.append(("nope", error))
    for session, error in errors:
        assert error["code"] == -32002, error
        assert error["data"] == {"sessionId": session}


async def test_every_session_is_closed_when_the_client_disconnects() -> None:
    order: list[str] = []

    async def busy(turn: Turn) -> None:
        try:
            await turn.say("busy")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            order.append("cancelled")
            raise

    agent = make_agent(busy)

    @agent.close_session
    async def close(session: AgentSession) -> None:
        order.append("closed")
        if len(order) == 2:
            raise ValueError("the other sessions are closed too")

    async with connected_client(agent) as client:
        session = await client.new_session()
        await client.new_session()
        client.prompt(session)
        await client.update("agent_message_chunk")
        assert client.connection in agent.connections
    assert order == ["cancelled", "closed", "closed"]
    assert agent.connections == set()


async def test_the_agent_can_close_the_connection_and_answers_open_requests() -> None:
    async def busy(turn: Turn) -> None:
        await turn.say("busy")
        await asyncio.Event().wait()

    async with connected_client(make_agent(busy)) as client:
        session = await client.new_session()
        prompt = client.prompt(session)
        await client.update("agent_message_chunk")
        await client.connection.aclose()
        await client.connection.aclose()
        answer = await client.raw.answer_to(prompt)
        await client.raw.wait_end()
    assert answer["result"] == {"stopReason": "cancelled"}


async def test_background_tasks_end_with_their_session() -> None:
    ended: list[str] = []
    agent = make_agent(silent)

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        async def watch() -> None:
            try:
                await session.update(UsageUpdate(1, 10))
                await asyncio.Event().wait()
            finally:
                ended.append(session.state)

        session.after_open(lambda: session.spawn(watch()))
        session.data = watch

    held: list[AgentSession] = []
    async with connected_client(agent) as client:
        id = await client.new_session()
        held.append(client.connection.sessions[id])
        await client.update("usage_update")
        await client.call("session/close", {"sessionId": id})
        await client.new_session()
        with pytest.raises(UsageError, match="closed"):
            await held[0].title("too late")
        with pytest.raises(UsageError, match="closed"):
            held[0].spawn(held[0].data())
    assert ended[0] == "closed"


async def test_one_agent_serves_several_clients_with_separate_sessions() -> None:
    agent = make_agent(silent)
    async with connected_client(agent) as one, connected_client(agent) as two:
        session = await one.new_session()
        error = await two.error("session/prompt", {"sessionId": session, "prompt": []})
        await one.turn(session)
        assert len(agent.connections) == 2
    assert error["code"] == -32002


async def test_handlers_that_ignore_cancellation_do_not_block_the_end() -> None:
    clock = FakeClock()
    agent = make_agent(silent)
    hung = asyncio.Event()

    async def stubborn() -> None:
        while not hung.is_set():
            try:
                await hung.wait()
            except asyncio.CancelledError:
                continue

    @agent.close_session
    async def close(session: AgentSession) -> None:
        await stubborn()

    @agent.on("_vendor/hang")
    async def hang(params: Any, call: ClientRequest) -> None:
        await stubborn()

    ours, raw = raw_pair(validate="agent")
    connection = agent.connect(ours, options=AgentOptions(clock=clock))
    await raw.call("initialize", {"protocolVersion": 1})
    await raw.call("session/new", HERE)
    raw.ask("_vendor/hang")
    await raw.aclose()
    ending = asyncio.ensure_future(connection.wait_ended())
    await clock.advance(60)
    assert ending.done()
    hung.set()
    await settle()


async def test_a_prompt_received_with_the_end_of_the_connection_never_starts() -> None:
    started: list[str] = []

    async def begins(turn: Turn) -> None:
        started.append(turn.text)

    ours, raw = raw_pair(validate="agent")
    connection = make_agent(begins).connect(ours)
    await raw.call("initialize", {"protocolVersion": 1})
    session = (await raw.call("session/new", HERE))["sessionId"]
    raw.ask("session/prompt", {"sessionId": session, "prompt": []})
    await raw.aclose()
    await connection
    assert started == []


async def test_closing_completes_even_when_its_request_is_cancelled() -> None:
    closed = asyncio.Event()
    go = asyncio.Event()
    agent = make_agent(silent)

    @agent.close_session
    async def close(session: AgentSession) -> None:
        await go.wait()
        closed.set()

    async with connected_client(agent) as client:
        session = await client.new_session()
        id = client.raw.ask("session/close", {"sessionId": session})
        await settle()
        client.raw.notify("$/cancel_request", {"requestId": id})
        answer = await client.raw.answer_to(id)
        go.set()
        await closed.wait()
    assert answer["error"]["code"] == -32800


async def test_a_custom_method_handler_gets_its_session() -> None:
    agent = make_agent(silent)
    seen: list[Any] = []

    @agent.on("session/load")
    async def load(request: LoadSessionRequest, call: ClientRequest) -> LoadSessionResponse:
        assert call.session
        await call.session.update(UserMessageChunk(TextContent("hi"), "u1"))
        call.session.data = "loaded"
        return LoadSessionResponse(meta={"vendor/from": "disk"})

    @agent.on("session/close")
    async def close(request: CloseSessionRequest, call: ClientRequest) -> None:
        seen.append(call.session and (call.session.data, call.session.state))

    @agent.on("session/set_mode")
    async def mode(request: SetSessionModeRequest, call: ClientRequest) -> None:
        seen.append((request.mode_id, call.session and call.session.data))

    async with connected_client(agent) as client:
        id = client.raw.ask("session/load", {"sessionId": "old", **HERE})
        updates, result = await client.turn_of(id)
        assert await client.call("session/set_mode", {"sessionId": "old", "modeId": "any"}) == {}
        assert await client.call("session/close", {"sessionId": "old"}) == {}
        assert (await client.error("session/prompt", {"sessionId": "old", "prompt": []}))["code"] == -32002
    assert [update["content"]["text"] for update in updates] == ["hi"]
    assert result == {"_meta": {"vendor/from": "disk"}}
    assert seen == [("any", "loaded"), ("loaded", "closed")]


async def test_an_exception_after_the_response_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = make_agent(silent)

    def fails() -> None:
        raise ValueError("after the response")

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        session.after_open(fails)
        await session.title("seen")

    @agent.on("_vendor/after")
    def after(params: Any, call: ClientRequest) -> None:
        call.after_answer(fails)
        call.after_answer(lambda: call.client.notify("_vendor/seen"))

    async with connected_client(agent) as client:
        await client.new_session()
        await client.update("session_info_update")
        await client.call("_vendor/after")
        await client.raw.next("_vendor/seen")
    assert len([record for record in caplog.records if "fails" in record.message]) == 2
