"""A bucket that is followed into memory."""

from tests.cluster.nats_servers import RunningServer, jetstream_of

from accord.clock import OwnedTasks
from accord.cluster.bucket_follower import BucketFollower
from accord.cluster.jetstream import BucketEntry
from accord.cluster.streams import prepare_streams


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
