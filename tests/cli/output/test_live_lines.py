"""Live lines are removed without a trace, also when the screen scrolls."""

import asyncio
import io
import re

import pyte
import pyte.modes
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.output.output_recorder import OutputRecorder, call, message, thought
from tests.repetitions import repetitions

from accord.cli.output import output_for
from accord.session import TurnEnded, TurnStarted
from accord.testing.fake_clock import FakeClock

WORDS = [
    "Some words ",
    "and more",
    " of them.\n",
    "\n\n- item ",
    "**bold** ",
    "日本語",
    "`co",
    "de` ",
    "```\n",
    "x" * 45,
]
STEPS = st.one_of(
    st.sampled_from(WORDS).map(message),
    st.sampled_from(WORDS).map(thought),
    st.integers(1, 9).map(lambda number: call(str(number), title=f"Call {number}", status="in_progress")),
    st.integers(1, 9).map(lambda number: call(str(number), title=f"Call {number}", status="completed")),
    st.just(0.3),
)


class ScrollingTerminal(io.StringIO):
    """A small terminal that keeps the lines that scrolled away."""

    def __init__(self, columns: int, lines: int) -> None:
        super().__init__()
        self.screen = pyte.HistoryScreen(columns, lines, history=10_000, ratio=0.1)
        self.screen.set_mode(pyte.modes.LNM)
        self._stream = pyte.Stream(self.screen)

    def write(self, text: str, /) -> int:
        self._stream.feed(text)
        return super().write(text)

    @property
    def lines(self) -> list[str]:
        scrolled_out = [
            "".join(line[column].data for column in range(self.screen.columns)).rstrip()
            for line in self.screen.history.top
        ]
        lines = scrolled_out + [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            del lines[-1]
        return [re.sub(r"\d+\.\d s\)", "some time)", line) for line in lines]


async def final_screen(steps: list[object], *, live: bool) -> list[str]:
    terminal, clock = ScrollingTerminal(40, 9), FakeClock()
    output = output_for(
        "text", stdout=terminal, stderr=io.StringIO(), terminal=True, width=40, color=True, clock=clock
    )
    recorder = OutputRecorder(output, terminal, io.StringIO(), clock)
    recorder.send(TurnStarted())
    for before, step in zip([None, *steps], steps, strict=False):
        if not isinstance(step, float):
            recorder.send(step)  # type: ignore[arg-type]
        elif live and not isinstance(before, float):
            # Two pauses in a row would show an incomplete word, which may then be wrapped differently.
            await clock.advance(step)
    recorder.send(TurnEnded("end_turn", "end_turn"))
    output.finished(None, None, 0)
    return terminal.lines


@settings(max_examples=repetitions(150), deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_live_lines_leave_the_same_screen_as_none(steps: list[object]) -> None:
    assert asyncio.run(final_screen(steps, live=True)) == asyncio.run(final_screen(steps, live=False))
