"""Opening, listing, changing and closing sessions: the requests sent, the local refusals, the responses."""

import asyncio
from typing import Any

import pytest
from tests.client.raw_agent import EVERYTHING, EventCollector, both, collect, connected, in_session, kinds

from accord.client import ClientFeatures, ClientOptions
from accord.errors import BadAnswer, ConnectionClosed, InvalidParams, NotOffered, RpcError, UsageError
from accord.schema import (
    EnvVariable,
    HttpHeader,
    ImageContent,
    McpServerAcp,
    McpServerHttp,
    McpServerSse,
    McpServerStdio,
    SystemPrompt,
    TextContent,
)
from accord.testing.fake_clock import settle

STDIO = McpServerStdio("files", "/usr/bin/mcp-files", [], [])
HTTP = McpServerHttp("web", "https://mcp.example", [HttpHeader("A", "b")])
SSE = McpServerSse("old", "https://mcp.example/sse", [])
ACP = McpServerAcp("ide", "srv-1")


def without(*path: str) -> dict:
    """All capabilities except this one."""

    def copy(node, rest):
        return {
            key: copy(value, rest[1:]) if rest and key == rest[0] and len(rest) > 1 else value
            for key, value in node.items()
            if not (len(rest) == 1 and key == rest[0])
        }

    return copy(EVERYTHING, list(path))


@pytest.mark.rule(
    "session.new-members",
    "session.absolute-cwd",
    "session.stdio-mcp-members",
    "session.http-mcp-members",
    "session.roots-absolute",
)
async def test_a_new_session_sends_folders_servers_and_system_prompt(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    servers = [
        McpServerStdio("files", "/usr/bin/mcp-files", ["--root"], [EnvVariable("A", "b")]),
        STDIO, HTTP, SSE, ACP,
    ]  # fmt: skip
    prompt = SystemPrompt("override", [TextContent("Be brief.")])
    async with connected() as (agent, peer):
        session, asked = await both(
            agent.new_session(
                ".", mcp_servers=servers, additional_directories=["lib", "/opt"], system_prompt=prompt
            ),
            peer.open("s1"),
        )
        assert asked["params"] == {
            "cwd": str(tmp_path),
            "additionalDirectories": [str(tmp_path / "lib"), "/opt"],
            "mcpServers": [
                {"name": "files", "command": "/usr/bin/mcp-files", "args": ["--root"],
                 "env": [{"name": "A", "value": "b"}]},
                {"name": "files", "command": "/usr/bin/mcp-files", "args": [], "env": []},
                {"type": "http", "name": "web", "url": "https://mcp.example",
                 "headers": [{"name": "A", "value": "b"}]},
                {"type": "sse", "name": "old", "url": "https://mcp.example/sse", "headers": []},
                {"type": "acp", "name": "ide", "serverId": "srv-1"},
            ],
            "systemPrompt": {"mode": "override", "content": [{"type": "text", "text": "Be brief."}]},
        }  # fmt: skip
        assert session.cwd == str(tmp_path)
        assert session.state.cwd == str(tmp_path)


@pytest.mark.rule(
    "session.http-mcp-needs-capability", "session.sse-mcp-needs-capability", "mcp.needs-capability"
)
@pytest.mark.parametrize(("server", "gate"), [(HTTP, "http"), (SSE, "sse"), (ACP, "acp")])
async def test_mcp_transports_the_agent_does_not_support_are_refused_locally(server, gate):
    async with connected(without("mcpCapabilities", gate)) as (agent, peer):
        for call in (
            agent.new_session("/project", mcp_servers=[STDIO, server]),
            agent.load_session("x", "/project", mcp_servers=[server]),
            agent.resume_session("x", "/project", mcp_servers=[server]),
        ):
            with pytest.raises(NotOffered, match=gate):
                await call
        assert len(peer.received) == 1


@pytest.mark.rule("mcp.needs-capability")
async def test_server_ids_must_be_unique():
    async with connected() as (agent, _):
        with pytest.raises(UsageError, match="unique"):
            await agent.new_session("/project", mcp_servers=[ACP, McpServerAcp("other", "srv-1")])


@pytest.mark.rule("session.roots-need-capability")
async def test_additional_directories_are_refused_without_the_capability():
    async with connected(without("sessionCapabilities", "additionalDirectories")) as (agent, peer):
        for call in (
            agent.new_session("/a", additional_directories=["/b"]),
            agent.load_session("x", "/a", additional_directories=["/b"]),
            agent.resume_session("x", "/a", additional_directories=["/b"]),
        ):
            with pytest.raises(NotOffered, match="additional directories"):
                await call
        assert len(peer.received) == 1


@pytest.mark.rule("system-prompt.needs-capability")
async def test_a_system_prompt_is_refused_without_the_capability():
    append, override = (SystemPrompt(mode, [TextContent("x")]) for mode in ("append", "override"))
    async with connected(without("sessionCapabilities", "systemPrompt")) as (agent, peer):
        with pytest.raises(NotOffered, match="systemPrompt"):
            await agent.new_session("/a", system_prompt=append)
        assert len(peer.received) == 1
    async with connected(without("sessionCapabilities", "systemPrompt", "mode")) as (agent, peer):
        with pytest.raises(NotOffered, match="override"):
            await agent.new_session("/a", system_prompt=override)
        bad: Any
        for bad in ([], [ImageContent("aGk=", "image/png")]):
            with pytest.raises(UsageError, match="all must be text"):
                await agent.new_session("/a", system_prompt=SystemPrompt("append", bad))
        with pytest.raises(UsageError, match="cannot be '_x'"):
            await agent.new_session("/a", system_prompt=SystemPrompt("_x", [TextContent("x")]))
        assert len(peer.received) == 1


async def test_invalid_arguments_of_new_session_are_not_sent():
    async with connected() as (agent, peer):
        with pytest.raises(UsageError, match="env"):
            await agent.new_session("/a", mcp_servers=[McpServerStdio("x", "/x", [], {"A": "b"})])  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="is a list of directories, not one"):
            await agent.new_session("/a", additional_directories="/b")
        with pytest.raises(UsageError, match="path of a session directory is empty"):
            await agent.new_session("")
        assert len(peer.received) == 1


