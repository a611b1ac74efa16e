"""Any recording can be shown, counted and replayed: no message makes the reader fail."""

import asyncio
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.testing import FakeClock
from accord.trace.replay_comparison import combine_updates, read_script
from accord.trace.replayed_agent import ReplayedAgent
from accord.trace.trace_format import TraceEntry, entry_line, frame_entry, make_start, parse_line
from accord.trace.trace_stats import TraceStats
from accord.trace.trace_steps import TraceStep
from accord.trace.trace_views import (
    Timeline,
    TimelineStyle,
    html_page,
    step_as_json,
    step_lines,
    unanswered_as_json,
)
from accord.wire.memory_transport import memory_pair

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=5)
    | st.sampled_from(["s1", "t1", "text", "selected"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "sessionId",
                    "update",
                    "sessionUpdate",
                    "toolCallId",
                    "content",
                    "type",
                    "text",
                    "options",
                    "optionId",
                    "outcome",
                    "entries",
                    "status",
                    "prompt",
                    "cwd",
                    "availableCommands",
                    "clientCapabilities",
                    "agentCapabilities",
                    "protocolVersion",
                    "stopReason",
                    "requestId",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
METHODS = st.sampled_from(
    [
        "initialize",
        "session/new",
        "session/load",
        "session/prompt",
        "session/update",
        "session/cancel",
        "session/request_permission",
        "fs/read_text_file",
        "terminal/create",
        "$/cancel_request",
        "_x/y",
        "nope",
    ]
)
IDS = st.sampled_from([0, 1, 2, "1", None, [1], {"a": 1}, 1.5, True])
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | VALUES,
        "id": IDS,
        "method": METHODS | VALUES,
        "params": VALUES,
        "result": VALUES,
        "error": VALUES,
    },
)
FRAMES = (
    MESSAGES.map(msgspec.json.encode)
    | VALUES.map(msgspec.json.encode)
    | st.binary(min_size=1, max_size=30).filter(lambda data: b"\n" not in data)
)
ENTRIES = st.builds(
    lambda at, sender, frame: frame_entry(at, sender, frame, run="r"),
    st.floats(0, 100, allow_nan=False),
    st.sampled_from(["client", "agent"]),
    FRAMES,
) | st.builds(
    TraceEntry,
    run=st.just("r"),
    at=st.floats(0, 100, allow_nan=False),
    kind=st.sampled_from(["closed", "exit", "lost"]),
    sender=st.sampled_from(["client", "agent"]),
)
RUNS = st.lists(ENTRIES, max_size=15)


@settings(deadline=None)
@given(ENTRIES)
def test_an_entry_survives_writing_and_reading(entry: TraceEntry):
    again = parse_line(entry_line(entry)[:-1])
    assert isinstance(again, TraceEntry)
    assert (again.kind, again.data, again.size) == (entry.kind, entry.data, entry.size)


@settings(deadline=None)
@given(RUNS)
def test_any_recording_can_be_shown_and_counted(entries: list[TraceEntry]):
    start = make_start("r", "2026-11-16T10:00:00Z", by="x")
    timeline, figures = Timeline(), TraceStats()
    steps = list(timeline.steps([start, *entries]))
    for number, step in steps:
        figures.add(number, step)
        if isinstance(step, TraceStep):
            for look in (
                TimelineStyle(),
                TimelineStyle(width=80, colors=True),
                TimelineStyle(full=True, ascii_only=True),
            ):
                assert all("\n" not in line for line in step_lines(step, look))
            msgspec.json.encode(step_as_json(number, step))
    owed = timeline.unanswered_calls()
    msgspec.json.encode([unanswered_as_json(*one) for one in owed])
    figures.finish()
    figures.lines()
    msgspec.json.encode(figures.as_json())
    assert "".join(html_page("t", steps, lambda: owed)).endswith("</html>\n")


@settings(deadline=None, max_examples=50)
@given(RUNS, st.lists(FRAMES, max_size=8))
def test_any_recording_can_be_played_to_any_client(entries: list[TraceEntry], frames: list[bytes]):
    async def play() -> None:
        theirs, ours = memory_pair()
        clock = FakeClock()
        agent = ReplayedAgent(read_script(entries), theirs, clock=clock)
        task = asyncio.create_task(agent.play())

        class IgnoringReceiver:
            def frames(self, frames: list[Any]) -> None:
                pass

            def ended(self, end: Any) -> None:
                pass

        ours.start(IgnoringReceiver())
        for frame in frames:
            ours.send(frame)
        await clock.advance(60)
        await ours.aclose()
        report = await task
        assert report.played <= report.total

    asyncio.run(play())


@settings(deadline=None)
@given(st.lists(VALUES, max_size=10))
def test_any_updates_can_be_folded(updates: list[Any]):
    combine_updates(updates)


def test_a_frame_is_kept_byte_for_byte():
    for frame in (
        b'{ "a" : 1.50e2,\t"b":"\\u00e9" }',
        '{"é":"👋"}'.encode(),
        b'{"a":"\\ud83d"}',
        b"\xff",
        b"12345678901234567890123",
    ):
        again = parse_line(entry_line(frame_entry(0.0, "agent", frame))[:-1])
        assert isinstance(again, TraceEntry)
        assert again.data == frame
