"""The ring keeps the latest frames of a live connection, with sender, time, method and session, for
observers.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import accord
from accord.errors import UsageError
from accord.testing import FakeClock
from accord.trace import FrameRing, RingEntry, TappedTransport, record_to_file
from accord.trace.step_summary import summarize_step
from accord.trace.trace_views import TimelineStyle, step_lines
from accord.wire.memory_transport import memory_pair
from accord.wire.transport import OversizedFrame, Transport, TransportEnd

AGENT = """
import accord, sys
agent = accord.Agent("ringed", version="1")
@agent.prompt
async def prompt(turn):
    await turn.say("Done.")
sys.stderr.write("ready, token=hunter22hunter22\\n")
sys.stderr.flush()
agent.serve()
"""


def frame(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


async def test_the_ring_keeps_the_latest_frames_and_notifies_subscribers():
    clock = FakeClock()
    ring = FrameRing(3, clock=clock)
    ours, _ = memory_pair()
    near = TappedTransport(ours, ring, ours="client")
    seen_frames: list[RingEntry] = []
    near.send(b"0")
    unsubscribe = ring.subscribe(seen_frames.extend)
    await clock.advance(2)
    for number in range(1, 4):
        near.send(b"%d" % number)
    unsubscribe()
    unsubscribe()
    near.send(b'{"token":"hunter22"}')
    assert [(entry.at, entry.sender, entry.content) for entry in seen_frames] == [
        (2, "client", b"1"),
        (2, "client", b"2"),
        (2, "client", b"3"),
    ]
    assert [entry.data for entry in ring.trace_entries()] == [b"2", b"3", b'{"token":"[redacted]"}']
    assert [entry.number for entry in ring.entries] == [3, 4, 5]
    assert (ring.dropped, len(ring)) == (2, 3)
    await near.aclose()


async def test_each_frame_has_its_method_its_session_and_the_call_it_answers():
    clock = FakeClock()
    ring = FrameRing(clock=clock)
    ring.add_frames("client", [frame(id=1, method="session/new", params={"cwd": "/x"})])
    await clock.advance(1)
    ring.add_frames("agent", [frame(id=1, result={"sessionId": "s1"})])
    ring.add_frames(
        "client", [frame(id=2, method="session/prompt", params={"sessionId": "s1", "prompt": []})]
    )
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hi"}}
    ring.add_frames(
        "agent",
        [
            frame(method="session/update", params={"sessionId": "s1", "update": update}),
            frame(id=2, method="fs/read_text_file", params={"sessionId": "s1", "path": "/x/a"}),
        ],
    )
    ring.add_frames("client", [frame(id=2, error={"code": -32603, "message": "no"})])
    await clock.advance(2)
    ring.add_frames(
        "agent", [frame(id=2, result={"stopReason": "end_turn"}), frame(id=9, result={}), b"noise"]
    )
    assert [
        (entry.sender, entry.kind, entry.method, entry.session, entry.id, entry.duration)
        for entry in ring.entries
    ] == [
        ("client", "request", "session/new", "s1", 1, None),
        ("agent", "answer", "session/new", "s1", 1, 1),
        ("client", "request", "session/prompt", "s1", 2, None),
        ("agent", "notification", "session/update", "s1", None, None),
        ("agent", "request", "fs/read_text_file", "s1", 2, None),
        ("client", "error", "fs/read_text_file", "s1", 2, 0),
        ("agent", "answer", "session/prompt", "s1", 2, 2),
        ("agent", "answer", "", "", 9, None),
        ("agent", "noise", "", "", None, None),
    ]
    assert summarize_step(ring.entries[3].step) == "agent_message_chunk Hi"
    (line,) = step_lines(ring.entries[6].step, TimelineStyle())
    assert line.split() == [
        "3.000",
        "←",
        "session/prompt",
        "=",
        "#2",
        "2.00",
        "s",
        "65",
        "B",
        "[s1]",
        "end_turn",
    ]


def test_an_answer_is_matched_after_its_call_left_the_ring():
    ring = FrameRing(2)
    ring.add_frames("client", [frame(id="a", method="session/prompt", params={"sessionId": "s"})])
    ring.add_frames("agent", [frame(method="session/update", params={"sessionId": "s"})] * 5)
    ring.add_frames("agent", [frame(id="a", result={})])
    assert (ring.entries[-1].method, ring.entries[-1].session) == ("session/prompt", "s")
    assert ring.dropped == 5


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"id":[1],"method":"x"}',
        b'{"id":1,"method":["x"]}',
        b'{"method":"x","params":[1]}',
        b'{"method":"x","params":{"sessionId":{"a":1}}}',
        b'{"id":1,"result":7}',
        b'{"id":1.5,"error":null}',
        b'{"id":1}',
    ],
)
def test_malformed_frames_are_kept(odd: bytes):
    ring = FrameRing()
    ring.add_frames("agent", [odd])
    (entry,) = ring.entries
    assert (entry.session, entry.size) == ("", len(odd))
    assert step_lines(entry.step, TimelineStyle())


def test_the_ring_is_bounded_in_bytes():
    ring = FrameRing(100, max_bytes=1000)
    for number in range(10):
        ring.add_frames("agent", [b"%d" % number * 400])
    assert [entry.data[:1] for entry in ring.trace_entries()] == [b"8", b"9"]


def test_a_frame_larger_than_the_ring_is_cut_to_its_beginning():
    ring = FrameRing(100, max_bytes=10_000)
    big = frame(
        method="session/update", params={"sessionId": "s", "text": "x" * 50_000, "apiKey": "hunter22"}
    )
    ring.add_frames("agent", [big, OversizedFrame(99_000_000, b'{"id":1,', b"}")])
    first, second = ring.entries
    assert (first.method, first.session, first.size) == ("session/update", "s", len(big))
    assert (first.trace_entry.kind, first.trace_entry.size, second.trace_entry.size) == (
        "cut",
        len(big),
        99_000_000,
    )
    assert len(first.trace_entry.data) < 10_000


def test_the_oldest_unanswered_calls_are_forgotten():
    ring = FrameRing(1)
    ring.add_frames("agent", [frame(id=number, method="x") for number in range(10_001)])
    ring.add_frames("client", [frame(id=0, result={}), frame(id=1, result={})])
    assert ring.entries[-1].method == "x"
    ring = FrameRing(5)
    ring.add_frames("agent", [frame(id=number, method="x") for number in range(10_001)])
    ring.add_frames("client", [frame(id=0, result={})])
    assert ring.entries[-1].method == ""


def test_call_ids_start_over_after_the_connection_ends():
    ring = FrameRing()
    ring.add_frames("client", [frame(id=1, method="session/prompt")])
    ring.ended(TransportEnd("the agent died", signal="SIGKILL"), "agent")
    ring.add_frames("agent", [frame(id=1, result={})])
    assert [(entry.kind, entry.method) for entry in ring.entries] == [
        ("request", "session/prompt"),
        ("closed", ""),
        ("exit", ""),
        ("answer", ""),
    ]
    assert "SIGKILL" in step_lines(ring.entries[2].step, TimelineStyle())[0]


async def test_a_failing_subscriber_is_removed_and_reported_once():
    ring, seen_frames, reported = FrameRing(), list[RingEntry](), list[str]()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["message"]))

    def fails(_: list[RingEntry]) -> None:
        raise ValueError("a bug of the screen")

    ring.subscribe(fails)
    ring.subscribe(seen_frames.extend)
    ring.add_frames("client", [b"1"])
    ring.add_frames("client", [b"2"])
    assert len(seen_frames) == 2
    assert len(reported) == 1


async def test_one_ring_observes_an_agent_process_across_a_restart(tmp_path: Path):
    """One ring stays attached over the agent's restarts and also holds its stderr."""
    program = tmp_path / "agent.py"
    program.write_text(AGENT)
    ring = FrameRing()

    def wrap(transport: Transport) -> Transport:
        return TappedTransport(transport, ring, ours="client")

    options = accord.ClientOptions(wrap=wrap, on_stderr=ring.add_stderr)
    async with accord.connect(sys.executable, str(program), options=options) as agent:
        session = await agent.new_session(str(tmp_path))
        await session.ask("Hi")
        await agent.restart()
        await (await agent.new_session(str(tmp_path))).ask("Again")
    crossed = [(entry.sender, entry.kind, entry.method) for entry in ring.entries if entry.sender != "stderr"]
    calls = [
        ("client", "request", "initialize"),
        ("agent", "answer", "initialize"),
        ("client", "request", "session/new"),
        ("agent", "answer", "session/new"),
        ("client", "request", "session/prompt"),
        ("agent", "notification", "session/update"),
        ("agent", "answer", "session/prompt"),
        ("agent", "closed", ""),
    ]
    assert [one for one in crossed if one[1] != "exit"] == [*calls, *calls]
    words = [entry.trace_entry.text for entry in ring.entries if entry.sender == "stderr"]
    assert words == ["ready, token=[redacted]"] * 2


async def test_connect_fails_when_the_trace_file_cannot_be_written(tmp_path: Path):
    program = tmp_path / "agent.py"
    program.write_text(AGENT)
    options = accord.ClientOptions(
        wrap=lambda transport: record_to_file(transport, tmp_path / "missing" / "t")
    )
    with pytest.raises(UsageError, match="cannot write"):
        async with accord.connect(sys.executable, str(program), options=options):
            pass


async def test_stderr_of_an_agent_that_exits_at_once_is_kept_through_a_tap():
    options = accord.ClientOptions(wrap=lambda transport: TappedTransport(transport, ours="client"))
    with pytest.raises(accord.HandshakeFailed) as caught:
        async with accord.connect(
            sys.executable, "-c", "import sys; sys.exit('no such model')", options=options
        ):
            pass
    assert "no such model" in caught.value.stderr
