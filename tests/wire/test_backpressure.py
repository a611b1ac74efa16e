"""Back-pressure: a slow reader slows the writer, memory stays bounded, responses and cancels still pass."""

import asyncio
from typing import Any

from tests.wire.connection_pair import ConnectionPair, make_limits, route

from accord.wire.connection import Connection
from accord.wire.memory_transport import HIGH_WATER, memory_pair
from accord.wire.transport import Frame, TransportEnd


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


class RecordingTransport:
    """A transport that records pauses and delivers the frames it is given."""

    def __init__(self) -> None:
        self.paused = False
        self.pauses = 0
        self.sent: list[bytes] = []
        self.unsent = 0
        self.drained = asyncio.Event()

    def start(self, receiver: Any) -> None:
        self.receiver = receiver

    def deliver(self, *frames: Frame) -> None:
        assert not self.paused
        self.receiver.frames(list(frames))

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    async def drain(self) -> None:
        await self.drained.wait()

    def pause(self) -> None:
        self.paused = True
        self.pauses += 1

    def resume(self) -> None:
        self.paused = False

    async def aclose(self) -> None:
        self.receiver.ended(TransportEnd("closed"))


class DiscardingReceiver:
    """A receiver that discards everything."""

    def frames(self, frames: list[Frame]) -> None: ...

    def ended(self, end: TransportEnd) -> None: ...


def connected(**options: Any) -> tuple[Any, RecordingTransport]:
    transport = RecordingTransport()
    routes = {name: route(run) for name, run in options.pop("notifications", {}).items()}
    requests = {name: route(run) for name, run in options.pop("requests", {}).items()}
    connection = Connection(transport, requests=requests, notifications=routes, **options)
    connection.start()
    return connection, transport


def update(size: int) -> bytes:
    return b'{"jsonrpc":"2.0","method":"update","params":{"sessionId":"s","text":"' + b"x" * size + b'"}}'


async def test_reading_pauses_at_the_bound_and_resumes_when_handlers_catch_up() -> None:
    gate = asyncio.Event()
    connection, wire = connected(
        notifications={"update": lambda params: gate.wait()}, limits=make_limits(inbound=10_000)
    )
    for _ in range(30):
        if wire.paused:
            break
        wire.deliver(update(1000))
    assert wire.paused
    gate.set()
    await settle()
    assert not wire.paused
    await connection.aclose()


async def test_below_the_bound_responses_arrive_while_a_handler_is_slow() -> None:
    gate = asyncio.Event()
    pair = ConnectionPair(
        notifications={"update": lambda params: gate.wait()}, limits=make_limits(inbound=1_000_000)
    )
    for _ in range(100):
        pair.peer.notify("update", {"sessionId": "slow"})
    pending = asyncio.create_task(pair.request("ask", key="other"))
    pair.peer.reply(await pair.peer.next("ask"), "seen")
    assert await pending == "seen"
    gate.set()


async def test_a_call_made_during_a_large_backlog_gets_its_response() -> None:
    connection, wire = connected(limits=make_limits(inbound=1000))
    connection.pressure.hold(3500)  # a single message may exceed the bound by far
    assert wire.paused
    pending = asyncio.create_task(connection.request("ask", {}, read=bytes))
    await settle()
    wire.deliver(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert await pending == b"{}"
    await connection.aclose()


async def test_held_bytes_count_until_they_are_released() -> None:
    connection, wire = connected(limits=make_limits(inbound=1000))
    connection.pressure.hold(900)
    assert not wire.paused
    connection.pressure.hold(200)
    assert wire.paused
    connection.pressure.release(700)
    assert not wire.paused
    connection.pressure.release(400)
    await connection.aclose()


async def test_reading_continues_while_a_caller_waits_for_a_response() -> None:
    connection, wire = connected(limits=make_limits(inbound=1000))
    connection.pressure.hold(1500)
    assert wire.paused
    pending = asyncio.create_task(connection.request("ask", {}, read=lambda raw: bytes(raw)))
    await settle()
    assert not wire.paused
    wire.deliver(b'{"jsonrpc":"2.0","id":1,"result":7}')
    assert await pending == b"7"
    connection.pressure.hold(1)
    assert wire.paused
    await connection.aclose()


async def test_a_streaming_call_does_not_lift_the_bound() -> None:
    connection, wire = connected(limits=make_limits(inbound=1000))
    pending = asyncio.create_task(
        connection.request("prompt", {}, read=lambda raw: bytes(raw), streaming=True)
    )
    await settle()
    connection.pressure.hold(1500)
    assert wire.paused
    connection.pressure.release(1500)
    wire.deliver(b'{"jsonrpc":"2.0","id":1,"result":7}')
    await pending
    await connection.aclose()


async def test_unread_responses_pause_the_reading_of_requests() -> None:
    connection, wire = connected(
        requests={"echo": lambda params, call: params}, limits=make_limits(outbound=100)
    )
    wire.unsent = 101
    wire.deliver(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{}}')
    assert wire.paused
    wire.unsent = 0
    wire.drained.set()
    await settle()
    assert not wire.paused
    await connection.aclose()


async def test_a_flood_to_a_stalled_handler_blocks_the_writer_within_the_bound() -> None:
    bound = 64 * 1024
    ours, theirs = memory_pair()
    gate = asyncio.Event()
    all_seen = asyncio.Event()
    handled = 0

    async def slow(params: dict[str, Any]) -> None:
        nonlocal handled
        await gate.wait()
        handled += 1
        if handled == total:
            all_seen.set()

    connection = Connection(
        ours, requests={}, notifications={"update": route(slow)}, limits=make_limits(inbound=bound)
    )
    connection.start()
    theirs.start(DiscardingReceiver())
    frame = update(100)
    total = 100_000
    sent = 0

    async def flood() -> None:
        nonlocal sent
        while sent < total:
            theirs.send(frame)
            sent += 1
            await theirs.drain()

    flood_task = asyncio.create_task(flood())
    await settle()
    assert not flood_task.done()
    assert sent * len(frame) < bound + 2 * HIGH_WATER
    gate.set()
    await flood_task
    await all_seen.wait()
    await connection.aclose()


class HoldingTransport(RecordingTransport):
    """A wrapper of an application, which holds frames itself; what it wraps is no transport."""

    def __init__(self) -> None:
        super().__init__()
        self.transport = object()


async def test_unsent_bytes_of_a_wrapper_count_whatever_it_wraps() -> None:
    connection = Connection(
        HoldingTransport(), requests={}, notifications={}, limits=make_limits(outbound=10)
    )
    connection.start()
    await connection.drain()
    assert not connection.must_drain()
    wrapper: Any = connection.transport
    wrapper.unsent = 11
    assert connection.must_drain()
