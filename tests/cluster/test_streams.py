"""Streams and buckets: created once, checked at each start, refused where they could lose a record."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cluster.nats_servers import RunningServer, jetstream_of, nats_server

from accord.cluster.connection import NatsRefused
from accord.cluster.jetstream import WRONG_SEQUENCE, Bucket, JetStream
from accord.cluster.streams import BUCKETS, check_sync, prepare_streams
from accord.errors import UsageError


async def _config(jetstream: JetStream, name: str) -> dict[str, Any]:
    return msgspec.json.decode(await jetstream.api(f"STREAM.INFO.{name}"))["config"]


async def test_streams_are_created_once_and_found_again(server: RunningServer) -> None:
    settings = server.settings(prefix="created", shards=2)
    async with jetstream_of(settings) as jetstream:
        streams = await prepare_streams(jetstream, settings)
        assert streams.formats.shards == 2
        log = await _config(jetstream, "CREATED_LOG_01")
        assert (log["discard"], log["max_age"], log["max_bytes"]) == ("new", 0, 50_000_000)
        assert log["deny_delete"]
        assert log["allow_direct"]
        for name in BUCKETS:
            assert (await _config(jetstream, f"KV_created_{name}"))["num_replicas"] == 1
        # Another node may have other settings for new clusters; what is there decides.
        again = await prepare_streams(
            jetstream, msgspec.structs.replace(settings, shards=16, log_bytes=10_000)
        )
        assert again.formats.shards == 2


async def test_what_weakens_a_promise_is_reported(server: RunningServer, tmp_path: Path) -> None:
    settings = server.settings()
    async with jetstream_of(settings) as jetstream:
        notes = (await prepare_streams(jetstream, settings)).notes
    assert notes[0] == "One NATS server keeps each record: a lost disk loses sessions."
    assert "does not have `sync_interval: always`" in notes[1]
    assert check_sync(()) == [
        "Cannot check sync_interval of the NATS servers: the cluster settings name no monitors."
    ]
    assert (
        "Cannot read sync_interval of the NATS server at http://127.0.0.1:1 ("
        in check_sync(["http://127.0.0.1:1"])[0]
    )
    with nats_server(tmp_path, sync="always") as careful:
        assert check_sync([careful.monitor]) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"discard": "old"}, 'would drop old records when it is full (discard is "old", not "new")'),
        ({"max_age": 10**12}, "would delete old records (max_age is 1000000000000, not 0)"),
        ({"max_msgs": 10}, "would refuse or drop records by their number (max_msgs is 10, not -1)"),
        ({"allow_direct": False}, "cannot be read from replicas"),
        ({"republish": None}, "does not tell nodes about records (republish is unset"),
    ],
)
async def test_a_stream_that_could_lose_records_is_refused(
    server: RunningServer, change: dict[str, Any], line: str
) -> None:
    settings = server.settings()
    name = f"{settings.prefix.upper()}_LOG_00"
    async with jetstream_of(settings) as jetstream:
        await prepare_streams(jetstream, settings)
        await jetstream.api(f"STREAM.UPDATE.{name}", {**await _config(jetstream, name), **change})
        with pytest.raises(UsageError) as caught:
            await prepare_streams(jetstream, settings)
    assert str(caught.value).startswith(f"stream {name} {line}")
    assert f"nats stream edit {name}" in str(caught.value)


async def test_missing_replicas_and_storage_are_one_clear_line(server: RunningServer) -> None:
    settings = server.settings(replicas=3)
    async with jetstream_of(settings) as jetstream:
        with pytest.raises(UsageError, match="need 3 NATS servers with JetStream, and there are fewer"):
            await prepare_streams(jetstream, settings)
        one = msgspec.structs.replace(settings, replicas=1)
        with pytest.raises(UsageError, match="does not fit into the storage of the NATS servers"):
            await prepare_streams(jetstream, msgspec.structs.replace(one, log_bytes=2**60))
        await prepare_streams(jetstream, one)
        with pytest.raises(UsageError, match="has 1 replicas, not 3; run `nats stream edit"):
            await prepare_streams(jetstream, settings)


async def test_servers_that_start_at_the_same_time_are_waited_for(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with jetstream_of(server.settings()) as jetstream:
        api, refusals = jetstream.api, [NatsRefused("no suitable peers", 10005)]

        async def two_servers_are_missing(call: str, *more: Any) -> bytes:
            if call.startswith("STREAM.CREATE") and refusals:
                raise refusals.pop()
            return await api(call, *more)

        monkeypatch.setattr(jetstream, "api", two_servers_are_missing)
        await prepare_streams(jetstream, jetstream.connection.settings)
        refusals = [NatsRefused("no suitable peers", 10005)] * 9
        with pytest.raises(UsageError, match="need 1 NATS servers with JetStream, and there are fewer"):
            await prepare_streams(jetstream, server.settings(), seconds=0.01)


async def test_a_stream_without_a_limit_is_reported(server: RunningServer) -> None:
    settings = server.settings()
    name = f"{settings.prefix.upper()}_LOG_00"
    async with jetstream_of(settings) as jetstream:
        await prepare_streams(jetstream, settings)
        await jetstream.api(f"STREAM.UPDATE.{name}", {**await _config(jetstream, name), "max_bytes": -1})
        notes = (await prepare_streams(jetstream, settings)).notes
    assert f"Stream {name} has no limit (max_bytes): it can fill the disk of the NATS servers." in notes


async def test_a_cluster_with_another_format_is_refused(server: RunningServer) -> None:
    settings = server.settings()
    async with jetstream_of(settings) as jetstream:
        meta = (await prepare_streams(jetstream, settings)).bucket("meta")
        entry = await meta.get("format")
        assert entry is not None
        revision = await meta.put("format", b'{"log": 2, "link": 1, "index": 1, "shards": 1}', entry.revision)
        with pytest.raises(UsageError, match="uses log format 2, and this version of Accord knows 1"):
            await prepare_streams(jetstream, settings)
        await meta.put("format", b"[", revision)
        with pytest.raises(UsageError, match=r"`format` of bucket .* is damaged"):
            await prepare_streams(jetstream, settings)


async def test_a_server_without_jetstream_is_one_clear_line(server: RunningServer, tmp_path: Path) -> None:
    rules = "accounts { plain { users: [ { user: a, password: b } ] } }"
    (tmp_path / "password").write_text("b")
    with nats_server(tmp_path / "data", more=rules) as plain:
        settings = plain.settings(user="a", password_file=str(tmp_path / "password"))
        async with jetstream_of(settings) as jetstream:
            with pytest.raises(UsageError, match="the NATS servers need JetStream"):
                await prepare_streams(jetstream, settings)


async def test_a_bucket_changes_a_key_only_at_the_expected_revision(server: RunningServer) -> None:
    settings = server.settings()
    async with jetstream_of(settings) as jetstream:
        bucket: Bucket = (await prepare_streams(jetstream, settings)).bucket("index")
        assert await bucket.get("a") is None
        first = await bucket.put("a", b"1", 0)
        for wrong in (0, first + 1):
            with pytest.raises(NatsRefused) as caught:
                await bucket.put("a", b"2", wrong)
            assert caught.value.code == WRONG_SEQUENCE
        second = await bucket.put("a", b"2", first)
        await bucket.put("b.c", b"3", 0)
        assert [(entry.key, entry.value) async for entry in bucket.entries()] == [("a", b"2"), ("b.c", b"3")]
        gone = await bucket.delete("a", second)
        entry = await bucket.get("a")
        assert entry is not None
        assert (entry.value, entry.revision) == (None, gone)
        assert await bucket.put("a", b"4", gone) > gone
