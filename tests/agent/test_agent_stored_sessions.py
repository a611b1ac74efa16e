"""Stored sessions of an example agent: load, resume, list, delete, fork, archive, titles."""

import asyncio
from typing import Any

import pytest
from tests.agent.agent_client import EVERYTHING, Client, connected_client, make_agent
from tests.agent.memory_agent import StoredSession, memory_agent

from accord.agent import AgentSession, Turn

HERE = {"cwd": "/home/me/app", "mcpServers": []}


async def earlier_session(store: dict[str, StoredSession], *prompts: str, cwd: str = "/home/me/app") -> str:
    """The id of a session in which these prompts were answered in an earlier run."""
    async with connected_client(memory_agent(store)) as client:
        session = await client.new_session(cwd)
        for prompt in prompts:
            await client.turn(session, prompt)
    return session


async def recall(client: Client, session: str) -> str:
    updates, _ = await client.turn(session, "recall")
    return updates[-1]["content"]["text"]


@pytest.mark.rule(
    "session.load-replays", "session.load-answers-last", "session.load-result-object", "notice.not-replayed"
)
async def test_load_replays_the_conversation_before_its_response() -> None:
    store: dict[str, StoredSession] = {}
    session = await earlier_session(store, "remember milk", "remember eggs")
    async with connected_client(memory_agent(store), capabilities=EVERYTHING) as client:
        id = client.raw.ask("session/load", {"sessionId": session, **HERE})
        updates, result = await client.turn_of(id)
        assert await recall(client, session) == "milk, eggs"
    assert [(update["sessionUpdate"], update["content"]["text"]) for update in updates] == [
        ("user_message_chunk", "remember milk"),
        ("agent_message_chunk", "noted"),
        ("user_message_chunk", "remember eggs"),
        ("agent_message_chunk", "noted"),
    ]
    assert result == {}


@pytest.mark.rule(
    "session.resume-without-history", "session.resume-keeps-context", "session.resume-without-mcp-servers"
)
async def test_resume_restores_the_context_without_a_replay() -> None:
    store: dict[str, StoredSession] = {}
    session = await earlier_session(store, "remember milk")
    async with connected_client(memory_agent(store)) as client:
        id = client.raw.ask("session/resume", {"sessionId": session, "cwd": "/home/me/app"})
        first = await client.raw.next()
        title = await client.update("session_info_update")
        assert await recall(client, session) == "milk"
    assert (first["id"], first["result"]) == (id, {})
    assert title["title"] == "remember milk"


@pytest.mark.rule("session.roots-not-kept")
@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_additional_directories_are_not_restored_from_the_stored_session(method: str) -> None:
    async with connected_client(memory_agent()) as client:
        session = await client.new_session(additionalDirectories=["/home/me/lib"])
        assert client.connection.sessions[session].roots == ("/home/me/app", "/home/me/lib")
        await client.call(method, {"sessionId": session, **HERE})
        assert client.connection.sessions[session].roots == ("/home/me/app",)
        await client.call(method, {"sessionId": session, **HERE, "additionalDirectories": ["/other"]})
        assert client.connection.sessions[session].roots == ("/home/me/app", "/other")


async def test_loading_an_open_session_replaces_it() -> None:
    agent = memory_agent()
    closed: list[AgentSession] = []

    @agent.close_session
    async def close(session: AgentSession) -> None:
        closed.append(session)

    async with connected_client(agent) as client:
        session = await client.new_session()
        before = client.connection.sessions[session]
        await client.call("session/load", {"sessionId": session, **HERE})
        assert closed == [before]
        assert before.state == "closed"
        assert client.connection.sessions[session] is not before
        assert await recall(client, session) == "nothing"


async def test_a_session_with_a_running_turn_cannot_be_loaded() -> None:
    async def busy(turn: Turn) -> None:
        await turn.say("busy")
        await asyncio.Event().wait()

    agent = make_agent(busy)

    @agent.load_session
    async def load(session: AgentSession) -> None:
        """Accepts any session."""

    async with connected_client(agent) as client:
        session = await client.new_session()
        prompt = client.prompt(session)
        await client.update("agent_message_chunk")
        error = await client.error("session/load", {"sessionId": session, **HERE})
        client.cancel(session)
        _, result = await client.turn_of(prompt)
    assert error["code"] == -32600
    assert result == {"stopReason": "cancelled"}


