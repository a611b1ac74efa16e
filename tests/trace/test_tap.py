"""The tap shows every frame to its sinks and changes nothing, even if writing the file fails."""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.trace.trace_files import entries_in, starts_in
from tests.wire.links import memory_link, process_link
from tests.wire.transport_contract import CHECKS, Inbox, Link, MakeLink

from accord.errors import UsageError
from accord.trace import FrameRing, TappedTransport, TraceEntry, record_to_file
from accord.trace.trace_format import DamagedLine, parse_line
from accord.trace.trace_writer import FileSink
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import OversizedFrame, Transport

LINKS: dict[str, MakeLink] = {"memory": memory_link, "process": process_link}


class TappedLink:
    """A link whose near end is tapped."""

    def __init__(self, link: Link, near: Transport) -> None:
        self.near = near
        self.far_has_echoed = link.far_has_echoed
        self.far_stops_reading = link.far_stops_reading
        self.far_resumes_reading = link.far_resumes_reading
        self.far_closes = link.far_closes


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("sink", ["file", "ring"])
async def test_a_tapped_transport_fulfills_the_transport_contract(
    sink: str, link: str, check: str, tmp_path: Path
):
    @asynccontextmanager
    async def make() -> AsyncGenerator[Link]:
        async with LINKS[link]() as bare:
            near = (
                record_to_file(bare.near, tmp_path / "t")
                if sink == "file"
                else TappedTransport(bare.near, FrameRing(100))
            )
            yield TappedLink(bare, near)
            await near.aclose()

    await CHECKS[check](make)


