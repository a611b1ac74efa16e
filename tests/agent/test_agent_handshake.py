"""`initialize`: protocol version, names, capabilities of both sides, and that it must come first."""

from typing import Any

import pytest
from tests.agent.agent_client import EVERYTHING, STRICT, connected_client, make_agent, silent

from accord.agent import Agent, AgentFeatures, AgentSession, ClientRequest, Turn
from accord.errors import UsageError
from accord.schema import (
    AuthStatusResponse,
    InitializeRequest,
    InitializeResponse,
    ListProvidersResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    SessionInfo,
    SessionStatusResponse,
    SetSessionTitleResponse,
)


@pytest.mark.rule("initialize.version-returned", "initialize.version-offered")
@pytest.mark.parametrize("version", [0, 1, 2, 7, 65535])
async def test_the_answer_to_any_version_is_version_one(version: int) -> None:
    async with connected_client(make_agent(silent), initialize=False) as client:
        result = await client.call("initialize", {"protocolVersion": version})
    assert result["protocolVersion"] == 1


@pytest.mark.rule("initialize.invalid-version")
@pytest.mark.parametrize("version", ["1", True, 1.5, 70000, -1, None])
async def test_an_invalid_version_is_refused_and_initialize_can_be_retried(version: Any) -> None:
    async with connected_client(make_agent(silent), initialize=False) as client:
        error = await client.error("initialize", {"protocolVersion": version})
        result = await client.call("initialize", {"protocolVersion": 1})
    assert error["code"] == -32602
    assert result["protocolVersion"] == 1


@pytest.mark.rule("initialize.agent-info", "initialize.minimal-client")
async def test_a_client_that_sends_only_its_version_gets_the_agents_name() -> None:
    agent = Agent("demo", version="2.0", title="Demo")
    agent.prompt(silent)
    async with connected_client(agent) as client:
        session = await client.new_session()
        _, result = await client.turn(session)
    assert client.initialized["agentInfo"] == {"name": "demo", "version": "2.0", "title": "Demo"}
    assert result == {"stopReason": "end_turn"}


async def test_an_agent_with_only_a_prompt_handler_advertises_the_defaults() -> None:
    async with connected_client(make_agent(silent)) as client:
        pass
    assert client.initialized["agentCapabilities"] == {
        "loadSession": False,
        "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
        "mcpCapabilities": {"http": False, "sse": False},
        "sessionCapabilities": {"close": {}},
        "auth": {},
    }
    assert client.initialized["authMethods"] == []


def full_agent() -> Agent:
    accepts = AgentFeatures(
        image=True,
        audio=True,
        embedded_context=True,
        mcp_http=True,
        mcp_sse=True,
        mcp_acp=True,
        additional_directories=True,
        system_prompt="override",
        meta={"accord.dev/shout": {}},
    )
    agent = make_agent(silent, accepts=accepts)

    @agent.load_session
    @agent.resume_session
    async def opened(session: AgentSession) -> None:
        """Accepts any session."""

    @agent.fork_session
    async def forked(session: AgentSession, source: str) -> None:
        """Forks any session."""

    @agent.list_sessions
    async def listed(request: ListSessionsRequest, call: ClientRequest) -> list[SessionInfo]:
        return []

    @agent.delete_session
    async def deleted(session_id: str, call: ClientRequest) -> None:
        """Deletes nothing."""

    @agent.logout
    async def logout(call: ClientRequest) -> None:
        """Does nothing."""

    async def nothing(params: Any, call: ClientRequest) -> None:
        """Returns no result."""

    for method in ("session/archive", "session/unarchive", "providers/set", "providers/disable"):
        agent.on(method)(nothing)
    agent.on("session/status")(lambda params, call: SessionStatusResponse("saved"))
    agent.on("session/set_title")(lambda params, call: SetSessionTitleResponse(params.title))
    agent.on("auth/status")(lambda params, call: AuthStatusResponse("not_required"))
    agent.on("providers/list")(lambda params, call: ListProvidersResponse([]))
    return agent


