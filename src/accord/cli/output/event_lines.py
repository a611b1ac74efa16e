"""Text lines for tool calls, notices, settings, plans, sub-agents, agent restarts and the end of a turn.

Tool calls are live while they run and permanent when done, with diffs and command output.
"""

import difflib
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from accord.cli.output.terminal_screen import BOLD, CYAN, DIM, GREEN, PLAIN, RED, YELLOW, Attributes, Style
from accord.client.client_events import AgentEnded, AgentRestarted, SessionLost, SessionReattached
from accord.clock import Clock
from accord.frontend.display_text import (
    block_text,
    duration_text,
    kind_to_show,
    location_text,
    short_path,
    tool_status,
    turn_status,
)
from accord.safe_text import clean_line, clean_text, one_line
from accord.schema import (
    CompactionUpdate,
    ConfigOptionUpdate,
    Content,
    Diff,
    Notice,
    PlanEntry,
    PlanFile,
    PlanItems,
    SessionMessage,
    SubagentUpdate,
    Terminal,
    Usage,
    UsageUpdate,
)
from accord.session import (
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    PlanBody,
    SubagentState,
    ToolCallState,
    TurnEnded,
)
from accord.session.session_settings import picker_of_option
from accord.text_width import cell_width, count_text, cut_to_width

if TYPE_CHECKING:
    from accord.client import ClientSession
    from accord.client.client_events import TerminalView


EVENT_TYPES: Final[tuple[type, ...]] = (
    Notice, CompactionUpdate, SubagentUpdate, SessionMessage, ModeChanged, ConfigOptionUpdate,
    PermissionAnswered, AgentEnded, AgentRestarted, SessionReattached, SessionLost,
)  # fmt: skip
"""The events that `EventLines.lines_for` turns into lines."""

_SEVERITIES: Final[dict[str, Attributes]] = {"error": RED, "warning": YELLOW}
_COMPACTIONS: Final = {
    "in_progress": "compacting the context",
    "completed": "the context was compacted",
    "failed": "the context could not be compacted",
    "cancelled": "the compaction was cancelled",
}


