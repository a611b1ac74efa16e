"""Text lines for notices, settings, plans, sub-agents, the agent's restarts and the end of a turn."""

from typing import TYPE_CHECKING, Any, Final

from accord.cli.output.terminal_screen import BOLD, DIM, PLAIN, RED, YELLOW, Attributes, Style
from accord.client.client_events import AgentEnded, AgentRestarted, SessionLost, SessionReattached
from accord.frontend.display_text import block_text, duration_text, turn_status
from accord.safe_text import clean_text, one_line
from accord.schema import (
    CompactionUpdate,
    ConfigOptionUpdate,
    Notice,
    PlanEntry,
    PlanFile,
    PlanItems,
    SessionMessage,
    SubagentUpdate,
    Usage,
    UsageUpdate,
)
from accord.session import (
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    PlanBody,
    SubagentState,
    TurnEnded,
)
from accord.session.session_settings import picker_of_option
from accord.text_width import cell_width, count_text, cut_to_width

if TYPE_CHECKING:
    from accord.client import ClientSession


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
