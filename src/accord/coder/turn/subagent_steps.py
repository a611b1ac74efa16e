"""The steps of a sub-agent, as a list in the tool call of its parent."""

import asyncio
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from accord.agent.tool_call_scope import Location
from accord.coder.tools.tool import Report, ToolProgress
from accord.coder.tools.tool_context import ToolContext
from accord.safe_text import one_line
from accord.schema.content import ToolCallContent, ToolCallLocation, code_block

StepState: TypeAlias = Literal["running", "asking", "done", "failed", "note"]

SHOWN_STEPS: Final = 20
"""The number of latest steps that are shown."""
_RUNNING_STEPS: Final = 60
"""The same with earlier steps that still run."""
_TITLE_LIMIT: Final = 150
_MARKS: Final[dict[StepState, str]] = {"running": "…", "asking": "?", "done": "✓", "failed": "✗", "note": "!"}


class SubagentStep(Struct, eq=False):
    """One step of a sub-agent."""

    title: str
    state: StepState = "running"


class SubagentSteps:
    """The list of steps in the parent's tool call. Only the latest steps are kept."""

    def __init__(self) -> None:
        self.changed: asyncio.Event = asyncio.Event()
        self.calls: int = 0
        self._count = 0
        self._latest: list[SubagentStep] = []
        self._locations: list[ToolCallLocation] | None = None

    def add_call(self, title: str, locations: Sequence[Location] = ()) -> SubagentStep:
        """Add a tool call."""
        self.calls += 1
        file_locations = [location for location in locations if isinstance(location, ToolCallLocation)]
        self._locations = file_locations or self._locations
        return self._add(SubagentStep(one_line(title, _TITLE_LIMIT)))

    def add_note(self, text: str) -> None:
        """Add a note for the user."""
        self._add(SubagentStep(one_line(text, _TITLE_LIMIT), "note"))

    def set_state(self, step: SubagentStep, state: StepState) -> None:
        """Change the state of a step."""
        step.state = state
        self.changed.set()

    def _add(self, step: SubagentStep) -> SubagentStep:
        self._count += 1
        self._latest.append(step)
        if len(self._latest) > SHOWN_STEPS:
            ended = (old for old in self._latest if old.state not in ("running", "asking"))
            oldest = self._latest[0] if len(self._latest) > _RUNNING_STEPS else None
            if (left_out := next(ended, oldest)) is not None:
                self._latest.remove(left_out)
        self.changed.set()
        return step

    def content(self) -> list[ToolCallContent]:
        """The list for the client; empty before the first step."""
        if not self._latest:
            return []
        lines = [f"{_MARKS[step.state]} {step.title}" for step in self._latest]
        if (earlier := self._count - len(self._latest)) > 0:
            lines.insert(0, f"({earlier} earlier)")
        return [code_block("\n".join(lines))]

    def progress(self) -> ToolProgress:
        """The list, and the files of the latest call if they changed, for editors that follow the agent."""
        locations, self._locations = self._locations, None
        return ToolProgress(self.content(), locations)


async def report_steps(steps: SubagentSteps, report: Report, context: ToolContext) -> None:
    """Keep the parent's tool call up to date, at a limited rate."""
    while True:
        await steps.changed.wait()
        steps.changed.clear()
        await report(steps.progress())
        await context.clock.sleep(context.limits.report_seconds)