@pytest.mark.rule("initialize.advertised-methods", "archive.needs-list")
async def test_every_advertised_method_is_served() -> None:
    here = {"cwd": "/home/me/app", "mcpServers": []}
    async with connected_client(full_agent()) as client:
        capabilities = client.initialized["agentCapabilities"]
        await client.call("session/load", {"sessionId": "old", **here})
        await client.call("session/resume", {"sessionId": "older", **here})
        fork = await client.call("session/fork", {"sessionId": "old", **here})
        await client.call("session/close", {"sessionId": fork["sessionId"]})
        await client.call("session/list", {"archived": "only"})
        for method in ("session/archive", "session/unarchive", "session/delete", "session/status"):
            await client.call(method, {"sessionId": "old"})
        await client.call("session/set_title", {"sessionId": "old", "title": "Old"})
        await client.call("auth/status")
        await client.call("logout")
        await client.call("providers/list")
        await client.call("providers/set", {"providerId": "p", "apiType": "openai", "baseUrl": "https://p"})
        await client.call("providers/disable", {"providerId": "p"})
    marks = (
        "list",
        "delete",
        "additionalDirectories",
        "resume",
        "close",
        "fork",
        "archive",
        "status",
        "title",
    )
    assert capabilities == {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": True, "acp": True},
        "sessionCapabilities": {**{mark: {} for mark in marks}, "systemPrompt": {"mode": {"override": {}}}},
        "auth": {"logout": {}, "status": {}},
        "providers": {},
        "_meta": {"accord.dev/shout": {}},
    }


UNADVERTISED = [
    "session/load",
    "session/resume",
    "session/fork",
    "session/list",
    "session/delete",
    "session/archive",
    "session/unarchive",
    "session/status",
    "session/set_title",
    "authenticate",
    "logout",
    "auth/status",
    "providers/list",
    "providers/set",
    "providers/disable",
    "proxy/initialize",
    "proxy/successor",
    "mcp/connect",
    "nes/start",
]


@pytest.mark.rule(
    "framing.agent-unknown-method",
    "framing.agent-unknown-extension",
    "initialize.unadvertised-methods",
    "proxy.refused-by-agents",
)
@pytest.mark.parametrize("method", [*UNADVERTISED, "nope/nope", "_test/x", "session/update"])
async def test_a_method_that_is_not_served_is_not_found(method: str) -> None:
    async with connected_client(make_agent(silent)) as client:
        error = await client.error(method, {"sessionId": "s", "cwd": "/a", "mcpServers": []})
        await client.new_session()
    assert error["code"] == -32601


@pytest.mark.rule("initialize.refuses-earlier-requests", "accord.request-before-initialize")
@pytest.mark.dialect(72)
@pytest.mark.parametrize(
    "method", ["session/new", "session/list", "session/prompt", "authenticate", "_test/x"]
)
async def test_a_request_before_initialize_is_refused(method: str) -> None:
    async with connected_client(full_agent(), initialize=False) as client:
        error = await client.error(method, {"cwd": "/a", "mcpServers": []})
        await client.call("initialize", {"protocolVersion": 1})
        await client.new_session()
    assert error["code"] == -32600


async def test_a_second_initialize_is_refused_and_changes_nothing() -> None:
    async def reads(turn: Turn) -> None:
        await turn.say(str(turn.client.can_read_files))

    async with connected_client(make_agent(reads)) as client:
        error = await client.error("initialize", {"protocolVersion": 1, "clientCapabilities": EVERYTHING})
        updates, _ = await client.turn(await client.new_session())
    assert error["code"] == -32600
    assert updates[0]["content"]["text"] == "False"


async def report_capabilities(turn: Turn) -> None:
    client = turn.client
    able = [
        client.can_read_files,
        client.can_write_files,
        client.can_run_terminals,
        client.can_show_forms,
        client.can_open_urls,
        client.can_sign_in_by_terminal,
        client.takes_boolean_options,
        client.shows_notices,
        client.shows_compaction,
        client.shows_several_plans,
        client.shows_subagents,
    ]
    await turn.say(f"{sum(able)} of {len(able)}")