async def test_both_directions_are_in_the_file_in_order(tmp_path: Path):
    file = tmp_path / "trace.jsonl"
    ours, theirs = memory_pair()
    near = record_to_file(ours, file, by="a test", command=["agent", "--api-key", "hunter22"])
    near_inbox, far_inbox = Inbox(), Inbox()
    near.start(near_inbox)
    theirs.start(far_inbox)
    theirs.send(b'{"jsonrpc":"2.0", "id":1,"method":"initialize"}')
    await near_inbox.count(1)
    near.send(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    near.send(b"no json")
    near.send(b"\xff\xfe")
    await far_inbox.count(3)
    await near.aclose()

    (start,) = starts_in(file)
    assert (start.by, start.command, start.redacted) == ("a test", ("agent", "--api-key", "[redacted]"), True)
    entries = entries_in(file)
    assert [(entry.kind, entry.sender, entry.data) for entry in entries] == [
        ("frame", "client", b'{"jsonrpc":"2.0", "id":1,"method":"initialize"}'),
        ("frame", "agent", b'{"jsonrpc":"2.0","id":1,"result":{}}'),
        ("frame", "agent", b"no json"),
        ("frame", "agent", b"\xff\xfe"),
        ("closed", "client", b""),
    ]
    assert {entry.run for entry in entries} == {start.run}


async def test_frames_sent_by_a_client_are_labeled_client(tmp_path: Path):
    ours, theirs = memory_pair()
    near = record_to_file(ours, tmp_path / "t", ours="client")
    near.start(Inbox())
    theirs.start(Inbox())
    near.send(b"{}")
    await near.aclose()
    assert [(entry.kind, entry.sender) for entry in entries_in(tmp_path / "t")] == [
        ("frame", "client"),
        ("closed", "agent"),
    ]


async def test_redaction_changes_the_file_but_not_the_transported_frame(tmp_path: Path):
    ours, theirs = memory_pair()
    inbox = Inbox()
    near = record_to_file(ours, tmp_path / "t")
    near.start(Inbox())
    theirs.start(inbox)
    frame = b'{"method":"x","params":{"apiKey":"hunter22"}}'
    near.send(frame)
    assert await inbox.count(1) == [frame]
    await near.aclose()
    assert b"hunter22" not in (tmp_path / "t").read_bytes()
    entry = entries_in(tmp_path / "t")[0]
    assert entry.redacted
    assert entry.size == len(frame)


async def test_redaction_can_be_switched_off(tmp_path: Path):
    ours, _ = memory_pair()
    near = record_to_file(ours, tmp_path / "t", redact=False)
    near.send(b'{"apiKey":"hunter22"}')
    await near.aclose()
    assert entries_in(tmp_path / "t")[0].data == b'{"apiKey":"hunter22"}'
    assert not starts_in(tmp_path / "t")[0].redacted


def test_the_file_is_private_and_keeps_earlier_runs(tmp_path: Path):
    file = tmp_path / "t"
    for _ in range(2):
        sink = FileSink(file)
        sink.add_frames("client", [b"{}"])
        sink.close()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.chmod(0o644)
    first, second = starts_in(file)
    assert first.run != second.run
    assert [entry.run for entry in entries_in(file)] == [first.run, second.run]


def test_a_new_run_starts_on_its_own_line_after_a_truncated_one(tmp_path: Path):
    file = tmp_path / "t"
    file.write_bytes(b'{"run":"aaaaaa","t":0.1,"from":"client","size":2,"fra')
    FileSink(file).close()
    assert isinstance(parse_line(file.read_bytes().splitlines()[0]), DamagedLine)
    assert len(starts_in(file)) == 1


def test_a_file_that_is_no_trace_is_not_overwritten(tmp_path: Path):
    file = tmp_path / "main.py"
    file.write_text("print('mine')\n")
    file.chmod(0o644)
    with pytest.raises(UsageError, match=r"main\.py exists and is not a trace"):
        FileSink(file)
    assert file.read_text() == "print('mine')\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


@pytest.mark.parametrize("name", ["", "missing/t", "folder", "pipe", "nul\0l"])
def test_an_unusable_path_is_a_one_line_error(name: str, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="cannot write") as caught:
        FileSink(os.path.join(tmp_path, name))
    assert "\n" not in str(caught.value)


async def test_a_full_disk_causes_one_warning_and_loses_no_frames():
    warnings: list[str] = []
    sink = FileSink("/dev/full", warn=warnings.append)
    ours, theirs = memory_pair()
    inbox = Inbox()
    near = TappedTransport(ours, sink)
    near.start(Inbox())
    theirs.start(inbox)
    for number in range(100):
        near.send(b"%d" % number)
    assert await inbox.count(100) == [b"%d" % number for number in range(100)]
    await near.aclose()
    assert len(warnings) == 1
    assert "/dev/full (No space left on device)" in warnings[0]


async def test_a_blocked_disk_drops_frames_and_records_how_many(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    sink = FileSink(pipe, max_pending=1000)
    big = b'"' + b"x" * 300_000 + b'"'
    sink.add_frames("client", [big])  # more than the pipe takes, so the writer thread blocks
    for number in range(2000):
        sink.add_frames("agent", [b"%d" % number])
    os.set_blocking(reader, True)
    closing = asyncio.create_task(sink.aclose())
    data = await asyncio.to_thread(_read_all, reader)
    await closing
    lines = [parse_line(line) for line in data.splitlines()]
    assert [(entry.kind, entry.sender, entry.count) for entry in lines if isinstance(entry, TraceEntry)] == [
        ("frame", "client", 0),
        ("lost", "agent", 2000),
    ]


def _read_all(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


def test_an_oversized_frame_is_kept_as_its_size_and_beginning(tmp_path: Path):
    sink = FileSink(tmp_path / "t")
    sink.add_frames(
        "agent",
        [OversizedFrame(99_000_000, b'{"jsonrpc":"2.0","apiKey":"hunter22","text":"sk-abcdef', b'"}')],
    )
    sink.close()
    (entry,) = entries_in(tmp_path / "t")
    assert (entry.kind, entry.size, entry.data) == (
        "cut",
        99_000_000,
        b'{"jsonrpc":"2.0","apiKey":"[redacted]","text":""}',
    )


async def test_sinks_can_be_attached_and_detached_while_connected(tmp_path: Path):
    ours, theirs = memory_pair()
    near, inbox = TappedTransport(ours), Inbox()
    near.start(Inbox())
    theirs.start(inbox)
    early, late = FrameRing(), FrameRing()
    near.send(b"1")
    leave = near.attach(early)
    near.attach(late)
    near.attach(FileSink(tmp_path / "t"))
    near.send(b"2")
    leave()
    leave()
    near.send(b"3")
    assert await inbox.count(3) == [b"1", b"2", b"3"]
    await near.aclose()
    assert [entry.data for entry in early.trace_entries()] == [b"2"]
    assert [entry.data for entry in late.trace_entries()] == [b"2", b"3", b""]
    assert [entry.data for entry in entries_in(tmp_path / "t")] == [b"2", b"3", b""]


def test_an_end_that_cannot_be_written_in_time_is_reported_once(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    warnings: list[str] = []
    sink = FileSink(pipe, warn=warnings.append)
    sink.add_frames("client", [b'"' + b"x" * 300_000 + b'"'])  # more than the pipe takes
    sink.close(0)
    sink.close(0)
    assert warnings == [f"the end of the trace {pipe} is missing; it could not be written in 0 s"]
    os.set_blocking(reader, True)
    _read_all(reader)
