"""The plan of the agent: its steps and how far each is; beside the conversation where there is room, else above the prompt."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.text import Text
from textual.widget import Widget

from accord.cleaning import clean_line
from accord.tui.host import palette_of

if TYPE_CHECKING:
    from textual import events

    from accord.schema import PlanEntry

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
