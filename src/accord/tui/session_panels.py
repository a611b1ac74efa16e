"""Title line, status line and plan panel of a session."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from accord.safe_text import clean_line
from accord.tui.theme import Palette, end_of, palette_of, tokens

if TYPE_CHECKING:
    from rich.style import Style
    from textual import events

    from accord.schema import PlanEntry, UsageUpdate
    from accord.session import SessionState
    from accord.tui.chat_types import Phase


# MERGED tui.status: The two lines around a session: above it what it is about, below it what goes on, and how full the context is.

_DOING: Final = {
    "connecting": "connecting",
    "ready": "ready",
    "running": "working",
    "cancelling": "stopping",
    "dead": "the agent has ended",
    "failed": "not connected",
    "closed": "closed",
}
_HINTS: Final = {
    "running": "Esc stops",
    "dead": "Ctrl+R starts it again",
    "failed": "Ctrl+R tries again",
    "ready": "Ctrl+P commands · F1 keys",
}
FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_BARS: Final = 8


@dataclass(slots=True)
class Status:
    """What the lines tell."""

    agent: str = ""
    title: str = ""
    folder: str = ""
    doing: str = "connecting"
    busy: bool = True
    bad: bool = False
    since: str = ""
    hint: str = ""
    settings: str = ""
    usage: "UsageUpdate | None" = None

    def enter(self, phase: "Phase") -> None:
        """Something else goes on now."""
        self.doing, self.hint, self.since = _DOING[phase], _HINTS.get(phase, ""), ""
        self.busy = phase in ("connecting", "running", "cancelling")
        self.bad = phase in ("dead", "failed")

    def read(self, state: "SessionState") -> bool:
        """Take over what the session says of itself; whether that is something new."""
        settings = " · ".join(filter(None, _current(state.settings.pickers)))
        told = (state.title or "", settings, state.usage)
        if told == (self.title, self.settings, self.usage):
            return False
        self.title, self.settings, self.usage = told
        return True


class TitleLine(Widget):
    """Above the conversation."""

    DEFAULT_CSS = "TitleLine { height: 1; padding: 0 2; background: $surface; }"

    def __init__(self, status: Status) -> None:
        super().__init__()
        self._status = status

    def render(self) -> Text:
        palette = palette_of(self)
        status, width = self._status, self.content_size.width
        left = Text(clean_line(status.agent), palette.heading)
        if status.title:
            left.append("  ").append(clean_line(status.title), palette.text)
        return _spread(left, Text(end_of(clean_line(status.folder), width // 3), palette.muted), width)


class StatusLine(Widget):
    """Below the prompt."""

    DEFAULT_CSS = "StatusLine { height: 1; padding: 0 2; }"

    def __init__(self, status: Status) -> None:
        super().__init__()
        self._status = status
        self._frame = 0

    def on_mount(self) -> None:
        self.set_interval(0.1, self._turn)

    def _turn(self) -> None:
        if self._status.busy:
            self._frame = (self._frame + 1) % len(FRAMES)
            self.refresh()

    def render(self) -> Text:
        palette = palette_of(self)
        status = self._status
        style = palette.bad if status.bad else palette.accent if status.busy else palette.muted
        left = Text(f"{FRAMES[self._frame]} " if status.busy else "✗ " if status.bad else "", style)
        left.append(clean_line(status.doing), style)
        if status.since:
            left.append(f" {status.since}", palette.muted)
        if status.hint:
            left.append(f"  {clean_line(status.hint)}", palette.faint)
        right = Text(clean_line(status.settings), palette.muted)
        meter = meter_of(status.usage, palette)
        if meter:
            right.append("  " if right else "").append_text(meter)
        return _spread(left, right, self.content_size.width)


def meter_of(usage: "UsageUpdate | None", palette: Palette) -> Text:
    """How full the context is, and what the session has cost."""
    out = Text()
    if usage is None:
        return out
    if usage.size:
        share = usage.used / usage.size
        style: Style = palette.bad if share > 0.9 else palette.warn if share > 0.75 else palette.good
        full = min(round(share * _BARS), _BARS)
        out.append("▰" * full, style).append("▱" * (_BARS - full), palette.faint)
        out.append(f" {share:.0%} of {tokens(usage.size)}", palette.muted)
    elif usage.used:
        out.append(f"{tokens(usage.used)} tokens", palette.muted)
    if usage.cost and usage.cost.amount:
        out.append(f"  {usage.cost.amount:.2f} {clean_line(usage.cost.currency)[:8]}", palette.muted)
    return out


def _spread(left: Text, right: Text, width: int) -> Text:
    """The left and the right of a line; what does not fit is cut on the left, and the right goes where there is no room."""
    room = width - cell_len(right.plain) - 2
    if room < 20:
        right, room = Text(), width
    left.truncate(room, overflow="ellipsis")
    gap = max(width - cell_len(left.plain) - cell_len(right.plain), 0)
    return left.append(" " * gap).append_text(right)


def _current(pickers: "Sequence[Any]") -> list[str]:
    """The model and the mode that are set, by name."""
    found: list[str] = []
    for category in ("model", "mode"):
        picker = next((one for one in pickers if one.category == category), None)
        if picker is not None and not isinstance(picker.current, bool):
            names = {choice.value: choice.name for choice in picker.choices}
            found.append(names.get(picker.current, picker.current))
    return found


# MERGED tui.plan: The plan of the agent: its steps and how far each is; beside the conversation where there is room, else above the prompt.

_SIGNS: Final = {"pending": "○", "in_progress": "●", "completed": "✓"}
MOST: Final = 8
"""Steps that are shown above the prompt."""


class PlanPanel(Widget):
    """The steps. Folded it is one line: how many are done, and the one in progress."""

    DEFAULT_CSS = """
    PlanPanel { display: none; height: auto; margin: 1 1 0 1; padding: 0 1; }
    PlanPanel.some { display: block; }
    PlanPanel.beside { width: 40; height: 1fr; margin: 0; padding: 1 2; border-left: solid $panel; }
    PlanPanel.away { display: none; }
    """

    def __init__(self, *, beside: bool = False) -> None:
        super().__init__(classes="beside" if beside else None)
        self._beside = beside
        self.steps: Sequence[PlanEntry] = ()
        self.folded = False

    def show(self, steps: "Sequence[PlanEntry]") -> None:
        """These are the steps now."""
        if list(steps) == list(self.steps):
            return
        self.steps = list(steps)
        self.set_class(bool(steps), "some")
        self.refresh(layout=True)

    def toggle(self) -> None:
        """Fold it, or show it whole."""
        self.folded = not self.folded
        self.refresh(layout=True)

    @property
    def _all_done(self) -> bool:
        return all(step.status == "completed" for step in self.steps)

    def _shown(self) -> "list[PlanEntry]":
        """The steps that matter where there is little room: the ones around the one in progress."""
        steps = list(self.steps)
        if self.folded or (self._all_done and not self._beside):
            return []
        if self._beside:
            return steps
        at = next((number for number, step in enumerate(steps) if step.status != "completed"), 0)
        first = min(max(at - 2, 0), max(len(steps) - MOST, 0))
        return steps[first : first + MOST]

    def render(self) -> Text:
        palette = palette_of(self)
        styles = {"pending": palette.muted, "in_progress": palette.strong, "completed": palette.faint}
        signs = {"pending": palette.faint, "in_progress": palette.accent, "completed": palette.good}
        done = sum(step.status == "completed" for step in self.steps)
        out = Text(overflow="fold" if self._beside else "ellipsis", no_wrap=not self._beside)
        out.append("Plan ", palette.heading).append(f"{done}/{len(self.steps)}", palette.muted)
        shown = self._shown()
        if not shown and not self._all_done:
            doing = next((step for step in self.steps if step.status == "in_progress"), None)
            out.append(f"  {clean_line(doing.content)}" if doing is not None else "", palette.text)
        for step in shown:
            sign = _SIGNS.get(step.status, "·")
            out.append("\n").append(f"{sign} ", signs.get(step.status, palette.muted))
            out.append(clean_line(step.content), styles.get(step.status, palette.muted))
        return out

    def on_click(self, event: "events.Click") -> None:
        self.toggle()
