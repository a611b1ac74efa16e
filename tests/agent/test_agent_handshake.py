"""`initialize`: the version, who is who, what each side can do, and that it comes first."""

from typing import Any

import pytest
from tests.agent.scene import EVERYTHING, STRICT, agent_that, silent, talk

from accord.agent import Accepts, Agent, AgentSession, ClientRequest, Turn
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


@pytest.mark.rule(62, 63)
@pytest.mark.parametrize("version", [0, 1, 2, 7, 65535])
async def test_whatever_version_is_asked_for_the_answer_is_one(version: int) -> None:
    async with talk(agent_that(silent), initialize=False) as client:
        result = await client.call("initialize", {"protocolVersion": version})
    assert result["protocolVersion"] == 1


@pytest.mark.rule(72)
@pytest.mark.parametrize("version", ["1", True, 1.5, 70000, -1, None])
async def test_a_version_that_is_no_small_integer_is_refused_and_may_be_corrected(version: Any) -> None:
    async with talk(agent_that(silent), initialize=False) as client:
        error = await client.error("initialize", {"protocolVersion": version})
        result = await client.call("initialize", {"protocolVersion": 1})
    assert error["code"] == -32602
    assert result["protocolVersion"] == 1


@pytest.mark.rule(67, 74)
async def test_the_agent_names_itself_to_a_client_that_says_nothing_but_its_version() -> None:
    agent = Agent("scene", version="2.0", title="The Scene")
    agent.prompt(silent)
    async with talk(agent) as client:
        session = await client.new_session()
        _, result = await client.turn(session)
    assert client.initialized["agentInfo"] == {"name": "scene", "version": "2.0", "title": "The Scene"}
    assert result == {"stopReason": "end_turn"}


async def test_what_a_bare_agent_can_do_is_what_every_agent_does() -> None:
    async with talk(agent_that(silent)) as client:
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
    accepts = Accepts(
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
    agent = agent_that(silent, accepts=accepts)

    @agent.load_session
    @agent.resume_session
    async def opened(session: AgentSession) -> None:
        """Any session is known."""

    @agent.fork_session
    async def forked(session: AgentSession, source: str) -> None:
        """Any session can be forked."""

    @agent.list_sessions
    async def listed(request: ListSessionsRequest, call: ClientRequest) -> list[SessionInfo]:
        return []

    @agent.delete_session
    async def deleted(session_id: str, call: ClientRequest) -> None:
        """Nothing is stored."""

    @agent.logout
    async def logout(call: ClientRequest) -> None:
        """Nobody is signed in."""

    async def nothing(params: Any, call: ClientRequest) -> None:
        """A method without a result."""

    for method in ("session/archive", "session/unarchive", "providers/set", "providers/disable"):
        agent.on(method)(nothing)
    agent.on("session/status")(lambda params, call: SessionStatusResponse("saved"))
    agent.on("session/set_title")(lambda params, call: SetSessionTitleResponse(params.title))
    agent.on("auth/status")(lambda params, call: AuthStatusResponse("not_required"))
    agent.on("providers/list")(lambda params, call: ListProvidersResponse([]))
    return agent


@pytest.mark.rule(65, 331)
async def test_every_advertised_method_is_served() -> None:
    here = {"cwd": "/home/me/app", "mcpServers": []}
    async with talk(full_agent()) as client:
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


@pytest.mark.rule(15, 17, 66, 373)
@pytest.mark.parametrize("method", [*UNADVERTISED, "nope/nope", "_test/x", "session/update"])
async def test_a_method_that_is_not_served_is_not_found(method: str) -> None:
    async with talk(agent_that(silent)) as client:
        error = await client.error(method, {"sessionId": "s", "cwd": "/a", "mcpServers": []})
        await client.new_session()
    assert error["code"] == -32601


@pytest.mark.rule(73, 386)
@pytest.mark.dialect(72)
@pytest.mark.parametrize(
    "method", ["session/new", "session/list", "session/prompt", "authenticate", "_test/x"]
)
async def test_anything_before_initialize_is_out_of_order(method: str) -> None:
    async with talk(full_agent(), initialize=False) as client:
        error = await client.error(method, {"cwd": "/a", "mcpServers": []})
        await client.call("initialize", {"protocolVersion": 1})
        await client.new_session()
    assert error["code"] == -32600


async def test_a_second_initialize_is_refused_and_changes_nothing() -> None:
    async def reads(turn: Turn) -> None:
        await turn.say(str(turn.client.can_read_files))

    async with talk(agent_that(reads)) as client:
        error = await client.error("initialize", {"protocolVersion": 1, "clientCapabilities": EVERYTHING})
        updates, _ = await client.turn(await client.new_session())
    assert error["code"] == -32600
    assert updates[0]["content"]["text"] == "False"


async def can(turn: Turn) -> None:
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
        client.shows_plans,
        client.shows_subagents,
    ]
    await turn.say(f"{sum(able)} of {len(able)}")


