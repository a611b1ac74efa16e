"""Input that is not HTTP, too slow, too large or inconsistent is rejected or dropped, and the server keeps
running.
"""

import asyncio
import random
from contextlib import suppress

import h2.config
import h2.connection
import h2.errors
import h2.events
import httpx2
import pytest
from tests.gateway.http.http_client import http_client
from tests.gateway.http.http_harness import INITIALIZE, HttpHarness, http_harness
from tests.gateway.http.raw_socket import HANDSHAKE, RawSocket
from tests.repetitions import ALL

from accord.gateway.http import ServerConfig
from accord.gateway.http.http_server import HTTP2_PREFACE
from accord.testing import FakeClock

ALL_PATHS = [
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


async def still_serves(harness: HttpHarness) -> None:
    """Assert that the server answers and that no earlier socket is left."""
    async with http_client(harness, 1) as client:
        assert (await client.get("/healthz")).text == "ok\n"
    await harness.until(lambda: harness.server.metrics.sockets == 0)


async def status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    """The status of the next response, or 0 if the socket closes without one."""
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
        (HTTP2_PREFACE[:10] + b"x\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\nhost: 127.0.0.1\n\n", 400),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\nx: y\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\n", 400),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: a\r\n b\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: a\r\n\tb\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n host: 127.0.0.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\n", 400),
    ],
)
async def test_invalid_http_is_rejected(sent: bytes, answer: int) -> None:
    async with http_harness() as harness:
        reader, writer = await harness.raw()
        writer.write(sent)
        assert await status(reader, writer) == answer
        writer.close()
        await still_serves(harness)
        assert harness.echo.clients == []


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: a\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nx: a\r\n b\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\nx: a\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\n", 400),
    ],
)
async def test_a_head_in_single_bytes_is_judged_like_a_whole_one(sent: bytes, answer: int) -> None:
    async with http_harness() as harness:
        reader, writer = await harness.raw()
        for number in range(len(sent)):
            writer.write(sent[number : number + 1])
            await writer.drain()
            await asyncio.sleep(0)
        assert await status(reader, writer) == answer
        writer.close()
        await still_serves(harness)


