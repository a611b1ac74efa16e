"""A turn as text for people, as it arrives, with a progress line.

Imported on first use.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from accord.cli.output import event_lines, tool_lines
from accord.cli.output.event_lines import closing_lines, plan_lines
from accord.cli.output.output_sink import OutputStream, error_text, note_line
from accord.cli.output.terminal_markdown import TerminalMarkdown
from accord.cli.output.terminal_screen import (
    CYAN,
    DIM,
    PLAIN,
    TICK,
    Look,
    Style,
    TerminalScreen,
    TerminalSize,
    cut,
)
from accord.client.client_events import ClientEvent
from accord.clock import Clock
from accord.errors import AccordError
from accord.frontend.display_text import words_of
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

if TYPE_CHECKING:
    from accord.client import ClientSession, RemoteAgent


# MERGED cli.output.flow: How a text that comes in pieces is put out: rendered where there is something to render with, else as it was written.

_COLUMN: Final = 1  # on a pipe it only matters whether a line has begun


class TextWriter(Protocol):
    """One message or thought."""

    def feed(self, text: str) -> None:
        """The next piece, as the agent sent it."""
        ...

    def settle(self) -> None:
        """Nothing more comes for a while: show what can be shown."""
        ...

    def rest(self) -> None:
        """Somebody else writes before the next piece: end the line."""
        ...

    def end(self) -> None:
        """It is over; the last line is ended."""
        ...


class MarkdownWriter:
    """Markdown for eyes."""

    def __init__(self, screen: TerminalScreen, style: Style, look: Look = PLAIN, mark: str = "") -> None:
        self._cleaner = TextCleaner()
        self._markdown = TerminalMarkdown(screen.write, screen.width, style, look=look, mark=mark)

    def feed(self, text: str) -> None:
        self._markdown.feed(self._cleaner.feed(text))

    def settle(self) -> None:
        self._markdown.settle()

    def rest(self) -> None:
        self._markdown.rest()

    def end(self) -> None:
        self._markdown.end()


class PlainWriter:
    """The text as it was written, without empty lines around it; each line may begin with a mark."""

    def __init__(self, screen: TerminalScreen, mark: str = "") -> None:
        self._cleaner = TextCleaner()
        self._screen = screen
        self._mark = mark
        self._empty = 0  # lines that are owed: they count only when more text comes
        self._begun = False
        self._in_line = False

    def feed(self, text: str) -> None:
        text = self._cleaner.feed(text)
        if not self._begun:
            text = text.lstrip("\n")
        bare = text.rstrip("\n")
        breaks = len(text) - len(bare)
        if bare:
            self._begun = True
            bare = "\n" * self._empty + bare
            if self._mark:
                start = "" if self._in_line else self._mark
                bare = start + bare.replace("\n", f"\n{self._mark}")
            self._screen.write(bare, _COLUMN)
            self._empty, self._in_line = 0, True
        if breaks and self._in_line:  # whoever reads line by line has this one now
            self.rest()
            breaks -= 1
        self._empty += breaks

    def settle(self) -> None:
        pass  # nothing but empty lines is ever held back

    def rest(self) -> None:
        self._in_line = False
        self._screen.fresh()

    def end(self) -> None:
        self.rest()


# MERGED cli.output.progress: The line that shows that somebody is at work while nothing is said.

SILENCE: Final = 0.5
"""After so many seconds without a word the line appears."""


class ProgressLine:
    """Whether the turn runs, and since when nothing was heard."""

    def __init__(self, style: Style, clock: Clock) -> None:
        self._style = style
        self._clock = clock
        self._heard = clock.now()
        self._what: str | None = None

    def start(self) -> None:
        """The turn has begun."""
        self._what = "working"
        self.heard()

    def say(self, what: str) -> None:
        """From now on this is what goes on."""
        self._what = what

    def stop(self) -> None:
        """Nothing goes on any more."""
        self._what = None

    def heard(self) -> None:
        """A sign of life."""
        self._heard = self._clock.now()

    @property
    def frame(self) -> str:
        """The picture of the moment."""
        spinner = self._style.signs.spinner
        return spinner[int(self._clock.now() / TICK) % len(spinner)]

    @property
    def silent(self) -> bool:
        """Whether nothing was heard for a while."""
        return self._clock.now() - self._heard >= SILENCE

    def line(self, width: int, *, busy: bool) -> list[str]:
        """The line, if there is something to say: not while text comes, nor while a call shows its own."""
        if self._what is None or not self.silent or (busy and self._what == "working"):
            return []
        text = cut(f" {self._what} {int(self._clock.now() - self._heard)} s", width - 1)
        return [self._style.paint(self.frame, CYAN) + self._style.paint(text, DIM)]


# MERGED cli.output.text: The turn for people: what the agent says as it says it, and between that what it does.

THOUGHT_MARK: Final = "· "
"""Where nothing can be dimmed, the lines of a thought begin with this."""


class TextOutput:
    """`--format text`. On a terminal rendered, wrapped and live; on a pipe plain, and only what stays."""

    def __init__(
        self,
        stdout: OutputStream,
        stderr: OutputStream,
        style: Style,
        size: TerminalSize | None,
        clock: Clock,
        command: str = "run",
    ) -> None:
        self._command = command
        self._stderr = stderr
        self._style = style
        self._clock = clock
        self._live_lines = size is not None
        self._rendered = self._live_lines or style.colour
        self._screen = TerminalScreen(stdout, clock, size, self._live)
        self._progress = ProgressLine(style, clock)
        self._session: ClientSession | None = None
        self._began = clock.now()
        self._replaying = False
        self._flow: TextWriter | None = None
        self._speaking: tuple[str, str | None] = ("", None)
        self._unsaid = ""  # nothing but space so far
        self._calls = tool_lines.ToolCallDisplay(style, clock)
        self._plans: dict[str, list[str]] = {}
        self._lines = event_lines.EventLines(style)
        self._takers: dict[type, Callable[[Any], None]] = {
            AgentMessageChunk: self._message,
            AgentThoughtChunk: self._thought,
            MessageChanged: self._whole_message,
            ToolCallChanged: self._tool_call,
            PermissionAsked: self._asked,
            PlanChanged: self._plan,
            ReplayStarted: self._replay_started,
            ReplayEnded: self._replay_ended,
            TurnStarted: self._turn_started,
            TurnCancelling: self._turn_cancelling,
            TurnEnded: self._turn_ended,
            **dict.fromkeys(event_lines.KINDS, self._one_liner),
            PermissionAnswered: self._answered,
        }

    # -- the contract -------------------------------------------------------------------------------------------

    def opened(self, session: "ClientSession", agent: "RemoteAgent") -> None:
        self._session = session
        self._lines.opened(session)
        self._calls.opened(session)
        self._began = self._clock.now()

    def event(self, event: ClientEvent) -> None:
        take = self._takers.get(type(event))
        if self._replaying and not isinstance(event, ReplayEnded):
            return
        self._progress.heard()
        if take is not None:
            take(event)
        self._screen.flush()
        self._screen.refresh()

    def note(self, text: str) -> None:
        self._hush()
        self._stderr.say(note_line(text, self._command))

    @contextmanager
    def question(self) -> Generator[None]:
        self._hush()
        with self._screen.lent():
            yield
        self._progress.heard()

    def finished(self, ended: TurnEnded | None, error: AccordError | None, exit_code: int) -> None:
        self._progress.stop()
        try:
            self._end_flow()
            self._show(self._calls.left_open())
            if self._session is not None:
                self._screen.begin("end")
                self._screen.lines(self._closing(ended))
            self._screen.flush()
        except (BrokenPipeError, AccordError):
            pass  # the turn is over: what is left to say is the exit code
        self._screen.put_away()
        if error is not None:
            self._stderr.say(error_text(error, self._command))

    def _closing(self, ended: TurnEnded | None) -> list[str]:
        session = self._session
        assert session is not None
        took = self._clock.now() - self._began
        return closing_lines(ended, session.state.usage, took, session.id, self._style, self._screen.width())

    def _hush(self) -> None:
        """Nothing half written and nothing live, for somebody else writes now."""
        if self._flow is not None:
            self._flow.rest()
        self._screen.fresh()
        self._screen.put_away()

    # -- what the agent says ------------------------------------------------------------------------------------

    def _message(self, chunk: AgentMessageChunk) -> None:
        self._say("agent", chunk.message_id or None, words_of(chunk.content))

    def _thought(self, chunk: AgentThoughtChunk) -> None:
        self._say("thought", chunk.message_id or None, words_of(chunk.content))

    def _whole_message(self, event: MessageChanged) -> None:
        if event.kind != "user" and event.content:
            self._end_flow()
            self._say(event.kind, event.message_id, "".join(map(words_of, event.content)))
            self._end_flow()

    def _say(self, kind: str, message_id: str | None, text: str) -> None:
        spoken, spoken_id = self._speaking
        if spoken != kind or (message_id and spoken_id and message_id != spoken_id):
            self._end_flow()
            self._speaking = (kind, message_id)
        if self._flow is None:
            text = self._unsaid + text
            if not text.strip():  # many begin with empty lines, and some say no more than that
                self._unsaid = text
                return
            self._unsaid = ""
            self._flow = self._new_flow(kind)
        self._flow.feed(text)

    def _new_flow(self, kind: str) -> TextWriter:
        self._screen.begin(kind, apart=True)
        thought = kind == "thought"
        mark = THOUGHT_MARK if thought and not self._style.colour else ""
        if self._rendered:
            return MarkdownWriter(self._screen, self._style, DIM if thought else PLAIN, mark)
        return PlainWriter(self._screen, mark)

    def _end_flow(self) -> None:
        flow, self._flow = self._flow, None
        self._unsaid = ""
        if flow is not None:
            flow.end()

    # -- what it does -------------------------------------------------------------------------------------------

    def _tool_call(self, event: ToolCallChanged) -> None:
        if event.new:  # what is said from now on is another message
            self._end_flow()
        self._show(self._calls.changed(event.call))

    def _asked(self, event: PermissionAsked) -> None:
        self._lines.asked(event)
        if event.call is not None:
            self._show(self._calls.changed(event.call))

    def _show(self, texts: list[str]) -> None:
        """Lines about tool calls."""
        if texts:
            self._end_flow()
            self._screen.begin("tool")
            self._screen.lines(texts)

    def _answered(self, event: PermissionAnswered) -> None:
        self._calls.waited(self._lines.about(event))
        if not self._live_lines:  # on a terminal it was just seen
            self._one_liner(event)

    def _plan(self, event: PlanChanged) -> None:
        plan = event.plan
        new = [] if plan is None else plan_lines(plan, self._style, self._screen.width())
        if new != self._plans.get(event.plan_id, []):
            self._plans[event.plan_id] = new
            if new:
                self._end_flow()
                self._screen.begin("plan", apart=True)
                self._screen.lines(new)

    def _one_liner(self, event: Any) -> None:
        """What is told in a line or not at all."""
        told = self._lines.of(event)
        if told:
            self._end_flow()
            self._screen.begin("tool")
            self._screen.lines(told)

    # -- the turn -----------------------------------------------------------------------------------------------

    def _replay_started(self, event: ReplayStarted) -> None:
        self._replaying = True

    def _replay_ended(self, event: ReplayEnded) -> None:
        self._replaying = False

    def _turn_started(self, event: TurnStarted) -> None:
        self._progress.start()

    def _turn_cancelling(self, event: TurnCancelling) -> None:
        self._progress.say("cancelling")

    def _turn_ended(self, event: TurnEnded) -> None:
        self._progress.stop()
        self._end_flow()
        self._show(self._calls.left_open())

    def _live(self, width: int) -> list[str]:
        if self._flow is not None and self._progress.silent:
            self._flow.settle()
        shown = self._calls.live(width, self._progress.frame)
        return shown + self._progress.line(width, busy=bool(shown))
