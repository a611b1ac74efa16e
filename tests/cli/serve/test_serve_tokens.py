"""`accord serve token`: creating, listing and revoking tokens, and their effect on a running gateway."""

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serve.gateway_process import accord, running_gateway
from tests.patience import PATIENCE
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from accord.cli import main
from accord.gateway.access.access_tokens import TOKEN_PATTERN, TokenStore
from accord.gateway.running_gateways import announce

INITIALIZE = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


class TokenCommand:
    """Runs `accord serve token` in this process, with its own Accord home."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        code = main(["serve", "token", *words])
        out, err = self._capsys.readouterr()
        return code, out, err

    def new(self, *words: str) -> str:
        code, out, err = self.run("new", "--plain", *words)
        assert (code, err) == (0, "")
        assert TOKEN_PATTERN.fullmatch(out.strip())
        return out.strip()

    def listed(self) -> list[dict[str, Any]]:
        return json.loads(self.run("list", "--json")[1])


@pytest.fixture
def token_command(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> TokenCommand:
    home.mkdir()
    monkeypatch.setenv("ACCORD_HOME", str(home))
    monkeypatch.chdir(home)
    return TokenCommand(capsys)


def test_a_token_has_the_scope_it_was_created_with(token_command: TokenCommand, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    scope = ["--agent", "Claude", "--agent", "accord", "--folder", str(tmp_path / "link"), "--read-only"]
    token_command.new("--name", "ci", "--expires", "30d", *scope)
    (token,) = token_command.listed()
    assert token["agents"] == ["claude", "accord"]
    assert token["folders"] == [str(tmp_path / "real")]
    assert token["readOnly"] is True
    assert token["lastUsed"] is None
    made, ends = (datetime.fromisoformat(token[name]) for name in ("created", "expires"))
    assert round((ends - made) / timedelta(days=1)) == 30
    _, out, _ = token_command.run("list")
    assert f"may watch agents claude, accord in {tmp_path / 'real'}" in out


def test_a_token_for_an_unknown_agent_is_refused(token_command: TokenCommand) -> None:
    code, _, err = token_command.run("new", "--plain", "--agent", "mine")
    assert code == 2
    assert err.startswith("accord serve: unknown agent 'mine'; use one of accord, ")
    assert token_command.listed() == []


def test_a_new_token_knows_the_agents_and_folders_of_the_running_gateway(token_command: TokenCommand) -> None:
    with announce("http://127.0.0.1:1", ["mine"], ("/srv/site",)):
        _, out, _ = token_command.run("new", "--agent", "mine")
    assert (
        "may use agents mine in all folders.\nThe gateway at http://127.0.0.1:1 allows only /srv/site.\n"
        in out
    )


def test_without_a_terminal_a_new_token_has_a_link_and_no_qr_code(token_command: TokenCommand) -> None:
    code, out, err = token_command.run("new", "--url", "https://home.example/")
    assert (code, err) == (0, "")
    token = TOKEN_PATTERN.search(out)
    assert token
    assert f"https://home.example/#token={token[0]}" in out
    assert "▀" not in out
    _, out, _ = token_command.run("new")
    assert "No gateway is running" in out


def test_a_token_is_revoked_by_id_name_or_value(token_command: TokenCommand) -> None:
    for name in ("one", "two", "three"):
        token_command.new("--name", name)
    one, *_ = token_command.listed()
    assert token_command.run("revoke", one["id"], "two")[0] == 0
    fourth = token_command.new("--name", "four")
    code, out, _ = token_command.run("revoke", fourth)
    assert code == 0
    assert fourth not in out
    assert [token["name"] for token in token_command.listed()] == ["three"]
    token_command.new("--name", "three")
    code, _, err = token_command.run("revoke", "three")
    assert code == 2
    assert "token list" in err
    assert len(token_command.listed()) == 2


async def test_revoking_closes_only_the_connections_of_that_token(home: Path) -> None:
    with running_gateway(home) as gateway:
        _, phone = TokenStore(home / "data" / "gateway" / "tokens").new("phone")
        async with (
            connect(
                gateway.websocket, proxy=None, additional_headers={"Authorization": f"Bearer {phone}"}
            ) as revoked,
            connect(
                gateway.websocket, proxy=None, additional_headers={"Authorization": f"Bearer {gateway.token}"}
            ) as other,
        ):
            for socket in (revoked, other):
                await socket.send(INITIALIZE)
                assert '"result"' in str(await socket.recv())
            await asyncio.to_thread(accord, home, "serve", "token", "revoke", "phone")
            with pytest.raises(ConnectionClosed) as closed:
                await revoked.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "the token was revoked")
            await other.send('{"jsonrpc":"2.0","id":1,"method":"_accord/agents","params":{}}')
            assert '"id":1' in str(await other.recv())
        with pytest.raises(InvalidStatus) as refused:
            await connect(
                gateway.websocket, proxy=None, additional_headers={"Authorization": f"Bearer {phone}"}
            )
        assert refused.value.response.status_code == 401


async def test_revoking_cancels_the_turns_of_the_token(home: Path, tmp_path: Path) -> None:
    """Its client has left, and the turn runs until it is canceled."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps([[{"say": "working"}, {"wait_for_cancel": []}]]))
    agent = ("--", sys.executable, "-m", "accord.testing", str(script))
    with running_gateway(home, *agent) as gateway:
        _, phone = TokenStore(home / "data" / "gateway" / "tokens").new("phone")

        async def open_socket(token: str) -> ClientConnection:
            headers = {"Authorization": f"Bearer {token}"}
            socket = await connect(gateway.websocket, proxy=None, additional_headers=headers)
            await socket.send(INITIALIZE)
            await until(socket, lambda message: message.get("id") == 0)
            return socket

        async def until(socket: ClientConnection, matches: Callable[[Any], bool]) -> Any:
            async with asyncio.timeout(PATIENCE):
                while True:
                    message = json.loads(await socket.recv())
                    if matches(message):
                        return message

        def call(id: int, method: str, **params: Any) -> str:
            return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

        def is_state(state: str) -> Callable[[Any], bool]:
            return lambda message: (message.get("params") or {}).get("changed", {}).get("state") == state

        owner = await open_socket(gateway.token)
        await owner.send(call(1, "_accord/sessions", subscribe=True))
        user = await open_socket(phone)
        await user.send(call(1, "session/new", cwd=str(tmp_path), mcpServers=[]))
        opened = await until(user, lambda message: message.get("id") == 1)
        assert "result" in opened, opened
        session = opened["result"]["sessionId"]
        await user.send(call(2, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}]))
        await until(user, lambda message: "working" in json.dumps(message))
        await until(owner, is_state("running"))
        await user.close()
        await asyncio.to_thread(accord, home, "serve", "token", "revoke", "phone")
        changed = await until(owner, is_state("idle"))
        assert changed["params"]["changed"]["clients"] == 0
        await owner.close()


async def test_a_websocket_from_another_origin_is_refused(home: Path) -> None:
    with running_gateway(home) as gateway:
        for headers in (
            {"Origin": "https://evil.example", "Authorization": f"Bearer {gateway.token}"},
            {"Host": "evil.example", "Authorization": f"Bearer {gateway.token}"},
            {},
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(gateway.websocket, proxy=None, additional_headers=headers)
            assert refused.value.response.status_code in (400, 401, 403, 421)
