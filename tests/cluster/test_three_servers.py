"""Three servers with three replicas: what a node says and keeps while servers are lost."""

import asyncio
from pathlib import Path

import pytest
from tests.cluster.nats_servers import jetstream_of, nats_cluster
from tests.patience import PATIENCE

from accord.cluster.book import ClusterBook
from accord.cluster.cluster_report import read_report
from accord.cluster.connection import NatsRefused
from accord.cluster.jetstream import WRONG_SEQUENCE, with_retries
from accord.cluster.streams import ClusterStreams, prepare_streams
from accord.errors import SessionInUse, UsageError
from accord.schema import AgentMessageChunk, TextContent
from accord.session import text_of


class Lease:
    """A lease that never ends."""

    incarnation = "aa"

    def check(self) -> None: ...


async def _nobody_is_gone(node: str, incarnation: str) -> bool:
    return False


async def test_nothing_is_lost_while_servers_are_lost(tmp_path: Path) -> None:
    with nats_cluster(tmp_path) as cluster:
        settings = cluster.settings()
        async with asyncio.timeout(PATIENCE), jetstream_of(settings) as jetstream:
            streams = await prepare_streams(jetstream, settings, seconds=PATIENCE)
            report = await read_report(jetstream, settings)
            assert {stream.replicas for stream in report.streams} == {3}
            leader = next(stream.leader for stream in report.streams if "_LOG_" in stream.name)
            book = ClusterBook(streams, "n1", fence=Lease(), may_claim=_nobody_is_gone)
            await book.start()
            log = book.open_log("a", "s1", "/project", new=True)
            written = asyncio.Event()

            def say(text: str) -> None:
                written.clear()
                log.append(AgentMessageChunk(TextContent(text=text)))
                book.commit()
                log.when(log.noted, lambda error: written.set())

            say("one ")
            await written.wait()
            cluster.stop(leader)
            say("two ")
            await written.wait()  # the others have elected a leader
            cluster.stop_one_more()
            say("three")
            with pytest.raises(UsageError, match="a majority of them must run"):
                await prepare_streams(jetstream, settings, seconds=0.5)
            assert not written.is_set()
            cluster.start_all()
            await written.wait()
            assert log.committed == log.noted
            reader = log.reader()
            text = ""
            while page := await reader.page():
                text += text_of(page)
            assert text == "one two three"
            await book.aclose()


async def test_of_changes_at_the_same_time_one_wins(tmp_path: Path) -> None:
    with nats_cluster(tmp_path) as cluster:
        settings = cluster.settings()
        async with asyncio.timeout(PATIENCE), jetstream_of(settings) as jetstream:
            streams = await prepare_streams(jetstream, settings, seconds=PATIENCE)
            async with jetstream_of(settings, "n2") as other:
                await _change_one_key(streams)
                await _claim_one_session(streams, ClusterStreams(other, settings, streams.formats))


async def _change_one_key(streams: ClusterStreams) -> None:
    jetstream, bucket = streams.jetstream, streams.bucket("inbox")
    for number in range(20):
        changes = [
            with_retries(lambda key=f"k{number}", value=value: bucket.put(key, value, 0), jetstream)
            for value in (b"1", b"2", b"3")
        ]
        done = await asyncio.gather(*changes, return_exceptions=True)
        refused = [error.code for error in done if isinstance(error, NatsRefused)]
        assert refused == [WRONG_SEQUENCE] * 2


async def _claim_one_session(*nodes: ClusterStreams) -> None:
    books = [
        ClusterBook(streams, name, fence=Lease(), may_claim=_nobody_is_gone)
        for streams, name in zip(nodes, ("n1", "n2"), strict=True)
    ]
    for book in books:
        await book.start()
    first = books[0].open_log("a", "s1", "/project", new=True)
    await first.release()
    for number in range(20):
        for book in books:
            await book.index.refresh()
        logs = [book.open_log("a", "s1", "/project") for book in books]
        claims = await asyncio.gather(*(log.claim() for log in logs), return_exceptions=True)
        owners = [log for log, claim in zip(logs, claims, strict=True) if not isinstance(claim, Exception)]
        assert len(owners) == 1, f"try {number}: {claims}"
        assert [type(claim) for claim in claims if isinstance(claim, Exception)] == [SessionInUse]
        await owners[0].release()
    for book in books:
        await book.aclose()
