"""Clients that do not read: cut off alone, with their place kept; nobody else notices."""

import asyncio
import socket as sockets

import pytest
from tests.gateway.front.stage import INITIALIZE, Stage, a_front
from tests.gateway.front.wire import HANDSHAKE, RawSocket

from accord.gateway.front import FrontConfig
from accord.testing import FakeClock

CHUNK = "x" * 100_000


async def a_deaf_socket(stage: Stage) -> tuple[RawSocket, sockets.socket]:
    """A WebSocket whose client reads what is asked of it and not one byte more; small buffers in the kernel."""
    plain = sockets.socket()
    plain.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, (stage.host, stage.port))
    reader, writer = await asyncio.open_connection(sock=plain, limit=1024)
    stage.sockets.append(writer)
    socket = RawSocket(reader, writer)
    writer.write(stage.head(**HANDSHAKE))
    head = await socket.head()
    socket.id = next(line.partition(": ")[2] for line in head if line.startswith("Acp-Connection-Id"))
    socket.tell(**{name: value for name, value in INITIALIZE.items() if name != "jsonrpc"})
    await socket.hear()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    return socket, plain


def flood(stage: Stage, which: int, size: int) -> int:
    """Send so many bytes to one client; how many messages that were."""
    opened = stage.echo.clients[which]
    count = size // len(CHUNK) + 1
    for _ in range(count):
        opened.tell({"method": "note", "params": CHUNK})
    return count


async def test_a_client_with_too_much_unread_is_cut_off_alone_and_comes_back() -> None:
    clock = FakeClock()
    config = FrontConfig(unsent=1_000_000)
    async with a_front(config, clock=clock) as stage:
        deaf, _ = await a_deaf_socket(stage)
        good = await RawSocket.open(stage)
        count = flood(stage, 0, 8_000_000)
        await stage.until(lambda: stage.echo.clients[0].line.unsent > 0)
        await clock.advance(5)
        await stage.until(lambda: stage.front.metrics.cut_off == 1)
        assert stage.echo.clients[0].reasons == []
        stage.echo.clients[1].tell({"method": "note", "params": 1})
        assert (await good.hear())["params"] == 1
        back = await RawSocket.open(stage, initialize=False)
        back.tell(id="r", method="_accord/resume", params={"connectionId": deaf.id, "received": 1})
        assert (await back.hear())["id"] == "r"
        for _ in range(count):
            assert (await back.hear())["params"] == CHUNK
        assert stage.front.metrics.lost == 0


async def test_a_client_that_stops_reading_is_cut_off_after_a_while() -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage:
        deaf, _ = await a_deaf_socket(stage)
        flood(stage, 0, 6_000_000)
        for _ in range(29):
            await clock.advance(1)
            deaf.say(b"alive", 0xA)
        assert stage.front.metrics.cut_off == 0
        while not stage.front.metrics.cut_off:
            await clock.advance(1)
            deaf.say(b"alive", 0xA)
        assert stage.echo.clients[0].reasons == []


async def test_a_slow_client_that_reads_on_is_not_cut_off() -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage:
        slow, plain = await a_deaf_socket(stage)
        flood(stage, 0, 6_000_000)
        line = stage.echo.clients[0].line
        await stage.until(lambda: line.unsent > 0)

        def reads_some(target: float) -> bool:
            try:
                plain.recv(1 << 20)
            except BlockingIOError:
                pass
            return line.unsent <= target

        for _ in range(10):
            target = line.unsent * 3 // 4
            await stage.until(lambda target=target: reads_some(target))
            heard = stage.front.metrics.frames_in
            slow.tell(method="note")
            await stage.until(lambda heard=heard: stage.front.metrics.frames_in > heard)
            await clock.advance(15)
        assert stage.front.metrics.cut_off == 0


async def test_a_burst_longer_than_a_socket_is_read_by_who_reads() -> None:
    async with a_front(FrontConfig(unsent=1_000_000), clock=FakeClock()) as stage:
        reader = await RawSocket.open(stage)
        for _ in range(flood(stage, 0, 20_000_000)):
            assert (await reader.hear())["params"] == CHUNK
        assert stage.front.metrics.cut_off == 0


@pytest.mark.parametrize("stalls", [True, False])
async def test_a_reader_of_an_event_stream_that_stops_is_cut_off_and_its_line_stays(stalls: bool) -> None:
    clock = FakeClock()
    config = FrontConfig() if stalls else FrontConfig(unsent=1_000_000)
    async with a_front(config, clock=clock) as stage:
        reader, writer = await stage.raw()
        body = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
        kind = {"content_type": "application/json", "content_length": str(len(body))}
        writer.write(stage.head("POST", **kind) + body)
        head = await RawSocket(reader, writer).head()
        id = next(line.partition(": ")[2] for line in head if line.startswith("Acp-Connection-Id"))
        await reader.readuntil(b"}}")
        writer.write(stage.head(accept="text/event-stream", acp_connection_id=id))
        await RawSocket(reader, writer).head()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        count = flood(stage, 0, 7_000_000)
        [opened] = stage.echo.clients
        await stage.until(lambda: opened.line.unsent > 0)
        await clock.advance(35 if stalls else 5)
        await stage.until(lambda: stage.front.metrics.cut_off == 1)
        assert opened.reasons == []
        again, asking = await stage.raw()
        asking.write(stage.head(accept="text/event-stream", acp_connection_id=id, last_event_id="0"))
        assert " 200 " in (await RawSocket(again, asking).head())[0]
        assert count > 60
        for number in range(1, count + 1):
            assert f"id: {number}\n".encode() in await again.readuntil(b"\ndata: ")
            await again.readuntil(b'"}')
            if number < 3:
                continue
            break


async def test_a_client_that_only_pings_and_never_reads_is_dropped() -> None:
    async with a_front() as stage:
        deaf, _ = await a_deaf_socket(stage)
        flood(stage, 0, 5_000_000)
        await stage.until(lambda: stage.echo.clients[0].line.unsent > 0)
        try:
            while stage.front.metrics.sockets:
                deaf.say(b"p" * 125, 0x9)
                await deaf.writer.drain()
        except ConnectionError:
            pass
        await stage.until(lambda: stage.front.metrics.sockets == 0)
        assert stage.echo.clients[0].reasons == []


async def test_a_thousand_frames_in_one_turn_are_one_write_each_client() -> None:
    async with a_front() as stage:
        readers = [await RawSocket.open(stage) for _ in range(20)]
        for number in range(1000):
            for opened in stage.echo.clients:
                opened.tell({"method": "note", "params": number})
        for reader in readers:
            assert [(await reader.hear())["params"] for _ in range(1000)] == list(range(1000))
