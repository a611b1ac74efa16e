"""Clients that do not read are disconnected without effect on others, and can resume."""

import asyncio
import socket as sockets

import pytest
from tests.gateway.http.http_harness import INITIALIZE, HttpHarness, http_harness
from tests.gateway.http.raw_socket import HANDSHAKE, RawSocket

from accord.gateway.http import ServerConfig
from accord.testing import FakeClock

CHUNK = "x" * 100_000


async def non_reading_socket(harness: HttpHarness) -> tuple[RawSocket, sockets.socket]:
    """A WebSocket with small kernel buffers whose client has stopped reading."""
    plain = sockets.socket()
    plain.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, (harness.host, harness.port))
    reader, writer = await asyncio.open_connection(sock=plain, limit=1024)
    harness.sockets.append(writer)
    socket = RawSocket(reader, writer)
    writer.write(harness.head(**HANDSHAKE))
    head = await socket.head()
    socket.id = next(line.partition(": ")[2] for line in head if line.startswith("Acp-Connection-Id"))
    socket.send(**{name: value for name, value in INITIALIZE.items() if name != "jsonrpc"})
    await socket.receive()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    return socket, plain


def flood(harness: HttpHarness, which: int, size: int) -> int:
    """Send this many bytes to one client. Return the number of messages."""
    handler = harness.echo.clients[which]
    count = size // len(CHUNK) + 1
    for _ in range(count):
        handler.send({"method": "note", "params": CHUNK})
    return count


async def test_a_client_with_too_much_unread_is_disconnected_alone_and_can_resume() -> None:
    clock = FakeClock()
    config = ServerConfig(unsent=1_000_000)
    async with http_harness(config, clock=clock) as harness:
        stalled, _ = await non_reading_socket(harness)
        good = await RawSocket.open(harness)
        count = flood(harness, 0, 8_000_000)
        await harness.until(lambda: harness.echo.clients[0].connection.unsent > 0)
        await clock.advance(5)
        await harness.until(lambda: harness.server.metrics.cut_off == 1)
        assert harness.echo.clients[0].reasons == []
        harness.echo.clients[1].send({"method": "note", "params": 1})
        assert (await good.receive())["params"] == 1
        back = await RawSocket.open(harness, initialize=False)
        back.send(id="r", method="_accord/resume", params={"connectionId": stalled.id, "received": 1})
        assert (await back.receive())["id"] == "r"
        for _ in range(count):
            assert (await back.receive())["params"] == CHUNK
        assert harness.server.metrics.lost == 0


async def test_a_client_that_stops_reading_is_disconnected_after_a_while() -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness:
        stalled, _ = await non_reading_socket(harness)
        flood(harness, 0, 6_000_000)
        for _ in range(29):
            await clock.advance(1)
            stalled.send_frame(b"alive", 0xA)
        assert harness.server.metrics.cut_off == 0
        while not harness.server.metrics.cut_off:
            await clock.advance(1)
            stalled.send_frame(b"alive", 0xA)
        assert harness.echo.clients[0].reasons == []


async def test_a_slow_client_that_keeps_reading_is_not_disconnected() -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness:
        slow, plain = await non_reading_socket(harness)
        flood(harness, 0, 6_000_000)
        line = harness.echo.clients[0].connection
        await harness.until(lambda: line.unsent > 0)

        def reads_some(target: float) -> bool:
            try:
                plain.recv(1 << 20)
            except BlockingIOError:
                pass
            return line.unsent <= target

        for _ in range(10):
            target = line.unsent * 3 // 4
            await harness.until(lambda target=target: reads_some(target))
            received_frames = harness.server.metrics.frames_in
            slow.send(method="note")
            await harness.until(
                lambda received_frames=received_frames: harness.server.metrics.frames_in > received_frames
            )
            await clock.advance(15)
        assert harness.server.metrics.cut_off == 0


async def test_a_large_burst_reaches_a_client_that_reads() -> None:
    async with http_harness(ServerConfig(unsent=1_000_000), clock=FakeClock()) as harness:
        reader = await RawSocket.open(harness)
        for _ in range(flood(harness, 0, 20_000_000)):
            assert (await reader.receive())["params"] == CHUNK
        assert harness.server.metrics.cut_off == 0


@pytest.mark.parametrize("stalls", [True, False])
async def test_an_event_reader_that_stops_is_disconnected_and_its_connection_stays(stalls: bool) -> None:
    clock = FakeClock()
    config = ServerConfig() if stalls else ServerConfig(unsent=1_000_000)
    async with http_harness(config, clock=clock) as harness:
        reader, writer = await harness.raw()
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
        kind = {"content_type": "application/json", "content_length": str(len(body))}
        writer.write(harness.head("POST", **kind) + body)
        head = await RawSocket(reader, writer).head()
        id = next(line.partition(": ")[2] for line in head if line.startswith("Acp-Connection-Id"))
        await reader.readuntil(b"}}")
        writer.write(harness.head(accept="text/event-stream", acp_connection_id=id))
        await RawSocket(reader, writer).head()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        count = flood(harness, 0, 7_000_000)
        [handler] = harness.echo.clients
        await harness.until(lambda: handler.connection.unsent > 0)
        await clock.advance(35 if stalls else 5)
        await harness.until(lambda: harness.server.metrics.cut_off == 1)
        assert handler.reasons == []
        again, asking = await harness.raw()
        asking.write(harness.head(accept="text/event-stream", acp_connection_id=id, last_event_id="0"))
        assert " 200 " in (await RawSocket(again, asking).head())[0]
        assert count > 60
        for number in range(1, count + 1):
            assert f"id: {number}\n".encode() in await again.readuntil(b"\ndata: ")
            await again.readuntil(b'"}')
            if number < 3:
                continue
            break


async def test_a_client_that_pings_but_never_reads_is_dropped() -> None:
    async with http_harness() as harness:
        stalled, _ = await non_reading_socket(harness)
        flood(harness, 0, 5_000_000)
        await harness.until(lambda: harness.echo.clients[0].connection.unsent > 0)
        try:
            while harness.server.metrics.sockets:
                stalled.send_frame(b"p" * 125, 0x9)
                await stalled.writer.drain()
        except ConnectionError:
            pass
        await harness.until(lambda: harness.server.metrics.sockets == 0)
        assert harness.echo.clients[0].reasons == []


async def test_a_thousand_frames_at_once_reach_every_client_in_order() -> None:
    async with http_harness() as harness:
        readers = [await RawSocket.open(harness) for _ in range(20)]
        for number in range(1000):
            for handler in harness.echo.clients:
                handler.send({"method": "note", "params": number})
        for reader in readers:
            assert [(await reader.receive())["params"] for _ in range(1000)] == list(range(1000))
