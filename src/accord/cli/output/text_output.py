"""`--format text`: shows a turn as it arrives, with live lines on a terminal.

Imported on first use: it loads accord.client.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import UNSET

from accord.cli.output.event_lines import (
    EVENT_TYPES,
    EventLines,
    ToolCallDisplay,
    closing_lines,
    plan_lines,
)
from accord.cli.output.output_sink import OutputStream, error_text, note_line
from accord.cli.output.terminal_markdown import TerminalMarkdown
from accord.cli.output.terminal_screen import (
    CYAN,
    DIM,
    PLAIN,
    TICK,
    Attributes,
    OutputSize,
    Style,
    TerminalScreen,
)
from accord.client.client_events import ClientEvent
from accord.clock import Clock
from accord.errors import AccordError
from accord.frontend.display_text import block_text
from accord.safe_text import TextCleaner
from accord.schema import AgentMessageChunk, AgentThoughtChunk
from accord.session import (
    MessageChanged,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    ReplayEnded,
    ReplayStarted,
    ToolCallChanged,
    TurnCancelling,
    TurnEnded,
    TurnStarted,
)
from accord.text_width import cut_to_width

if TYPE_CHECKING:
    from accord.client import ClientSession, RemoteAgent


THOUGHT_MARK: Final = "· "
"""Starts the lines of a thought where text cannot be dimmed."""
SILENCE: Final = 0.5
"""The progress line appears after this many seconds without an event."""
_COLUMN: Final = 1  # on a pipe it only matters that a line has begun


class TextWriter(Protocol):
    """Writes one message or thought that arrives in chunks."""

    def feed(self, text: str) -> None:
        """Write the next chunk, as the agent sent it."""

    def flush_word(self) -> None:
        """Show held-back text, because no chunk arrived for a while."""

    def end_line(self) -> None:
        """End the line, because other output follows before the next chunk."""

    def end(self) -> None:
        """End the message and its last line."""


class MarkdownWriter:
    """Renders a message as Markdown."""

    def __init__(
        self, screen: TerminalScreen, style: Style, attributes: Attributes = PLAIN, line_prefix: str = ""
    ) -> None:
        self._cleaner = TextCleaner()
        self._markdown = TerminalMarkdown(
            screen.write, screen.width, style, attributes=attributes, line_prefix=line_prefix
        )

    def feed(self, text: str) -> None:
        self._markdown.feed(self._cleaner.feed(text))

    def flush_word(self) -> None:
        self._markdown.flush_word()

    def end_line(self) -> None:
        self._markdown.end_line()

    def end(self) -> None:
        self._markdown.end()


class PlainWriter:
    """Writes the text unchanged, without empty lines around it. Each line may start with a mark."""

    def __init__(self, screen: TerminalScreen, line_prefix: str = "") -> None:
        self._cleaner = TextCleaner()
        self._screen = screen
        self._line_prefix = line_prefix
        self._line_breaks = 0  # held back until more text arrives
        self._started = False
        self._in_line = False

    def feed(self, text: str) -> None:
        text = self._cleaner.feed(text)
        if not self._started:
            text = text.lstrip("\n")
        stripped = text.rstrip("\n")
        breaks = len(text) - len(stripped)
        if stripped:
            self._started = True
            stripped = "\n" * self._line_breaks + stripped
            if self._line_prefix:
                start = "" if self._in_line else self._line_prefix
                stripped = start + stripped.replace("\n", f"\n{self._line_prefix}")
            self._screen.write(stripped, _COLUMN)
            self._line_breaks, self._in_line = 0, True
        if breaks and self._in_line:  # a reader of lines gets this one now
            self.end_line()
            breaks -= 1
        self._line_breaks += breaks

    def flush_word(self) -> None:
        pass  # only line breaks are held back

    def end_line(self) -> None:
        self._in_line = False
        self._screen.end_line()

    def end(self) -> None:
        self.end_line()


class ProgressLine:
    """The line that shows how long the agent has been working without output."""

    def __init__(self, style: Style, clock: Clock) -> None:
        self._style = style
        self._clock = clock
        self._last_event = clock.now()
        self._activity: str | None = None

    def start(self) -> None:
        """Start with the turn."""
        self._activity = "working"
        self.reset()

    def show(self, activity: str) -> None:
        """Show another activity from now on."""
        self._activity = activity

    def stop(self) -> None:
        """Show nothing from now on."""
        self._activity = None

    def reset(self) -> None:
        """Count the silence from now on."""
        self._last_event = self._clock.now()

    @property
    def frame(self) -> str:
        """The current frame of the spinner."""
        spinner = self._style.symbols.spinner
        return spinner[int(self._clock.now() / TICK) % len(spinner)]

    @property
    def silent(self) -> bool:
        """Whether no event arrived for a while."""
        return self._clock.now() - self._last_event >= SILENCE

    def line(self, width: int, *, busy: bool) -> list[str]:
        """Return the line; none while text arrives or a running tool call (`busy`) shows its own."""
        if self._activity is None or not self.silent or (busy and self._activity == "working"):
            return []
        text = cut_to_width(f" {self._activity} {int(self._clock.now() - self._last_event)} s", width - 1)
        return [self._style.paint(self.frame, CYAN) + self._style.paint(text, DIM)]


class TextOutput:
    """`--format text`: rendered, wrapped and with live lines on a terminal; plain on a pipe."""

    def __init__(
        self,
        stdout: OutputStream,
        stderr: OutputStream,
        style: Style,
        size: OutputSize | None,
        clock: Clock,
        command: str = "run",
    ) -> None:
        self._command = command
        self._stdout = stdout
        self._stderr = stderr
        self._style = style
        self._clock = clock
        self._live_lines = size is not None
        self._rendered = self._live_lines or style.color
        self._screen = TerminalScreen(stdout, clock, size, self._live_lines_for)
        self._progress = ProgressLine(style, clock)
        self._session: ClientSession | None = None
        self._began = clock.now()
        self._replaying = False
        self._writer: TextWriter | None = None
        self._message: tuple[str, str | None] = ("", None)  # kind and id of the message being written
        self._held_space = ""  # the start of a message, as long as it is only space
        self._calls = ToolCallDisplay(style, clock)
        self._plans: dict[str, list[str]] = {}
        self._lines = EventLines(style)
        self._handlers: dict[type, Callable[[Any], None]] = {
            AgentMessageChunk: self._message_chunk,
            AgentThoughtChunk: self._thought_chunk,
            MessageChanged: self._whole_message,
            ToolCallChanged: self._tool_call_changed,
            PermissionAsked: self._permission_asked,
            PlanChanged: self._plan_changed,
            ReplayStarted: self._replay_started,
            ReplayEnded: self._replay_ended,
            TurnStarted: self._turn_started,
            TurnCancelling: self._turn_cancelling,
            TurnEnded: self._turn_ended,
            **dict.fromkeys(EVENT_TYPES, self._show_event_lines),
            PermissionAnswered: self._permission_answered,
        }

    # -- the Output interface --------------------------------------------------------------------------------

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        self._session = session
        self._lines.opened(session)
        self._calls.opened(session)
        self._began = self._clock.now()

    def event(self, event: ClientEvent) -> None:
        handler = self._handlers.get(type(event))
        if self._replaying and not isinstance(event, ReplayEnded):
            return
        self._progress.reset()
        if handler is not None:
            handler(event)
        self._screen.flush()
        self._screen.refresh()

    def note(self, text: str) -> None:
        self._end_open_lines()
        self._stderr.try_write(note_line(text, self._command))

    @contextmanager
    def question(self) -> Generator[None]:
        self._end_open_lines()
        with self._screen.suspended():
            yield
        self._progress.reset()

    def prompt(self, text: str) -> None:
        self._stdout.prompt = self._stderr.prompt = text

    def finished(
        self, ended: TurnEnded | None, error: AccordError | None, exit_code: int, value: Any = UNSET
    ) -> None:
        self._progress.stop()
        try:
            self._end_message()
            self._show_calls(self._calls.unfinished())
            if self._session is not None:
                self._screen.begin_block("end")
                self._screen.write_lines(self._closing_lines(self._session, ended))
            self._screen.flush()
        except (BrokenPipeError, AccordError):
            pass  # the turn is over; only the exit code matters now
        self._screen.remove_live()
        if error is not None:
            self._stderr.try_write(error_text(error, self._command))

    def _closing_lines(self, session: "ClientSession", ended: TurnEnded | None) -> list[str]:
        duration = self._clock.now() - self._began
        return closing_lines(ended, session.state.usage, duration, session, self._style, self._screen.width())

    def _end_open_lines(self) -> None:
        """End unfinished lines and remove live lines before other output."""
        if self._writer is not None:
            self._writer.end_line()
        self._screen.end_line()
        self._screen.remove_live()

    # -- messages and thoughts -------------------------------------------------------------------------------

    def _message_chunk(self, chunk: AgentMessageChunk) -> None:
        self._write_text("agent", chunk.message_id or None, block_text(chunk.content))

    def _thought_chunk(self, chunk: AgentThoughtChunk) -> None:
        self._write_text("thought", chunk.message_id or None, block_text(chunk.content))

    def _whole_message(self, event: MessageChanged) -> None:
        if event.kind != "user" and event.content:
            self._end_message()
            self._write_text(event.kind, event.message_id, "".join(map(block_text, event.content)))
            self._end_message()

    def _write_text(self, kind: str, message_id: str | None, text: str) -> None:
        current_kind, current_id = self._message
        if current_kind != kind or (message_id and current_id and message_id != current_id):
            self._end_message()
            self._message = (kind, message_id)
        if self._writer is None:
            text = self._held_space + text
            if not text.strip():  # many messages start with empty lines, and some contain nothing else
                self._held_space = text
                return
            self._held_space = ""
            self._writer = self._new_writer(kind)
        self._writer.feed(text)

    def _new_writer(self, kind: str) -> TextWriter:
        self._screen.begin_block(kind, apart=True)
        thought = kind == "thought"
        line_prefix = THOUGHT_MARK if thought and not self._style.color else ""
        if self._rendered:
            return MarkdownWriter(self._screen, self._style, DIM if thought else PLAIN, line_prefix)
        return PlainWriter(self._screen, line_prefix)

    def _end_message(self) -> None:
        writer, self._writer = self._writer, None
        self._held_space = ""
        if writer is not None:
            writer.end()

    # -- tool calls, plans and other lines -------------------------------------------------------------------

    def _tool_call_changed(self, event: ToolCallChanged) -> None:
        if event.new:  # later chunks belong to another message
            self._end_message()
        self._show_calls(self._calls.update(event.call))

    def _permission_asked(self, event: PermissionAsked) -> None:
        self._lines.permission_asked(event)
        if event.call is not None:
            self._show_calls(self._calls.update(event.call))

    def _show_calls(self, lines: list[str]) -> None:
        if lines:
            self._end_message()
            self._screen.begin_block("tool")
            self._screen.write_lines(lines)

    def _permission_answered(self, event: PermissionAnswered) -> None:
        self._calls.restart_time(self._lines.tool_call_id_of(event))
        if not self._live_lines:  # on a terminal the user has just answered
            self._show_event_lines(event)

    def _plan_changed(self, event: PlanChanged) -> None:
        plan = event.plan
        new = [] if plan is None else plan_lines(plan, self._style, self._screen.width())
        if new != self._plans.get(event.plan_id, []):
            self._plans[event.plan_id] = new
            if new:
                self._end_message()
                self._screen.begin_block("plan", apart=True)
                self._screen.write_lines(new)

    def _show_event_lines(self, event: Any) -> None:
        lines = self._lines.lines_for(event)
        if lines:
            self._end_message()
            self._screen.begin_block("tool")
            self._screen.write_lines(lines)

    # -- the turn --------------------------------------------------------------------------------------------

    def _replay_started(self, event: ReplayStarted) -> None:
        self._replaying = True

    def _replay_ended(self, event: ReplayEnded) -> None:
        self._replaying = False

    def _turn_started(self, event: TurnStarted) -> None:
        self._progress.start()

    def _turn_cancelling(self, event: TurnCancelling) -> None:
        self._progress.show("cancelling")

    def _turn_ended(self, event: TurnEnded) -> None:
        self._progress.stop()
        self._end_message()
        self._show_calls(self._calls.unfinished())

    def _live_lines_for(self, width: int) -> list[str]:
        if self._writer is not None and self._progress.silent:
            self._writer.flush_word()
        calls = self._calls.live(width, self._progress.frame)
        return calls + self._progress.line(width, busy=bool(calls))
