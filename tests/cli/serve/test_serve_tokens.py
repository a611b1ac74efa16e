"""`accord serve token`: what is made, shown and revoked, and what a running gateway makes of it."""

import asyncio
from pathlib import Path

import pytest
from tests.cli.serve.gateways import accord, served, tokens_of
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from accord.gateway.access.tokens import TOKEN

INITIALIZE = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def new(home: Path, *words: str) -> str:
    code, out, err = accord(home, "serve", "token", "new", "--plain", *words)
    assert (code, err) == (0, "")
    assert TOKEN.fullmatch(out.strip())
    return out.strip()


def test_a_token_has_the_scope_it_was_made_with(home: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    new(
        home,
        "--name",
        "ci",
        "--agent",
        "Claude",
        "--agent",
        "accord",
        "--folder",
        str(tmp_path / "link"),
        "--read-only",
    )
    (token,) = tokens_of(home)
    assert token["agents"] == ["claude", "accord"]
    assert token["folders"] == [str(tmp_path / "real")]
    assert token["readOnly"] is True
    assert token["lastUsed"] is token["expires"] is None
    _, out, _ = accord(home, "serve", "token", "list")
    assert f"looks at agents claude, accord in {tmp_path / 'real'}" in out


def test_an_agent_that_is_not_here_is_told_of(home: Path) -> None:
    code, _, err = accord(home, "serve", "token", "new", "--plain", "--agent", "mine")
    assert (code, err) == (0, "accord serve: note: no agent is called 'mine' in this folder\n")
    assert tokens_of(home)[0]["agents"] == ["mine"]


def test_a_token_is_revoked_by_id_by_name_or_as_itself(home: Path) -> None:
    for name in ("one", "two", "three"):
        new(home, "--name", name)
    one, *_ = tokens_of(home)
    assert accord(home, "serve", "token", "revoke", one["id"], "two")[0] == 0
    third = new(home, "--name", "four")
    code, out, _ = accord(home, "serve", "token", "revoke", third)
    assert code == 0
    assert third not in out
    assert [token["name"] for token in tokens_of(home)] == ["three"]


async def test_revoking_closes_connections_that_are_open_and_no_others(home: Path) -> None:
    with served(home) as gateway:
        phone = await asyncio.to_thread(new, home, "--name", "phone")
        async with (
            connect(
                gateway.websocket, proxy=None, additional_headers={"Authorization": f"Bearer {phone}"}
            ) as cut,
            connect(
                gateway.websocket, proxy=None, additional_headers={"Authorization": f"Bearer {gateway.token}"}
            ) as kept,
        ):
            for socket in (cut, kept):
                await socket.send(INITIALIZE)
                assert '"result"' in str(await socket.recv())
            await asyncio.to_thread(accord, home, "serve", "token", "revoke", "phone")
            with pytest.raises(ConnectionClosed) as closed:
                await cut.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "the token was revoked")
            await kept.send('{"jsonrpc":"2.0","id":1,"method":"_accord/agents","params":{}}')
            assert '"id":1' in str(await kept.recv())
        with pytest.raises(InvalidStatus) as refused:
            await connect(
                gateway.websocket, proxy=None, additional_headers={"Authorization": f"Bearer {phone}"}
            )
        assert refused.value.response.status_code == 401


async def test_a_page_elsewhere_opens_no_websocket(home: Path) -> None:
    with served(home) as gateway:
        for headers in (
            {"Origin": "https://evil.example", "Authorization": f"Bearer {gateway.token}"},
            {"Host": "evil.example", "Authorization": f"Bearer {gateway.token}"},
            {},
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(gateway.websocket, proxy=None, additional_headers=headers)
            assert refused.value.response.status_code in (400, 401, 403, 421)
