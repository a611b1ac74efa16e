"""Event streams: what goes on which, waiting for a reader, ids, coming back, taking over, keep-alive, the end."""

import asyncio

import httpx2
import pytest
from tests.gateway.front.browser import Event, Reading, a_browser, a_connection
from tests.gateway.front.stage import INITIALIZE, a_front

from accord.gateway.access.limits import Limits
from accord.gateway.front import FrontConfig
from accord.testing import FakeClock

both = pytest.mark.parametrize("version", [1, 2])


def numbered(number: int) -> dict[str, object]:
    """A notification that can be told from others."""
    return {"method": "note", "params": {"n": number}}


async def numbers(events: Reading, count: int) -> list[tuple[str | None, int]]:
    """The ids and numbers of so many events."""
    found: list[tuple[str | None, int]] = []
    for _ in range(count):
        event = await events.next()
        assert event is not None
        assert event.comment is None
        found.append((event.id, event.data["params"]["n"]))
    return found


@both
async def test_each_stream_carries_its_own_in_order_with_ids(version: int) -> None:
    async with a_front() as stage, a_browser(stage, version) as client:
        named = await a_connection(client)
        [opened] = stage.echo.clients
        async with Reading(client, named) as own, Reading(client, named, "s1") as session:
            assert own.response.headers["content-type"] == "text/event-stream"
            assert own.response.headers["acp-connection-id"] == opened.line.id
            for number in range(3):
                opened.tell(numbered(number))
                opened.tell(numbered(10 + number), "s1")
            assert await numbers(own, 3) == [("1", 0), ("2", 1), ("3", 2)]
            assert await numbers(session, 3) == [("1", 10), ("2", 11), ("3", 12)]


@both
async def test_the_answer_of_a_prompt_comes_on_the_stream_of_its_session(version: int) -> None:
    async with a_front() as stage, a_browser(stage, version) as client:
        named = await a_connection(client)
        async with Reading(client, named, "s1") as session:
            prompt = {"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": {"sessionId": "s1"}}
            await client.post("/acp", json=prompt, headers=named | {"Acp-Session-Id": "s1"})
            event = await session.next()
            assert event == Event("1", {"jsonrpc": "2.0", "id": 3, "result": {"sessionId": "s1"}})


@both
async def test_what_is_sent_before_anyone_reads_waits(version: int) -> None:
    async with a_front() as stage, a_browser(stage, version) as client:
        named = await a_connection(client)
        [opened] = stage.echo.clients
        for number in range(100):
            opened.tell(numbered(number), "later")
        assert opened.line.unsent > 0
        async with Reading(client, named, "later") as session:
            assert [n for _, n in await numbers(session, 100)] == list(range(100))
        await stage.echo.until(lambda: opened.line.unsent == 0)


@both
async def test_a_large_event_arrives_whole(version: int) -> None:
    async with a_front() as stage, a_browser(stage, version) as client:
        named = await a_connection(client)
        [opened] = stage.echo.clients
        async with Reading(client, named) as events:
            opened.tell({"method": "note", "params": {"text": "ä" * 3_000_000}})
            opened.tell(numbered(1))
            event = await events.next()
            assert event is not None
            assert event.data["params"]["text"] == "ä" * 3_000_000
            assert await numbers(events, 1) == [("2", 1)]


@both
async def test_a_second_reader_is_refused_unless_it_takes_over(version: int) -> None:
    async with a_front() as stage, a_browser(stage, version) as client:
        named = await a_connection(client)
        [opened] = stage.echo.clients
        async with Reading(client, named) as first:
            opened.tell(numbered(1))
            opened.tell(numbered(2))
            assert await numbers(first, 2) == [("1", 1), ("2", 2)]
            async with Reading(client, named) as second:
                assert second.status == 409
            async with Reading(client, named, last="1") as third:
                assert third.status == 200
                assert await numbers(third, 1) == [("2", 2)]
                assert await first.next() is None
                opened.tell(numbered(3))
                assert await numbers(third, 1) == [("3", 3)]


@both
async def test_a_reader_that_comes_back_gets_what_it_missed_once(version: int) -> None:
    async with a_front() as stage, a_browser(stage, version) as client:
        named = await a_connection(client)
        [opened] = stage.echo.clients
        async with Reading(client, named, "s1") as session:
            for number in range(5):
                opened.tell(numbered(number), "s1")
            assert len(await numbers(session, 5)) == 5
        for number in range(5, 8):
            opened.tell(numbered(number), "s1")
        async with Reading(client, named, "s1", last="3") as session:
            assert session.status == 200
            assert await numbers(session, 5) == [(str(n + 1), n) for n in range(3, 8)]


@both
async def test_events_that_are_no_longer_kept_are_told_by_a_comment(version: int) -> None:
    async with a_front(FrontConfig(kept_frames=2)) as stage, a_browser(stage, version) as client:
        named = await a_connection(client)
        [opened] = stage.echo.clients
        async with Reading(client, named) as events:
            for number in range(6):
                opened.tell(numbered(number))
            assert len(await numbers(events, 6)) == 6
        async with Reading(client, named, last="1") as events:
            assert await events.next() == Event(comment="3 events before the next one are no longer kept")
            assert await numbers(events, 2) == [("5", 4), ("6", 5)]
        async with Reading(client, named, last="99") as events:
            assert await events.next() == Event(comment="event 99 was never sent")
            opened.tell(numbered(6))
            assert await numbers(events, 1) == [("7", 6)]
        async with Reading(client, named, last="x-1") as events:
            assert events.status == 200
            assert (await events.next() or Event()).comment is not None


