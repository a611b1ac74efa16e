"""Session logs on a stream: the message format, the retry rule, and what a replaced writer can do."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.nats_servers import RunningServer, jetstream_of
from tests.gateway.breakable_proxy import breakable_proxy
from tests.patience import PATIENCE

from accord.clock import OwnedTasks
from accord.cluster import log_writer
from accord.cluster.connection import NatsUnavailable
from accord.cluster.jetstream import EXPECTED, MESSAGE_ID, JetStream, StoredMessage
from accord.cluster.log_message import (
    HEADER,
    PART_BYTES,
    Commit,
    CommitHead,
    CommitReader,
    encode_commit,
    new_log_id,
    read_head,
)
from accord.cluster.log_writer import LogAddress, LogFull, LogPosition, LogWriter, SessionMoved
from accord.cluster.settings import ClusterSettings
from accord.cluster.streams import shard_of
from accord.errors import StoreError
from accord.gateway.contracts import Fenced
from accord.store.records import payloads_in


class Listener:
    """Notes what a writer reports, and is the lease of its node."""

    def __init__(self) -> None:
        self.events: list[object] = []
        self.ended = False

    def check(self) -> None:
        if self.ended:
            raise Fenced("the lease has ended")

    def paused(self, paused: bool) -> None:
        self.events.append(("paused", paused))

    def waits(self, waits: bool) -> None:
        self.events.append(("waits", waits))

    def failed(self, error: StoreError) -> None:
        self.events.append(type(error))


def _address(settings: ClusterSettings, log: str | None = None) -> LogAddress:
    log = log or new_log_id()
    return LogAddress(log, f"{settings.prefix.upper()}_LOG_00", f"{settings.prefix}.log.00.{log}")


@asynccontextmanager
async def log_stream(settings: ClusterSettings, **changes: object) -> AsyncGenerator[JetStream]:
    """A connection, and one stream for logs as `prepare_streams` creates it."""
    name = f"{settings.prefix.upper()}_LOG_00"
    config = {
        "name": name,
        "subjects": [f"{settings.prefix}.log.00.*"],
        "discard": "new",
        "allow_direct": True,
    }
    async with jetstream_of(settings) as jetstream:
        await jetstream.api(f"STREAM.CREATE.{name}", {**config, **changes})
        yield jetstream


def _writer(
    jetstream: JetStream,
    address: LogAddress,
    listener: Listener,
    position: LogPosition | None = None,
    name: str = "n1:aa",
) -> LogWriter:
    position = position or LogPosition(epoch=1)
    return LogWriter(jetstream, address, position, name, listener, listener, OwnedTasks())


async def _read(jetstream: JetStream, address: LogAddress) -> list[Commit]:
    reader = CommitReader()
    return reader.feed([message async for message in jetstream.messages(address.stream, address.subject)])


def _values(commits: list[Commit]) -> list[tuple[int, str, object]]:
    return [
        (number, group.kind, msgspec.json.decode(payload))
        for commit in commits
        for group in commit.groups
        for number, payload in zip(
            range(group.first, group.first + group.length), payloads_in([group]), strict=True
        )
    ]


# -- the format


def test_log_ids_pick_their_stream_and_sort_by_time() -> None:
    ids = [new_log_id() for _ in range(200)]
    assert len(set(ids)) == 200
    assert {len(log) for log in ids} == {26}
    assert {shard_of(log, 16) for log in ids} <= {f"{shard:02}" for shard in range(16)}
    assert shard_of("0" * 25 + "Z", 16) == "15"
    assert shard_of("0" * 25 + "G", 16) == "00"
    assert ids[0][:8] <= ids[-1][:8]


def _stored(head: CommitHead, body: bytes, sequence: int) -> StoredMessage:
    return StoredMessage("acc.log.00.A", sequence, body, {HEADER: head.text})


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(["event", "session", "x.y"]), st.integers()), min_size=1)),
)
def test_records_come_back_as_they_were_written(commits: list[list[tuple[str, int]]]) -> None:
    reader = CommitReader()
    number, sequence = 1, 0
    expected: list[tuple[int, str, object]] = []
    read: list[Commit] = []
    for records in commits:
        payloads = [(kind, str(value).encode()) for kind, value in records]
        for head, body in encode_commit(1, number, "n:i", payloads, 7, {number: "line"}):
            sequence += 3
            read += reader.feed([_stored(head, body, sequence)] * 2)  # twice: a reader may hear it twice
        expected += [(number + place, kind, value) for place, (kind, value) in enumerate(records)]
        number += len(records)
    assert _values(read) == expected
    assert all(commit.authors == {commit.head.first: "line"} for commit in read)
    assert reader.last == len(expected)


def test_a_large_commit_is_cut_into_parts_and_shown_when_the_last_is_there() -> None:
    payload = b'"' + b"x" * (2 * PART_BYTES) + b'"'
    messages = encode_commit(1, 1, "n:i", [("event", payload)], 7)
    assert [head.part for head, _ in messages] == [1, 2, 3]
    reader = CommitReader()
    shown = [reader.feed([_stored(*message, place)]) for place, message in enumerate(messages, 1)]
    assert [len(commits) for commits in shown] == [0, 0, 1]
    assert payloads_in(shown[2][0].groups) == [msgspec.Raw(payload)]


def test_a_commit_that_its_writer_could_not_finish_is_dropped() -> None:
    unfinished = encode_commit(1, 1, "n:i", [("event", b'"' + b"x" * PART_BYTES + b'"')], 7)
    claim = encode_commit(2, 1, "m:j", [("gateway.owner", b"{}")], 8)
    reader = CommitReader()
    assert reader.feed([_stored(*unfinished[0], 1)]) == []
    assert read_head(_stored(*unfinished[0], 1)).last == 0
    assert [commit.head.writer for commit in reader.feed([_stored(*claim[0], 2)])] == ["m:j"]


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("", b"{}"),
        ("1 1 1 1 1/1", b"{}"),
        ("1 1 2 1 1/1 n:i", b'{"t":1,"runs":[["event",[1]]]}'),  # record 1 is missing
        ("1 0 1 1 1/1 n:i", b'{"t":1,"runs":[["event",[1]]]}'),  # before the epoch of the reader
        ("1 1 1 2 1/1 n:i", b'{"t":1,"runs":[["event",[1]]]}'),  # fewer records than it says
        ("1 1 1 1 2/2 n:i", b'{"t":1,"runs":[["event",[1]]]}'),  # without its first part
        ("1 1 1 1 1/9999 n:i", b"{"),
        ("1 1 1 1 1/1 n:i", b"{"),
    ],
)
def test_a_damaged_message_is_never_shown(header: str, body: bytes) -> None:
    with pytest.raises(StoreError, match=r"session log acc\.log\.00\.A is damaged at message 5"):
        CommitReader(epoch=1).feed([StoredMessage("acc.log.00.A", 5, body, {HEADER: header})])


def test_a_newer_format_is_named() -> None:
    with pytest.raises(StoreError, match="has log format 2; this version reads 1"):
        CommitReader().feed([StoredMessage("acc.log.00.A", 5, b"", {HEADER: "2 whatever"})])


# -- the writer


async def test_records_are_committed_in_groups_with_one_commit_in_flight(server: RunningServer) -> None:
    settings = server.settings()
    async with log_stream(settings) as jetstream:
        listener, address = Listener(), _address(settings)
        writer = _writer(jetstream, address, listener)
        order: list[int] = []
        for value in range(300):
            number = writer.add("event", str(value).encode())
            writer.when(number, lambda error, number=number: order.append(number))
            writer.commit()
        assert writer.committed == 0
        await writer.written()
        commits = await _read(jetstream, address)
    assert _values(commits) == [(value + 1, "event", value) for value in range(300)]
    assert order == list(range(1, 301))
    assert len(commits) < 20  # what comes while one is in flight goes into the next
    assert (writer.noted, writer.committed, listener.events) == (300, 300, [])


async def test_only_text_waits_for_the_pace(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "PACE_SECONDS", PATIENCE * 10)
    settings = server.settings()
    async with log_stream(settings) as jetstream:
        address = _address(settings)
        writer = _writer(jetstream, address, Listener())
        writer.add("event", b'"prompt"')
        await writer.written()
        for _ in range(3):
            writer.add("event", b'"text"', text=True)
            writer.commit()
        await jetstream.connection.flush()  # the writer waits for its pace meanwhile
        writer.add("event", b'"the end"')
        await writer.written()  # would wait very long for the pace
        assert [commit.head.count for commit in await _read(jetstream, address)] == [1, 4]


async def test_a_replaced_writer_can_add_nothing(server: RunningServer) -> None:
    settings = server.settings()
    async with log_stream(settings) as jetstream:
        address, listener = _address(settings), Listener()
        old = _writer(jetstream, address, listener)
        old.add("event", b"1")
        await old.written()
        new = _writer(
            jetstream, address, Listener(), LogPosition(old.sequence, old.committed, epoch=2), "n2:bb"
        )
        new.add("gateway.owner", b"{}")
        await new.written()
        failures: list[StoreError | None] = []
        number = old.add("event", b"2")
        old.when(number, failures.append)
        with pytest.raises(SessionMoved, match="another node writes to session log"):
            await old.written()
        old.when(old.add("event", b"3"), failures.append)
        assert [type(error) for error in failures] == [SessionMoved, SessionMoved]
        assert listener.events == [SessionMoved]
        assert _values(await _read(jetstream, address)) == [(1, "event", 1), (2, "gateway.owner", {})]


async def test_a_lost_answer_is_no_lost_and_no_doubled_record(server: RunningServer) -> None:
    """The connection is cut again and again, also between a write and its answer."""
    settings = server.settings()
    async with breakable_proxy(server.port) as proxy:
        through = msgspec.structs.replace(settings, servers=(f"nats://127.0.0.1:{proxy.port}",))
        async with log_stream(settings) as direct, jetstream_of(through, "n2") as jetstream:
            address = _address(settings)
            writer = _writer(jetstream, address, Listener())
            for value in range(8):
                writer.add("event", str(value).encode())
                writer.commit()
                if value % 2:
                    await jetstream.connection.flush()  # what is sent has reached the server
                proxy.cut()
                await asyncio.wait_for(writer.written(), PATIENCE)
            assert jetstream.append_counts.retries.total() > 0
            values = _values(await _read(direct, address))
    assert values == [(value + 1, "event", value) for value in range(8)]


async def test_an_append_whose_answer_never_came_is_found_again(server: RunningServer) -> None:
    """On one replica a repeated append is refused with "wrong sequence": the last message is ours."""
    settings = server.settings()
    async with log_stream(settings) as jetstream:
        address = _address(settings)
        writer = _writer(jetstream, address, Listener())
        (head, body), *_ = encode_commit(1, 1, "n1:aa", [("event", b"1")], 7)
        headers = {HEADER: head.text, EXPECTED: "0", MESSAGE_ID: head.message_id(address.log)}
        await jetstream.append(address.subject, body, headers)  # the answer of this one was lost
        writer.add("event", b"1")
        await writer.written()
        writer.add("event", b"2")
        await writer.written()
        assert _values(await _read(jetstream, address)) == [(1, "event", 1), (2, "event", 2)]


async def test_a_full_stream_makes_the_session_read_only(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MAX_UNWRITTEN", 25_000)
    settings = server.settings()
    async with log_stream(settings, max_bytes=20_000) as jetstream:
        address, listener = _address(settings), Listener()
        writer = _writer(jetstream, address, listener)
        writer.add("event", b'"short"')
        await writer.written()
        writer.add("event", b'"' + b"x" * 30_000 + b'"')
        with pytest.raises(LogFull, match="_LOG_00 is full, so the session is read-only"):
            await writer.written()
        assert listener.events == [("paused", True), ("paused", False), LogFull]  # it has other sessions
        assert writer.unwritten_bytes == 0
        assert _values(await _read(jetstream, address)) == [(1, "event", "short")]


async def test_a_writer_without_a_lease_writes_and_shows_nothing(server: RunningServer) -> None:
    settings = server.settings()
    async with log_stream(settings) as jetstream:
        address, listener = _address(settings), Listener()
        writer = _writer(jetstream, address, listener)
        listener.ended = True
        writer.add("event", b"1")
        with pytest.raises(StoreError, match="the lease has ended"):
            await writer.written()
        assert await _read(jetstream, address) == []


async def test_many_unwritten_bytes_pause_the_agent(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "MAX_UNWRITTEN", 1000)
    settings = server.settings()
    async with log_stream(settings) as jetstream:
        address, listener = _address(settings), Listener()
        writer = _writer(jetstream, address, listener)
        for _ in range(3):
            writer.add("event", b'"' + b"x" * 600 + b'"')
        assert listener.events == [("paused", True)]
        await writer.written()
        assert listener.events == [("paused", True), ("paused", False)]


async def test_clients_hear_that_the_storage_waits(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writer, "WAIT_SECONDS", 0.01)
    settings = server.settings()
    async with breakable_proxy(server.port) as proxy:
        through = msgspec.structs.replace(settings, servers=(f"nats://127.0.0.1:{proxy.port}",))
        async with log_stream(settings), jetstream_of(through, "n2") as jetstream:
            address, listener = _address(settings), Listener()
            writer = _writer(jetstream, address, listener)
            proxy.cut()
            writer.add("event", b"1")
            await asyncio.wait_for(writer.written(), PATIENCE)
            assert listener.events == [("waits", True), ("waits", False)]


async def test_a_large_record_is_written_in_parts_and_read_back(server: RunningServer) -> None:
    settings = server.settings()
    async with log_stream(settings) as jetstream:
        address = _address(settings)
        writer = _writer(jetstream, address, Listener())
        large = b'"' + b"y" * (3 * PART_BYTES) + b'"'
        writer.add("event", large)
        writer.add("event", b"2")
        await writer.written()
        commits = await _read(jetstream, address)
        assert [payload for commit in commits for payload in payloads_in(commit.groups)] == [
            msgspec.Raw(large),
            msgspec.Raw(b"2"),
        ]
        assert commits[0].head.parts == 4


async def test_a_closed_writer_fails_what_is_not_committed(server: RunningServer) -> None:
    settings = server.settings()
    async with log_stream(settings) as jetstream:
        writer = _writer(jetstream, _address(settings), Listener())
        failures: list[StoreError | None] = []
        writer.when(writer.add("event", b"1"), failures.append)
        writer.close(NatsUnavailable("stopped"))
        assert [str(error) for error in failures] == ["stopped"]