@pytest.mark.rule(
    "session.list-first-page",
    "session.list-empty",
    "session.list-cwd-filter",
    "session.list-entry-members",
    "session.list-invalid-cursor",
    "session.list-page-size",
    "session.list-changes-nothing",
)
async def test_the_session_list_is_paged_and_filtered_and_opens_no_session() -> None:
    store: dict[str, StoredSession] = {}
    here = [await earlier_session(store, f"remember {n}") for n in range(3)]
    there = await earlier_session(store, "remember x", cwd="/home/me/other")
    async with connected_client(memory_agent(store)) as client:
        first = await client.call("session/list", {})
        rest = await client.call("session/list", {"cursor": first["nextCursor"]})
        assert await client.call("session/list", {}) == first
        filtered = await client.call("session/list", {"cwd": "/home/me/other"})
        nothing = await client.call("session/list", {"cwd": "/nonexistent"})
        bad_cursor = await client.error("session/list", {"cursor": "garbage"})
        bad_cwd = await client.error("session/list", {"cwd": "relative"})
        assert dict(client.connection.sessions) == {}
    assert [info["sessionId"] for info in first["sessions"] + rest["sessions"]] == [*here, there]
    assert first["sessions"][0]["cwd"] == "/home/me/app"
    assert "nextCursor" not in rest or rest["nextCursor"] is None
    assert [info["sessionId"] for info in filtered["sessions"]] == [there]
    assert nothing["sessions"] == []
    assert bad_cursor["code"] == bad_cwd["code"] == -32602


@pytest.mark.rule("framing.absent-params", "session.list-first-page")
async def test_the_session_list_needs_no_params() -> None:
    async with connected_client(memory_agent()) as client:
        for text in (
            '{"jsonrpc":"2.0","id":1,"method":"session/list"}',
            '{"jsonrpc":"2.0","id":1,"method":"session/list","params":null}',
        ):
            client.raw.send(text)
            assert (await client.raw.answer_to(1))["result"]["sessions"] == []


@pytest.mark.rule(
    "framing.agent-empty-results", "session.delete-leaves-list", "session.delete-missing-succeeds"
)
async def test_a_deleted_session_is_gone_and_may_be_deleted_again() -> None:
    async with connected_client(memory_agent()) as client:
        session = await client.new_session()
        assert await client.call("session/delete", {"sessionId": session}) == {}
        assert (await client.call("session/list", {}))["sessions"] == []
        assert await client.call("session/delete", {"sessionId": session}) == {}
        assert await client.call("session/delete", {"sessionId": "nope"}) == {}
        assert (await client.error("session/prompt", {"sessionId": session, "prompt": []}))["code"] == -32002


@pytest.mark.rule("fork.new-session", "fork.roots-not-inherited")
async def test_a_fork_is_a_separate_session_with_the_context_of_its_source() -> None:
    async with connected_client(memory_agent()) as client:
        source = await client.new_session(additionalDirectories=["/home/me/lib"])
        await client.turn(source, "remember milk")
        fork = (await client.call("session/fork", {"sessionId": source, "cwd": "/home/me/app"}))["sessionId"]
        await client.turn(fork, "remember eggs")
        assert await recall(client, fork) == "milk, eggs"
        assert await recall(client, source) == "milk"
        assert client.connection.sessions[fork].roots == ("/home/me/app",)
    assert fork != source


@pytest.mark.rule(
    "archive.hides",
    "archive.idempotent",
    "archive.unarchive-opens-nothing",
    "archive.filter",
    "archive.filter-invalid-refused",
    "archive.member-in-list",
)
async def test_an_archived_session_is_hidden_until_unarchived() -> None:
    async with connected_client(memory_agent()) as client:
        kept, hidden = await client.new_session(), await client.new_session()

        async def listed(**params: Any) -> list[tuple[str, bool]]:
            page = await client.call("session/list", params)
            return [(info["sessionId"], info["archived"]) for info in page["sessions"]]

        for _ in range(2):
            assert await client.call("session/archive", {"sessionId": hidden}) == {}
        assert (
            await listed()
            == await listed(archived="exclude")
            == await listed(archived=None)
            == [(kept, False)]
        )
        assert await listed(archived="only", cwd="/home/me/app") == [(hidden, True)]
        assert await listed(archived="include") == [(kept, False), (hidden, True)]
        for _ in range(2):
            assert await client.call("session/unarchive", {"sessionId": hidden}) == {}
        assert await listed() == [(kept, False), (hidden, False)]
        assert (await client.error("session/prompt", {"sessionId": hidden, "prompt": []}))["code"] == -32002
        await client.call("session/load", {"sessionId": hidden, **HERE})
        for method in ("session/archive", "session/unarchive"):
            assert (await client.error(method, {"sessionId": "nope"}))["code"] == -32002
        for value in ("zzz", 5):
            assert (await client.error("session/list", {"archived": value}))["code"] == -32602


