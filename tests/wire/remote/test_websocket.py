"""WebSocket messages and ends: fragments, limits, pings, and the reason that the server gave."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from tests.patience import PATIENCE
from tests.wire.remote.raw_http_server import Exchange, run_http_server
from tests.wire.remote.websocket_test_server import (
    INITIALIZE,
    NOT_RESUMABLE,
    QUICK,
    connected_client,
    expect_frames,
    initialize,
    send_frames,
    websocket_test_server,
)
from tests.wire.transport_contract import Inbox
from websockets.asyncio.server import ServerConnection
from websockets.frames import Frame, Opcode

from accord.errors import NeverStarted
from accord.testing import FakeClock
from accord.wire.remote.address import NetworkTimeouts, read_address
from accord.wire.remote.websocket import open_websocket


async def test_fragments_are_joined_and_binary_messages_are_ignored():
    async with websocket_test_server() as server, connected_client(server) as (client, socket):
        await socket.send([b'{"a":', b"1", b"}"], text=True)
        await socket.send(b"\x00binary")
        await socket.send([b"bin", b"ary"])
        await send_frames(socket, b"2")
        assert await client.inbox.count(2) == [b'{"a":1}', b"2"]


async def test_messages_of_one_read_are_delivered_as_one_batch():
    async with websocket_test_server() as server, connected_client(server) as (client, socket):
        client.transport.pause()
        socket.transport.write(b"".join(b"\x81\x01%d" % (number % 10) for number in range(100)))
        client.send(b'"paused"')
        await expect_frames(socket, b'"paused"')
        client.transport.resume()
        await client.inbox.count(100)
        assert client.inbox.batches == [100]


async def test_the_token_is_sent_in_a_header_and_never_logged(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        async with (
            websocket_test_server() as server,
            connected_client(server, token="s3cret") as (client, socket),
        ):
            logging.getLogger("websockets.server").setLevel(
                logging.INFO
            )  # the test server may log the header
            await initialize(client, socket, NOT_RESUMABLE)
    [request] = server.requests
    assert request.headers["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in request.path
    client_records = [record for record in caplog.records if record.name != "websockets.server"]
    assert not any("s3cret" in record.getMessage() for record in client_records)


@pytest.mark.parametrize(
    ("code", "close_text", "reason"),
    [
        (1001, "", "the server is shutting down (WebSocket 1001)"),
        (
            1008,
            "too slow\x1b[2J",
            "the server closed the connection (WebSocket 1008): too slow",
        ),
        (1008, "", "a limit was exceeded, or this side was too slow (WebSocket 1008)"),
        (1011, "", "the server failed (WebSocket 1011)"),
        (4001, "custom", "the server closed the connection (WebSocket 4001): custom"),
    ],
)
async def test_the_end_has_the_close_reason_of_the_server(code: int, close_text: str, reason: str):
    async with websocket_test_server() as server, connected_client(server) as (client, socket):
        await initialize(client, socket, NOT_RESUMABLE)
        await socket.close(code, close_text)
        end = await client.inbox.end()
        assert reason in end.reason
        assert "\x1b" not in end.reason


async def test_a_message_over_the_limit_ends_the_connection_with_a_reason():
    async with websocket_test_server() as server, connected_client(server, limit=1000) as (client, socket):
        await send_frames(socket, b"x" * 1000, b"y" * 1001)
        end = await client.inbox.end()
        assert client.inbox.received == [b"x" * 1000]
        assert "over the limit of 1000 bytes" in end.reason


async def test_a_server_that_breaks_the_protocol_ends_the_connection():
    async with websocket_test_server() as server, connected_client(server) as (client, socket):
        socket.transport.write(b"\xff\xff\xff\xff")
        assert "broke the WebSocket protocol" in (await client.inbox.end()).reason


class Pings:
    """Counts the pings that the server receives, and answers them or not."""

    def __init__(self, socket: ServerConnection, *, answered: bool) -> None:
        self.count = asyncio.Semaphore(0)
        self._recv_frame: Callable[[Frame], None] = socket.protocol.recv_frame
        self._answered = answered
        socket.protocol.recv_frame = self.receive

    def receive(self, frame: Frame) -> None:
        if frame.opcode is not Opcode.PING or self._answered:
            self._recv_frame(frame)
        if frame.opcode is Opcode.PING:
            self.count.release()

    async def next(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.count.acquire()


async def test_a_silent_server_is_pinged_and_then_the_connection_ends():
    clock = FakeClock()
    async with (
        websocket_test_server() as server,
        connected_client(server, clock=clock, timeouts=NetworkTimeouts(ping=20)) as (client, socket),
    ):
        await initialize(client, socket, NOT_RESUMABLE)
        pings = Pings(socket, answered=False)
        await clock.advance(20)  # data arrived in this period
        assert pings.count.locked()
        await clock.advance(20)
        await pings.next()
        assert client.inbox.ends == []
        await clock.advance(20)
        assert "did not respond for 40 s" in (await client.inbox.end()).reason


async def test_the_connection_stays_open_while_the_server_answers_pings():
    clock = FakeClock()
    async with (
        websocket_test_server() as server,
        connected_client(server, clock=clock, timeouts=NetworkTimeouts(ping=20)) as (client, socket),
    ):
        await initialize(client, socket, NOT_RESUMABLE)
        pings = Pings(socket, answered=True)
        for _ in range(5):
            await clock.advance(40)  # one period with data, one without
            await pings.next()
        assert client.inbox.ends == []
        client.send(b'"still"')
        await expect_frames(socket, b'"still"')


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, r"the token is missing or wrong \(HTTP 401\): not today"),
        (403, r"does not allow this \(HTTP 403\)"),
        (404, r"no ACP server at this path \(HTTP 404\)"),
        (503, r"overloaded.*\(HTTP 503\)"),
    ],
)
async def test_a_refused_handshake_raises_a_reason(status: int, reason: str):
    async with websocket_test_server() as server:
        server.refuse = [status]
        with pytest.raises(NeverStarted, match=f"^{server.address}: cannot connect: .*{reason}"):
            await open_websocket(read_address(server.address), timeouts=QUICK)


async def test_connecting_fails_without_a_server_or_to_another_kind_of_server():
    async def page(request: Exchange) -> None:
        await request.answer(200, b"<html>hello</html>", Content_Type="text/html")

    async def not_http(request: Exchange) -> None:
        request._writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        request._writer.close()

    async with run_http_server(page) as address:
        with pytest.raises(NeverStarted, match=r"HTTP 200\)$"):
            await open_websocket(read_address(f"ws://{address}"), timeouts=QUICK)
    with pytest.raises(NeverStarted, match="nothing listens there"):
        await open_websocket(read_address(f"ws://{address}"), timeouts=QUICK)
    async with run_http_server(not_http) as address:
        with pytest.raises(NeverStarted, match="no ACP server over WebSocket"):
            await open_websocket(read_address(f"ws://{address}"), timeouts=QUICK)


async def test_a_handshake_without_an_answer_times_out():
    requested, clock = asyncio.Event(), FakeClock()

    async def never_answer(request: Exchange) -> None:
        requested.set()
        await request.wait_disconnected()

    async with run_http_server(never_answer) as address:
        opening = asyncio.ensure_future(
            open_websocket(read_address(f"ws://{address}"), timeouts=NetworkTimeouts(connect=20), clock=clock)
        )
        async with asyncio.timeout(PATIENCE):
            await requested.wait()
        await clock.advance(20)
        with pytest.raises(NeverStarted, match="no WebSocket was opened within 20 s"):
            await opening


async def test_an_end_before_start_is_reported_at_start():
    async with websocket_test_server() as server:
        transport = await open_websocket(read_address(server.address), timeouts=QUICK)
        socket = await server.next()
        transport.send(INITIALIZE)
        await expect_frames(socket, INITIALIZE)
        socket.close_timeout = 0.1  # the transport answers only after its start
        await socket.close(1001)
        inbox = Inbox()
        transport.start(inbox)
        assert "shutting down" in (await inbox.end()).reason
        await transport.aclose()
