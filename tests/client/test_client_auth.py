"""Sign-in, sign-out and the authentication status."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.client.raw_agent import both, connected

from accord.client import AuthStatusChanged, ClientHandlers, connect, run_in_terminal
from accord.errors import AuthRequired, NotOffered, UsageError
from accord.testing.fake_clock import settle

SCRIPTED = str(Path(__file__).parent / "agents" / "scripted.py")

AGENT_LOGIN = {"id": "login", "name": "Log in"}
TERMINAL_LOGIN = {"id": "tty", "name": "Terminal", "type": "terminal", "args": ["--login"], "env": {"T": "1"}}


@pytest.mark.rule("auth.method-without-type", "auth.offers-login")
async def test_a_session_can_be_opened_after_sign_in():
    async with connected(authMethods=[AGENT_LOGIN]) as (agent, peer):
        opening = asyncio.create_task(agent.new_session("/project"))
        peer.refuse(await peer.next("session/new"), -32000, "Authentication required")
        with pytest.raises(AuthRequired) as caught:
            await opening
        (method,) = caught.value.methods
        assert method.name == "Log in"
        expected = "Authentication required [-32000]; sign in with 'login' ('Log in')"
        assert (caught.value.message, str(caught.value)) == ("Authentication required", expected)

        signing_in = asyncio.create_task(agent.sign_in(method))
        asked = await peer.next("authenticate")
        assert asked["params"] == {"methodId": "login"}
        peer.reply(asked, {})
        await signing_in
        session, _ = await both(agent.new_session("/project"), peer.open())
        assert session.id == "s1"


async def test_the_text_of_the_error_names_the_methods_of_a_hostile_agent_on_one_line():
    methods = [{"id": f"{number}\n", "name": "\x1b[2J\u202e" + "x" * 1000} for number in range(100)]
    async with connected(authMethods=methods) as (agent, peer):
        opening = asyncio.create_task(agent.new_session("/project"))
        peer.refuse(await peer.next("session/new"), -32000, "Authentication required")
        with pytest.raises(AuthRequired) as caught:
            await opening
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 2000
    assert len(caught.value.methods) == 100


@pytest.mark.rule("auth.terminal-method-not-authenticated")
async def test_a_terminal_method_is_never_named_in_authenticate():
    async with connected(authMethods=[TERMINAL_LOGIN]) as (agent, peer):
        with pytest.raises(UsageError, match="terminal method"):
            await agent.authenticate("tty")
        with pytest.raises(UsageError, match="a terminal sign-in needs"):
            await agent.sign_in("tty")
        with pytest.raises(UsageError, match="no sign-in method 'nope'"):
            await agent.authenticate("nope")
        await settle()
        assert len(peer.received) == 1


@pytest.mark.rule("auth.invalid-terminal-method")
async def test_an_invalid_terminal_method_is_dropped_and_the_others_stay():
    broken = {"id": "bad", "name": "Bad", "type": "terminal", "args": "--login"}
    worse = {"id": "worse", "name": "Worse", "type": "terminal", "env": [{"name": "A", "value": "b"}]}
    async with connected(authMethods=[broken, AGENT_LOGIN, worse, {"id": 5}]) as (agent, _):
        assert [method.id for method in agent.auth_methods] == ["login"]
        with pytest.raises(UsageError):
            await agent.authenticate("bad")


@pytest.mark.rule("auth.logout-needs-capability")
@pytest.mark.parametrize("auth", [{}, {"logout": None}, None])
async def test_logout_is_refused_unless_the_agent_offers_it(auth):
    async with connected({} if auth is None else {"auth": auth}) as (agent, peer):
        with pytest.raises(NotOffered):
            await agent.logout()
        assert len(peer.received) == 1


@pytest.mark.rule("auth.logout-needs-capability")
async def test_logout_is_sent_to_the_agent():
    async with connected() as (agent, peer):
        logging_out = asyncio.create_task(agent.logout())
        asked = await peer.next("logout")
        peer.reply(asked, None)
        await logging_out


@pytest.mark.rule("auth.terminal-login")
async def test_terminal_sign_in_runs_the_same_program_and_reconnects(tmp_path):
    log = tmp_path / "starts"
    ran: list[object] = []

    async def login(launch):
        ran.append(launch)
        return await run_in_terminal(launch)

    env = {"SCRIPTED_LOG": str(log), "LOGIN_TOKEN": "before"}
    handlers = ClientHandlers(login=login)
    async with connect(sys.executable, SCRIPTED, "--base", env=env, handlers=handlers) as agent:
        await agent.sign_in("tty")
        session = await agent.new_session(tmp_path)
        assert (await session.ask("hi")).text == "heard hi; done"
    starts = [json.loads(line) for line in log.read_text().splitlines()]
    assert starts == [
        {"argv": ["--base"], "env": "before"},
        {"argv": ["--base", "--login"], "env": "x"},
        {"argv": ["--base"], "env": "before"},
    ]
    assert len(ran) == 1


@pytest.mark.rule("auth.terminal-login")
async def test_a_failed_terminal_sign_in_keeps_the_connection(tmp_path):
    log = tmp_path / "starts"
    env = {"SCRIPTED_LOG": str(log), "LOGIN_EXIT": "1"}
    async with connect(
        sys.executable, SCRIPTED, env=env, handlers=ClientHandlers(login=run_in_terminal)
    ) as agent:
        with pytest.raises(UsageError, match="exited with 1"):
            await agent.sign_in("tty")
        await agent.new_session(tmp_path)
    assert len(log.read_text().splitlines()) == 2


@pytest.mark.rule("auth.terminal-capability")
async def test_terminal_sign_in_is_advertised_only_for_programs_with_a_login_handler():
    handlers = ClientHandlers(login=run_in_terminal)
    from accord.client import ClientFeatures
    from accord.client.handlers import client_capabilities

    assert client_capabilities(handlers, ClientFeatures(), can_rerun=True).auth.terminal is True  # type: ignore[union-attr]
    assert not client_capabilities(handlers, ClientFeatures(), can_rerun=False).auth
    assert not client_capabilities(ClientHandlers(), ClientFeatures(), can_rerun=True).auth


@pytest.mark.rule("auth-status.needs-capability", "auth-status.unknown-state", "auth-status.account-private")
async def test_auth_status_can_be_requested_and_changes_are_events():
    async with connected() as (agent, peer):
        events = agent.events()
        waiting = asyncio.create_task(anext(events))
        asking = asyncio.create_task(agent.auth_status())
        asked = await peer.next("auth/status")
        accounts = [{"label": "me"}, {"label": "me", "email": "a@b.c"}, "bad"]
        peer.reply(asked, {"state": "_x", "accounts": accounts})
        status = await asking
        assert status.state == "unknown"
        assert [account.label for account in status.accounts] == ["me", "me"]
        assert "a@b.c" not in repr(status)
        peer.notify("auth/status_update", {"state": "unauthenticated"})
        changed = await waiting
        assert isinstance(changed, AuthStatusChanged)
        assert changed.status.state == "unauthenticated"
        await events.aclose()
    async with connected({}) as (agent, peer):
        with pytest.raises(NotOffered):
            await agent.auth_status()
