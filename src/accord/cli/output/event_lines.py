"""Notices, settings, plans, sub-agents and the end of a turn as lines."""

from typing import TYPE_CHECKING, Any, Final

from accord.cli.output.terminal_screen import BOLD, DIM, PLAIN, RED, YELLOW, Look, Style, cells, cut
from accord.client.client_events import AgentEnded, AgentRestarted, SessionLost, SessionReattached
from accord.frontend.display_text import ending, seconds, words_of
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

if TYPE_CHECKING:
    from accord.client import ClientSession


# MERGED cli.output.lines: What happens beside words and tool calls, each in one line: settings, notices, compactions, sub-agents, the agent itself.

KINDS: Final[tuple[type, ...]] = (
    Notice,
    CompactionUpdate,
    SubagentUpdate,
    SessionMessage,
    ModeChanged,
    ConfigOptionUpdate,
    PermissionAnswered,
    AgentEnded,
    AgentRestarted,
    SessionReattached,
    SessionLost,
)
"""The events that are told this way."""

_SEVERITIES: Final[dict[str, Look]] = {"error": RED, "warning": YELLOW}
_COMPACTIONS: Final = {
    "in_progress": "compacting the context",
    "completed": "the context was compacted",
    "failed": "the context could not be compacted",
    "cancelled": "the compaction was cancelled",
}


