"""The connection to the NATS servers: reconnecting, nothing buffered, one clear line for each error."""

import asyncio
import json
import logging
from pathlib import Path

import pytest
from msgspec import structs
from tests.cluster.nats_servers import RunningServer, connected, nats_server
from tests.gateway.breakable_proxy import breakable_proxy
from tests.patience import PATIENCE

from accord.cluster.connection import NatsMessage, NatsRefused, NatsUnavailable, connect
from accord.cluster.settings import ClusterSettings, read_cluster_settings
from accord.errors import UsageError
from accord.testing.fake_clock import settle


async def test_subscriptions_outlast_a_broken_connection(server: RunningServer) -> None:
    async with breakable_proxy(server.port) as proxy:
        settings = server.settings(servers=(f"nats://127.0.0.1:{proxy.port}",))
        async with connected(settings) as connection:
            received: asyncio.Queue[bytes] = asyncio.Queue()
            changes: asyncio.Queue[bool] = asyncio.Queue()
            connection.on_change.append(changes.put_nowait)
            await connection.subscribe("t.news", lambda message: received.put_nowait(message.data))
            proxy.cut()
            assert await asyncio.wait_for(changes.get(), PATIENCE) is False
            assert not await connection.publish("t.news", b"lost")  # not buffered: it would come too late
            with pytest.raises(NatsUnavailable, match="no NATS server is connected"):
                await connection.request("t.nothing")
            assert await asyncio.wait_for(changes.get(), PATIENCE) is True
            assert connection.reconnects == 1
            assert await connection.publish("t.news", b"kept")
            assert await asyncio.wait_for(received.get(), PATIENCE) == b"kept"
            assert received.empty()