class EventLines:
    """Turns events into lines. Remembers what was shown, so that nothing is shown twice."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._mode: str | None = None
        self._modes: dict[str, str] = {}
        self._values: dict[str, str | bool] = {}
        self._subagents: dict[str, SubagentState] = {}
        self._shown: dict[str, str] = {}
        self._open_requests: dict[str, PermissionAsked] = {}

    def opened(self, session: "ClientSession") -> None:
        """Remember the session's settings, so that only changes are shown."""
        settings = session.state.settings
        self._mode = settings.current_mode_id
        self._modes = {mode.id: mode.name for mode in settings.modes}
        self._values = {picker.id: picker.current for picker in settings.pickers}

    def permission_asked(self, event: PermissionAsked) -> None:
        """Remember a permission request until its answer."""
        self._open_requests[event.permission_id] = event

    def tool_call_id_of(self, event: PermissionAnswered) -> str:
        """Return the id of the tool call that a permission answer is about, or ""."""
        request = self._open_requests.get(event.permission_id)
        return "" if request is None or request.call is None else request.call.tool_call_id

    def lines_for(self, event: Any) -> list[str]:
        """Return the lines for an event of one of the `EVENT_TYPES`; often none."""
        match event:
            case Notice():
                return [self._notice(event)]
            case CompactionUpdate():
                return self._unless_shown(f"compaction {event.compaction_id}", _compaction(event))
            case SubagentUpdate():
                return self._subagent(event)
            case SessionMessage():
                return self._session_message(event)
            case ModeChanged():
                return self._mode_changed(event)
            case ConfigOptionUpdate():
                return self._options_changed(event)
            case PermissionAnswered():
                return self._permission_answered(event)
            case _:
                return self._agent_event(event)

    def _dim(self, text: str) -> str:
        return self._style.paint(f"{self._style.symbols.dot} {text}", DIM)

    def _unless_shown(self, key: str, text: str) -> list[str]:
        if not text or self._shown.get(key) == text:
            return []
        self._shown[key] = text
        return [self._dim(text)]

    def _notice(self, event: Notice) -> str:
        text = _short_line(event.title)
        if event.description:
            text += f": {_short_line(event.description)}"
        if event.severity == "info":
            return self._dim(text)
        text = f"{self._style.symbols.notice} {_short_line(event.severity)}: {text}"
        return self._style.paint(text, _SEVERITIES.get(event.severity, DIM))

    def _subagent(self, event: SubagentUpdate) -> list[str]:
        subagent = self._subagents.setdefault(event.session_id, SubagentState(event.session_id))
        subagent.apply(event)
        name = _short_line(subagent.title or subagent.description or subagent.session_id)
        return self._unless_shown(
            f"sub-agent {subagent.session_id}",
            f"sub-agent {name}: {_short_line(subagent.activity).replace('_', ' ')}",
        )

    def _session_message(self, event: SessionMessage) -> list[str]:
        text = _short_line("".join(map(block_text, event.content or ())))
        ids = " to ".join(
            _short_line(id) for id in (event.sender_session_id, event.recipient_session_id) if id
        )
        return self._unless_shown(f"message {event.message_id}", f"message {ids}: {text}" if text else "")

    def _mode_changed(self, event: ModeChanged) -> list[str]:
        if event.mode_id == self._mode:
            return []
        self._mode = event.mode_id
        return [self._dim(f"mode: {_short_line(self._modes.get(event.mode_id, event.mode_id))}")]

    def _options_changed(self, event: ConfigOptionUpdate) -> list[str]:
        lines: list[str] = []
        for option in event.config_options:
            picker = picker_of_option(option)
            previous = self._values.get(picker.id)
            self._values[picker.id] = picker.current
            if picker.current == previous or (picker.category == "mode" and picker.current == self._mode):
                continue
            names = {choice.value: choice.name for choice in picker.choices}
            value = picker.current
            label = ("on" if value else "off") if isinstance(value, bool) else names.get(value, value)
            lines.append(self._dim(f"{_short_line(picker.name)}: {_short_line(label)}"))
            if picker.category == "mode" and isinstance(value, str):
                self._mode = value
        return lines

    def _permission_answered(self, event: PermissionAnswered) -> list[str]:
        """Show only refusals: allowed calls have lines of their own."""
        request = self._open_requests.pop(event.permission_id, None)
        label = "" if request is None or request.call is None else _short_line(request.call.label)
        if event.option is not None and event.option.kind.startswith("allow"):
            return []
        answer = "not answered" if event.option is None else _short_line(event.option.name)
        return [self._style.paint(f"{self._style.symbols.cancelled} not allowed: {label} ({answer})", YELLOW)]

    def _agent_event(self, event: AgentEnded | AgentRestarted | SessionReattached | SessionLost) -> list[str]:
        symbols = self._style.symbols
        match event:
            case AgentEnded():
                code = "connection closed" if event.exit_code is None else f"exit code {event.exit_code}"
                cause = f"signal {_short_line(event.signal)}" if event.signal else code
                return [self._style.paint(f"{symbols.failed} the agent ended unexpectedly ({cause})", RED)]
            case AgentRestarted():
                return [self._dim(f"the agent was restarted (attempt {event.attempt})")]
            case SessionReattached():
                return [self._dim(f"the session continues (by {event.by})")]
            case SessionLost():
                return [
                    self._style.paint(
                        f"{symbols.failed} the session is lost: {_short_line(event.reason)}", RED
                    )
                ]


def _compaction(event: CompactionUpdate) -> str:
    text = _COMPACTIONS.get(event.status, f"compaction: {_short_line(event.status)}")
    return f"{text}: {_short_line(event.error)}" if event.error else text


def _short_line(text: str) -> str:
    return one_line(clean_text(text), 300)


def closing_lines(
    ended: TurnEnded | None,
    context: UsageUpdate | None,
    duration: float,
    session: "ClientSession | None",
    style: Style,
    width: int | None,
) -> list[str]:
    """Return the last lines of a turn: how it ended, its duration, tokens and cost; one line if it fits."""
    parts = [turn_status(ended), duration_text(duration)]
    if ended is not None and ended.usage is not None:
        parts.append(_tokens(ended.usage))
    if context is not None:
        parts += _context_parts(context)
    if session is not None:
        node = f" at {one_line(clean_text(session.state.node), 80)}" if session.state.node else ""
        parts.append(f"session {one_line(clean_text(session.id), 80)}{node}")
    success = ended is not None and ended.stop_reason == "end_turn"
    return [
        style.paint(line, DIM if success else YELLOW)
        for line in _join_parts(parts, f" {style.symbols.dot} ", width)
    ]