@pytest.mark.rule(
    "session.load-needs-capability",
    "session.resume-needs-capability",
    "session.close-needs-capability",
    "session.list-needs-capability",
    "session.delete-needs-capability",
    "fork.needs-capability",
    "archive.needs-capability",
    "status.needs-capability",
    "title.needs-capability",
)
@pytest.mark.parametrize("null", [False, True])
async def test_optional_methods_are_refused_locally_without_their_capability(null):
    gates = ["resume", "close", "list", "delete", "fork", "archive", "status", "title"]
    capabilities: dict[str, Any] = {"loadSession": None} if null else {}
    capabilities["sessionCapabilities"] = dict.fromkeys(gates) if null else {}
    async with in_session(capabilities) as (session, peer):
        agent = peer.agent
        for call in (
            agent.load_session("x", "/"),
            agent.resume_session("x", "/"),
            session.close(),
            agent.list_page(),
            collect(agent.list_sessions()),
            agent.delete_session("x"),
            agent.fork_session(session),
            agent.archive_session("x"),
            agent.unarchive_session("x"),
            agent.session_status("x"),
            agent.set_title("x", "y"),
        ):
            with pytest.raises(NotOffered):
                await call
        assert len(peer.received) == 2


@pytest.mark.rule("archive.needs-capability")
async def test_the_archived_filter_needs_its_capability():
    async with connected(without("sessionCapabilities", "archive")) as (agent, peer):
        with pytest.raises(NotOffered, match="archived"):
            await agent.list_page(archived="only")
        assert len(peer.received) == 1


