"""Records what an output writes to a terminal or to a pipe."""

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyte
import pyte.modes

from accord.cli.output import Output, output_for
from accord.schema import AgentMessageChunk, AgentThoughtChunk, TextContent, ToolCallUpdate
from accord.session import Event, SessionState, ToolCallChanged
from accord.testing.fake_clock import FakeClock

if TYPE_CHECKING:
    from accord.client import ClientEvent


class Terminal(io.StringIO):
    """A stream that also feeds its text to an emulated terminal."""

    def __init__(self, columns: int = 60, lines: int = 40) -> None:
        super().__init__()
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.Stream(self.screen)
        self.screen.set_mode(pyte.modes.LNM)  # like the terminal driver: a newline also returns to column 0

    def write(self, text: str, /) -> int:
        self._stream.feed(text)
        return super().write(text)

    @property
    def shown(self) -> list[str]:
        """The lines of the screen, without the empty ones at its end."""
        lines = [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            del lines[-1]
        return lines


@dataclass
class OutputRecorder:
    """An output with its streams. A session state completes the events, as in a real session."""

    output: Output
    stdout: io.StringIO
    stderr: io.StringIO
    clock: FakeClock
    state: SessionState = field(default_factory=SessionState)

    def send(self, *events: "ClientEvent") -> None:
        """Pass these events to the output."""
        for event in events:
            if isinstance(event, Event.__args__):  # type: ignore[attr-defined]
                self.output.event(self.state.apply(event))  # type: ignore[arg-type]
            else:
                self.output.event(event)

    @property
    def text(self) -> str:
        return self.stdout.getvalue()

    @property
    def screen(self) -> list[str]:
        assert isinstance(self.stdout, Terminal)
        return self.stdout.shown


def on_terminal(columns: int = 60, lines: int = 40, *, color: bool = True) -> OutputRecorder:
    """Record a text output on a terminal."""
    clock, stdout, stderr = FakeClock(), Terminal(columns, lines), io.StringIO()
    output = output_for(
        "text", stdout=stdout, stderr=stderr, terminal=True, width=columns, color=color, clock=clock
    )
    return OutputRecorder(output, stdout, stderr, clock)


def on_pipe(format: str = "text") -> OutputRecorder:
    """Record an output on a pipe."""
    clock, stdout, stderr = FakeClock(), io.StringIO(), io.StringIO()
    output = output_for(format, stdout=stdout, stderr=stderr, terminal=False, color=False, clock=clock)
    return OutputRecorder(output, stdout, stderr, clock)


def message(text: str, message_id: str | None = None) -> AgentMessageChunk:
    """A chunk of the agent's message."""
    return AgentMessageChunk(content=TextContent(text=text), message_id=message_id)


def thought(text: str) -> AgentThoughtChunk:
    """A chunk of a thought."""
    return AgentThoughtChunk(content=TextContent(text=text))


def call(call_id: str = "1", **changes: object) -> ToolCallChanged:
    """A change of a tool call."""
    return ToolCallChanged(ToolCallUpdate(tool_call_id=call_id, **changes))  # type: ignore[arg-type]
