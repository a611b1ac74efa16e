"""The server's life cycle: addresses, TLS with ALPN, and stopping."""

import asyncio
import json
import socket
import ssl
from pathlib import Path

import httpx2
import pytest
import uvloop
import websockets
from tests.certificates import Certificate, new_certificate
from tests.gateway.http.http_client import EventReader, http_client, open_connection
from tests.gateway.http.http_harness import INITIALIZE, EchoGateway, http_harness, loopback_authenticator
from tests.gateway.http.raw_socket import RawSocket

from accord.errors import UsageError
from accord.gateway.access.resource_limits import LimitCounter
from accord.gateway.http import ServerConfig, serve_http, tls_context
from accord.testing import FakeClock


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A self-signed certificate for loopback, and its key."""
    return new_certificate(tmp_path_factory.mktemp("tls"), "cert", names="IP:127.0.0.1,DNS:localhost")


async def test_several_addresses_share_a_port() -> None:
    config = ServerConfig(hosts=("127.0.0.1", "127.0.0.2"))
    async with http_harness(config) as harness:
        assert [host for host, _ in harness.server.addresses] == ["127.0.0.1", "127.0.0.2"]
        assert len({port for _, port in harness.server.addresses}) == 1
        async with httpx2.AsyncClient() as client:
            for host, port in harness.server.addresses:
                assert (await client.get(f"http://{host}:{port}/healthz")).text == "ok\n"


async def test_an_address_in_use_is_a_one_line_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"cannot listen on 127\.0\.0\.1 port {port}: .*another"):
            async with serve_http(
                opener=EchoGateway(),
                authenticator=loopback_authenticator(tmp_path),
                limit_counter=LimitCounter(),
                config=ServerConfig(port=port),
            ):
                pass


async def test_with_tls_the_client_chooses_http2_by_alpn(certificate: tuple[Path, Path]) -> None:
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    async with http_harness(ServerConfig(tls=tls_context(*certificate))) as harness:
        assert harness.url.startswith("https://")
        for http2 in (True, False):
            async with httpx2.AsyncClient(
                base_url=harness.url, headers=harness.headers, http2=http2, verify=trust, timeout=None
            ) as client:
                answer = await client.post("/acp", json=INITIALIZE)
                assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
                assert answer.headers["set-cookie"].endswith("; Secure")
                connection = {"Acp-Connection-Id": answer.headers["acp-connection-id"]}
                async with EventReader(client, connection) as events:
                    harness.echo.clients[-1].send({"method": "note", "params": "x" * 500_000})
                    event = await events.next()
                    assert event is not None
                    assert event.data["params"] == "x" * 500_000
                refused = await client.post(
                    "/acp", content=b"x" * 2_000_000, headers={"Content-Type": "text/plain"}
                )
                assert refused.status_code == 415
        address = harness.websocket.replace("ws://", "wss://")
        async with websockets.connect(address, ssl=trust, additional_headers=harness.headers) as ws:
            await ws.send(json.dumps(INITIALIZE))
            assert json.loads(await ws.recv())["id"] == 0


async def test_plain_http_on_a_tls_port_gets_no_answer(certificate: tuple[Path, Path]) -> None:
    async with http_harness(ServerConfig(tls=tls_context(*certificate))) as harness:
        reader, writer = await harness.raw()
        writer.write(harness.head(path="/healthz"))
        try:
            assert b"ok" not in await reader.read()
        except ConnectionError:
            pass
        assert harness.server.metrics.sockets == 0


def test_an_invalid_certificate_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nothing")
    with pytest.raises(UsageError, match=r"cannot use the certificate .*cert\.pem"):
        tls_context(tmp_path / "cert.pem", tmp_path / "missing.pem")


@pytest.mark.parametrize("version", [1, 2])
async def test_stop_notifies_all_clients(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        ws = await RawSocket.open(harness)
        idle, _ = await harness.raw()
        connection = await open_connection(client)
        async with EventReader(client, connection) as events:
            for handler in harness.echo.clients:
                handler.send({"method": "note", "params": "last"})
            stopping = asyncio.ensure_future(harness.server.stop())
            assert (await ws.receive())["params"] == "last"
            assert await ws.wait_closed() == (1001, "the gateway is stopping")
            event = await events.next()
            assert event is not None
            assert event.data["params"] == "last"
            assert await events.next() is None
            await client.aclose()
            await stopping
        assert [handler.reasons for handler in harness.echo.clients] == [["the gateway is stopping"]] * 2
        assert await idle.read() == b""
        with pytest.raises(ConnectionError):
            await harness.raw()


async def test_stop_waits_a_limited_time_for_clients() -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness:
        ws = await RawSocket.open(harness)  # never answers the close
        stopping = asyncio.ensure_future(harness.server.stop())
        await clock.advance(4)
        assert not stopping.done()
        await clock.advance(2)
        await stopping
        assert harness.server.metrics.sockets == 0
        ws.close_socket()


async def test_a_request_in_progress_is_answered_at_the_stop() -> None:
    async with http_harness() as harness, http_client(harness, 1) as client:
        harness.echo.silent_on.add("initialize")
        asking = asyncio.ensure_future(client.post("/acp", json=INITIALIZE))
        await harness.echo.until(lambda: bool(harness.echo.clients))
        await harness.server.stop()
        assert (await asking).status_code == 500


async def test_the_server_can_be_stopped_twice() -> None:
    async with http_harness() as harness:
        await harness.server.stop()
        await harness.server.stop()


def test_the_server_runs_on_uvloop() -> None:
    async def run_server() -> None:
        async with http_harness() as harness:
            first = await RawSocket.open(harness)
            [handler] = harness.echo.clients
            first.drop()
            for number in range(3):  # frames sent while a socket closes are not lost
                handler.send({"method": "note", "params": number})
                await asyncio.sleep(0)
            await harness.until(lambda: harness.server.metrics.sockets == 0)
            second = await RawSocket.open(harness, initialize=False)
            second.send(id=1, method="_accord/resume", params={"connectionId": first.id, "received": 1})
            assert (await second.receive())["id"] == 1
            assert [(await second.receive())["params"] for _ in range(3)] == [0, 1, 2]
            async with http_client(harness, 2) as client:
                connection = await open_connection(client)
                async with EventReader(client, connection) as events:
                    assert events.status == 200

    uvloop.run(run_server())


async def test_idle_sockets_of_one_address_make_room_but_never_those_with_a_token() -> None:
    clock = FakeClock()
    config = ServerConfig(anonymous_sockets=3, sockets=6, header_time=1000)
    async with http_harness(config, clock=clock) as harness:
        trusted_reader, trusted = await harness.raw()
        trusted.write(harness.head(path="/metrics"))
        await trusted_reader.readuntil(b"\r\n\r\n")
        idle = [await harness.raw() for _ in range(3)]
        await harness.until(lambda: harness.server.metrics.sockets == 4)
        await clock.advance(2)
        another = await harness.raw()
        assert await idle[0][0].read() == b"", "the oldest socket without a request is closed"
        assert harness.server.metrics.sockets == 4
        # At the limit of all sockets, too: here, new ones of the same second.
        for _ in range(4):
            await harness.raw()
        assert await idle[1][0].read() == b""
        assert harness.server.metrics.sockets <= config.sockets
        trusted.write(harness.head(path="/healthz"))
        assert await trusted_reader.readuntil(b"200 ")
        another[1].close()


async def test_responses_over_tls_forbid_plain_http(certificate: tuple[Path, Path]) -> None:
    async with http_harness(ServerConfig(tls=tls_context(*certificate))) as harness:
        trust = ssl.create_default_context(cafile=str(certificate[0]))
        async with httpx2.AsyncClient(verify=trust) as client:
            health = await client.get(f"{harness.url}/healthz")
        assert health.headers["strict-transport-security"] == "max-age=2592000"
    async with http_harness() as harness, httpx2.AsyncClient() as client:
        assert "strict-transport-security" not in (await client.get(f"{harness.url}/healthz")).headers