@pytest.mark.rule("session.load-shown-as-history", "session.roots-sent-again", "system-prompt.sent-again")
async def test_load_replays_the_history_into_the_state():
    prompt = SystemPrompt("append", [TextContent("Be brief.")])
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}
    async with connected() as (agent, peer):
        loading = asyncio.create_task(
            agent.load_session(
                "old", "/project", mcp_servers=[STDIO], additional_directories=["/lib"], system_prompt=prompt
            )
        )
        asked = await peer.next("session/load")
        assert asked["params"]["sessionId"] == "old"
        assert asked["params"]["additionalDirectories"] == ["/lib"]
        assert asked["params"]["systemPrompt"]["content"][0]["text"] == "Be brief."
        for text, answer in (("hi", "hello"), ("more", "sure")):
            peer.update("old", "user_message_chunk", content={"type": "text", "text": text})
            peer.say(answer, "old")
        peer.update("old", "tool_call", toolCallId="c1", title="Never finished")
        peer.reply(asked, {"modes": modes})
        session = await loading
        assert [message.text for message in session.state.messages] == ["hi", "hello", "more", "sure"]
        assert session.state.settings.current_mode_id == "ask"
        assert session.state.tool_calls["c1"].ended_without_result

        turn = EventCollector(session.prompt("go on"))
        prompted = await peer.next("session/prompt")
        assert prompted["params"]["sessionId"] == "old"
        peer.reply(prompted, {"stopReason": "end_turn"})
        assert kinds(await turn.end()) == ["TurnStarted", "TurnEnded"]


@pytest.mark.rule("session.load-null-result")
@pytest.mark.parametrize("answer", [None, {}])
async def test_load_and_resume_accept_null_and_empty_responses(answer):
    async with connected() as (agent, peer):
        loading = asyncio.create_task(agent.load_session("a", "/"))
        peer.reply(await peer.next("session/load"), answer)
        resuming = asyncio.create_task(agent.resume_session("b", "/"))
        peer.reply(await peer.next("session/resume"), answer)
        assert ((await loading).id, (await resuming).id) == ("a", "b")


async def test_a_failed_load_leaves_no_session():
    async with connected() as (agent, peer):
        loading = asyncio.create_task(agent.load_session("gone", "/"))
        asked = await peer.next("session/load")
        peer.say("half a history", "gone")
        peer.refuse(asked, -32002, "Session not found", data={"sessionId": "gone"})
        with pytest.raises(RpcError, match="Session not found"):
            await loading
        assert agent.sessions == []
        error = await peer.error_of(
            "session/request_permission",
            {"sessionId": "gone", "toolCall": {"toolCallId": "c"}, "options": []},
        )
        assert error["code"] == -32002


async def test_loading_an_open_session_rebuilds_its_state_and_a_failure_keeps_it():
    async with in_session() as (session, peer):
        agent = peer.agent
        peer.say("before")
        await settle()
        loading = asyncio.create_task(agent.load_session("s1", "/project"))
        asked = await peer.next("session/load")
        peer.say("half")
        peer.refuse(asked, -32603, "disk error")
        with pytest.raises(RpcError):
            await loading
        assert [message.text for message in session.state.messages] == ["before"]

        loading = asyncio.create_task(agent.load_session("s1", "/project"))
        asked = await peer.next("session/load")
        peer.say("whole")
        peer.reply(asked, {})
        assert await loading is session
        assert [message.text for message in session.state.messages] == ["whole"]


@pytest.mark.dialect(60, 62)
async def test_a_load_without_a_replay_keeps_the_history_and_a_late_replay_is_applied():
    async with in_session() as (session, peer):
        agent = peer.agent
        peer.say("known")
        await settle()
        loading = asyncio.create_task(agent.load_session("s1", "/project"))
        peer.reply(await peer.next("session/load"), {})
        await loading
        assert [message.text for message in session.state.messages] == ["known"]
        late = asyncio.create_task(agent.load_session("late", "/project"))
        peer.reply(await peer.next("session/load"), {})
        peer.say("history", "late")
        session = await late
        await settle()
        assert session.state.messages[0].text == "history"


@pytest.mark.rule("session.roots-sent-again")
async def test_resume_sends_the_folders_and_restores_no_history():
    async with connected() as (agent, peer):
        resuming = asyncio.create_task(
            agent.resume_session("old", "/project", additional_directories=["/lib"])
        )
        asked = await peer.next("session/resume")
        assert asked["params"] == {
            "sessionId": "old",
            "cwd": "/project",
            "mcpServers": [],
            "additionalDirectories": ["/lib"],
        }
        modes = {"currentModeId": "plan", "availableModes": [{"id": "plan", "name": "Plan"}]}
        peer.reply(asked, {"modes": modes})
        session = await resuming
        assert session.state.messages == []
        assert session.state.additional_directories == ["/lib"]
        assert session.state.settings.current_mode_id == "plan"


