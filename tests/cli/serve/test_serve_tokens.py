"""`accord serve token`: what is made, shown and revoked, and what a running gateway makes of it."""

import asyncio
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serve.gateways import accord, served
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from accord.cli import main
from accord.gateway.access.tokens import TOKEN, Tokens

INITIALIZE = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


class Here:
    """`accord serve token` in this process, with a home of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def token(self, *words: str) -> tuple[int, str, str]:
        code = main(["serve", "token", *words])
        out, err = self._capsys.readouterr()
        return code, out, err

    def new(self, *words: str) -> str:
        code, out, err = self.token("new", "--plain", *words)
        assert (code, err) == (0, "")
        assert TOKEN.fullmatch(out.strip())
        return out.strip()

    def listed(self) -> list[dict[str, Any]]:
        return json.loads(self.token("list", "--json")[1])


@pytest.fixture
def here(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    home.mkdir()
    monkeypatch.setenv("ACCORD_HOME", str(home))
    monkeypatch.chdir(home)
    return Here(capsys)


def test_a_token_has_the_scope_it_was_made_with(here: Here, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    scope = ["--agent", "Claude", "--agent", "accord", "--folder", str(tmp_path / "link"), "--read-only"]
    here.new("--name", "ci", "--expires", "30d", *scope)
    (token,) = here.listed()
    assert token["agents"] == ["claude", "accord"]
    assert token["folders"] == [str(tmp_path / "real")]
    assert token["readOnly"] is True
    assert token["lastUsed"] is None
    made, ends = (datetime.fromisoformat(token[name]) for name in ("created", "expires"))
    assert round((ends - made) / timedelta(days=1)) == 30
    _, out, _ = here.token("list")
    assert f"looks at agents claude, accord in {tmp_path / 'real'}" in out


def test_an_agent_that_is_not_here_is_told_of(here: Here) -> None:
    code, _, err = here.token("new", "--plain", "--agent", "mine")
    assert (code, err) == (0, "accord serve: note: no agent is called 'mine' in this folder\n")
    assert here.listed()[0]["agents"] == ["mine"]


def test_without_a_terminal_a_new_token_is_shown_with_its_link_and_no_code(here: Here) -> None:
    code, out, err = here.token("new", "--url", "https://home.example/")
    assert (code, err) == (0, "")
    token = TOKEN.search(out)
    assert token
    assert f"https://home.example/#token={token[0]}" in out
    assert "▀" not in out
    _, out, _ = here.token("new")
    assert "No gateway runs now" in out


def test_a_token_is_revoked_by_id_by_name_or_as_itself(here: Here) -> None:
    for name in ("one", "two", "three"):
        here.new("--name", name)
    one, *_ = here.listed()
    assert here.token("revoke", one["id"], "two")[0] == 0
    fourth = here.new("--name", "four")
    code, out, _ = here.token("revoke", fourth)
    assert code == 0
    assert fourth not in out
    assert [token["name"] for token in here.listed()] == ["three"]
    here.new("--name", "three")
    code, _, err = here.token("revoke", "three")
    assert code == 2
    assert "token list" in err
    assert len(here.listed()) == 2


async def test_revoking_closes_connections_that_are_open_and_no_others(home: Path) -> None:
    with served(home) as gateway:
        _, phone = Tokens(home / "data" / "gateway" / "tokens").new("phone")
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
