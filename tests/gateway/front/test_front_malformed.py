"""What is no HTTP, too slow, too large or mixed up: refused or dropped, and the front goes on."""

import asyncio
import random
from contextlib import suppress

import h2.config
import h2.connection
import h2.errors
import h2.events
import httpx2
import pytest
from tests.gateway.front.browser import a_browser
from tests.gateway.front.stage import INITIALIZE, Stage, a_front
from tests.gateway.front.wire import HANDSHAKE, RawSocket

from accord.gateway.front import FrontConfig
from accord.gateway.front.listener import PREFACE
from accord.testing import FakeClock

EVERYWHERE = [
    "/acp",
    "/acp/known",
    "/api/login",
    "/api/logout",
    "/api/ticket",
    "/healthz",
    "/metrics",
    "/",
    "/assets/x",
]


async def still_serves(stage: Stage) -> None:
    """The front is there, and nothing is left of what came before."""
    async with a_browser(stage, 1) as client:
        assert (await client.get("/healthz")).text == "ok\n"
    await stage.until(lambda: stage.front.metrics.sockets == 0)


async def status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """Of the next response; 0 if the socket closes without one."""
    try:
        return int((await RawSocket(reader, writer).head())[0].split()[1])
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /acp HTTP/1.1\r\n\r\n", 400),
        (b"GET /acp HTTP/9.9\r\nhost: x\r\n\r\n", 505),
        (b"GET /acp HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        (b"GET /acp HTTP/1.1\r\nhost : a\r\n\r\n", 400),
        (b"GET /a\x00b HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"GET /acp HTTP/1.1\r\nhost: a\r\nx: \x00\r\n\r\n", 400),
        (b"GET http://127.0.0.1/acp HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 400),
        (b"GET /%ff HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 400),
        (b"GET /%0a HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", 400),
        (b"POST /acp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: x\r\n\r\n", 400),
        (b"POST /acp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        (b"POST /acp HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: gzip\r\n\r\n", 501),
        (b"GET /acp HTTP/1.1\r\nhost: 127.0.0.1\r\nx: " + b"y" * 40_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 40_000, 431),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200 + b"\n\n", 400),
        (b"\x00" * 40_000, 400),
        (PREFACE[:10] + b"x\r\n\r\n", 400),
    ],
)
async def test_what_is_no_http_is_refused(sent: bytes, answer: int) -> None:
    async with a_front() as stage:
        reader, writer = await stage.raw()
        writer.write(sent)
        assert await status(reader, writer) == answer
        writer.close()
        await still_serves(stage)
        assert stage.echo.clients == []


async def test_noise_on_the_socket_harms_nobody() -> None:
    dice = random.Random(7)
    async with a_front() as stage:
        whole = stage.head("POST", content_type="application/json", content_length="2") + b"{}"
        for number in range(60):
            reader, writer = await stage.raw()
            sent = bytearray(dice.choice([whole, PREFACE + whole, stage.head(**HANDSHAKE)]))
            for _ in range(dice.randrange(1, 8)):
                sent[dice.randrange(len(sent))] = dice.randrange(256)
            writer.write(bytes(sent) + dice.randbytes(number))
            writer.write_eof()
            await reader.read()
            writer.close()
        await still_serves(stage)


async def test_noise_on_a_websocket_harms_nobody() -> None:
    dice = random.Random(11)
    async with a_front() as stage:
        for number in range(40):
            socket = await RawSocket.open(stage)
            socket.writer.write(dice.randbytes(number + 2))
            socket.writer.write_eof()
            await socket.reader.read()
            socket.shut()
        await still_serves(stage)


async def test_noise_on_http2_harms_nobody() -> None:
    dice = random.Random(13)
    async with a_front() as stage:
        for number in range(40):
            reader, writer = await stage.raw()
            writer.write(PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            size = dice.randrange(64)
            kind = dice.randrange(12)
            writer.write(
                size.to_bytes(3, "big") + bytes([kind, dice.randrange(256)]) + (number % 5).to_bytes(4, "big")
            )
            writer.write(dice.randbytes(size))
            writer.write_eof()
            await reader.read()
            writer.close()
        await still_serves(stage)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("path", EVERYWHERE)
async def test_a_large_body_is_refused_or_thrown_away_on_every_path(version: int, path: str) -> None:
    async with a_front(FrontConfig(message_size=50_000)) as stage, a_browser(stage, version) as client:
        kind = {"Content-Type": "application/json"}
        answer = await client.post(path, content=b"x" * 1_000_000, headers=kind)
        assert answer.status_code == {"/acp": 413, "/acp/known": 413}.get(path, answer.status_code)
        assert answer.status_code in (200, 204, 405, 413)
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("path", EVERYWHERE)
async def test_without_a_token_nobody_is_let_in(version: int, path: str) -> None:
    async with a_front() as stage, a_browser(stage, version, Authorization="") as client:
        for verb in ("GET", "POST", "DELETE", "PUT"):
            answer = await client.request(verb, path, json=INITIALIZE)
            open_to_all = path in ("/healthz", "/") and verb == "GET"
            out = path == "/api/logout" and verb == "POST"
            assert answer.status_code in ((200,) if open_to_all else (204,) if out else (401, 404, 405))
        assert stage.echo.clients == []


async def test_ten_thousand_requests_without_a_token_let_nobody_in() -> None:
    async with a_front() as stage:
        refused = 0
        head = stage.head(
            "POST", authorization="Bearer guess", content_type="application/json", content_length="0"
        )
        for _ in range(20):
            reader, writer = await stage.raw()
            for _ in range(5):
                writer.write(head * 100)
                for _ in range(100):
                    answer = await RawSocket(reader, writer).head()
                    length = next(int(line[16:]) for line in answer if line.startswith("Content-Length: "))
                    await reader.readexactly(length)
                    assert answer[0].split()[1] in ("401", "429")
                    refused += 1
            writer.close()
        assert refused == 10_000
        assert stage.echo.clients == []
        async with a_browser(stage, 1) as client:
            assert (await client.post("/acp", json=INITIALIZE)).status_code == 200, (
                "a right token never waits"
            )


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with a_front() as stage:
        reader, writer = await stage.raw()
        writer.write(stage.head(path="/healthz") + stage.head(path="/nothing") + stage.head(path="/health"))
        assert [await status(reader, writer) for _ in range(1)] == [200]
        await reader.readuntil(b"ok\n")
        assert await status(reader, writer) == 404
        await reader.readuntil(b"here.\n")
        assert await status(reader, writer) == 200


async def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    async with a_front(FrontConfig(message_size=100)) as stage:
        reader, writer = await stage.raw()
        asking = {"content_type": "application/json", "expect": "100-continue"}
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
        writer.write(stage.head("POST", content_length=str(len(body)), **asking))
        assert await status(reader, writer) == 100
        writer.write(body)
        assert await status(reader, writer) == 200
        await reader.readuntil(b"}}")
        writer.write(stage.head("POST", content_length="1000", **asking))
        assert await status(reader, writer) == 413


async def test_a_slow_head_is_dropped() -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage:
        silent, dripping, preface = await stage.raw(), await stage.raw(), await stage.raw()
        preface[1].write(PREFACE[:20])
        await stage.until(lambda: stage.front.metrics.sockets == 3)
        for byte in b"GET /hea":
            dripping[1].write(bytes([byte]))
            await clock.advance(1)
        assert stage.front.metrics.sockets == 3
        await clock.advance(2)
        for reader, writer in (silent, dripping, preface):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(1)
            writer.close()


async def test_a_slow_second_head_is_dropped_and_an_idle_connection_closed() -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage:
        slow, idle = await stage.raw(), await stage.raw()
        for reader, writer in (slow, idle):
            writer.write(stage.head(path="/healthz"))
            await reader.readuntil(b"ok\n")
        await clock.advance(60)
        slow[1].write(b"GET ")
        await stage.until(lambda: stage.front.metrics.sockets == 2)
        await clock.advance(10)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await slow[0].readexactly(1)
        await clock.advance(5)
        assert await idle[0].read() == b""


@pytest.mark.parametrize("version", [1, 2])
async def test_a_slow_body_is_refused(version: int) -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage, a_browser(stage, version) as client:
        waiting = asyncio.Event()
        over = asyncio.Event()

        async def pieces():
            yield b"{"
            waiting.set()
            await over.wait()

        asking = asyncio.ensure_future(
            client.post("/acp", content=pieces(), headers={"Content-Type": "application/json"})
        )
        await waiting.wait()
        await stage.until(lambda: stage.front.metrics.sockets == 1)
        await clock.advance(61)
        assert stage.front.metrics.refused["slow"] == 1
        over.set()
        with suppress(httpx2.HTTPError):  # the client may see the closed socket first
            assert (await asking).status_code == 408


async def test_sockets_in_total_are_bounded() -> None:
    async with a_front(FrontConfig(sockets=3)) as stage:
        held = [await stage.raw() for _ in range(3)]
        await stage.until(lambda: stage.front.metrics.sockets == 3)
        reader, _ = await stage.raw()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)
        held[0][1].close()
        await stage.until(lambda: stage.front.metrics.sockets == 2)
        await stage.raw()
        await stage.until(lambda: stage.front.metrics.sockets == 3)


class Http2Client:
    """HTTP/2 by hand, for what a well-bred client does not do."""

    def __init__(self, stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.stage = stage
        self.reader = reader
        self.writer = writer
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.h2.config.validate_outbound_headers = False
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def ask(self, path: str, verb: str = "GET", *, end: bool = True, **headers: str) -> int:
        stream = self.h2.get_next_available_stream_id()
        own = {"authorization": f"Bearer {self.stage.secret}"} | headers
        fields = [
            (":method", verb),
            (":path", path),
            (":scheme", "http"),
            (":authority", f"{self.stage.host}:{self.stage.port}"),
            *((name.replace("_", "-"), value) for name, value in own.items()),
        ]
        self.h2.send_headers(stream, fields, end_stream=end)
        return stream

    async def events(self) -> list[h2.events.Event]:
        data = await self.reader.read(1 << 16)
        events: list[h2.events.Event] = [h2.events.ConnectionTerminated()]
        if data:
            events = self.h2.receive_data(data)
        self.flush()
        return events

    async def status(self, stream: int) -> str:
        while True:
            for event in await self.events():
                if isinstance(event, h2.events.ResponseReceived) and event.stream_id == stream:
                    return dict(event.headers)[b":status"].decode()
                if isinstance(event, h2.events.ConnectionTerminated):
                    return "terminated"


async def test_http2_heads_that_are_mixed_up_are_refused() -> None:
    async with a_front() as stage:
        client = Http2Client(stage, *await stage.raw())
        stream = client.ask("/healthz", host="evil.test")
        client.flush()
        assert await client.status(stream) == "terminated"
        client = Http2Client(stage, *await stage.raw())
        stream = client.ask("relative")
        client.flush()
        assert await client.status(stream) == "400"
        stream = client.ask("/metrics", cookie="a=b")
        client.flush()
        assert await client.status(stream) == "200"


async def test_requests_that_are_taken_back_by_the_hundred_end_the_connection() -> None:
    async with a_front() as stage:
        client = Http2Client(stage, *await stage.raw())
        for _ in range(300):
            stream = client.ask("/acp", "POST", end=False, content_type="application/json")
            client.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        client.flush()
        while True:
            ended = [
                event for event in await client.events() if isinstance(event, h2.events.ConnectionTerminated)
            ]
            if ended:
                break
        assert ended[0].error_code == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        assert stage.front.metrics.refused["resets"] == 1


async def test_a_large_http2_head_is_refused() -> None:
    async with a_front() as stage:
        client = Http2Client(stage, *await stage.raw())
        client.ask("/healthz", x="y" * 60_000)
        client.flush()
        while not any(isinstance(event, h2.events.ConnectionTerminated) for event in await client.events()):
            pass
        await still_serves(stage)