@pytest.mark.rule("session.list-last-page", "session.list-cursor-verbatim", "session.roots-not-merged")
async def test_the_session_list_is_read_page_by_page_with_unchanged_cursors():
    cursor = ' odd/+%="ü\\n'
    async with connected() as (agent, peer):
        listing = asyncio.create_task(collect(agent.list_sessions(cwd="/project")))
        first = await peer.next("session/list")
        assert first["params"] == {"cwd": "/project"}
        one = {"sessionId": "1", "cwd": "/project", "additionalDirectories": ["/lib"], "title": "One"}
        peer.reply(first, {"sessions": [one, {"broken": True}], "nextCursor": cursor})
        second = await peer.next("session/list")
        assert second["params"] == {"cwd": "/project", "cursor": cursor}
        peer.reply(second, {"sessions": [{"sessionId": "1", "cwd": "/project"}], "nextCursor": None})
        found = await listing
        assert [info.session_id for info in found] == ["1", "1"]
        assert found[0].additional_directories == ["/lib"]
        assert not found[1].additional_directories, "pages are not merged"
        await settle()
        assert len(peer.received) == 3


@pytest.mark.rule("archive.filter-kept-in-pages")
async def test_the_archived_filter_is_sent_with_every_page():
    async with connected() as (agent, peer):
        listing = asyncio.create_task(collect(agent.list_sessions(archived="only")))
        peer.reply(await peer.next("session/list"), {"sessions": [], "nextCursor": "2"})
        second = await peer.next("session/list")
        assert second["params"] == {"archived": "only", "cursor": "2"}
        peer.reply(second, {"sessions": []})
        assert await listing == []


async def test_an_endless_session_list_raises():
    async with connected() as (agent, peer):
        listing = asyncio.create_task(collect(agent.list_sessions()))
        for _ in range(2):
            peer.reply(await peer.next("session/list"), {"sessions": [], "nextCursor": "again"})
        with pytest.raises(BadAnswer, match="twice"):
            await listing


async def test_close_ends_the_turn_and_the_session():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        prompt = await peer.next("session/prompt")
        listening = EventCollector(session.events())
        closing = asyncio.create_task(session.close())
        asked = await peer.next("session/close")
        assert asked["params"] == {"sessionId": "s1"}
        peer.reply(prompt, {"stopReason": "cancelled"})
        peer.reply(asked, {})
        await closing
        assert kinds(await turn.end())[-1] == "TurnEnded"
        assert kinds(await listening.end())[-1] == "TurnEnded"
        with pytest.raises(UsageError, match="is closed"):
            await session.ask("hello?")
        assert peer.agent.sessions == []
        request = {"sessionId": "s1", "toolCall": {"toolCallId": "c"}, "options": []}
        assert (await peer.error_of("session/request_permission", request))["data"] == {"sessionId": "s1"}


async def test_close_ends_the_sessions_of_subagents():
    async with in_session(options=ClientOptions(features=ClientFeatures(subagents=True))) as (session, peer):
        peer.update("s1", "subagent_update", sessionId="kid", state={"state": "running"})
        await settle()
        (child,) = session.children
        listening = EventCollector(child.events())
        closing = asyncio.create_task(session.close())
        peer.reply(await peer.next("session/close"), {})
        await closing
        await listening.end()
        assert child.closed


async def test_close_ends_a_prompt_without_a_response():
    async with in_session() as (session, peer):
        turn = EventCollector(session.prompt("go"))
        await peer.next("session/prompt")
        closing = asyncio.create_task(session.close())
        peer.reply(await peer.next("session/close"), {})
        await closing
        with pytest.raises(ConnectionClosed, match="the session was closed"):
            await turn.end()


async def test_delete_and_archive_close_an_open_session():
    for method in ("delete", "archive"):
        async with in_session() as (session, peer):
            agent = peer.agent
            calling = asyncio.create_task(getattr(agent, f"{method}_session")("s1"))
            asked = await peer.next(f"session/{method}")
            assert asked["params"] == {"sessionId": "s1"}
            peer.reply(asked, {})
            await calling
            assert session.closed
            assert agent.sessions == []


