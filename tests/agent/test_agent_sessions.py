"""How sessions begin, where they work, and how they end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.agent.keeper import keeper
from tests.agent.scene import STRICT, agent_that, silent, talk

from accord.agent import Accepts, AgentOptions, AgentSession, ClientRequest, Turn
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
from accord.testing.clock import FakeClock, settle
from accord.testing.wire import raw_pair
from accord.workspace import OutsideRoots, Roots

HERE = {"cwd": "/home/me/app", "mcpServers": []}


@pytest.mark.rule(92)
async def test_every_session_has_an_id_of_its_own() -> None:
    async with talk(agent_that(silent)) as client:
        ids = {await client.new_session() for _ in range(20)}
    assert len(ids) == 20
    assert all(len(id) == 36 for id in ids)


@pytest.mark.rule(93, 131, 132)
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
async def test_directories_that_are_not_absolute_are_refused(method: str, params: Any) -> None:
    async with talk(keeper()) as client:
        old = await client.new_session()
        error = await client.error(method, {"sessionId": old, **HERE, **params})
        listed = await client.call("session/list", {})
    assert error["code"] == -32602
    assert [info["sessionId"] for info in listed["sessions"]] == [old]


@pytest.mark.rule(132)
async def test_extra_roots_that_were_not_offered_are_refused_not_dropped() -> None:
    async with talk(agent_that(silent)) as client:
        error = await client.error("session/new", {**HERE, "additionalDirectories": ["/lib"]})
        await client.call("session/new", {**HERE, "additionalDirectories": []})
    assert error["code"] == -32602


@pytest.mark.rule(323, 325)
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
async def test_in_strict_mode_one_bad_server_or_root_fails_the_whole_request(
    method: str, params: Any
) -> None:
    async with talk(keeper(), options=STRICT) as client:
        old = await client.new_session()
        await client.call("session/close", {"sessionId": old})
        error = await client.error(method, {"sessionId": old, **HERE, **params})
        count = len(client.connection.sessions)
    assert error["code"] == -32602
    assert count == 0


@pytest.mark.rule(324)
async def test_null_reads_as_none_of_them() -> None:
    seen: list[AgentSession] = []
    agent = agent_that(silent, accepts=Accepts(mcp_http=True))

    @agent.new_session
    def begin(session: AgentSession) -> None:
        seen.append(session)

    async with talk(agent, options=STRICT) as client:
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
async def test_servers_in_other_peoples_shapes_are_understood(params: Any) -> None:
    async with talk(agent_that(silent)) as client:
        await client.call("session/new", {"cwd": "/a", **params})


async def test_a_kind_of_mcp_server_that_was_not_offered_is_refused() -> None:
    servers: list[dict[str, Any]] = [
        {"type": "http", "name": "w", "url": "https://h", "headers": []},
        {"type": "sse", "name": "w", "url": "https://h", "headers": []},
        {"type": "acp", "name": "w", "serverId": "s"},
    ]
    for server in servers:
        async with talk(agent_that(silent)) as client:
            error = await client.error("session/new", {"cwd": "/a", "mcpServers": [server]})
        assert error["code"] == -32602
        assert server["type"] in error["message"]


@pytest.mark.rule(94, 136, 137, 138)
async def test_a_tool_works_in_the_sessions_directory_and_nowhere_else(tmp_path: Path) -> None:
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

    agent = agent_that(reads, accepts=Accepts(additional_directories=True))
    async with talk(agent) as client:
        one = await client.new_session(str(tmp_path / "one"), additionalDirectories=[str(tmp_path / "extra")])
        two = await client.new_session(str(tmp_path / "two"))
        results: list[Any] = []
        for session, path in (
            (one, "note.txt"),
            (two, "note.txt"),
            (one, str(tmp_path / "two" / "note.txt")),
        ):
            await client.turn(session, path)
            shown = [update for update in client.said("tool_call_update") if "content" in update][-1]
            results.append(
                (client.said("tool_call_update")[-1]["status"], shown["content"][0]["content"]["text"])
            )
    assert results[:2] == [("completed", "one"), ("completed", "two")]
    assert results[2][0] == "failed"
    assert client.said("agent_message_chunk")[-1]["content"]["text"] == "not allowed"


@pytest.mark.rule(138)
async def test_sessions_run_side_by_side_and_do_not_mix() -> None:
    ready = asyncio.Event()

    async def waits(turn: Turn) -> None:
        turn.session.data = turn.text
        await turn.say("a" + turn.text)
        if turn.text == "1":
            await ready.wait()
        else:
            ready.set()
        await turn.say("b" + turn.session.data)

    async with talk(agent_that(waits)) as client:
        one, two = await client.new_session(), await client.new_session()
        first, second = client.prompt(one, "1"), client.prompt(two, "2")
        await client.raw.answer_to(second)
        if not any(message.get("id") == first and "result" in message for message in client.raw.heard):
            await client.raw.answer_to(first)
    said = [
        (message["params"]["sessionId"], message["params"]["update"]["content"]["text"])
        for message in client.raw.heard
        if message.get("method") == "session/update"
    ]
    assert [text for session, text in said if session == one] == ["a1", "b1"]
    assert [text for session, text in said if session == two] == ["a2", "b2"]


async def test_updates_sent_while_a_session_is_made_follow_its_answer() -> None:
    agent = agent_that(silent)
    order: list[str] = []

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        await session.commands([("test", "Run the tests", "filter"), ("clear", "Start over")])
        session.after_open(lambda: order.append(session.state))
        await session.title("Fresh")
        order.append(session.state)

    async with talk(agent) as client:
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


async def test_a_session_that_could_not_be_made_leaves_nothing_behind() -> None:
    agent = agent_that(silent)

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        await session.title("never seen")
        if session.cwd == "/bad":
            raise ZeroDivisionError("secret detail")
        raise RpcError("Out of seats", {"seats": 0}, code=-31000)

    async with talk(agent) as client:
        broken = await client.error("session/new", {**HERE, "cwd": "/bad"})
        refused = await client.error("session/new", HERE)
        sessions = dict(client.connection.sessions)
    assert broken["code"] == -32603
    assert "secret" not in str(broken)
    assert refused == {"code": -31000, "message": "Out of seats", "data": {"seats": 0}}
    assert sessions == {}
    assert client.updates() == []


async def test_an_application_may_bring_its_own_session_ids() -> None:
    agent = agent_that(silent)

    @agent.new_session
    async def begin(session: AgentSession) -> NewSessionResponse:
        return NewSessionResponse("story-1", meta={"scene/first": True})

    async with talk(agent) as client:
        result = await client.call("session/new", HERE)
        _, ended = await client.turn("story-1")
    assert result == {"sessionId": "story-1", "_meta": {"scene/first": True}}
    assert ended == {"stopReason": "end_turn"}


@pytest.mark.rule(34, 114)
async def test_closing_cancels_the_turn_first_and_frees_the_session_then() -> None:
    order: list[str] = []

    async def busy(turn: Turn) -> None:
        try:
            await turn.say("busy")
            await asyncio.Event().wait()
        finally:
            order.append("turn over")

    agent = agent_that(busy)

    @agent.close_session
    async def close(session: AgentSession) -> None:
        order.append(f"{session.data} freed")

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        session.data = "data"

    async with talk(agent) as client:
        session = await client.new_session()
        prompt = client.prompt(session)
        await client.update("agent_message_chunk")
        closing = client.raw.ask("session/close", {"sessionId": session})
        ended = await client.raw.next()
        closed = await client.raw.next()
    assert (ended["id"], ended["result"]) == (prompt, {"stopReason": "cancelled"})
    assert (closed["id"], closed["result"]) == (closing, {})
    assert order == ["turn over", "data freed"]


@pytest.mark.rule(102, 115, 152, 383)
async def test_an_unknown_or_closed_session_is_not_found() -> None:
    async with talk(keeper()) as client:
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


async def test_when_the_client_goes_every_session_is_ended() -> None:
    order: list[str] = []

    async def busy(turn: Turn) -> None:
        try:
            await turn.say("busy")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            order.append("cancelled")
            raise

    agent = agent_that(busy)

    @agent.close_session
    async def close(session: AgentSession) -> None:
        order.append("closed")
        if len(order) == 2:
            raise ValueError("the others are closed all the same")

    async with talk(agent) as client:
        session = await client.new_session()
        await client.new_session()
        client.prompt(session)
        await client.update("agent_message_chunk")
        assert client.connection in agent.connections
    assert order == ["cancelled", "closed", "closed"]
    assert agent.connections == set()


async def test_the_agent_can_hang_up_itself_and_answers_what_is_open() -> None:
    async def busy(turn: Turn) -> None:
        await turn.say("busy")
        await asyncio.Event().wait()

    async with talk(agent_that(busy)) as client:
        session = await client.new_session()
        prompt = client.prompt(session)
        await client.update("agent_message_chunk")
        await client.connection.aclose()
        await client.connection.aclose()
        answer = await client.raw.answer_to(prompt)
        await client.raw.wait_end()
    assert answer["result"] == {"stopReason": "cancelled"}


async def test_work_beside_the_turns_runs_with_the_session_and_ends_with_it() -> None:
    ended: list[str] = []
    agent = agent_that(silent)

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
    async with talk(agent) as client:
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


async def test_one_agent_serves_many_clients_each_with_sessions_of_its_own() -> None:
    agent = agent_that(silent)
    async with talk(agent) as one, talk(agent) as two:
        session = await one.new_session()
        error = await two.error("session/prompt", {"sessionId": session, "prompt": []})
        await one.turn(session)
        assert len(agent.connections) == 2
    assert error["code"] == -32002


async def test_code_that_will_not_end_does_not_hold_up_the_end() -> None:
    clock = FakeClock()
    agent = agent_that(silent)
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

    @agent.on("_scene/hang")
    async def hang(params: Any, call: ClientRequest) -> None:
        await stubborn()

    ours, raw = raw_pair(hears="agent")
    connection = agent.connect(ours, options=AgentOptions(clock=clock))
    await raw.call("initialize", {"protocolVersion": 1})
    await raw.call("session/new", HERE)
    raw.ask("_scene/hang")
    await raw.aclose()
    ending = asyncio.ensure_future(connection.wait_ended())
    await clock.advance(60)
    assert ending.done()
    hung.set()
    await settle()


async def test_a_prompt_that_came_with_the_end_is_cancelled_at_once() -> None:
    began: list[str] = []

    async def begins(turn: Turn) -> None:
        began.append(turn.text)

    ours, raw = raw_pair(hears="agent")
    connection = agent_that(begins).connect(ours)
    await raw.call("initialize", {"protocolVersion": 1})
    session = (await raw.call("session/new", HERE))["sessionId"]
    raw.ask("session/prompt", {"sessionId": session, "prompt": []})
    await raw.aclose()
    await connection
    assert began == []


async def test_closing_goes_through_even_if_its_request_is_given_up() -> None:
    closed = asyncio.Event()
    go = asyncio.Event()
    agent = agent_that(silent)

    @agent.close_session
    async def close(session: AgentSession) -> None:
        await go.wait()
        closed.set()

    async with talk(agent) as client:
        session = await client.new_session()
        id = client.raw.ask("session/close", {"sessionId": session})
        await settle()
        client.raw.notify("$/cancel_request", {"requestId": id})
        answer = await client.raw.answer_to(id)
        go.set()
        await closed.wait()
    assert answer["error"]["code"] == -32800


async def test_a_method_that_was_taken_over_knows_its_session() -> None:
    agent = agent_that(silent)
    seen: list[Any] = []

    @agent.on("session/load")
    async def load(request: LoadSessionRequest, call: ClientRequest) -> LoadSessionResponse:
        assert call.session
        await call.session.update(UserMessageChunk(TextContent("hi"), "u1"))
        call.session.data = "loaded"
        return LoadSessionResponse(meta={"scene/from": "disk"})

    @agent.on("session/close")
    async def close(request: CloseSessionRequest, call: ClientRequest) -> None:
        seen.append(call.session and (call.session.data, call.session.state))

    @agent.on("session/set_mode")
    async def mode(request: SetSessionModeRequest, call: ClientRequest) -> None:
        seen.append((request.mode_id, call.session and call.session.data))

    async with talk(agent) as client:
        id = client.raw.ask("session/load", {"sessionId": "old", **HERE})
        updates, result = await client.turn_of(id)
        assert await client.call("session/set_mode", {"sessionId": "old", "modeId": "any"}) == {}
        assert await client.call("session/close", {"sessionId": "old"}) == {}
        assert (await client.error("session/prompt", {"sessionId": "old", "prompt": []}))["code"] == -32002
    assert [update["content"]["text"] for update in updates] == ["hi"]
    assert result == {"_meta": {"scene/from": "disk"}}
    assert seen == [("any", "loaded"), ("loaded", "closed")]


async def test_what_fails_behind_an_answer_is_logged_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = agent_that(silent)

    def fails() -> None:
        raise ValueError("behind the answer")

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        session.after_open(fails)
        await session.title("seen")

    @agent.on("_scene/after")
    def after(params: Any, call: ClientRequest) -> None:
        call.after_answer(fails)
        call.after_answer(lambda: call.client.notify("_scene/seen"))

    async with talk(agent) as client:
        await client.new_session()
        await client.update("session_info_update")
        await client.call("_scene/after")
        await client.raw.next("_scene/seen")
    assert len([record for record in caplog.records if "fails" in record.message]) == 2