async def test_a_filter_for_archived_sessions_is_refused_without_archive_support() -> None:
    agent = make_agent(lambda turn: None)
    agent.list_sessions(lambda request, call: [])
    async with connected_client(agent) as client:
        assert (await client.error("session/list", {"archived": "only"}))["code"] == -32602


@pytest.mark.rule("archive.cancels-turn")
async def test_archiving_during_a_turn_cancels_it_first() -> None:
    async def busy(turn: Turn) -> None:
        await turn.say("busy")
        await asyncio.Event().wait()

    agent = make_agent(busy)
    agent.list_sessions(lambda request, call: [])
    agent.on("session/archive")(lambda request, call: None)
    agent.on("session/unarchive")(lambda request, call: None)
    async with connected_client(agent) as client:
        session = await client.new_session()
        prompt = client.prompt(session)
        await client.update("agent_message_chunk")
        archive = client.raw.ask("session/archive", {"sessionId": session})
        ended, archived = await client.raw.next(), await client.raw.next()
    assert (ended["id"], ended["result"]) == (prompt, {"stopReason": "cancelled"})
    assert (archived["id"], archived["result"]) == (archive, {})


@pytest.mark.rule("status.changes-nothing", "status.open-or-saved", "status.unknown-session")
async def test_the_session_status_does_not_open_the_session() -> None:
    agent = memory_agent()
    async with connected_client(agent) as one, connected_client(agent) as two:
        session = await one.new_session()
        for client in (one, two):
            assert await client.call("session/status", {"sessionId": session}) == {"status": "open"}
        assert (await two.error("session/prompt", {"sessionId": session, "prompt": []}))["code"] == -32002
        await one.call("session/close", {"sessionId": session})
        assert await two.call("session/status", {"sessionId": session}) == {"status": "saved"}
        error = await one.error("session/status", {"sessionId": "nope"})
    assert error["code"] == -32002
    assert error["data"] == {"sessionId": "nope"}
    assert one.updates() == two.updates() == []


@pytest.mark.rule("title.stored", "title.invalid-refused", "title.not-overwritten")
async def test_a_title_set_by_the_client_is_stored_and_kept() -> None:
    store: dict[str, StoredSession] = {}
    session = await earlier_session(store, "remember milk")
    async with connected_client(memory_agent(store)) as client:
        result = await client.call("session/set_title", {"sessionId": session, "title": "  Groceries  "})
        await client.call("session/resume", {"sessionId": session, "cwd": "/home/me/app"})
        await client.turn(session, "remember eggs")
        page = await client.call("session/list", {})
        for title in (None, "", "   "):
            error = await client.error("session/set_title", {"sessionId": session, "title": title})
            assert error["code"] == -32602
        assert (await client.error("session/set_title", {"sessionId": session}))["code"] == -32602
        assert (await client.error("session/set_title", {"sessionId": "nope", "title": "x"}))[
            "code"
        ] == -32002
    assert result == {"title": "Groceries"}
    assert page["sessions"][0]["title"] == "Groceries"


@pytest.mark.rule("system-prompt.applied")
async def test_an_appended_system_prompt_applies_to_new_load_resume_and_fork() -> None:
    french: dict[str, Any] = {
        "systemPrompt": {"mode": "append", "content": [{"type": "text", "text": "Bonjour."}]}
    }
    async with connected_client(memory_agent()) as client:
        session = await client.new_session(**french)
        assert await recall(client, session) == "Bonjour. nothing"
        plain = await client.new_session(systemPrompt=None)
        for method in ("session/load", "session/resume"):
            await client.call(method, {"sessionId": plain, **HERE, **french})
            assert await recall(client, plain) == "Bonjour. nothing"
        fork = await client.call("session/fork", {"sessionId": plain, **HERE, **french})
        assert await recall(client, fork["sessionId"]) == "Bonjour. nothing"


@pytest.mark.rule("system-prompt.invalid-refused")
@pytest.mark.parametrize(
    "prompt",
    [
        {"mode": "_x", "content": [{"type": "text", "text": "a"}]},
        {"mode": "override", "content": [{"type": "text", "text": "a"}]},
        {"mode": "append", "content": [{"type": "image", "data": "", "mimeType": "image/png"}]},
        {"mode": "append", "content": []},
        {"mode": "append"},
        "text",
    ],
)
async def test_an_unsupported_system_prompt_creates_no_session(prompt: Any) -> None:
    async with connected_client(memory_agent()) as client:
        error = await client.error("session/new", {**HERE, "systemPrompt": prompt})
        listed = await client.call("session/list", {})
    assert error["code"] == -32602
    assert listed["sessions"] == []
