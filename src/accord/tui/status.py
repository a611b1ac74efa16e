"""The two lines around a session: above it what it is about, below it what goes on, and how full the context is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from accord.cleaning import clean_line
from accord.tui.host import palette_of
from accord.tui.palette import Palette
from accord.tui.words import end_of, tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.style import Style

    from accord.schema import UsageUpdate
    from accord.session import SessionState
    from accord.tui.stage import Phase

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
