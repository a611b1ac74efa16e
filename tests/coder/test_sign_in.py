"""Sign-in and sign-out over ACP: offered methods, session start, and that no key crosses the wire."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.agent.agent_client import STRICT, Client, connected_client, make_agent, silent

from accord.agent import Agent, AgentOptions, AgentSession, ClientRequest
from accord.coder.models import ModelRegistry
from accord.coder.models.credentials import credentials_file, save_key
from accord.coder.resources import (
    AGENT_AUTH_METHOD,
    REFUSED_MEMBERS,
    TERMINAL_AUTH_METHOD,
    SignIn,
    auth_methods,
)
from accord.coder.user_config import ModelsConfig

HERE: dict[str, Any] = {"cwd": "/", "mcpServers": []}
KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCORD_HOME", str(tmp_path))


def signing_agent(flag: str | None = None, **environment: str) -> Agent:
    """Return an agent that starts sessions as the coding agent does."""
    agent = make_agent(silent, auth_methods=auth_methods())
    models = ModelRegistry(ModelsConfig(), environment=environment)
    sign_in = SignIn(lambda: models, flag)
    agent.authenticate(sign_in.authenticate)
    agent.logout(sign_in.logout)

    @agent.new_session
    async def begin(session: AgentSession) -> None:
        sign_in.require(models.choose(flag))

    @agent.on("_agentao.cn/set_model")
    async def set_model(params: Any, call: ClientRequest) -> dict[str, str]:
        return {"model": params["model"]}

    return agent


async def refused(client: Client, method: str = "session/new", params: dict[str, Any] = HERE) -> str:
    error = await client.error(method, params)
    assert error["code"] == -32000
    return error["message"]


async def test_login_is_always_listed_and_terminal_login_by_capability() -> None:
    async with connected_client(signing_agent()) as client:
        assert [method["id"] for method in client.initialized["authMethods"]] == [AGENT_AUTH_METHOD]
        assert client.initialized["agentCapabilities"]["auth"]["logout"] == {}
    async with connected_client(signing_agent(), capabilities={"auth": {"terminal": True}}) as client:
        terminal = client.initialized["authMethods"][1]
    assert (terminal["id"], terminal["type"], terminal["args"]) == (
        TERMINAL_AUTH_METHOD,
        "terminal",
        ["--login"],
    )


async def test_registry_terminal_auth_flag_is_understood_unless_strict() -> None:
    sign = {"terminal": True, "_meta": {"terminal_output": True, "terminal-auth": True}}
    async with connected_client(signing_agent(), capabilities=sign) as client:
        ids = [method["id"] for method in client.initialized["authMethods"]]
    assert ids == [AGENT_AUTH_METHOD, TERMINAL_AUTH_METHOD]
    async with connected_client(signing_agent(), capabilities=sign, options=STRICT) as client:
        assert len(client.initialized["authMethods"]) == 1
    async with connected_client(signing_agent(), capabilities={"_meta": {"terminal-auth": "yes"}}) as client:
        assert len(client.initialized["authMethods"]) == 1


@pytest.mark.rule("auth.authenticate", "auth.required-error")
async def test_missing_key_is_required_and_found_once_saved() -> None:
    async with connected_client(signing_agent("openai:gpt-5")) as client:
        line = "openai: no key found; set OPENAI_API_KEY or run `accord agent --login openai`"
        assert await refused(client) == line
        assert await refused(client, "authenticate", {"methodId": AGENT_AUTH_METHOD}) == line
        save_key("openai", KEY)
        assert await client.call("authenticate", {"methodId": AGENT_AUTH_METHOD}) == {}
        await client.new_session()
    assert KEY not in str(client.raw.received)


async def test_saved_key_needs_no_authenticate_call() -> None:
    async with connected_client(signing_agent("openai:gpt-5")) as client:
        await refused(client)
        save_key("openai", KEY)
        await client.new_session()


async def test_session_starts_without_a_chosen_model_and_authenticate_names_the_command() -> None:
    async with connected_client(signing_agent()) as client:
        await client.new_session()
        assert "run `accord agent --login`" in await refused(
            client, "authenticate", {"methodId": AGENT_AUTH_METHOD}
        )
        await client.new_session()


async def test_key_without_a_model_is_reported_as_such() -> None:
    async with connected_client(
        signing_agent(OPENAI_API_KEY=KEY, OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    ) as client:
        assert "OPENAI_MODEL" in await refused(client, "authenticate", {"methodId": AGENT_AUTH_METHOD})


async def test_rehearsal_needs_no_key() -> None:
    async with connected_client(signing_agent("rehearsal")) as client:
        assert await client.call("authenticate", {"methodId": AGENT_AUTH_METHOD}) == {}
        await client.call("logout", {})
        await client.new_session()


@pytest.mark.rule("auth.logout-requires-login")
@pytest.mark.parametrize(
    ("flag", "environment"),
    [("openai:gpt-5", {}), ("openai:gpt-5", {"OPENAI_API_KEY": KEY}), (None, {"OPENAI_API_KEY": KEY})],
)
async def test_session_needs_sign_in_after_logout(flag: str | None, environment: dict[str, str]) -> None:
    save_key("openai", KEY)
    save_key("google", KEY)
    async with connected_client(signing_agent(flag, **environment)) as client:
        await client.new_session()
        assert await client.call("logout", {}) == {}
        assert not credentials_file().exists()
        assert "openai: " in await refused(client)
        if not environment:
            save_key("openai", KEY)
        await client.call("authenticate", {"methodId": AGENT_AUTH_METHOD})
        await client.new_session()


async def test_logout_removes_a_credentials_file_readable_by_others() -> None:
    os.chmod(save_key("openai", KEY), 0o644)
    async with connected_client(signing_agent("openai:gpt-5")) as client:
        assert "chmod 600" in await refused(client, "authenticate", {"methodId": AGENT_AUTH_METHOD})
        await client.call("logout", {})
        assert not credentials_file().exists()


OPTIONS = AgentOptions(refused_members=REFUSED_MEMBERS)


@pytest.mark.parametrize("member", ["apiKey", "baseUrl", "api_key", r"api\u004bey"])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/new", '"cwd": "/", "mcpServers": []'),
        ("authenticate", f'"methodId": "{AGENT_AUTH_METHOD}"'),
        ("session/set_config_option", '"sessionId": "s", "configId": "model", "value": "openai/gpt"'),
        ("config/set", '"sessionId": "s", "configId": "model", "value": "openai/gpt"'),
        ("_agentao.cn/set_model", '"sessionId": "s", "model": "gpt"'),
    ],
)
async def test_request_with_a_key_or_an_address_is_refused(method: str, params: str, member: str) -> None:
    async with connected_client(signing_agent(), options=OPTIONS) as client:
        members = f'{params}, "{member}": "{KEY}"'
        client.raw.send(f'{{"jsonrpc": "2.0", "id": 7, "method": "{method}", "params": {{{members}}}}}')
        error = (await client.raw.answer_to(7))["error"]
    assert error["code"] == -32602
    assert "are never sent over ACP" in error["message"]
    assert KEY not in str(client.raw.received)


async def test_meta_may_hold_keys_and_other_params_are_read_as_usual() -> None:
    async with connected_client(signing_agent(), options=OPTIONS) as client:
        await client.call("session/new", {**HERE, "_meta": {"apiKey": "x", "baseUrl": "y"}})
        assert await client.call("_agentao.cn/set_model", {"model": "m", "_meta": {"apiKey": 1}}) == {
            "model": "m"
        }
        assert (await client.error("session/new", {"cwd": 5}))["code"] == -32602
        client.raw.send('{"jsonrpc": "2.0", "id": 7, "method": "session/list", "params": []}')
        assert "error" in await client.raw.answer_to(7)
        client.raw.send('{"jsonrpc": "2.0", "id": 8, "method": "logout"}')
        assert (await client.raw.answer_to(8))["result"] == {}
