"""What a sub-agent has done so far, as the short list that stands in its parent's tool call."""

import asyncio
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from accord.agent.toolcall import Location
from accord.coder.tools.tool import Progress, listing, one_line
from accord.schema.tools import ToolCallContent, ToolCallLocation

State: TypeAlias = Literal["running", "asking", "done", "failed", "note"]

SHOWN: Final = 20
"""So many of the latest steps are shown."""
_LONGEST: Final = 150
_MARKS: Final[dict[State, str]] = {"running": "…", "asking": "?", "done": "✓", "failed": "✗", "note": "!"}


class Step(Struct, eq=False):
    """One thing it did."""

    title: str
    state: State = "running"


class Steps:
    """All of them; only the latest are kept."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.calls = 0
        self._count = 0
        self._latest: list[Step] = []
        self._locations: list[ToolCallLocation] | None = None

    def call(self, title: str, locations: Sequence[Location] = ()) -> Step:
        """A tool call begins."""
        self.calls += 1
        places = [place for place in locations if isinstance(place, ToolCallLocation)]
        self._locations = places or self._locations
        return self._add(Step(one_line(title, _LONGEST)))

    def note(self, text: str) -> None:
        """Something else that the user should know."""
        self._add(Step(one_line(text, _LONGEST), "note"))

    def turn_to(self, step: Step, state: State) -> None:
        """A step is in another state now."""
        step.state = state
        self.changed.set()

    def _add(self, step: Step) -> Step:
        self._count += 1
        self._latest.append(step)
        # What still runs stays in the list, however much is done beside it.
        over = [old for old in self._latest if old.state not in ("running", "asking")]
        if len(self._latest) > SHOWN and over:
            self._latest.remove(over[0])
        self.changed.set()
        return step

    def content(self) -> list[ToolCallContent]:
        """The list, for the client; empty as long as nothing was done."""
        if not self._latest:
            return []
        lines = [f"{_MARKS[step.state]} {step.title}" for step in self._latest]
        if (earlier := self._count - len(self._latest)) > 0:
            lines.insert(0, f"({earlier} earlier)")
        return [listing("\n".join(lines))]

    def progress(self) -> Progress:
        """The list, and the files of the latest call, if they are others, for editors that follow along."""
        locations, self._locations = self._locations, None
        return Progress(self.content(), locations)
