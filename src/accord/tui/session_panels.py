"""Title line, status line, plan panel and queued prompts of a session."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, cast

from rich.cells import cell_len
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from accord.safe_text import clean_line, one_line
from accord.tui.chat_types import Draft, DraftQueue
from accord.tui.theme import Palette, palette_of

if TYPE_CHECKING:
    from rich.style import Style
    from textual import events

    from accord.schema import PlanEntry, UsageUpdate
    from accord.session import SessionState
    from accord.tui.chat_types import Phase
    from accord.tui.running_work import RunningWork


_ACTIVITIES: Final = {
    "connecting": "connecting",
    "ready": "ready",
    "running": "working",
    "cancelling": "stopping",
    "lost": "gateway lost, reconnecting",
    "dead": "the agent has ended",
    "failed": "not connected",
    "closed": "closed",
}
SPINNER_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_METER_CELLS: Final = 8
_MAX_BRANCH: Final = 24


@dataclass(slots=True)
class Status:
    """The contents of the title line and the status line."""

    agent: str = ""
    title: str = ""
    folder: str = ""
    node: str = ""
    """Of a cluster; "" on one machine."""
    activity: str = "connecting"
    busy: bool = True
    link_lost: bool = False
    """Whether the connection to the gateway is gone, and is being resumed."""
    failed: bool = False
    elapsed: str = ""
    settings: str = ""
    model: str = ""
    """The name of the model, if the agent says it."""
    usage: "UsageUpdate | None" = None
    branch: str = ""
    """The branch of the folder; empty outside of a repository."""
    changed_files: int = 0
    """How many files of the folder differ from the last commit."""
    own_title: str = ""
    """The title that the user chose."""
    prompt_title: str = ""
    """A title from the first prompt, until the agent gives one."""
    running: "Sequence[RunningWork]" = ()
    """What the agent runs now and stops alone on request."""

    def set_phase(self, phase: "Phase") -> None:
        self.activity, self.elapsed = _ACTIVITIES[phase], ""
        self.busy = phase in ("connecting", "running", "cancelling", "lost")
        self.failed = phase in ("dead", "failed")

    @property
    def branch_text(self) -> str:
        """The branch and the number of changed files: `main ±3`."""
        count = f" ±{self.changed_files}" if self.changed_files else ""
        return f"{one_line(clean_line(self.branch), _MAX_BRANCH)}{count}" if self.branch else ""

    def update_from(self, state: "SessionState") -> bool:
        """Copy title, settings, usage and running work from the session; return whether they changed."""
        from accord.tui.running_work import running_work  # not needed for the first paint

        settings = " · ".join(filter(None, _model_and_mode(state.settings.pickers)))
        self.model = _current_name(state.settings.pickers, "model")
        if not self.prompt_title:
            self.prompt_title = _prompt_title(state)
        title = self.own_title or state.title or self.prompt_title
        values = (title, settings, state.usage, state.node, running_work(state))
        if values == (self.title, self.settings, self.usage, self.node, self.running):
            return False
        self.title, self.settings, self.usage, self.node, self.running = values
        return True


def _prompt_title(state: "SessionState") -> str:
    from accord.store.session_summary import title_of_prompt  # the client has loaded by now

    prompts = (entry for entry in state.timeline if getattr(entry, "kind", "") == "user")
    first: Any = next(prompts, None)
    return "" if first is None else title_of_prompt(first.text)


class TitleLine(Widget):
    """The line above the transcript: agent, title, node, folder and branch."""

    DEFAULT_CSS: ClassVar[str] = "TitleLine { height: 1; padding: 0 2; background: $surface; }"

    def __init__(self, status: Status) -> None:
        super().__init__()
        self._status = status

    def render(self) -> Text:
        palette = palette_of(self)
        status, width = self._status, self.content_size.width
        left = Text(clean_line(status.agent), palette.heading)
        if status.title:
            left.append("  ").append(clean_line(status.title), palette.text)
        folder = cut_path(clean_line(status.folder), width // 3)
        where = f"{clean_line(status.node)}:{folder}" if status.node else folder
        right = Text(where, palette.muted)
        if status.branch_text:
            right.append("  ").append(
                status.branch_text, palette.warn if status.changed_files else palette.muted
            )
        return _join_sides(left, right, width)


class StatusLine(Widget):
    """The line below the prompt: activity, model, mode, context usage and cost."""

    DEFAULT_CSS: ClassVar[str] = "StatusLine { height: 1; padding: 0 2; }"

    def __init__(self, status: Status) -> None:
        super().__init__()
        self._status = status
        self._frame = 0

    def on_mount(self) -> None:
        self.set_interval(0.1, self._next_frame)

    def _next_frame(self) -> None:
        if self._status.busy:
            self._frame = (self._frame + 1) % len(SPINNER_FRAMES)
            self.refresh()

    def render(self) -> Text:
        palette = palette_of(self)
        status = self._status
        activity = _ACTIVITIES["lost"] if status.link_lost else status.activity
        lost = activity == _ACTIVITIES["lost"]
        style = palette.bad if status.failed or lost else palette.accent if status.busy else palette.muted
        left = Text(
            f"{SPINNER_FRAMES[self._frame]} " if status.busy else "✗ " if status.failed else "", style
        )
        left.append(clean_line(activity), style)
        if status.elapsed:
            left.append(f" {status.elapsed}", palette.muted)
        right = Text(clean_line(status.settings), palette.muted)
        meter = usage_meter(status.usage, palette)
        if meter:
            right.append("  " if right else "").append_text(meter)
        return _join_sides(left, right, self.content_size.width)


def usage_meter(usage: "UsageUpdate | None", palette: Palette) -> Text:
    """Draw the usage of the context window and the cost of the session."""
    out = Text()
    if usage is None:
        return out
    if usage.size:
        share = usage.used / usage.size
        style: Style = palette.bad if share > 0.9 else palette.warn if share > 0.75 else palette.good
        full = min(round(share * _METER_CELLS), _METER_CELLS)
        out.append("▰" * full, style).append("▱" * (_METER_CELLS - full), palette.faint)
        out.append(f" {share:.0%} of {token_count_text(usage.size)}", palette.muted)
    elif usage.used:
        out.append(f"{token_count_text(usage.used)} token{'s' * (usage.used != 1)}", palette.muted)
    if usage.cost and usage.cost.amount:
        out.append(f"  {usage.cost.amount:.2f} {clean_line(usage.cost.currency)[:8]}", palette.muted)
    if (budget := UsageLimit.of(usage)) is not None:
        style = palette.bad if budget.share >= 1 else palette.warn if budget.share > 0.75 else palette.muted
        out.append(f"  {budget.text}", style)
    return out


class UsageLimit(NamedTuple):
    """The limit that is used up first, as Accord's own agent reports it in the `_meta` of the usage."""

    used: float
    limit: float
    unit: str

    @classmethod
    def of(cls, usage: "UsageUpdate") -> "UsageLimit | None":
        """The limit of a usage update; None if there is none."""
        from accord.session.protocol_v1 import accord_meta  # the client has loaded by now

        budget: Any = accord_meta(usage.meta).get("budget")
        if not isinstance(budget, dict):
            return None
        values = cast("dict[str, Any]", budget)
        used, limit = values.get("used"), values.get("limit")
        if not (isinstance(used, int | float) and isinstance(limit, int | float) and limit > 0):
            return None
        return cls(float(used), float(limit), str(values.get("unit", "")))

    @property
    def share(self) -> float:
        return self.used / self.limit

    @property
    def text(self) -> str:
        """For example `budget 84% of $5` or `budget 12% of 50k tokens`."""
        amount = f"${self.limit:,.4g}" if self.unit == "cost" else token_count_text(int(self.limit))
        unit = "" if self.unit == "cost" else f" {clean_line(self.unit)[:12]}"
        return f"budget {self.share:.0%} of {amount}{unit}"


