"""WebSocket messages and ends: fragments, limits, signs of life, and what the server said in a sentence."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from tests.wire.remote.socketserver import HELLO, PLAIN, QUICK, calling, desk, greet, heard, tell
from tests.wire.remote.webserver import Exchange, serving
from tests.wire.transport_contract import Inbox
from websockets.asyncio.server import ServerConnection
from websockets.frames import Frame, Opcode

from accord.errors import NeverStarted
from accord.testing import FakeClock
from accord.wire.remote.address import read_address
from accord.wire.remote.times import Times
from accord.wire.remote.websocket import open_websocket


async def test_fragments_are_joined_and_binary_messages_mean_nothing():
    async with desk() as server, calling(server) as (caller, socket):
        await socket.send([b'{"a":', b"1", b"}"], text=True)
        await socket.send(b"\x00binary")
        await socket.send([b"bin", b"ary"])
        await tell(socket, b"2")
        assert await caller.inbox.count(2) == [b'{"a":1}', b"2"]


async def test_what_comes_in_one_read_is_one_batch():
    async with desk() as server, calling(server) as (caller, socket):
        caller.transport.pause()
        socket.transport.write(b"".join(b"\x81\x01%d" % (number % 10) for number in range(100)))
        caller.send(b'"paused"')
        await heard(socket, b'"paused"')
        caller.transport.resume()
        await caller.inbox.count(100)
        assert caller.inbox.batches == [100]


async def test_the_token_goes_in_a_header_and_reaches_no_log(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG):
        async with desk() as server, calling(server, token="s3cret") as (caller, socket):
            logging.getLogger("websockets.server").setLevel(logging.INFO)  # the test's own server may tell
            await greet(caller, socket, PLAIN)
    [request] = server.requests
    assert request.headers["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in request.path
    client = [record for record in caplog.records if record.name != "websockets.server"]
    assert not any("s3cret" in record.getMessage() for record in client)


@pytest.mark.parametrize(
    ("code", "said", "sentence"),
    [
        (1001, "", "the server is being stopped (WebSocket 1001)"),
        (
            1008,
            "too slow\x1b[2J",
            "a limit was exceeded, or this side was too slow (WebSocket 1008): too slow",
        ),
        (1011, "", "the server failed (WebSocket 1011)"),
        (4001, "custom", "the server closed the connection (WebSocket 4001): custom"),
    ],
)
async def test_what_the_server_said_is_the_reason_of_the_end(code: int, said: str, sentence: str):
    async with desk() as server, calling(server) as (caller, socket):
        await greet(caller, socket, PLAIN)
        await socket.close(code, said)
        reason = (await caller.inbox.end()).reason
        assert sentence in reason
        assert "\x1b" not in reason


async def test_a_message_over_the_limit_ends_the_connection_and_says_so():
    async with desk() as server, calling(server, limit=1000) as (caller, socket):
        await tell(socket, b"x" * 1000, b"y" * 1001)
        end = await caller.inbox.end()
        assert caller.inbox.received == [b"x" * 1000]
        assert "over the limit of 1000 bytes" in end.reason


async def test_a_server_that_breaks_the_protocol_ends_the_connection():
    async with desk() as server, calling(server) as (caller, socket):
        socket.transport.write(b"\xff\xff\xff\xff")
        assert "broke the WebSocket protocol" in (await caller.inbox.end()).reason


class Pings:
    """What a server hears of pings, and whether it answers them."""

    def __init__(self, socket: ServerConnection, *, answered: bool) -> None:
        self.count = asyncio.Semaphore(0)
        self._hear: Callable[[Frame], None] = socket.protocol.recv_frame
        self._answered = answered
        socket.protocol.recv_frame = self.hear

    def hear(self, frame: Frame) -> None:
        if frame.opcode is not Opcode.PING or self._answered:
            self._hear(frame)
        if frame.opcode is Opcode.PING:
            self.count.release()

    async def next(self) -> None:
        async with asyncio.timeout(30):
            await self.count.acquire()


async def test_a_silent_server_is_asked_for_a_sign_of_life_and_then_given_up():
    clock = FakeClock()
    async with desk() as server, calling(server, clock=clock, times=Times(ping=20)) as (caller, socket):
        await greet(caller, socket, PLAIN)
        pings = Pings(socket, answered=False)
        await clock.advance(20)  # something was heard before
        assert pings.count.locked()
        await clock.advance(20)
        await pings.next()
        assert caller.inbox.ends == []
        await clock.advance(20)
        assert "gave no sign of life for 40 s" in (await caller.inbox.end()).reason


async def test_a_server_that_answers_pings_is_kept():
    clock = FakeClock()
    async with desk() as server, calling(server, clock=clock, times=Times(ping=20)) as (caller, socket):
        await greet(caller, socket, PLAIN)
        pings = Pings(socket, answered=True)
        for _ in range(5):
            await clock.advance(40)  # a look that finds something heard, and one that does not
            await pings.next()
        assert caller.inbox.ends == []
        caller.send(b'"still"')
        await heard(socket, b'"still"')


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, r"the token is missing or wrong \(HTTP 401\): not today"),
        (403, r"does not allow this \(HTTP 403\)"),
        (404, r"no ACP server at this path \(HTTP 404\)"),
        (503, r"too much to do.*\(HTTP 503\)"),
    ],
)
async def test_a_refused_handshake_says_why(status: int, sentence: str):
    async with desk() as server:
        server.refuse = [status]
        with pytest.raises(NeverStarted, match=f"^{server.address}: cannot connect: .*{sentence}"):
            await open_websocket(read_address(server.address), times=QUICK)


async def test_nobody_there_and_somebody_else_there():
    async def page(request: Exchange) -> None:
        await request.answer(200, b"<html>hello</html>", Content_Type="text/html")

    async def rubbish(request: Exchange) -> None:
        request._writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        request._writer.close()

    async with serving(page) as place:
        with pytest.raises(NeverStarted, match=r"HTTP 200\)$"):
            await open_websocket(read_address(f"ws://{place}"), times=QUICK)
    with pytest.raises(NeverStarted, match="nothing listens there"):
        await open_websocket(read_address(f"ws://{place}"), times=QUICK)
    async with serving(rubbish) as place:
        with pytest.raises(NeverStarted, match="no ACP server over WebSocket"):
            await open_websocket(read_address(f"ws://{place}"), times=QUICK)


async def test_a_server_that_never_answers_the_handshake_is_given_up():
    asked, clock = asyncio.Event(), FakeClock()

    async def mute(request: Exchange) -> None:
        asked.set()
        await request.left()

    async with serving(mute) as place:
        opening = asyncio.ensure_future(
            open_websocket(read_address(f"ws://{place}"), times=Times(connect=20), clock=clock)
        )
        async with asyncio.timeout(30):
            await asked.wait()
        await clock.advance(20)
        with pytest.raises(NeverStarted, match="no WebSocket was opened within 20 s"):
            await opening


async def test_an_end_before_the_start_is_told_at_the_start():
    async with desk() as server:
        transport = await open_websocket(read_address(server.address), times=QUICK)
        socket = await server.next()
        transport.send(HELLO)
        await heard(socket, HELLO)
        await socket.close(1001)
        inbox = Inbox()
        transport.start(inbox)
        assert "being stopped" in (await inbox.end()).reason
        await transport.aclose()