@pytest.mark.rule("status.unknown-value", "title.shown", "archive.unarchives-before-load")
async def test_session_status_title_and_unarchive():
    async with connected() as (agent, peer):
        for answer, meaning in (("open", "open"), ("saved", "saved"), ("_x", "saved")):
            pending = asyncio.create_task(agent.session_status("x"))
            peer.reply(await peer.next("session/status"), {"status": answer})
            assert await pending == meaning
        assert agent.sessions == [], "asking for the status opens no session"
        titling = asyncio.create_task(agent.set_title("x", "  Fix  "))
        asked = await peer.next("session/set_title")
        assert asked["params"] == {"sessionId": "x", "title": "  Fix  "}
        peer.reply(asked, {"title": "Fix"})
        assert await titling == "Fix"
        unarchiving = asyncio.create_task(agent.unarchive_session("x"))
        peer.reply(await peer.next("session/unarchive"), {})
        await unarchiving
        loading = asyncio.create_task(agent.load_session("x", "/"))
        peer.reply(await peer.next("session/load"), {})
        await loading


@pytest.mark.parametrize("method", ["load", "resume"])
async def test_notices_while_a_session_opens_are_passed_to_on_notice(method):
    notices = []
    options = ClientOptions(on_notice=lambda session_id, notice: notices.append((session_id, notice.title)))
    async with connected(options=options) as (agent, peer):
        opening = asyncio.create_task(getattr(agent, f"{method}_session")("s1", "/project"))
        asked = await peer.next(f"session/{method}")
        peer.update("s1", "notice", severity="info", title="waiting")
        peer.reply(asked, {})
        session = await opening
        peer.update("s1", "notice", severity="info", title="later")
        await settle()
        assert [notice.title for notice in session.state.notices] == ["waiting", "later"]
        assert notices == [("s1", "waiting")]


@pytest.mark.rule("fork.needs-capability", "system-prompt.sent-again")
async def test_a_fork_is_a_separate_session_with_the_same_setup():
    async with connected() as (agent, peer):
        prompt = SystemPrompt("append", [TextContent("Be brief.")])
        source, _ = await both(
            agent.new_session(
                "/project", mcp_servers=[STDIO], additional_directories=["/lib"], system_prompt=prompt
            ),
            peer.open("s1"),
        )
        forking = asyncio.create_task(agent.fork_session(source))
        asked = await peer.next("session/fork")
        assert asked["params"]["sessionId"] == "s1"
        assert asked["params"]["additionalDirectories"] == ["/lib"]
        assert asked["params"]["systemPrompt"]["mode"] == "append"
        peer.say("early", "s2")
        peer.reply(asked, {"sessionId": "s2"})
        fork = await forking
        assert fork.id == "s2"
        assert fork.state.messages[0].text == "early"
        turn = EventCollector(fork.prompt("on your own"))
        prompt = await peer.next("session/prompt")
        assert prompt["params"]["sessionId"] == "s2"
        peer.reply(prompt, {"stopReason": "end_turn"})
        await turn.end()
        assert source.state.messages == []


@pytest.mark.dialect(63)
async def test_a_new_session_with_a_known_id_returns_the_known_session():
    async with connected() as (agent, peer):
        session, _ = await both(agent.new_session("/project"), peer.open("same"))
        opening = asyncio.create_task(agent.new_session("/project"))
        asked = await peer.next("session/new")
        peer.say("replayed", "same")
        peer.reply(asked, {"sessionId": "same"})
        assert await opening is session
        assert session.state.messages[0].text == "replayed"


@pytest.mark.rule("provider.needs-capability")
async def test_providers_can_be_set_listed_and_disabled():
    async with connected() as (agent, peer):
        setting = asyncio.create_task(agent.providers.set("main", "openai", "https://gw/v1", {"X": "y"}))
        asked = await peer.next("providers/set")
        assert asked["params"] == {
            "providerId": "main",
            "apiType": "openai",
            "baseUrl": "https://gw/v1",
            "headers": {"X": "y"},
        }
        peer.reply(asked, {})
        await setting
        listing = asyncio.create_task(agent.providers.list())
        info = {"providerId": "main", "supported": ["openai", 5], "required": True, "current": None}
        peer.reply(await peer.next("providers/list"), {"providers": [info]})
        (provider,) = await listing
        assert provider.supported == ["openai"]
        disabling = asyncio.create_task(agent.providers.disable("main"))
        peer.refuse(await peer.next("providers/disable"), -32602, "Provider is required")
        with pytest.raises(InvalidParams):
            await disabling
