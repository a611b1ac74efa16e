"""Signing in and out, and who is signed in."""

import pytest
from tests.agent.scene import EVERYTHING, agent_that, silent, talk

from accord.agent import Agent, AgentSession, ClientRequest
from accord.errors import AuthRequired, UsageError
from accord.schema import (
    AuthAccount,
    AuthMethodAgent,
    AuthMethodTerminal,
    AuthStatusRequest,
    AuthStatusResponse,
)

METHODS = [
    AuthMethodAgent("login", "Sign in"),
    AuthMethodTerminal("tty", "Sign in by terminal", args=["--login"], env={"A": "1"}),
]


def guarded_agent() -> Agent:
    agent = agent_that(silent, auth_methods=METHODS)
    users: list[str] = []

    @agent.authenticate
    async def login(method_id: str, call: ClientRequest) -> None:
        users.append(method_id)

    @agent.logout
    async def logout(call: ClientRequest) -> None:
        users.clear()

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        if not users:
            raise AuthRequired

    @agent.on("auth/status")
    async def status(request: AuthStatusRequest, call: ClientRequest) -> AuthStatusResponse:
        return AuthStatusResponse("authenticated" if users else "unauthenticated")

    return agent


@pytest.mark.rule(34, 82, 83, 87)
async def test_a_session_needs_a_user_who_signs_in_and_out() -> None:
    here = {"cwd": "/a", "mcpServers": []}
    async with talk(guarded_agent()) as client:
        assert (await client.error("session/new", here))["code"] == -32000
        assert await client.call("authenticate", {"methodId": "login"}) == {}
        await client.new_session()
        assert await client.call("logout", {}) == {}
        assert (await client.error("session/new", here))["code"] == -32000
        await client.call("authenticate", {"methodId": "login"})
        await client.new_session()


@pytest.mark.rule(76, 77)
async def test_a_terminal_method_is_offered_only_to_a_client_that_can_run_it() -> None:
    async with talk(guarded_agent()) as client:
        assert client.initialized["authMethods"] == [{"id": "login", "name": "Sign in"}]
    async with talk(guarded_agent(), capabilities=EVERYTHING) as client:
        offered = client.initialized["authMethods"]
    terminal = {
        "type": "terminal",
        "id": "tty",
        "name": "Sign in by terminal",
        "args": ["--login"],
        "env": {"A": "1"},
    }
    assert offered == [{"id": "login", "name": "Sign in"}, terminal]


@pytest.mark.rule(85, 387)
@pytest.mark.parametrize("method", ["nope", "tty"])
async def test_authenticate_takes_only_methods_of_the_agents_own(method: str) -> None:
    async with talk(guarded_agent(), capabilities=EVERYTHING) as client:
        error = await client.error("authenticate", {"methodId": method})
        still = await client.error("session/new", {"cwd": "/a", "mcpServers": []})
    assert error["code"] == -32602
    assert still["code"] == -32000


@pytest.mark.rule(26)
async def test_logout_and_auth_status_need_no_params() -> None:
    async with talk(guarded_agent()) as client:
        for params in (
            '{"jsonrpc":"2.0","id":7,"method":"%s"}',
            '{"jsonrpc":"2.0","id":7,"method":"%s","params":null}',
        ):
            for method in ("logout", "auth/status"):
                client.raw.send(params % method)
                assert "result" in await client.raw.answer_to(7)


@pytest.mark.rule(358, 359)
async def test_auth_status_is_answered_to_anybody_and_changes_nothing() -> None:
    async with talk(guarded_agent()) as client:
        assert await client.call("auth/status") == {"state": "unauthenticated"}
        assert (await client.error("session/new", {"cwd": "/a", "mcpServers": []}))["code"] == -32000
        await client.call("authenticate", {"methodId": "login"})
        assert await client.call("auth/status") == {"state": "authenticated"}


@pytest.mark.rule(359, 360, 361)
async def test_a_change_of_the_auth_status_is_told_once_and_after_initialize() -> None:
    async with talk(guarded_agent(), initialize=False) as client:
        client.connection.report_auth_status("unauthenticated")
        await client.call("initialize", {"protocolVersion": 1})
        await client.call("auth/status")
        client.connection.report_auth_status("unauthenticated")
        account = AuthAccount("API key", active=True)
        client.connection.report_auth_status("authenticated", [account])
        client.connection.report_auth_status("authenticated", [account])
        told = await client.raw.next("auth/status_update")
        await client.call("auth/status")
    assert told["params"] == {"state": "authenticated", "accounts": [{"label": "API key", "active": True}]}
    assert client.methods() == ["auth/status_update"]


@pytest.mark.rule(360)
async def test_an_agent_without_auth_status_cannot_report_it() -> None:
    async with talk(agent_that(silent)) as client:
        with pytest.raises(UsageError, match="auth/status"):
            client.connection.report_auth_status("authenticated")


async def test_a_login_may_ask_the_user_within_its_own_request() -> None:
    agent = agent_that(silent, auth_methods=[AuthMethodAgent("web", "Sign in on the web")])

    @agent.authenticate
    async def login(method_id: str, call: ClientRequest) -> None:
        answer = await call.elicit_url("Sign in", "https://agent.example/login")
        if not answer:
            raise AuthRequired("The user did not sign in")
        call.after_answer(lambda: call.client.notify("_scene/signed_in"))

    async with talk(agent, capabilities=EVERYTHING) as client:
        client.raw.ask("authenticate", {"methodId": "web"}, id=29)
        asked = await client.asked("elicitation/create")
        client.raw.reply(asked, {"action": "accept"})
        answer = await client.raw.answer_to(29)
        await client.raw.next("_scene/signed_in")
        client.raw.ask("authenticate", {"methodId": "web"}, id=30)
        client.raw.reply(await client.asked("elicitation/create"), {"action": "decline"})
        refused = await client.raw.answer_to(30)
    assert asked["params"]["requestId"] == 29
    assert "sessionId" not in asked["params"]
    assert answer["result"] == {}
    assert refused["error"]["code"] == -32000


def test_auth_methods_and_their_handler_belong_together() -> None:
    with pytest.raises(UsageError, match="belong together"):
        agent_that(silent, auth_methods=METHODS).serve()
    with pytest.raises(UsageError, match="share an id"):
        Agent("twins", auth_methods=[METHODS[0], METHODS[0]])
