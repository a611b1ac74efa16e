"""A front's own life: addresses, TLS with ALPN, the end that everybody hears of."""

import asyncio
import json
import socket
import ssl
import subprocess
from pathlib import Path

import httpx2
import pytest
import uvloop
import websockets
from tests.gateway.front.browser import Reading, a_browser, a_connection
from tests.gateway.front.stage import INITIALIZE, Echo, a_door, a_front
from tests.gateway.front.wire import RawSocket

from accord.errors import UsageError
from accord.gateway.access.limits import Meter
from accord.gateway.front import FrontConfig, serve_front, tls_context
from accord.testing import FakeClock


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for loopback, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    pair = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
            *("-out", str(pair[0]), "-keyout", str(pair[1])),
        ],
        check=True,
        capture_output=True,
    )
    return pair


async def test_several_addresses_share_a_port() -> None:
    config = FrontConfig(hosts=("127.0.0.1", "127.0.0.2"))
    async with a_front(config) as stage:
        assert [host for host, _ in stage.front.addresses] == ["127.0.0.1", "127.0.0.2"]
        assert len({port for _, port in stage.front.addresses}) == 1
        async with httpx2.AsyncClient() as client:
            for host, port in stage.front.addresses:
                assert (await client.get(f"http://{host}:{port}/healthz")).text == "ok\n"


async def test_an_address_in_use_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"cannot listen on 127\.0\.0\.1 port {port}: .*another"):
            async with serve_front(
                opening=Echo(), door=a_door(tmp_path), meter=Meter(), config=FrontConfig(port=port)
            ):
                pass


async def test_with_tls_the_client_chooses_http2_by_alpn(certificate: tuple[Path, Path]) -> None:
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    async with a_front(FrontConfig(tls=tls_context(*certificate))) as stage:
        assert stage.url.startswith("https://")
        for http2 in (True, False):
            async with httpx2.AsyncClient(
                base_url=stage.url, headers=stage.headers, http2=http2, verify=trust, timeout=None
            ) as client:
                answer = await client.post("/acp", json=INITIALIZE)
                assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
                assert answer.headers["set-cookie"].endswith("; Secure")
                named = {"Acp-Connection-Id": answer.headers["acp-connection-id"]}
                async with Reading(client, named) as events:
                    stage.echo.clients[-1].tell({"method": "note", "params": "x" * 500_000})
                    event = await events.next()
                    assert event is not None
                    assert event.data["params"] == "x" * 500_000
                refused = await client.post(
                    "/acp", content=b"x" * 2_000_000, headers={"Content-Type": "text/plain"}
                )
                assert refused.status_code == 415
        address = stage.websocket.replace("ws://", "wss://")
        async with websockets.connect(address, ssl=trust, additional_headers=stage.headers) as ws:
            await ws.send(json.dumps(INITIALIZE))
            assert json.loads(await ws.recv())["id"] == 0


async def test_plain_http_on_a_tls_port_gets_nothing(certificate: tuple[Path, Path]) -> None:
    async with a_front(FrontConfig(tls=tls_context(*certificate))) as stage:
        reader, writer = await stage.raw()
        writer.write(stage.head(path="/healthz"))
        try:
            assert b"ok" not in await reader.read()
        except ConnectionError:
            pass
        assert stage.front.metrics.sockets == 0


def test_files_that_are_no_certificate_are_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nothing")
    with pytest.raises(UsageError, match=r"cannot use the certificate .*cert\.pem"):
        tls_context(tmp_path / "cert.pem", tmp_path / "missing.pem")


@pytest.mark.parametrize("version", [1, 2])
async def test_a_stop_tells_everybody(version: int) -> None:
    async with a_front() as stage, a_browser(stage, version) as client:
        ws = await RawSocket.open(stage)
        idle, _ = await stage.raw()
        named = await a_connection(client)
        async with Reading(client, named) as events:
            for opened in stage.echo.clients:
                opened.tell({"method": "note", "params": "last"})
            stopping = asyncio.ensure_future(stage.front.stop())
            assert (await ws.hear())["params"] == "last"
            assert await ws.closed() == (1001, "the gateway stops")
            event = await events.next()
            assert event is not None
            assert event.data["params"] == "last"
            assert await events.next() is None
            await client.aclose()
            await stopping
        assert [opened.reasons for opened in stage.echo.clients] == [["the gateway stops"]] * 2
        assert await idle.read() == b""
        with pytest.raises(ConnectionError):
            await stage.raw()


async def test_a_stop_waits_for_nobody_longer_than_its_time() -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage:
        ws = await RawSocket.open(stage)  # never answers the close
        stopping = asyncio.ensure_future(stage.front.stop())
        await clock.advance(4)
        assert not stopping.done()
        await clock.advance(2)
        await stopping
        assert stage.front.metrics.sockets == 0
        ws.shut()


async def test_a_request_that_is_under_way_at_the_stop_is_answered() -> None:
    async with a_front() as stage, a_browser(stage, 1) as client:
        stage.echo.silent_on.add("initialize")
        asking = asyncio.ensure_future(client.post("/acp", json=INITIALIZE))
        await stage.echo.until(lambda: bool(stage.echo.clients))
        await stage.front.stop()
        assert (await asking).status_code == 500


async def test_a_front_may_be_stopped_twice() -> None:
    async with a_front() as stage:
        await stage.front.stop()
        await stage.front.stop()


def test_a_front_runs_on_uvloop() -> None:
    async def scene() -> None:
        async with a_front() as stage:
            first = await RawSocket.open(stage)
            [opened] = stage.echo.clients
            first.drop()
            for number in range(3):  # what meets a socket that is just closing is not lost
                opened.tell({"method": "note", "params": number})
                await asyncio.sleep(0)
            await stage.until(lambda: stage.front.metrics.sockets == 0)
            second = await RawSocket.open(stage, initialize=False)
            second.tell(id=1, method="_accord/resume", params={"connectionId": first.id, "received": 1})
            assert (await second.hear())["id"] == 1
            assert [(await second.hear())["params"] for _ in range(3)] == [0, 1, 2]
            async with a_browser(stage, 2) as client:
                named = await a_connection(client)
                async with Reading(client, named) as events:
                    assert events.status == 200

    uvloop.run(scene())