SMUGGLED = b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
CHUNKED = "transfer-encoding: chunked"
LENGTH = f"content-length: {len(SMUGGLED) + 5}"


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ((CHUNKED, LENGTH), b"0\r\n\r\n"),
        ((LENGTH, CHUNKED), b"0\r\n\r\n"),
        (("Content-Length: 5", "Transfer-Encoding: chunked"), b"0\r\n\r\n"),
        ((CHUNKED,), b"0\r\n\n"),
        ((CHUNKED,), b"1\r\na\r\n0\r\nx: y\n\r\n"),
        ((CHUNKED,), b"0\r\nx: a\r\n b\r\n\r\n"),
        ((CHUNKED,), b"0\r\nx: y\r\n\r\n"),
        ((CHUNKED,), b"0\n\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("pieces", [1, 3, 1000])
async def test_a_request_that_can_be_read_in_two_ways_ends_its_connection(
    fields: tuple[str, ...], body: bytes, pieces: int
) -> None:
    """Whatever follows such a request is not taken for another one."""
    async with http_harness() as harness:
        reader, writer = await harness.raw()
        head = "\r\n".join(["POST /acp HTTP/1.1", "host: 127.0.0.1", *fields, "", ""]).encode()
        sent = head + body + SMUGGLED
        step = -(-len(sent) // pieces)
        for start in range(0, len(sent), step):
            writer.write(sent[start : start + step])
            await writer.drain()
            await asyncio.sleep(0)
        writer.write_eof()
        answered = await reader.read()
        assert answered.count(b"HTTP/1.1 ") == 1, answered
        assert answered.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 ")), answered
        assert b"connection: close" in answered.lower()
        assert harness.server.metrics.requests["200"] == 0
        writer.close()
        await still_serves(harness)


async def test_pipelined_chunked_requests_are_all_answered() -> None:
    async with http_harness() as harness:
        reader, writer = await harness.raw()
        one = harness.head("POST", content_type="application/json", transfer_encoding="chunked")
        one += b"2\r\n{}\r\n0\r\n\r\n"
        for piece in (one + one[:40], one[40:] + one):
            writer.write(piece)
            await writer.drain()
        for _ in range(3):
            head = (await RawSocket(reader, writer).head())[1:]
            (length,) = [line.partition(":")[2] for line in head if line.lower().startswith("content-length")]
            await reader.readexactly(int(length))
        writer.close()
        await still_serves(harness)


PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"\0" * 8
SETTINGS = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + b"\x00\x04\x00\x01\x00\x00"
SETTINGS_ACK = b"\x00\x00\x00\x04\x01\x00\x00\x00\x00"
UNKNOWN = b"\x00\x00\x00\xfa\x00\x00\x00\x00\x00"


@pytest.mark.parametrize("frame", [PING, SETTINGS, UNKNOWN], ids=["ping", "settings", "unknown"])
async def test_a_flood_of_http2_control_frames_ends_the_connection(frame: bytes) -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness:
        reader, writer = await harness.raw()
        writer.write(HTTP2_PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        writer.write(frame * 5000)
        received = await reader.read()
        end = received.rindex(b"\x00\x00\x08\x07\x00\x00\x00\x00\x00")  # GOAWAY
        code = int.from_bytes(received[end + 13 : end + 17], "big")
        assert code == h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
        assert harness.server.metrics.refused["control_frames"] == 1
        writer.close()
        await still_serves(harness)


async def test_regular_http2_pings_are_answered_forever() -> None:
    clock = FakeClock()
    async with http_harness(ServerConfig(header_time=1000), clock=clock) as harness:
        reader, writer = await harness.raw()
        writer.write(HTTP2_PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        for _ in range(30):
            writer.write(PING * 50)
            for _ in range(50):
                await reader.readuntil(b"\x00\x00\x08\x06\x01\x00\x00\x00\x00" + b"\0" * 8)
            await clock.advance(1)
        writer.close()
        await still_serves(harness)


async def test_noise_on_the_socket_does_not_stop_the_server() -> None:
    dice = random.Random(7)
    async with http_harness() as harness:
        whole = harness.head("POST", content_type="application/json", content_length="2") + b"{}"
        for number in range(60):
            reader, writer = await harness.raw()
            sent = bytearray(dice.choice([whole, HTTP2_PREFACE + whole, harness.head(**HANDSHAKE)]))
            for _ in range(dice.randrange(1, 8)):
                sent[dice.randrange(len(sent))] = dice.randrange(256)
            writer.write(bytes(sent) + dice.randbytes(number))
            writer.write_eof()
            await reader.read()
            writer.close()
        await still_serves(harness)


async def test_noise_on_a_websocket_does_not_stop_the_server() -> None:
    dice = random.Random(11)
    async with http_harness() as harness:
        for number in range(40):
            socket = await RawSocket.open(harness)
            socket.writer.write(dice.randbytes(number + 2))
            socket.writer.write_eof()
            await socket.reader.read()
            socket.close_socket()
        await still_serves(harness)


async def test_noise_on_http2_does_not_stop_the_server() -> None:
    dice = random.Random(13)
    async with http_harness() as harness:
        for number in range(40):
            reader, writer = await harness.raw()
            writer.write(HTTP2_PREFACE + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            size = dice.randrange(64)
            kind = dice.randrange(12)
            writer.write(
                size.to_bytes(3, "big") + bytes([kind, dice.randrange(256)]) + (number % 5).to_bytes(4, "big")
            )
            writer.write(dice.randbytes(size))
            writer.write_eof()
            await reader.read()
            writer.close()
        await still_serves(harness)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("path", ALL_PATHS)
async def test_a_large_body_is_rejected_or_discarded_on_every_path(version: int, path: str) -> None:
    async with (
        http_harness(ServerConfig(message_size=50_000)) as harness,
        http_client(harness, version) as client,
    ):
        kind = {"Content-Type": "application/json"}
        answer = await client.post(path, content=b"x" * 1_000_000, headers=kind)
        assert answer.status_code == {"/acp": 413, "/acp/known": 413}.get(path, answer.status_code)
        assert answer.status_code in (200, 204, 405, 413)
        assert (await client.get("/healthz")).status_code == 200


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("path", ALL_PATHS)
async def test_without_a_token_only_public_paths_answer(version: int, path: str) -> None:
    async with http_harness() as harness, http_client(harness, version, Authorization="") as client:
        for verb in ("GET", "POST", "DELETE", "PUT"):
            answer = await client.request(verb, path, json=INITIALIZE)
            open_to_all = path in ("/healthz", "/") and verb == "GET"
            out = path == "/api/logout" and verb == "POST"
            assert answer.status_code in ((200,) if open_to_all else (204,) if out else (401, 404, 405))
        assert harness.echo.clients == []


async def test_thousands_of_requests_with_a_wrong_token_are_rejected() -> None:
    async with http_harness() as harness:
        refused = 0
        head = harness.head(
            "POST", authorization="Bearer guess", content_type="application/json", content_length="0"
        )
        connections = 20 if ALL else 4
        for _ in range(connections):
            reader, writer = await harness.raw()
            for _ in range(5):
                writer.write(head * 100)
                for _ in range(100):
                    answer = await RawSocket(reader, writer).head()
                    length = next(int(line[16:]) for line in answer if line.startswith("Content-Length: "))
                    await reader.readexactly(length)
                    assert answer[0].split()[1] in ("401", "429")
                    refused += 1
            writer.close()
        assert refused == connections * 500
        assert harness.echo.clients == []
        async with http_client(harness, 1) as client:
            assert (await client.post("/acp", json=INITIALIZE)).status_code == 200, (
                "a right token must not be throttled"
            )


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with http_harness() as harness:
        reader, writer = await harness.raw()
        writer.write(
            harness.head(path="/healthz") + harness.head(path="/nothing") + harness.head(path="/health")
        )
        assert [await status(reader, writer) for _ in range(1)] == [200]
        await reader.readuntil(b"ok\n")
        assert await status(reader, writer) == 404
        await reader.readuntil(b"not found.\n")
        assert await status(reader, writer) == 200


async def test_expect_100_continue_is_answered_before_the_body() -> None:
    async with http_harness(ServerConfig(message_size=100)) as harness:
        reader, writer = await harness.raw()
        asking = {"content_type": "application/json", "expect": "100-continue"}
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
        writer.write(harness.head("POST", content_length=str(len(body)), **asking))
        assert await status(reader, writer) == 100
        writer.write(body)
        assert await status(reader, writer) == 200
        await reader.readuntil(b"}}")
        writer.write(harness.head("POST", content_length="1000", **asking))
        assert await status(reader, writer) == 413


async def test_a_slow_request_head_is_dropped() -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness:
        silent, dripping, preface = await harness.raw(), await harness.raw(), await harness.raw()
        preface[1].write(HTTP2_PREFACE[:20])
        await harness.until(lambda: harness.server.metrics.sockets == 3)
        for byte in b"GET /hea":
            dripping[1].write(bytes([byte]))
            await clock.advance(1)
        assert harness.server.metrics.sockets == 3
        await clock.advance(2)
        for reader, writer in (silent, dripping, preface):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(1)
            writer.close()


async def test_a_slow_second_head_is_dropped_and_an_idle_connection_closed() -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness:
        slow, idle = await harness.raw(), await harness.raw()
        for reader, writer in (slow, idle):
            writer.write(harness.head(path="/healthz"))
            await reader.readuntil(b"ok\n")
        await clock.advance(60)
        slow[1].write(b"GET ")
        await harness.until(lambda: harness.server.metrics.sockets == 2)
        await clock.advance(10)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await slow[0].readexactly(1)
        await clock.advance(5)
        assert await idle[0].read() == b""


@pytest.mark.parametrize("version", [1, 2])
async def test_a_slow_body_is_rejected(version: int) -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness, http_client(harness, version) as client:
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
        await harness.until(lambda: harness.server.metrics.sockets == 1)
        await clock.advance(61)
        assert harness.server.metrics.refused["slow"] == 1
        over.set()
        with suppress(httpx2.HTTPError):  # the client may see the closed socket first
            assert (await asking).status_code == 408


async def test_the_number_of_sockets_is_limited() -> None:
    async with http_harness(ServerConfig(sockets=3)) as harness:
        held = [await harness.raw() for _ in range(3)]
        for reader, writer in held:  # with a token: other sockets make room for new ones
            writer.write(harness.head(path="/metrics"))
            await reader.readuntil(b"\r\n\r\n")
        refused, _ = await harness.raw()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await refused.readexactly(1)
        held[0][1].close()
        await harness.until(lambda: harness.server.metrics.sockets == 2)
        await harness.raw()
        await harness.until(lambda: harness.server.metrics.sockets == 3)


class Http2Client:
    """HTTP/2 driven by hand, for what a correct client does not send."""

    def __init__(
        self, harness: HttpHarness, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.harness = harness
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
        own = {"authorization": f"Bearer {self.harness.secret}"} | headers
        fields = [
            (":method", verb),
            (":path", path),
            (":scheme", "http"),
            (":authority", f"{self.harness.host}:{self.harness.port}"),
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


async def test_inconsistent_http2_heads_are_rejected() -> None:
    async with http_harness() as harness:
        client = Http2Client(harness, *await harness.raw())
        stream = client.ask("/healthz", host="evil.test")
        client.flush()
        assert await client.status(stream) == "terminated"
        client = Http2Client(harness, *await harness.raw())
        stream = client.ask("relative")
        client.flush()
        assert await client.status(stream) == "400"
        stream = client.ask("/metrics", cookie="a=b")
        client.flush()
        assert await client.status(stream) == "200"


async def test_hundreds_of_reset_requests_end_the_connection() -> None:
    async with http_harness() as harness:
        client = Http2Client(harness, *await harness.raw())
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
        assert harness.server.metrics.refused["resets"] == 1


async def test_a_large_http2_head_is_rejected() -> None:
    async with http_harness() as harness:
        client = Http2Client(harness, *await harness.raw())
        client.ask("/healthz", x="y" * 60_000)
        client.flush()
        while not any(isinstance(event, h2.events.ConnectionTerminated) for event in await client.events()):
            pass
        await still_serves(harness)