def token_count_text(number: int) -> str:
    """Format a number of tokens: `950`, `12.3k`, `1.2M`."""
    if number < 1_000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1_000:.1f}k".replace(".0k", "k")
    return f"{number / 1_000_000:.1f}M"


def shorten_home(path: str) -> str:
    """Replace the home folder by `~`."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if home != "/" and (path == home or path.startswith(home + "/")) else path


def cut_path(path: str, length: int) -> str:
    """Shorten a long path at its start."""
    return path if len(path) <= length else f"…{path[1 - length :]}" if length > 1 else ""


def _join_sides(left: Text, right: Text, width: int) -> Text:
    """Join the left and right text of a line. Cut the left; drop the right if there is little space."""
    available = width - cell_len(right.plain) - 2
    if available < 20:
        right, available = Text(), width
    left.truncate(available, overflow="ellipsis")
    gap = max(width - cell_len(left.plain) - cell_len(right.plain), 0)
    return left.append(" " * gap).append_text(right)


def _model_and_mode(pickers: "Sequence[Any]") -> list[str]:
    """Return the names of the current model and mode."""
    return [_current_name(pickers, category) for category in ("model", "mode")]


def _current_name(pickers: "Sequence[Any]", category: str) -> str:
    picker = next((picker for picker in pickers if picker.category == category), None)
    if picker is None or isinstance(picker.current, bool):
        return ""
    return {choice.value: choice.name for choice in picker.choices}.get(picker.current, picker.current)


_SIGNS: Final = {"pending": "○", "in_progress": "●", "completed": "✓"}
MAX_STEPS: Final = 8
"""Number of steps that are shown above the prompt."""


class PlanPanel(Widget):
    """The plan of the agent: beside the transcript or above the prompt. Folded, it takes one line above it.

    A finished plan folds.
    """

    DEFAULT_CSS: ClassVar[str] = """
    PlanPanel { display: none; height: auto; margin: 1 1 0 1; padding: 0 1; }
    PlanPanel.some { display: block; }
    PlanPanel.beside { width: 40; height: 1fr; margin: 0; padding: 1 2; border-left: solid $panel; }
    PlanPanel.some.hidden { display: none; }
    PlanPanel.some.hidden.folded { display: block; }
    PlanPanel.some.beside.folded, PlanPanel.some.beside.hidden.folded { display: none; }
    """

    def __init__(self, *, beside: bool = False) -> None:
        super().__init__(classes="beside" if beside else None)
        self._beside = beside
        self.steps: Sequence[PlanEntry] = ()
        self.folded: bool = False

    def show(self, steps: "Sequence[PlanEntry]") -> None:
        """Show these steps."""
        if list(steps) == list(self.steps):
            return
        was_done, self.steps = self.all_done, list(steps)
        if self.all_done != was_done:
            self.folded = self.all_done
        self.set_class(bool(steps), "some")
        self._update()

    def toggle(self) -> None:
        """Fold or unfold the plan."""
        self.folded = not self.folded
        self._update()

    def _update(self) -> None:
        self.set_class(self.folded, "folded")
        self.refresh(layout=True)

    @property
    def all_done(self) -> bool:
        """Whether there are steps, and all are completed."""
        return bool(self.steps) and all(step.status == "completed" for step in self.steps)

    def _visible_steps(self) -> "list[PlanEntry]":
        """Return the steps to show: above the prompt, those around the current step."""
        steps = list(self.steps)
        if self.folded:
            return []
        if self._beside:
            return steps
        current = next((number for number, step in enumerate(steps) if step.status != "completed"), 0)
        first = min(max(current - 2, 0), max(len(steps) - MAX_STEPS, 0))
        return steps[first : first + MAX_STEPS]

    def render(self) -> Text:
        palette = palette_of(self)
        styles = {"pending": palette.muted, "in_progress": palette.strong, "completed": palette.faint}
        signs = {"pending": palette.faint, "in_progress": palette.accent, "completed": palette.good}
        completed_count = sum(step.status == "completed" for step in self.steps)
        out = Text(overflow="fold" if self._beside else "ellipsis", no_wrap=not self._beside)
        out.append("Plan ", palette.heading).append(f"{completed_count}/{len(self.steps)}", palette.muted)
        visible_steps = self._visible_steps()
        if self.folded and self.all_done:
            out.append("  ✓ done", palette.good)
        elif self.folded:
            current = next((step for step in self.steps if step.status == "in_progress"), None)
            out.append(f"  {clean_line(current.content)}" if current is not None else "", palette.text)
        for step in visible_steps:
            sign = _SIGNS.get(step.status, "·")
            out.append("\n").append(f"{sign} ", signs.get(step.status, palette.muted))
            out.append(clean_line(step.content), styles.get(step.status, palette.muted))
        return out

    def on_click(self, event: "events.Click") -> None:
        self.toggle()


class PromptQueue(Widget, can_focus=True):
    """Shows the queued prompts."""

    DEFAULT_CSS: ClassVar[str] = """
    PromptQueue { display: none; height: auto; max-height: 6; margin: 0 1; padding: 0 1; }
    PromptQueue.some { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("enter,e", "edit", "Edit", show=False),
        Binding("delete,backspace,x", "remove", "Remove", show=False),
    ]

    class Edited(Message):
        """The user wants to edit a prompt."""

        def __init__(self, draft: Draft) -> None:
            super().__init__()
            self.draft = draft

    class Removed(Message):
        """A prompt was removed."""

    def __init__(self, queue: DraftQueue) -> None:
        super().__init__()
        self.queue = queue
        self.selected: int = 0

    def update(self) -> None:
        """Redraw after a change of the queue."""
        self.selected = min(self.selected, max(len(self.queue) - 1, 0))
        self.set_class(len(self.queue) > 0, "some")
        self.refresh(layout=True)

    def render(self) -> Text:
        palette = palette_of(self)
        out = Text(no_wrap=True, overflow="ellipsis")
        paused = self.queue.paused
        for number, draft in enumerate(self.queue.drafts):
            is_selected = self.has_focus and number == self.selected
            if number:
                out.append("\n")
            out.append("▸ " if is_selected else "· ", palette.accent if is_selected else palette.faint)
            out.append("paused  " if paused else "next  " if number == 0 else "then  ", palette.faint)
            out.append(clean_line(draft.line), palette.text if is_selected else palette.muted)
            if is_selected:
                out.append("  Enter edits, x removes", palette.faint)
        return out

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return min(len(self.queue), 6)

    def action_move(self, by: int) -> None:
        self.selected = min(max(self.selected + by, 0), max(len(self.queue) - 1, 0))
        self.refresh()

    def action_edit(self) -> None:
        draft = self.queue.remove(self.selected)
        if draft is not None:
            self.update()
            self.post_message(self.Edited(draft))

    def action_remove(self) -> None:
        if self.queue.remove(self.selected) is not None:
            self.update()
            self.post_message(self.Removed())

    def on_click(self, event: "events.Click") -> None:
        self.selected = min(event.y, max(len(self.queue) - 1, 0))
        self.refresh()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()