@pytest.mark.rule(68, 70)
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
async def test_what_the_client_did_not_clearly_offer_it_does_not_have(capabilities: Any, text: str) -> None:
    async with talk(agent_that(can), capabilities=capabilities) as client:
        updates, _ = await client.turn(await client.new_session())
    assert updates[0]["content"]["text"] == text


@pytest.mark.dialect(37)
async def test_capabilities_under_their_other_name_count_unless_the_agent_is_strict() -> None:
    for options, text in ((None, "1 of 11"), (STRICT, "0 of 11")):
        async with talk(agent_that(can), initialize=False, options=options) as client:
            await client.call("initialize", {"protocolVersion": 1, "capabilities": {"terminal": True}})
            updates, _ = await client.turn(await client.new_session())
        assert updates[0]["content"]["text"] == text


async def test_a_client_of_the_next_version_is_answered_and_has_no_capabilities() -> None:
    async with talk(agent_that(can), initialize=False) as client:
        params = {
            "protocolVersion": 2,
            "info": {"name": "next", "version": "1"},
            "capabilities": {"terminal": True},
        }
        assert (await client.call("initialize", params))["protocolVersion"] == 1
        updates, _ = await client.turn(await client.new_session())
    assert updates[0]["content"]["text"] == "0 of 11"


async def test_requests_in_the_same_breath_as_initialize_are_served() -> None:
    async with talk(agent_that(silent), initialize=False) as client:
        client.raw.ask("initialize", {"protocolVersion": 1}, id=0)
        client.raw.ask("session/new", {"cwd": "/a", "mcpServers": []}, id=1)
        answers = [await client.raw.answer_to(0), await client.raw.answer_to(1)]
    assert all("result" in answer for answer in answers)


async def test_initialize_can_be_taken_over_and_added_to() -> None:
    agent = agent_that(silent)

    @agent.on("initialize")
    async def initialize(request: InitializeRequest, call: ClientRequest) -> InitializeResponse:
        answer = call.connection.describe()
        answer.meta = {"accord.dev/hello": request.client_info.name if request.client_info else "nobody"}
        return answer

    async with talk(agent, initialize=False) as client:
        info = {"name": "demo", "version": "0.1"}
        result = await client.call("initialize", {"protocolVersion": 1, "clientInfo": info})
        await client.new_session()
    assert result["_meta"] == {"accord.dev/hello": "demo"}


async def test_an_agent_that_cannot_keep_what_it_would_advertise_does_not_start() -> None:
    async def nothing(params: Any, call: ClientRequest) -> None: ...

    def listed(params: ListSessionsRequest, call: ClientRequest) -> ListSessionsResponse:
        return ListSessionsResponse([])

    mute = Agent("mute")
    unarchived = agent_that(silent)
    unarchived.on("session/archive")(nothing)
    unlisted = agent_that(silent)
    unlisted.on("session/archive")(nothing)
    unlisted.on("session/unarchive")(nothing)
    listed_later = agent_that(silent)
    listed_later.on("session/list")(listed)
    for agent, missing in (
        (mute, "@agent.prompt"),
        (unarchived, "session/unarchive"),
        (unlisted, "session/list"),
    ):
        with pytest.raises(UsageError, match=missing):
            agent.serve()
    with pytest.raises(UsageError, match="already"):
        listed_later.list_sessions(lambda request, call: [])
    with pytest.raises(UsageError, match="underscore"):
        agent_that(silent).on("session/nope")(nothing)