async def test_a_client_that_the_server_closed_for_good_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A message whose headers make it too large closes the client of nats-py for good."""
    with nats_server(tmp_path) as server:
        async with connected(server.settings()) as connection:
            received: asyncio.Queue[bytes] = asyncio.Queue()
            changes: asyncio.Queue[bool] = asyncio.Queue()
            connection.on_change.append(changes.put_nowait)
            await connection.subscribe("t.news", lambda message: received.put_nowait(message.data))
            settings = connection.settings
            connection.settings = structs.replace(settings, tls_ca="missing")  # while its files are replaced
            await connection.publish("t.news", b"x" * (1024 * 1024 - 10), Accord="x" * 100)
            assert await asyncio.wait_for(changes.get(), PATIENCE) is False
            await settle()
            assert "file 'missing' does not exist); trying on" in caplog.text
            connection.settings = settings
            assert await asyncio.wait_for(changes.get(), PATIENCE) is True
            assert await connection.publish("t.news", b"after")
            assert await asyncio.wait_for(received.get(), PATIENCE) == b"after"
            with pytest.raises(NatsRefused, match="too large"):
                await connection.request("t.news", b"x" * (1024 * 1024 + 1))


@pytest.mark.parametrize("headers", [{}, {"Status": "503"}])
async def test_a_cancel_that_comes_together_with_the_answer_is_not_lost(
    server: RunningServer, headers: dict[str, str]
) -> None:
    """Status 503 is the answer that no process serves the subject: an error for the caller."""
    async with connected(server.settings()) as connection, connected(server.settings()) as other:
        requests: asyncio.Queue[NatsMessage] = asyncio.Queue()
        await other.subscribe("t.question", requests.put_nowait)
        await other.flush()
        asking: list[asyncio.Task[NatsMessage]] = []
        cancels: asyncio.Queue[None] = asyncio.Queue()

        def cancel(_: NatsMessage) -> None:
            asking[-1].cancel()
            cancels.put_nowait(None)

        await connection.subscribe("t.cancel", cancel)
        for _ in range(20):
            asking.append(asyncio.create_task(connection.request("t.question")))
            request = await asyncio.wait_for(requests.get(), PATIENCE)
            answer = other.publish(request.reply, b"answer", **headers)
            await asyncio.gather(answer, other.publish("t.cancel", b""))
            await asyncio.wait(asking[-1:])
            await asyncio.wait_for(cancels.get(), PATIENCE)  # never cancels the next request
            assert asking[-1].cancelled() or not asking[-1].cancelling()


async def test_after_a_flush_the_server_knows_a_subscription(server: RunningServer) -> None:
    async with connected(server.settings()) as connection, connected(server.settings()) as other:
        for number in range(100):
            subject, received = f"t.flush{number}", asyncio.Event()
            await other.subscribe(subject, lambda _, received=received: received.set())
            await other.flush()
            with pytest.raises(NatsUnavailable, match="no NATS server answered"):
                await connection.request(subject, seconds=0.001)
            await asyncio.wait_for(received.wait(), PATIENCE)


async def test_a_request_that_no_server_answers_is_unknown(server: RunningServer) -> None:
    async with connected(server.settings()) as connection:
        with pytest.raises(NatsUnavailable, match=r"no NATS server serves t\.nobody"):
            await connection.request("t.nobody")
        silent: list[NatsMessage] = []
        await connection.subscribe("t.silent", silent.append)
        with pytest.raises(NatsUnavailable, match="no NATS server answered"):
            await connection.request("t.silent", seconds=0.01)


async def test_no_server_is_one_clear_line() -> None:
    settings = ClusterSettings(servers=("nats://user:secret@127.0.0.1:1",))
    with pytest.raises(UsageError) as caught:
        await connect(settings, "n1", seconds=0.3)
    assert "no NATS server answers at nats://127.0.0.1:1" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_wrong_credentials_are_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("wrong\n")
    with nats_server(tmp_path / "data", more="authorization { user: accord, password: right }") as server:
        for settings in (
            server.settings(),
            server.settings(user="accord", password_file=str(tmp_path / "password")),
        ):
            with pytest.raises(UsageError, match="rejects this node; check user and passwordFile"):
                await connect(settings, "n1")
        (tmp_path / "password").write_text("right\n")
        async with connected(
            server.settings(user="accord", password_file=str(tmp_path / "password"))
        ) as connection:
            assert connection.is_connected


async def test_a_server_that_is_too_old_is_one_clear_line() -> None:
    info = {"server_id": "old", "version": "2.9.1", "proto": 1, "headers": True, "max_payload": 1 << 20}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(UsageError, match=r"is too old \(2\.9\.1\); use 2\.12 or newer"):
            await connect(ClusterSettings(servers=(f"nats://127.0.0.1:{port}",)), "n1")


async def test_a_small_max_payload_is_one_clear_line(tmp_path: Path) -> None:
    with (
        nats_server(tmp_path, more="max_payload: 64KB") as server,
        pytest.raises(UsageError, match="has max_payload 65536; set it to 1MB"),
    ):
        await connect(server.settings(), "n1")


async def test_a_forbidden_subject_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rules = 'authorization { users: [ { user: a, password: b, permissions: { publish: "t.ok" } } ] }'
    with nats_server(tmp_path / "data", more=rules) as server, caplog.at_level(logging.ERROR):
        (tmp_path / "password").write_text("b")
        settings = server.settings(user="a", password_file=str(tmp_path / "password"))
        async with connected(settings) as connection:
            await connection.publish("t.forbidden", b"")
            async with asyncio.timeout(PATIENCE):
                while not caplog.text:  # the error arrives by itself
                    await connection.flush()
    assert "forbids what this node needs: permissions violation for publish to" in caplog.text.lower()


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"servers": ["http://127.0.0.1"]}, "'http://127.0.0.1' is not an address of a NATS server"),
        ({"servers": ["nats://u:secret@"]}, "'nats://' is not an address of a NATS server"),
        ({"node": "a b"}, "'a b' is no name for a node of a cluster"),
        ({"nodes": "a"}, "serve.json: cluster: Object contains unknown field `nodes`"),
        ({"tlsCert": "c.pem"}, "tlsCert and tlsKey need each other"),
        ({"user": "a"}, "user and passwordFile need each other"),
        ({"times": {"renew": 10, "deadline": 15}}, "2 x renew < deadline < lease, not 10, 15, 20"),
    ],
)
def test_wrong_settings_are_one_clear_line(value: object, line: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_cluster_settings(value, "serve.json")
    assert line in str(caught.value)


async def test_other_machines_need_tls() -> None:
    assert ClusterSettings(servers=("nats://n1.example.org",)).uses_tls
    assert not ClusterSettings(servers=("nats://n1.example.org",), insecure=True).uses_tls
    assert not ClusterSettings(servers=("nats://localhost:4222", "nats://[::1]:4222")).uses_tls
