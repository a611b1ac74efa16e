"""A bucket that is followed into memory."""

import asyncio

import msgspec
import pytest
from tests.cluster.nats_servers import RunningServer, jetstream_of
from tests.gateway.breakable_proxy import breakable_proxy
from tests.patience import PATIENCE

from accord.clock import OwnedTasks
from accord.cluster.bucket_follower import BucketFollower
from accord.cluster.connection import NatsUnavailable, connect
from accord.cluster.jetstream import Bucket, BucketEntry, JetStream
from accord.cluster.streams import prepare_streams
from accord.testing.fake_clock import FakeClock


async def test_a_deletion_is_noticed_after_hours_without_reading(server: RunningServer) -> None:
    """The bucket has forgotten the deletion itself by then."""
    settings = server.settings()
    time = [0.0]
    async with jetstream_of(settings) as jetstream:
        streams = await prepare_streams(jetstream, settings)
        bucket = streams.bucket("tokens")
        received: list[BucketEntry] = []
        tasks = OwnedTasks()
        follower = BucketFollower(jetstream, bucket, "t.nothing", received.append, tasks, lambda: time[0])
        await bucket.put("a", b"1", 0)
        await bucket.put("b", b"2", 0)
        await follower.start()
        await jetstream.purge(bucket.stream, f"$KV.{bucket.name}.a")  # as if its marker had ended
        await follower.refresh()
        assert [(entry.key, entry.value) for entry in received] == [("a", b"1"), ("b", b"2")]
        time[0] = 3601.0
        await follower.refresh()
        assert [(entry.key, entry.value) for entry in received[2:]] == [("a", None)]
        await follower.stop()
        await tasks.end()


async def test_a_read_that_a_lost_connection_interrupts_is_repeated_at_once(server: RunningServer) -> None:
    """Its answer cannot come any more. The clock stands still: no time limit helps."""
    settings = server.settings()
    received: asyncio.Queue[str] = asyncio.Queue()
    async with breakable_proxy(server.port) as proxy, jetstream_of(settings) as other:
        bucket = (await prepare_streams(other, settings)).bucket("tokens")
        through = msgspec.structs.replace(settings, servers=(f"nats://127.0.0.1:{proxy.port}",))
        connection = await connect(through, "n1", clock=FakeClock())
        tasks = OwnedTasks()
        jetstream = JetStream(connection)
        followed = Bucket(jetstream, bucket.name)
        follower = BucketFollower(
            jetstream, followed, "t.nothing", lambda entry: received.put_nowait(entry.key), tasks
        )
        await follower.start()
        with proxy.holding("down"):
            reading = asyncio.ensure_future(follower.refresh())
            await bucket.put("a", b"1", 0)
            proxy.cut()
            with pytest.raises(NatsUnavailable, match="was lost"):
                await asyncio.wait_for(reading, PATIENCE)
        assert await asyncio.wait_for(received.get(), PATIENCE) == "a"
        await follower.stop()
        await tasks.end()
        await connection.aclose()