def _join_parts(parts: list[str], separator: str, width: int | None) -> list[str]:
    lines = [parts[0]]
    for part in parts[1:]:
        longer = lines[-1] + separator + part
        if width is not None and cell_width(longer) > width:
            lines.append(part)
        else:
            lines[-1] = longer
    return lines


def _tokens(usage: Usage) -> str:
    text = (
        f"{count_text(usage.total_tokens, 'token')} ({usage.input_tokens:,} in, {usage.output_tokens:,} out"
    )
    if usage.thought_tokens:
        text += f", {usage.thought_tokens:,} thought"
    if usage.cached_read_tokens:
        text += f", {usage.cached_read_tokens:,} cached"
    return f"{text})"


def _context_parts(context: UsageUpdate) -> list[str]:
    parts: list[str] = []
    if context.size:
        parts.append(f"context {context.used * 100 // context.size} % of {context.size:,}")
    if context.cost and context.cost.amount:
        currency = one_line(clean_text(context.cost.currency), 12)
        parts.append(f"{context.cost.amount:.4g} {currency}")
    return parts


def plan_lines(plan: PlanBody, style: Style, width: int | None) -> list[str]:
    """Return a plan as a check list, or as its text if it has no list of steps."""
    if isinstance(plan, PlanItems):
        return [_plan_line(entry, style, width) for entry in plan.entries]
    if isinstance(plan, PlanFile):
        return [f"plan: {one_line(clean_text(plan.uri))}"]
    return clean_text(plan.content).strip("\n").split("\n")


def _plan_line(entry: PlanEntry, style: Style, width: int | None) -> str:
    symbols = style.symbols
    text = one_line(clean_text(entry.content), 500)
    if width is not None:
        text = cut_to_width(text, width - 4)
    match entry.status:
        case "completed":
            return style.paint(f"{symbols.ticked} {text}", DIM)
        case "in_progress":
            return style.paint(f"{symbols.running if style.color else symbols.unticked} {text}", BOLD) + (
                "" if style.color else " (in progress)"
            )
        case _:
            return style.paint(f"{symbols.unticked} {text}", PLAIN)


CONTEXT_LINES: Final = 3
"""Unchanged lines around a change."""
MAX_DIFF_LINES: Final = 60
MAX_LINE_CELLS: Final = 500
_MAX_COMPARED_LINES: Final = 20_000
"""Longer files are not compared, because it would take long. Only their line counts are shown."""
TAIL_LINES: Final = 10
"""Lines of a command's output that are shown."""
_MAX_TAIL_CHARACTERS: Final = 16 * 1024
_MAX_TITLE_LENGTH: Final = 300
_MAX_LOCATIONS: Final = 2
_MAX_LIVE_CALLS: Final = 6
_INDENT: Final = "    "

_DIFF_ATTRIBUTES: Final[dict[str, Attributes]] = {"+": GREEN, "-": RED, "@": CYAN}
_STATUS_ATTRIBUTES: Final[dict[str, Attributes]] = {
    "pending": DIM,
    "in_progress": CYAN,
    "completed": GREEN,
    "failed": RED,
    "cancelled": YELLOW,
    "ended without a result": YELLOW,
}


