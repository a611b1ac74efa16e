"""The audit logs of all nodes in one stream, complete and in order."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from tests.cluster.nats_servers import RunningServer, jetstream_of
from tests.gateway.breakable_proxy import breakable_proxy
from tests.patience import PATIENCE

from accord.clock import OwnedTasks
from accord.cluster.audit_stream import ClusterAudit
from accord.cluster.jetstream import JetStream
from accord.cluster.streams import ClusterStreams, prepare_streams
from accord.gateway.access.audit_log import AuditLog, AuditReader


async def _events(streams: ClusterStreams, count: int) -> list[tuple[str, int]]:
    """The first lines in the stream: their subjects and numbers. Waits until there are so many."""
    prefix, stream = streams.names.prefix, streams.names.audit_stream
    found: list[tuple[str, int]] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            messages = [message async for message in streams.jetstream.messages(stream, f"{prefix}.audit.*")]
            found = [(message.subject, _number(message.data)) for message in messages]
    return found


def _number(line: bytes) -> int:
    value: dict[str, Any] = msgspec.json.decode(line)
    return value["seq"]


async def test_lines_of_an_outage_and_of_an_earlier_process_follow(
    server: RunningServer, tmp_path: Path
) -> None:
    log = AuditLog(tmp_path / "gateway" / "audit.jsonl", max_bytes=300)
    log.record(None, "start")  # before this node was part of a cluster
    settings = server.settings()
    subject = f"{settings.prefix}.audit.b1"
    tasks = OwnedTasks()
    async with jetstream_of(settings) as direct, breakable_proxy(server.port) as proxy:
        streams = await prepare_streams(direct, settings)
        through = msgspec.structs.replace(settings, servers=(f"nats://127.0.0.1:{proxy.port}",))
        async with jetstream_of(through, "n2") as jetstream:
            audit = ClusterAudit(
                log, ClusterStreams(JetStream(jetstream.connection), through, streams.formats), "b1", tasks
            )
            audit.start()
            for number in range(5):
                audit.record(None, "one", number=number)
            proxy.cut()
            for number in range(5):
                audit.record(None, "two", number=number)
            expected = [(subject, number) for number in range(1, 12)]
            assert await _events(streams, 11) == expected
            await audit.stop()
        log.record(None, "token made")  # by a command, while no gateway runs
        again = ClusterAudit(log, streams, "b1", tasks)
        again.start()
        assert await _events(streams, 12) == [*expected, (subject, 12)]
        await again.stop()
    await tasks.end()


def test_the_reader_follows_a_log_that_is_rotated(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", max_bytes=300)
    for number in range(6):
        log.record(None, "early", number=number)
    reader = AuditReader(log.path, 2)
    assert [link.seq for link, _ in reader.read(1)] == [3]
    log.record(None, "late")
    numbers: list[int] = []
    while lines := reader.read(10):
        numbers += [link.seq for link, _ in lines]
    assert numbers == [4, 5, 6, 7]
    with log.path.open("ab") as file:
        file.write(b'{"half')
    assert reader.read(10) == []
    reader.close()