@both
async def test_a_quiet_stream_gets_a_comment_every_fifteen_seconds(version: int) -> None:
    clock = FakeClock()
    async with a_front(clock=clock) as stage, a_browser(stage, version) as client:
        named = await a_connection(client)
        async with Reading(client, named) as events:
            await clock.advance(14)
            stage.echo.clients[0].tell(numbered(1))
            await clock.advance(14)
            stage.echo.clients[0].tell(numbered(2))
            assert await numbers(events, 2) == [("1", 1), ("2", 2)]
            await clock.advance(15)
            assert await events.next() == Event(comment="")
            await clock.advance(15)
            assert await events.next() == Event(comment="")


@both
async def test_a_connection_without_a_reader_ends_after_the_grace_time(version: int) -> None:
    clock = FakeClock()
    note = {"jsonrpc": "2.0", "method": "note"}
    async with a_front(clock=clock) as stage:
        async with a_browser(stage, version) as client:
            named = await a_connection(client)
        [opened] = stage.echo.clients
        await clock.advance(119)
        async with a_browser(stage, version) as client:
            assert (await client.post("/acp", json=note, headers=named)).status_code == 202
        await clock.advance(119)
        async with a_browser(stage, version) as client, Reading(client, named, "s1"):
            await clock.advance(300)
        assert opened.reasons == []
        await stage.until(lambda: stage.front.metrics.streams == 0)
        await clock.advance(119)
        assert opened.reasons == []
        await clock.advance(1)
        await stage.until(lambda: bool(opened.reasons))
        assert opened.reasons == ["no client came back within 120 seconds"]
        async with a_browser(stage, version) as client:
            assert (await client.post("/acp", json=note, headers=named)).status_code == 404


@both
async def test_the_end_of_a_line_ends_its_streams(version: int) -> None:
    async with a_front() as stage, a_browser(stage, version) as client:
        named = await a_connection(client)
        async with Reading(client, named) as own, Reading(client, named, "s1") as session:
            stage.echo.clients[0].tell(numbered(1))
            stage.echo.clients[0].line.end(1000, "done")
            stage.echo.clients[0].tell(numbered(2))
            assert await numbers(own, 1) == [("1", 1)]
            assert await own.next() is None
            assert await session.next() is None


@both
async def test_too_much_that_nobody_reads_ends_the_line(version: int) -> None:
    config = FrontConfig(held_bytes=100_000)
    async with a_front(config) as stage, a_browser(stage, version) as client:
        await a_connection(client)
        [opened] = stage.echo.clients
        for _ in range(11):
            opened.tell({"method": "note", "params": "x" * 10_000}, "unread")
        await stage.echo.until(lambda: bool(opened.reasons))
        assert opened.reasons == ["more than 100000 bytes or 65536 messages waited"]
        assert stage.front.metrics.lost == 1


@both
async def test_too_many_streams_that_nobody_reads_end_the_line(version: int) -> None:
    async with a_front(FrontConfig(streams=3)) as stage, a_browser(stage, version) as client:
        await a_connection(client)
        [opened] = stage.echo.clients
        for number in range(5):
            opened.tell(numbered(number), f"s{number}")
        await stage.echo.until(lambda: bool(opened.reasons))
        assert opened.reasons == ["more than 3 event streams nobody reads"]


@both
async def test_too_many_streams_cannot_be_asked_for(version: int) -> None:
    async with a_front(FrontConfig(streams=3)) as stage, a_browser(stage, version) as client:
        named = await a_connection(client)
        [opened] = stage.echo.clients
        for number in range(3):
            opened.tell(numbered(number), f"s{number}")
        async with Reading(client, named, "one-more") as events:
            assert events.status == 429
        async with a_browser(stage, version) as other, Reading(other, named, "s0") as events:
            assert await numbers(events, 1) == [("1", 0)]
        await stage.until(lambda: stage.front.metrics.streams == 0)
        async with Reading(client, named, "one-more") as events:
            assert events.status == 200, "a stream that is read to its end makes room"


@both
async def test_unread_bytes_count_against_the_token(version: int) -> None:
    limits = Limits(buffered_bytes=50_000)
    async with a_front(limits=limits) as stage, a_browser(stage, version) as client:
        await a_connection(client)
        await a_connection(client)
        for opened in stage.echo.clients:
            opened.tell({"method": "note", "params": "x" * 30_000})
        await stage.echo.until(lambda: any(opened.reasons for opened in stage.echo.clients))
        assert [len(opened.reasons) for opened in stage.echo.clients] == [0, 1]
        assert "unread bytes" in stage.echo.clients[1].reasons[0]


async def test_http2_carries_many_streams_on_one_socket() -> None:
    async with a_front() as stage, a_browser(stage, 2) as client:
        named = await a_connection(client)
        [opened] = stage.echo.clients
        readers = [Reading(client, named, f"s{number}") for number in range(50)]
        for reader in readers:
            await reader.__aenter__()
        assert stage.front.metrics.sockets == 1
        for number in range(50):
            opened.tell(numbered(number), f"s{number}")
        for number, reader in enumerate(readers):
            assert await numbers(reader, 1) == [("1", number)]
        for reader in readers:
            await reader.__aexit__(None, None, None)


async def test_a_client_that_leaves_before_its_initialize_is_answered_leaves_nothing() -> None:
    async with a_front() as stage:
        stage.echo.silent_on.add("initialize")
        async with a_browser(stage, 1) as client:
            asking = asyncio.ensure_future(client.post("/acp", json=INITIALIZE))
            await stage.echo.until(lambda: bool(stage.echo.clients))
            asking.cancel()
            with pytest.raises((asyncio.CancelledError, httpx2.HTTPError)):
                await asking
        await stage.echo.until(lambda: bool(stage.echo.clients[0].reasons))
        assert stage.echo.clients[0].reasons == ["the client left before initialize was answered"]
