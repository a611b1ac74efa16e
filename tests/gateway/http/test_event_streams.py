"""Event streams: routing, waiting for a reader, ids, reconnecting, taking over, keep-alive, the end."""

import asyncio

import httpx2
import pytest
from tests.gateway.http.http_client import Event, EventReader, http_client, open_connection
from tests.gateway.http.http_harness import INITIALIZE, http_harness

from accord.gateway.access.resource_limits import GatewayLimits
from accord.gateway.http import ServerConfig
from accord.testing import FakeClock

both_versions = pytest.mark.parametrize("version", [1, 2])


def numbered(number: int) -> dict[str, object]:
    """A notification with a number."""
    return {"method": "note", "params": {"n": number}}


async def numbers(events: EventReader, count: int) -> list[tuple[str | None, int]]:
    """The ids and numbers of the next events."""
    found: list[tuple[str | None, int]] = []
    for _ in range(count):
        event = await events.next()
        assert event is not None
        assert event.comment is None
        found.append((event.id, event.data["params"]["n"]))
    return found


@both_versions
async def test_each_stream_carries_its_own_events_in_order_with_ids(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        [handler] = harness.echo.clients
        async with EventReader(client, connection) as own, EventReader(client, connection, "s1") as session:
            assert own.response.headers["content-type"] == "text/event-stream"
            assert own.response.headers["acp-connection-id"] == handler.connection.id
            for number in range(3):
                handler.send(numbered(number))
                handler.send(numbered(10 + number), "s1")
            assert await numbers(own, 3) == [("1", 0), ("2", 1), ("3", 2)]
            assert await numbers(session, 3) == [("1", 10), ("2", 11), ("3", 12)]


@both_versions
async def test_a_prompt_is_answered_on_the_stream_of_its_session(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        async with EventReader(client, connection, "s1") as session:
            prompt = {"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {"sessionId": "s1"}}
            await client.post("/acp", json=prompt, headers=connection | {"Acp-Session-Id": "s1"})
            event = await session.next()
            assert event == Event("1", {"jsonrpc": "2.0", "id": 3, "result": {"sessionId": "s1"}})


@both_versions
async def test_events_sent_before_a_reader_connects_are_kept(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        [handler] = harness.echo.clients
        for number in range(100):
            handler.send(numbered(number), "later")
        assert handler.connection.unsent > 0
        async with EventReader(client, connection, "later") as session:
            assert [n for _, n in await numbers(session, 100)] == list(range(100))
        await harness.echo.until(lambda: handler.connection.unsent == 0)


@both_versions
async def test_a_large_event_arrives_whole(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        [handler] = harness.echo.clients
        async with EventReader(client, connection) as events:
            handler.send({"method": "note", "params": {"text": "ä" * 3_000_000}})
            handler.send(numbered(1))
            event = await events.next()
            assert event is not None
            assert event.data["params"]["text"] == "ä" * 3_000_000
            assert await numbers(events, 1) == [("2", 1)]


@both_versions
async def test_a_second_reader_is_rejected_unless_it_takes_over(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        [handler] = harness.echo.clients
        async with EventReader(client, connection) as first:
            handler.send(numbered(1))
            handler.send(numbered(2))
            assert await numbers(first, 2) == [("1", 1), ("2", 2)]
            async with EventReader(client, connection) as second:
                assert second.status == 409
            async with EventReader(client, connection, last="1") as third:
                assert third.status == 200
                assert await numbers(third, 1) == [("2", 2)]
                assert await first.next() is None
                handler.send(numbered(3))
                assert await numbers(third, 1) == [("3", 3)]


@both_versions
async def test_a_returning_reader_gets_missed_events_once(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        [handler] = harness.echo.clients
        async with EventReader(client, connection, "s1") as session:
            for number in range(5):
                handler.send(numbered(number), "s1")
            assert len(await numbers(session, 5)) == 5
        for number in range(5, 8):
            handler.send(numbered(number), "s1")
        async with EventReader(client, connection, "s1", last="3") as session:
            assert session.status == 200
            assert await numbers(session, 5) == [(str(n + 1), n) for n in range(3, 8)]


@both_versions
async def test_dropped_events_are_announced_by_a_comment(version: int) -> None:
    async with (
        http_harness(ServerConfig(resume_frames=2)) as harness,
        http_client(harness, version) as client,
    ):
        connection = await open_connection(client)
        [handler] = harness.echo.clients
        async with EventReader(client, connection) as events:
            for number in range(6):
                handler.send(numbered(number))
            assert len(await numbers(events, 6)) == 6
        async with EventReader(client, connection, last="1") as events:
            assert await events.next() == Event(comment="3 events before the next one were dropped")
            assert await numbers(events, 2) == [("5", 4), ("6", 5)]
        async with EventReader(client, connection, last="99") as events:
            assert await events.next() == Event(comment="event 99 was never sent")
            handler.send(numbered(6))
            assert await numbers(events, 1) == [("7", 6)]
        async with EventReader(client, connection, last="x-1") as events:
            assert events.status == 200
            assert (await events.next() or Event()).comment is not None


@both_versions
async def test_a_quiet_stream_gets_a_comment_every_fifteen_seconds(version: int) -> None:
    clock = FakeClock()
    async with http_harness(clock=clock) as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        async with EventReader(client, connection) as events:
            await clock.advance(14)
            harness.echo.clients[0].send(numbered(1))
            await clock.advance(14)
            harness.echo.clients[0].send(numbered(2))
            assert await numbers(events, 2) == [("1", 1), ("2", 2)]
            await clock.advance(15)
            assert await events.next() == Event(comment="")
            await clock.advance(15)
            assert await events.next() == Event(comment="")


@both_versions
async def test_a_connection_without_a_reader_ends_after_the_grace_time(version: int) -> None:
    clock = FakeClock()
    note = {"jsonrpc": "2.0", "method": "note"}
    async with http_harness(clock=clock) as harness:
        async with http_client(harness, version) as client:
            connection = await open_connection(client)
        [handler] = harness.echo.clients
        await clock.advance(119)
        async with http_client(harness, version) as client:
            assert (await client.post("/acp", json=note, headers=connection)).status_code == 202
        await clock.advance(119)
        async with http_client(harness, version) as client, EventReader(client, connection, "s1"):
            await clock.advance(300)
        assert handler.reasons == []
        await harness.until(lambda: harness.server.metrics.streams == 0)
        await clock.advance(119)
        assert handler.reasons == []
        await clock.advance(1)
        await harness.until(lambda: bool(handler.reasons))
        assert handler.reasons == ["the client did not resume within 120 seconds"]
        async with http_client(harness, version) as client:
            assert (await client.post("/acp", json=note, headers=connection)).status_code == 404


@both_versions
async def test_the_end_of_a_connection_ends_its_streams(version: int) -> None:
    async with http_harness() as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        async with EventReader(client, connection) as own, EventReader(client, connection, "s1") as session:
            harness.echo.clients[0].send(numbered(1))
            harness.echo.clients[0].connection.end(1000, "done")
            harness.echo.clients[0].send(numbered(2))
            assert await numbers(own, 1) == [("1", 1)]
            assert await own.next() is None
            assert await session.next() is None


@both_versions
async def test_too_many_unread_bytes_end_the_connection(version: int) -> None:
    config = ServerConfig(max_held_bytes=100_000)
    async with http_harness(config) as harness, http_client(harness, version) as client:
        await open_connection(client)
        [handler] = harness.echo.clients
        for _ in range(11):
            handler.send({"method": "note", "params": "x" * 10_000}, "unread")
        await harness.echo.until(lambda: bool(handler.reasons))
        assert handler.reasons == ["more than 100000 bytes or 65536 messages are waiting"]
        assert harness.server.metrics.lost == 1


@both_versions
async def test_too_many_unread_streams_end_the_connection(version: int) -> None:
    async with http_harness(ServerConfig(streams=3)) as harness, http_client(harness, version) as client:
        await open_connection(client)
        [handler] = harness.echo.clients
        for number in range(5):
            handler.send(numbered(number), f"s{number}")
        await harness.echo.until(lambda: bool(handler.reasons))
        assert handler.reasons == ["more than 3 unread event streams"]


@both_versions
async def test_too_many_streams_cannot_be_opened(version: int) -> None:
    async with http_harness(ServerConfig(streams=3)) as harness, http_client(harness, version) as client:
        connection = await open_connection(client)
        [handler] = harness.echo.clients
        for number in range(3):
            handler.send(numbered(number), f"s{number}")
        async with EventReader(client, connection, "one-more") as events:
            assert events.status == 429
        async with http_client(harness, version) as other, EventReader(other, connection, "s0") as events:
            assert await numbers(events, 1) == [("1", 0)]
        await harness.until(lambda: harness.server.metrics.streams == 0)
        async with EventReader(client, connection, "one-more") as events:
            assert events.status == 200, "a fully read stream must free its place"


@both_versions
async def test_unread_bytes_count_against_the_token(version: int) -> None:
    limits = GatewayLimits(buffered_bytes=50_000)
    async with http_harness(limits=limits) as harness, http_client(harness, version) as client:
        await open_connection(client)
        await open_connection(client)
        for handler in harness.echo.clients:
            handler.send({"method": "note", "params": "x" * 30_000})
        await harness.echo.until(lambda: any(handler.reasons for handler in harness.echo.clients))
        assert [len(handler.reasons) for handler in harness.echo.clients] == [0, 1]
        assert "unread bytes" in harness.echo.clients[1].reasons[0]


async def test_http2_carries_many_streams_on_one_socket() -> None:
    async with http_harness() as harness, http_client(harness, 2) as client:
        connection = await open_connection(client)
        [handler] = harness.echo.clients
        readers = [EventReader(client, connection, f"s{number}") for number in range(50)]
        for reader in readers:
            await reader.__aenter__()
        assert harness.server.metrics.sockets == 1
        for number in range(50):
            handler.send(numbered(number), f"s{number}")
        for number, reader in enumerate(readers):
            assert await numbers(reader, 1) == [("1", number)]
        for reader in readers:
            await reader.__aexit__(None, None, None)


async def test_a_client_that_leaves_before_its_initialize_answer_ends_its_connection() -> None:
    async with http_harness() as harness:
        harness.echo.silent_on.add("initialize")
        async with http_client(harness, 1) as client:
            asking = asyncio.ensure_future(client.post("/acp", json=INITIALIZE))
            await harness.echo.until(lambda: bool(harness.echo.clients))
            asking.cancel()
            with pytest.raises((asyncio.CancelledError, httpx2.HTTPError)):
                await asking
        await harness.echo.until(lambda: bool(harness.echo.clients[0].reasons))
        assert harness.echo.clients[0].reasons == ["the client left before initialize was answered"]