def diff_lines(
    diff: Diff, style: Style, *, path: str | None = None, max_lines: int = MAX_DIFF_LINES
) -> list[str]:
    """Return a unified diff after a headline with the path and the numbers of added and removed lines."""
    before = _lines(diff.old_text or "")
    after = _lines(diff.new_text)
    new = not isinstance(diff.old_text, str)
    name = clean_line(path or diff.path)
    if len(before) + len(after) > _MAX_COMPARED_LINES:
        return [
            _headline(
                name,
                style,
                "" if new else f"{count_text(len(before), 'line')} before, ",
                count_text(len(after), "line"),
            )
        ]
    changed = list(difflib.unified_diff(before, after, n=CONTEXT_LINES, lineterm=""))[2:]
    added = sum(line.startswith("+") for line in changed)
    removed = sum(line.startswith("-") for line in changed)
    lines = [_headline(name, style, "new, " if new else "", f"+{added} -{removed}")]
    if new:
        changed = changed[1:]  # a new file needs no line numbers
    lines += [
        style.paint(cut_to_width(line, MAX_LINE_CELLS), _DIFF_ATTRIBUTES.get(line[:1], PLAIN))
        for line in changed[:max_lines]
    ]
    if len(changed) > max_lines:
        lines.append(
            style.paint(f"{style.symbols.more} {count_text(len(changed) - max_lines, 'more line')}", DIM)
        )
    return lines


def _headline(name: str, style: Style, remark: str, counts: str) -> str:
    return f"{name} {style.paint(f'({remark}{counts})', DIM)}"


def _lines(text: str) -> list[str]:
    return clean_text(text).expandtabs(4).splitlines()


@dataclass(slots=True)
class ShownCall:
    """A tool call and which of its lines are shown."""

    call: ToolCallState
    began: float
    line_shown: bool = False
    details_shown: bool = False


def call_line(
    shown_call: ShownCall,
    style: Style,
    duration: float,
    cwd: str,
    *,
    width: int | None = None,
    frame: str = "",
) -> str:
    """Return the line of a call, at most `width` cells wide.

    `frame` replaces the symbol of a running call.
    """
    call, status = shown_call.call, tool_status(shown_call.call)
    symbols = style.symbols
    symbol = {
        "pending": symbols.pending,
        "in_progress": frame or symbols.running,
        "completed": symbols.done,
        "failed": symbols.failed,
        "cancelled": symbols.cancelled,
    }.get(status, symbols.unknown)
    status_words = [] if status in ("completed", "in_progress") else [one_line(status, 40)]
    end = f" ({', '.join([*status_words, duration_text(duration)])})"
    title = one_line(clean_text(call.label), _MAX_TITLE_LENGTH)
    kind = one_line(clean_text(kind_to_show(call.display_kind, title)), 20)
    start = f"{symbol} {kind} " if kind else f"{symbol} "
    locations = location_text(call, cwd, title, max_locations=_MAX_LOCATIONS)
    locations = f"  {locations}" if locations else ""
    if width is not None:
        available = width - cell_width(start) - cell_width(end)
        title = cut_to_width(title, available)
        locations = locations if cell_width(locations) <= available - cell_width(title) else ""
    return (
        style.paint(symbol, _STATUS_ATTRIBUTES.get(status, PLAIN))
        + style.paint(start[len(symbol) :], DIM)
        + title
        + style.paint(locations + end, RED if status == "failed" else DIM)
    )


def detail_lines(
    call: ToolCallState, style: Style, cwd: str, terminals: "Mapping[str, TerminalView]"
) -> list[str]:
    """Return the lines below a finished call: its diffs with text after them, output, why it failed."""
    lines: list[str] = []
    for item in call.content:
        match item:
            case Diff():
                lines += diff_lines(item, style, path=short_path(item.path, cwd))
            case Terminal():
                view = terminals.get(item.terminal_id)
                missing = style.paint("(the terminal is not available)", DIM)
                lines += [missing] if view is None else _terminal_lines(view, style)
            case Content() if lines or call.kind == "execute" or call.status == "failed":
                lines += output_tail(block_text(item.content), style)
            case _:
                pass
    return [_INDENT + line for line in lines]


def last_line(view: "TerminalView") -> str:
    """Return the last line of a command's output so far."""
    lines = _final_lines(view.text[-_MAX_TAIL_CHARACTERS:])
    return lines[-1] if lines else ""


