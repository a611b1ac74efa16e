"""Sign-in, sign-out and the authentication status."""

import pytest
from tests.agent.agent_client import EVERYTHING, connected_client, make_agent, silent

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


def agent_with_sign_in() -> Agent:
    agent = make_agent(silent, auth_methods=METHODS)
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


@pytest.mark.rule(
    "framing.agent-empty-results", "auth.authenticate", "auth.required-error", "auth.logout-requires-login"
)
async def test_a_session_can_be_opened_only_while_signed_in() -> None:
    here = {"cwd": "/a", "mcpServers": []}
    async with connected_client(agent_with_sign_in()) as client:
        assert (await client.error("session/new", here))["code"] == -32000
        assert await client.call("authenticate", {"methodId": "login"}) == {}
        await client.new_session()
        assert await client.call("logout", {}) == {}
        assert (await client.error("session/new", here))["code"] == -32000
        await client.call("authenticate", {"methodId": "login"})
        await client.new_session()


@pytest.mark.rule("auth.method-ids", "auth.terminal-method-needs-capability")
async def test_a_terminal_method_is_offered_only_to_a_client_that_can_run_it() -> None:
    async with connected_client(agent_with_sign_in()) as client:
        assert client.initialized["authMethods"] == [{"id": "login", "name": "Sign in"}]
    async with connected_client(agent_with_sign_in(), capabilities=EVERYTHING) as client:
        offered = client.initialized["authMethods"]
    terminal = {
        "type": "terminal",
        "id": "tty",
        "name": "Sign in by terminal",
        "args": ["--login"],
        "env": {"A": "1"},
    }
    assert offered == [{"id": "login", "name": "Sign in"}, terminal]


@pytest.mark.rule("auth.unknown-method", "accord.unknown-value")
@pytest.mark.parametrize("method", ["nope", "tty"])
async def test_authenticate_refuses_unknown_and_terminal_methods(method: str) -> None:
    async with connected_client(agent_with_sign_in(), capabilities=EVERYTHING) as client:
        error = await client.error("authenticate", {"methodId": method})
        after = await client.error("session/new", {"cwd": "/a", "mcpServers": []})
    assert error["code"] == -32602
    assert after["code"] == -32000


@pytest.mark.rule("framing.absent-params")
async def test_logout_and_auth_status_need_no_params() -> None:
    async with connected_client(agent_with_sign_in()) as client:
        for params in (
            '{"jsonrpc":"2.0","id":7,"method":"%s"}',
            '{"jsonrpc":"2.0","id":7,"method":"%s","params":null}',
        ):
            for method in ("logout", "auth/status"):
                client.raw.send(params % method)
                assert "result" in await client.raw.answer_to(7)


@pytest.mark.rule("auth-status.changes-nothing", "auth-status.members")
async def test_auth_status_needs_no_sign_in_and_changes_nothing() -> None:
    async with connected_client(agent_with_sign_in()) as client:
        assert await client.call("auth/status") == {"state": "unauthenticated"}
        assert (await client.error("session/new", {"cwd": "/a", "mcpServers": []}))["code"] == -32000
        await client.call("authenticate", {"methodId": "login"})
        assert await client.call("auth/status") == {"state": "authenticated"}


@pytest.mark.rule("auth-status.members", "auth-status.update-advertised", "auth-status.update-only-changes")
async def test_a_changed_auth_status_is_sent_once_and_only_after_initialize() -> None:
    async with connected_client(agent_with_sign_in(), initialize=False) as client:
        client.connection.report_auth_status("unauthenticated")
        await client.call("initialize", {"protocolVersion": 1})
        await client.call("auth/status")
        client.connection.report_auth_status("unauthenticated")
        account = AuthAccount("API key", active=True)
        client.connection.report_auth_status("authenticated", [account])
        client.connection.report_auth_status("authenticated", [account])
        update = await client.raw.next("auth/status_update")
        await client.call("auth/status")
    assert update["params"] == {"state": "authenticated", "accounts": [{"label": "API key", "active": True}]}
    assert client.methods() == ["auth/status_update"]


@pytest.mark.rule("auth-status.update-advertised")
async def test_an_agent_without_auth_status_cannot_report_it() -> None:
    async with connected_client(make_agent(silent)) as client:
        with pytest.raises(UsageError, match="auth/status"):
            client.connection.report_auth_status("authenticated")


async def test_authenticate_may_elicit_a_url_within_its_own_request() -> None:
    agent = make_agent(silent, auth_methods=[AuthMethodAgent("web", "Sign in on the web")])

    @agent.authenticate
    async def login(method_id: str, call: ClientRequest) -> None:
        answer = await call.elicit_url("Sign in", "https://agent.example/login")
        if not answer:
            raise AuthRequired("The user did not sign in")
        call.after_answer(lambda: call.client.notify("_vendor/signed_in"))

    async with connected_client(agent, capabilities=EVERYTHING) as client:
        client.raw.ask("authenticate", {"methodId": "web"}, id=29)
        asked = await client.asked("elicitation/create")
        client.raw.reply(asked, {"action": "accept"})
        answer = await client.raw.answer_to(29)
        await client.raw.next("_vendor/signed_in")
        client.raw.ask("authenticate", {"methodId": "web"}, id=30)
        client.raw.reply(await client.asked("elicitation/create"), {"action": "decline"})
        refused = await client.raw.answer_to(30)
    assert asked["params"]["requestId"] == 29
    assert "sessionId" not in asked["params"]
    assert answer["result"] == {}
    assert refused["error"]["code"] == -32000


def test_auth_methods_without_a_handler_or_with_equal_ids_are_refused() -> None:
    with pytest.raises(UsageError, match=r"needs @agent\.authenticate"):
        make_agent(silent, auth_methods=METHODS).serve()
    with pytest.raises(UsageError, match="share an id"):
        Agent("duplicates", auth_methods=[METHODS[0], METHODS[0]])
