"""The turn for people: what the agent says as it says it, and between that what it does."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from accord.cli.output import calls, lines
from accord.cli.output.closing import closing_lines
from accord.cli.output.flow import Flow, PlainFlow, RenderedFlow
from accord.cli.output.notes import error_text, note_line
from accord.cli.output.plans import plan_lines
from accord.cli.output.progress import Progress
from accord.cli.output.screen import Screen
from accord.cli.output.sink import Sink
from accord.cli.output.style import DIM, PLAIN, Style
from accord.cli.output.terminalsize import TerminalSize
from accord.client.events import ClientEvent
from accord.client.words import words_of
from accord.clock import Clock
from accord.errors import AccordError
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

THOUGHT_MARK: Final = "· "
"""Where nothing can be dimmed, the lines of a thought begin with this."""


class TextOutput:
    """`--format text`. On a terminal rendered, wrapped and live; on a pipe plain, and only what stays."""

    def __init__(
        self,
        stdout: Sink,
        stderr: Sink,
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
        self._screen = Screen(stdout, clock, size, self._live)
        self._progress = Progress(style, clock)
        self._session: ClientSession | None = None
        self._began = clock.now()
        self._replaying = False
        self._flow: Flow | None = None
        self._speaking: tuple[str, str | None] = ("", None)
        self._unsaid = ""  # nothing but space so far
        self._calls = calls.Calls(style, clock)
        self._plans: dict[str, list[str]] = {}
        self._lines = lines.Lines(style)
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
            **dict.fromkeys(lines.KINDS, self._one_liner),
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

    def _new_flow(self, kind: str) -> Flow:
        self._screen.begin(kind, apart=True)
        thought = kind == "thought"
        mark = THOUGHT_MARK if thought and not self._style.colour else ""
        if self._rendered:
            return RenderedFlow(self._screen, self._style, DIM if thought else PLAIN, mark)
        return PlainFlow(self._screen, mark)

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