def output_tail(text: str, style: Style) -> list[str]:
    """Return the last lines of an output, without the code fence that agents put around it."""
    lines = _final_lines(text[-_MAX_TAIL_CHARACTERS:])
    if lines and lines[0].startswith("```"):
        lines = lines[1:]
    if lines and lines[-1].startswith("```"):
        lines = lines[:-1]
    shown_lines = [style.paint(cut_to_width(line, MAX_LINE_CELLS), DIM) for line in lines[-TAIL_LINES:]]
    omitted_count = len(lines) - len(shown_lines)
    if omitted_count or len(text) > _MAX_TAIL_CHARACTERS:
        shown_lines.insert(
            0, style.paint(f"{style.symbols.more} {count_text(omitted_count, 'line')} before", DIM)
        )
    return shown_lines


def _terminal_lines(view: "TerminalView", style: Style) -> list[str]:
    lines = output_tail(view.text, style)
    status = view.exit_status
    if status is not None and (status.exit_code or status.signal):
        exit_text = f"signal {status.signal}" if status.signal else f"exit code {status.exit_code}"
        lines.append(style.paint(one_line(exit_text), RED))
    return lines


def _final_lines(text: str) -> list[str]:
    """Return the lines as a terminal shows them at the end, without overwritten text."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    return clean_text("\n".join(lines)).expandtabs(8).strip("\n").split("\n") if text.strip() else []


class ToolCallDisplay:
    """The tool calls of a turn: live lines while they run, permanent lines when they are done."""

    def __init__(self, style: Style, clock: Clock) -> None:
        self._style = style
        self._clock = clock
        self._session: ClientSession | None = None
        self._calls: dict[str, ShownCall] = {}
        self._running: dict[str, ShownCall] = {}

    def opened(self, session: "ClientSession") -> None:
        """Set the session of the calls."""
        self._session = session

    def update(self, call: ToolCallState) -> list[str]:
        """Note a new or changed call. Returns its permanent lines, often none."""
        shown_call = self._calls.get(call.tool_call_id)
        if shown_call is None:
            shown_call = self._calls[call.tool_call_id] = ShownCall(call, self._clock.now())
            self._running[call.tool_call_id] = shown_call
        shown_call.call = call
        return [] if call.open else self._finish_call(shown_call)

    def restart_time(self, call_id: str) -> None:
        """Count a call's time from now on, because it waited for permission until now."""
        if call_id in self._running:
            self._running[call_id].began = self._clock.now()

    def unfinished(self) -> list[str]:
        """Return the lines of the calls that have not ended when the turn ends."""
        lines: list[str] = []
        for call_id, shown_call in list(self._running.items()):
            current = None if self._session is None else self._session.state.tool_calls.get(call_id)
            shown_call.call = copy(current or shown_call.call)
            shown_call.call.set_mark("ended_without_result")
            lines += self._finish_call(shown_call)
        return lines

    def live(self, width: int, frame: str) -> list[str]:
        """Return the live lines: running calls and the last line of their commands' output."""
        lines: list[str] = []
        running = list(self._running.values())
        for shown_call in running[:_MAX_LIVE_CALLS]:
            duration = self._clock.now() - shown_call.began
            lines.append(call_line(shown_call, self._style, duration, self._cwd, width=width, frame=frame))
            output = self._last_output(shown_call.call)
            if output:
                lines.append(self._style.paint(cut_to_width(f"    {output}", width), DIM))
        if len(running) > _MAX_LIVE_CALLS:
            lines.append(self._style.paint(f"and {len(running) - _MAX_LIVE_CALLS} more", DIM))
        return lines

    @property
    def _cwd(self) -> str:
        return "" if self._session is None else self._session.state.cwd

    @property
    def _views(self) -> "Mapping[str, TerminalView]":
        return {} if self._session is None else self._session.terminals

    def _last_output(self, call: ToolCallState) -> str:
        views = self._views
        for terminal_id in reversed(call.terminal_ids):
            if terminal_id in views:
                return last_line(views[terminal_id])
        return ""

    def _finish_call(self, shown_call: ShownCall) -> list[str]:
        self._running.pop(shown_call.call.tool_call_id, None)
        lines: list[str] = []
        if not shown_call.line_shown:
            shown_call.line_shown = True
            lines.append(call_line(shown_call, self._style, self._clock.now() - shown_call.began, self._cwd))
        if not shown_call.details_shown:  # some agents send the result after the final status
            details = detail_lines(shown_call.call, self._style, self._cwd, self._views)
            shown_call.details_shown = bool(details)
            lines += details
        return lines
