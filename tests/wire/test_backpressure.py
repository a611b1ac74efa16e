"""A slow reader slows the writer down; memory stays bounded; answers and cancels still get through below the bound."""

import asyncio
from typing import Any

from tests.wire.talk import Talk, route, small

from accord.wire.connection import Connection
from accord.wire.memory import HIGH_WATER, memory_pair
from accord.wire.transport import End, Frame


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


class Watched:
    """A transport that tells whether it is paused, and delivers what it is given."""

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
        self.receiver.ended(End("closed"))


class Deaf:
    """A receiver that wants nothing."""

    def frames(self, frames: list[Frame]) -> None: ...

    def ended(self, end: End) -> None: ...


def connected(**options: Any) -> tuple[Any, Watched]:
    watched = Watched()
    routes = {name: route(run) for name, run in options.pop("notifications", {}).items()}
    requests = {name: route(run) for name, run in options.pop("requests", {}).items()}
    connection = Connection(watched, requests=requests, notifications=routes, **options)
    connection.start()
    return connection, watched


def update(size: int) -> bytes:
    return b'{"jsonrpc":"2.0","method":"update","params":{"sessionId":"s","text":"' + b"x" * size + b'"}}'


async def test_reading_pauses_at_the_bound_and_goes_on_when_handlers_catch_up() -> None:
    gate = asyncio.Event()
    connection, wire = connected(
        notifications={"update": lambda params: gate.wait()}, limits=small(inbound=10_000)
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


async def test_below_the_bound_answers_are_seen_while_a_handler_is_slow() -> None:
    gate = asyncio.Event()
    talk = Talk(notifications={"update": lambda params: gate.wait()}, limits=small(inbound=1_000_000))
    for _ in range(100):
        talk.peer.notify("update", {"sessionId": "slow"})
    asking = asyncio.create_task(talk.request("ask", key="other"))
    talk.peer.reply(await talk.peer.next("ask"), "seen")
    assert await asking == "seen"
    gate.set()


async def test_a_call_made_over_a_large_backlog_gets_its_answer() -> None:
    connection, wire = connected(limits=small(inbound=1000))
    connection.hold(3500)  # one message may be far over the bound
    assert wire.paused
    asking = asyncio.create_task(connection.request("ask", {}, read=bytes))
    await settle()
    wire.deliver(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert await asking == b"{}"
    await connection.aclose()


async def test_what_the_application_holds_counts_until_it_is_released() -> None:
    connection, wire = connected(limits=small(inbound=1000))
    connection.hold(900)
    assert not wire.paused
    connection.hold(200)
    assert wire.paused
    connection.release(700)
    assert not wire.paused
    connection.release(400)
    await connection.aclose()


async def test_a_caller_that_waits_for_an_answer_keeps_the_reading_going() -> None:
    connection, wire = connected(limits=small(inbound=1000))
    connection.hold(1500)
    assert wire.paused
    asking = asyncio.create_task(connection.request("ask", {}, read=lambda raw: bytes(raw)))
    await settle()
    assert not wire.paused
    wire.deliver(b'{"jsonrpc":"2.0","id":1,"result":7}')
    assert await asking == b"7"
    connection.hold(1)
    assert wire.paused
    await connection.aclose()


async def test_a_streaming_call_does_not_lift_the_bound() -> None:
    connection, wire = connected(limits=small(inbound=1000))
    asking = asyncio.create_task(
        connection.request("prompt", {}, read=lambda raw: bytes(raw), streaming=True)
    )
    await settle()
    connection.hold(1500)
    assert wire.paused
    connection.release(1500)
    wire.deliver(b'{"jsonrpc":"2.0","id":1,"result":7}')
    await asking
    await connection.aclose()


async def test_answers_that_nobody_reads_stop_us_from_taking_more_requests() -> None:
    connection, wire = connected(requests={"echo": lambda params, call: params}, limits=small(outbound=100))
    wire.unsent = 101
    wire.deliver(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{}}')
    assert wire.paused
    wire.unsent = 0
    wire.drained.set()
    await settle()
    assert not wire.paused
    await connection.aclose()


async def test_a_flood_with_a_reader_that_does_not_read_blocks_the_writer_within_the_bound() -> None:
    bound = 64 * 1024
    ours, theirs = memory_pair()
    gate = asyncio.Event()
    all_seen = asyncio.Event()
    seen = 0

    async def slow(params: dict[str, Any]) -> None:
        nonlocal seen
        await gate.wait()
        seen += 1
        if seen == total:
            all_seen.set()

    connection = Connection(
        ours, requests={}, notifications={"update": route(slow)}, limits=small(inbound=bound)
    )
    connection.start()
    theirs.start(Deaf())
    frame = update(100)
    total = 100_000
    sent = 0

    async def flood() -> None:
        nonlocal sent
        while sent < total:
            theirs.send(frame)
            sent += 1
            await theirs.drain()

    flooding = asyncio.create_task(flood())
    await settle()
    assert not flooding.done()
    assert sent * len(frame) < bound + 2 * HIGH_WATER
    gate.set()
    await flooding
    await all_seen.wait()
    await connection.aclose()
