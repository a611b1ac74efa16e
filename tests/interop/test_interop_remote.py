"""Accord's client as an application uses it, with servers on the official SDKs: leaving, refusing, ending, connecting again."""

import asyncio
import logging
import signal
import ssl
from collections.abc import Generator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.interop.conversation import SCRIPT
from tests.interop.served import Served, served

import accord

WAYS = [
    ("python", "ws"),
    ("python", "http"),
    ("python", "https"),
    ("python", "wss"),
    ("typescript", "ws"),
    ("typescript", "http"),
]


@pytest.fixture(params=WAYS, ids="-".join, scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    peer, carrier = request.param
    with served(peer, carrier, tmp_path_factory.mktemp("server")) as found:
        yield found


async def test_leaving_a_turn_cancels_it_and_the_next_one_waits_for_its_end(
    server: Served, tmp_path: Path
) -> None:
    async with accord.connect(server.url, tls=server.certificate) as agent:
        session = await agent.new_session(tmp_path)
        async with aclosing(session.prompt("cancel-me")) as events:
            async for event in events:
                if accord.text_of(event) == "waiting":
                    break
        assert (await session.ask("echo after that")).text == "after that"


async def test_what_is_not_offered_is_refused_to_the_agent(server: Served, tmp_path: Path) -> None:
    async with accord.connect(server.url, tls=server.certificate) as agent:
        session = await agent.new_session(tmp_path)
        for word in ("files", "form"):
            with pytest.raises(accord.RpcError):
                await session.ask(word)
        assert (await session.ask("echo still here")).text == "still here"


async def test_many_sessions_run_at_once_on_one_connection(server: Served, tmp_path: Path) -> None:
    async with accord.connect(server.url, tls=server.certificate) as agent:
        sessions = [await agent.new_session(tmp_path) for _ in range(12)]
        answers = await asyncio.gather(*(one.ask(f"echo {one.id}") for one in sessions))
        assert [answer.text for answer in answers] == [one.id for one in sessions]


@pytest.mark.parametrize(("peer", "carrier"), WAYS)
async def test_a_server_that_is_stopped_ends_the_connection_with_its_name(
    peer: str, carrier: str, tmp_path: Path
) -> None:
    with served(peer, carrier, tmp_path) as server:
        async with accord.connect(server.url, tls=server.certificate) as agent:
            session = await agent.new_session(tmp_path)
            assert (await session.ask("echo here")).text == "here"
            events = agent.events()
            server.process.send_signal(signal.SIGTERM)
            async for event in events:
                if isinstance(event, accord.AgentEnded):
                    assert server.url in str(event.error)
                    break
            with pytest.raises(accord.ConnectionClosed):
                await session.ask("echo gone")


async def test_two_clients_of_one_server_do_not_meet(server: Served, tmp_path: Path) -> None:
    async with (
        accord.connect(server.url, tls=server.certificate) as one,
        accord.connect(server.url, tls=server.certificate) as other,
    ):
        first, second = await one.new_session(tmp_path), await other.new_session(tmp_path)
        answers = await asyncio.gather(first.ask("echo one"), second.ask("echo two"))
        assert [answer.text for answer in answers] == ["one", "two"]


@pytest.mark.parametrize("carrier", ["ws", "http"])
async def test_a_restart_is_a_new_connection_on_which_sessions_are_taken_up(
    carrier: str, tmp_path: Path
) -> None:
    # The scripted agent on the TypeScript SDK keeps its sessions beyond a connection.
    with served("typescript", carrier, tmp_path) as server:
        async with accord.connect(server.url) as agent:
            session = await agent.new_session(tmp_path)
            await session.ask("echo remember me")
            await agent.restart()
            assert session.lost is None
            assert (await session.ask("echo and on")).text == "and on"
            loaded = await agent.load_session(session.id, tmp_path)
            assert [message.text for message in loaded.state.messages][-4:] == [
                "echo remember me",
                "remember me",
                "echo and on",
                "and on",
            ]


async def test_the_answer_of_a_big_prompt_comes_back_whole(server: Served, tmp_path: Path) -> None:
    text = SCRIPT["bulk"] * (5_000_000 // len(SCRIPT["bulk"]))
    async with accord.connect(server.url, tls=server.certificate) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("echo " + text)).text == text


async def test_the_token_and_the_headers_reach_no_log(
    server: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        url, headers = f"{server.url}#token=s3cret-1", {"X-Key": "s3cret-2"}
        async with accord.connect(url, headers=headers, tls=server.certificate) as agent:
            session = await agent.new_session(tmp_path)
            await session.ask("echo here")
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("carrier", ["wss", "https"])
async def test_a_certificate_that_nobody_trusts_is_refused(carrier: str, tmp_path: Path) -> None:
    with served("python", carrier, tmp_path) as server:
        with pytest.raises(
            accord.NeverStarted, match="cannot connect: its certificate is not trusted: self-signed"
        ):
            await accord.connect(server.url, token="s3cret")
        context = ssl.create_default_context(cafile=server.certificate)
        async with accord.connect(server.url, tls=context) as agent:
            assert agent.info is not None