class EventLines:
    """Remembers what was told, so that nothing is told twice."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._mode: str | None = None
        self._modes: dict[str, str] = {}
        self._values: dict[str, str | bool] = {}
        self._children: dict[str, SubagentState] = {}
        self._told: dict[str, str] = {}
        self._asked: dict[str, PermissionAsked] = {}

    def opened(self, session: "ClientSession") -> None:
        """What is set when the turn begins needs no telling."""
        settings = session.state.settings
        self._mode = settings.current_mode_id
        self._modes = {mode.id: mode.name for mode in settings.modes}
        self._values = {picker.id: picker.current for picker in settings.pickers}

    def asked(self, event: PermissionAsked) -> None:
        """Remember what a question is about."""
        self._asked[event.permission_id] = event

    def about(self, event: PermissionAnswered) -> str:
        """The tool call that an answer is about; "" where there is none."""
        asked = self._asked.get(event.permission_id)
        return "" if asked is None or asked.call is None else asked.call.tool_call_id

    def of(self, event: Any) -> list[str]:
        """The lines for an event of one of the `KINDS`; often none."""
        match event:
            case Notice():
                return [self._notice(event)]
            case CompactionUpdate():
                return self._once(f"compaction {event.compaction_id}", _compaction(event))
            case SubagentUpdate():
                return self._child(event)
            case SessionMessage():
                return self._letter(event)
            case ModeChanged():
                return self._mode_changed(event)
            case ConfigOptionUpdate():
                return self._options(event)
            case PermissionAnswered():
                return self._answered(event)
            case _:
                return self._agent(event)

    def _dim(self, text: str) -> str:
        return self._style.paint(f"{self._style.signs.dot} {text}", DIM)

    def _once(self, key: str, text: str) -> list[str]:
        if not text or self._told.get(key) == text:
            return []
        self._told[key] = text
        return [self._dim(text)]

    def _notice(self, event: Notice) -> str:
        text = _one(event.title)
        if event.description:
            text += f": {_one(event.description)}"
        if event.severity == "info":
            return self._dim(text)
        text = f"{self._style.signs.notice} {_one(event.severity)}: {text}"
        return self._style.paint(text, _SEVERITIES.get(event.severity, DIM))

    def _child(self, event: SubagentUpdate) -> list[str]:
        child = self._children.setdefault(event.session_id, SubagentState(event.session_id))
        child.apply(event)
        name = _one(child.title or child.description or child.session_id)
        return self._once(
            f"child {child.session_id}", f"sub-agent {name}: {_one(child.activity).replace('_', ' ')}"
        )

    def _letter(self, event: SessionMessage) -> list[str]:
        text = _one("".join(map(words_of, event.content or ())))
        way = " to ".join(_one(end) for end in (event.sender_session_id, event.recipient_session_id) if end)
        return self._once(f"letter {event.message_id}", f"message {way}: {text}" if text else "")

    def _mode_changed(self, event: ModeChanged) -> list[str]:
        if event.mode_id == self._mode:
            return []
        self._mode = event.mode_id
        return [self._dim(f"mode: {_one(self._modes.get(event.mode_id, event.mode_id))}")]

    def _options(self, event: ConfigOptionUpdate) -> list[str]:
        lines: list[str] = []
        for option in event.config_options:
            picker = picker_of_option(option)
            known = self._values.get(picker.id)
            self._values[picker.id] = picker.current
            if picker.current == known or (picker.category == "mode" and picker.current == self._mode):
                continue
            names = {choice.value: choice.name for choice in picker.choices}
            value = picker.current
            said = ("on" if value else "off") if isinstance(value, bool) else names.get(value, value)
            lines.append(self._dim(f"{_one(picker.name)}: {_one(said)}"))
            if picker.category == "mode" and isinstance(value, str):
                self._mode = value
        return lines

    def _answered(self, event: PermissionAnswered) -> list[str]:
        """Only a refusal is told: what was allowed is seen to happen."""
        asked = self._asked.pop(event.permission_id, None)
        what = "" if asked is None or asked.call is None else _one(asked.call.label)
        if event.option is not None and event.option.kind.startswith("allow"):
            return []
        how = "not answered" if event.option is None else _one(event.option.name)
        return [self._style.paint(f"{self._style.signs.cancelled} not allowed: {what} ({how})", YELLOW)]

    def _agent(self, event: AgentEnded | AgentRestarted | SessionReattached | SessionLost) -> list[str]:
        signs = self._style.signs
        match event:
            case AgentEnded():
                code = "it hung up" if event.exit_code is None else f"exit code {event.exit_code}"
                how = f"signal {_one(event.signal)}" if event.signal else code
                return [self._style.paint(f"{signs.failed} the agent is gone ({how})", RED)]
            case AgentRestarted():
                return [self._dim(f"the agent was started again (time {event.attempt})")]
            case SessionReattached():
                return [self._dim(f"the session goes on (by {event.by})")]
            case SessionLost():
                return [self._style.paint(f"{signs.failed} the session is lost: {_one(event.reason)}", RED)]


def _compaction(event: CompactionUpdate) -> str:
    text = _COMPACTIONS.get(event.status, f"compaction: {_one(event.status)}")
    return f"{text}: {_one(event.error)}" if event.error else text


def _one(text: str) -> str:
    return one_line(clean_text(text), 300)


# MERGED cli.output.closing: The end of a turn: how it ended, how long it took, what it cost.


def closing_lines(
    ended: TurnEnded | None,
    context: UsageUpdate | None,
    duration: float,
    session_id: str,
    style: Style,
    width: int | None,
) -> list[str]:
    """What to tell at the end, on one line where it fits."""
    parts = [ending(ended), seconds(duration)]
    if ended is not None and ended.usage is not None:
        parts.append(_tokens(ended.usage))
    if context is not None:
        parts += _window(context)
    if session_id:
        parts.append(f"session {one_line(clean_text(session_id), 80)}")
    good = ended is not None and ended.stop_reason == "end_turn"
    return [
        style.paint(line, DIM if good else YELLOW) for line in _joined(parts, f" {style.signs.dot} ", width)
    ]


def _joined(parts: list[str], between: str, width: int | None) -> list[str]:
    lines = [parts[0]]
    for part in parts[1:]:
        longer = lines[-1] + between + part
        if width is not None and cells(longer) > width:
            lines.append(part)
        else:
            lines[-1] = longer
    return lines


def _tokens(usage: Usage) -> str:
    said = f"{usage.total_tokens:,} tokens ({usage.input_tokens:,} in, {usage.output_tokens:,} out"
    if usage.thought_tokens:
        said += f", {usage.thought_tokens:,} thought"
    if usage.cached_read_tokens:
        said += f", {usage.cached_read_tokens:,} cached"
    return f"{said})"


def _window(context: UsageUpdate) -> list[str]:
    parts: list[str] = []
    if context.size:
        parts.append(f"context {context.used * 100 // context.size} % of {context.size:,}")
    if context.cost and context.cost.amount:
        currency = one_line(clean_text(context.cost.currency), 12)
        parts.append(f"{context.cost.amount:.4g} {currency}")
    return parts


# MERGED cli.output.plans: Plans as check lists.


def plan_lines(plan: PlanBody, style: Style, width: int | None) -> list[str]:
    """One line a step. A plan that is no list of steps is shown as what it is."""
    if isinstance(plan, PlanItems):
        return [_step(entry, style, width) for entry in plan.entries]
    if isinstance(plan, PlanFile):
        return [f"plan: {one_line(clean_text(plan.uri))}"]
    return clean_text(plan.content).strip("\n").split("\n")


def _step(entry: PlanEntry, style: Style, width: int | None) -> str:
    signs = style.signs
    text = one_line(clean_text(entry.content), 500)
    if width is not None:
        text = cut(text, width - 4)
    match entry.status:
        case "completed":
            return style.paint(f"{signs.ticked} {text}", DIM)
        case "in_progress":
            return style.paint(f"{signs.running if style.colour else signs.unticked} {text}", BOLD) + (
                "" if style.colour else " (in progress)"
            )
        case _:
            return style.paint(f"{signs.unticked} {text}", PLAIN)