@pytest.mark.rule("initialize.missing-client-capability", "initialize.agent-malformed-capability")
@pytest.mark.parametrize(
    ("capabilities", "text"),
    [
        (EVERYTHING, "11 of 11"),
        ({}, "0 of 11"),
        (False, "0 of 11"),
        ({"fs": {"readTextFile": "yes", "writeTextFile": 1}, "terminal": "true", "plan": None}, "0 of 11"),
        ({"fs": None, "session": {"notices": None, "compaction": False}, "elicitation": {}}, "0 of 11"),
        ({"fs": {"readFile": True}, "terminal": True, "elicitation": {"form": {}, "url": None}}, "2 of 11"),
    ],
)
async def test_only_valid_client_capabilities_count(capabilities: Any, text: str) -> None:
    async with connected_client(make_agent(report_capabilities), capabilities=capabilities) as client:
        updates, _ = await client.turn(await client.new_session())
    assert updates[0]["content"]["text"] == text


@pytest.mark.dialect(37)
async def test_capabilities_under_another_name_count_unless_the_agent_is_strict() -> None:
    for options, text in ((None, "1 of 11"), (STRICT, "0 of 11")):
        async with connected_client(
            make_agent(report_capabilities), initialize=False, options=options
        ) as client:
            await client.call("initialize", {"protocolVersion": 1, "capabilities": {"terminal": True}})
            updates, _ = await client.turn(await client.new_session())
        assert updates[0]["content"]["text"] == text


async def test_a_version_2_client_gets_version_1_and_has_no_capabilities() -> None:
    async with connected_client(make_agent(report_capabilities), initialize=False) as client:
        params = {
            "protocolVersion": 2,
            "info": {"name": "next", "version": "1"},
            "capabilities": {"terminal": True},
        }
        assert (await client.call("initialize", params))["protocolVersion"] == 1
        updates, _ = await client.turn(await client.new_session())
    assert updates[0]["content"]["text"] == "0 of 11"


async def test_requests_sent_right_after_initialize_are_served() -> None:
    async with connected_client(make_agent(silent), initialize=False) as client:
        client.raw.ask("initialize", {"protocolVersion": 1}, id=0)
        client.raw.ask("session/new", {"cwd": "/a", "mcpServers": []}, id=1)
        answers = [await client.raw.answer_to(0), await client.raw.answer_to(1)]
    assert all("result" in answer for answer in answers)


async def test_a_custom_initialize_handler_can_extend_the_response() -> None:
    agent = make_agent(silent)

    @agent.on("initialize")
    async def initialize(request: InitializeRequest, call: ClientRequest) -> InitializeResponse:
        answer = call.connection.describe()
        answer.meta = {"accord.dev/hello": request.client_info.name if request.client_info else "unknown"}
        return answer

    async with connected_client(agent, initialize=False) as client:
        info = {"name": "demo", "version": "0.1"}
        result = await client.call("initialize", {"protocolVersion": 1, "clientInfo": info})
        await client.new_session()
    assert result["_meta"] == {"accord.dev/hello": "demo"}


async def test_an_agent_with_missing_or_duplicate_handlers_does_not_start() -> None:
    async def nothing(params: Any, call: ClientRequest) -> None: ...

    def listed(params: ListSessionsRequest, call: ClientRequest) -> ListSessionsResponse:
        return ListSessionsResponse([])

    no_prompt = Agent("demo")
    no_unarchive = make_agent(silent)
    no_unarchive.on("session/archive")(nothing)
    no_list = make_agent(silent)
    no_list.on("session/archive")(nothing)
    no_list.on("session/unarchive")(nothing)
    duplicate_list = make_agent(silent)
    duplicate_list.on("session/list")(listed)
    for agent, missing in (
        (no_prompt, "@agent.prompt"),
        (no_unarchive, "session/unarchive"),
        (no_list, "session/list"),
    ):
        with pytest.raises(UsageError, match=missing):
            agent.serve()
    with pytest.raises(UsageError, match="already"):
        duplicate_list.list_sessions(lambda request, call: [])
    with pytest.raises(UsageError, match="extensions start with `_`"):
        make_agent(silent).on("session/nope")(nothing)
