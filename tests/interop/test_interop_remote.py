"""Accord's client as an application uses it, with servers on the official SDKs."""

import asyncio
import logging
import signal
import ssl
from collections.abc import Generator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.interop.agent_server import AgentServer, run_agent_server
from tests.interop.conversation import SCRIPT

import accord

SERVERS = [
    ("python", "ws"),
    ("python", "http"),
    ("python", "https"),
    ("python", "wss"),
    ("typescript", "ws"),
    ("typescript", "http"),
]


@pytest.fixture(params=SERVERS, ids="-".join, scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[AgentServer]:
    peer, scheme = request.param
    with run_agent_server(peer, scheme, tmp_path_factory.mktemp("server")) as found:
        yield found


async def test_leaving_a_turn_cancels_it_and_the_next_one_waits(server: AgentServer, tmp_path: Path) -> None:
    async with accord.connect(server.url, tls=server.certificate) as agent:
        session = await agent.new_session(tmp_path)
        async with aclosing(session.prompt("cancel-me")) as events:
            async for event in events:
                if isinstance(event, accord.AgentMessageChunk) and event.text == "waiting":
                    break
        assert (await session.ask("echo after that")).text == "after that"


async def test_unsupported_client_methods_are_refused(server: AgentServer, tmp_path: Path) -> None:
    async with accord.connect(server.url, tls=server.certificate) as agent:
        session = await agent.new_session(tmp_path)
        for word in ("files", "form"):
            with pytest.raises(accord.RpcError):
                await session.ask(word)
        assert (await session.ask("echo still here")).text == "still here"


async def test_many_sessions_run_concurrently_on_one_connection(server: AgentServer, tmp_path: Path) -> None:
    async with accord.connect(server.url, tls=server.certificate) as agent:
        sessions = [await agent.new_session(tmp_path) for _ in range(12)]
        answers = await asyncio.gather(*(one.ask(f"echo {one.id}") for one in sessions))
        assert [answer.text for answer in answers] == [one.id for one in sessions]


@pytest.mark.parametrize(("peer", "scheme"), SERVERS)
async def test_a_stopped_server_ends_the_connection_with_its_url(
    peer: str, scheme: str, tmp_path: Path
) -> None:
    with run_agent_server(peer, scheme, tmp_path) as server:
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


async def test_two_clients_of_one_server_are_separate(server: AgentServer, tmp_path: Path) -> None:
    async with (
        accord.connect(server.url, tls=server.certificate) as one,
        accord.connect(server.url, tls=server.certificate) as other,
    ):
        first, second = await one.new_session(tmp_path), await other.new_session(tmp_path)
        answers = await asyncio.gather(first.ask("echo one"), second.ask("echo two"))
        assert [answer.text for answer in answers] == ["one", "two"]


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_restart_reconnects_and_reattaches_the_sessions(scheme: str, tmp_path: Path) -> None:
    # The scripted agent on the TypeScript SDK keeps its sessions across connections.
    with run_agent_server("typescript", scheme, tmp_path) as server:
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


async def test_a_large_prompt_and_its_answer_arrive_whole(server: AgentServer, tmp_path: Path) -> None:
    text = SCRIPT["bulk"] * (5_000_000 // len(SCRIPT["bulk"]))
    async with accord.connect(server.url, tls=server.certificate) as agent:
        session = await agent.new_session(tmp_path)
        assert (await session.ask("echo " + text)).text == text


async def test_the_token_and_the_headers_are_never_logged(
    server: AgentServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        url, headers = f"{server.url}#token=s3cret-1", {"X-Key": "s3cret-2"}
        async with accord.connect(url, headers=headers, tls=server.certificate) as agent:
            session = await agent.new_session(tmp_path)
            await session.ask("echo here")
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize("scheme", ["wss", "https"])
async def test_an_untrusted_certificate_is_refused(scheme: str, tmp_path: Path) -> None:
    with run_agent_server("python", scheme, tmp_path) as server:
        with pytest.raises(
            accord.NeverStarted, match="cannot connect: its certificate is not trusted: self-signed"
        ):
            await accord.connect(server.url, token="s3cret")
        context = ssl.create_default_context(cafile=server.certificate)
        async with accord.connect(server.url, tls=context) as agent:
            assert agent.info is not None
