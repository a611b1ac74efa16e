"""A tool call of a sub-agent, shown where it belongs.

Every call is a line in the list of steps. One that does more than look, and one that the user is asked about, is also a
tool call of the session: what was changed stays to be seen, and the question is about something that the client knows.
"""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Final

from msgspec import UNSET
from msgspec.structs import replace

from accord.agent.permission import PermissionAnswer
from accord.agent.subagent import Subagent
from accord.agent.toolcall import Location, ToolCallScope
from accord.agent.turn import Turn
from accord.coder.subagents.steps import Step, Steps
from accord.schema.permissions import PermissionOption
from accord.schema.tools import (
    Terminal,
    ToolCall,
    ToolCallChange,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolKind,
)

LOOKING: Final[frozenset[ToolKind]] = frozenset(("read", "search", "fetch", "think"))
"""Calls of these kinds are lines and no more, as long as nobody is asked about them."""


class SubagentCall:
    """A `ShownCall`."""

    def __init__(self, turn: Turn, child: Subagent, steps: Steps, first: ToolCall) -> None:
        self._turn = turn
        self._child = child
        self._steps = steps
        self._first = first
        self._status: ToolCallStatus = "pending"
        self._entered = False
        self._step: Step | None = None
        self._content: list[ToolCallContent] = []
        self._scope: ToolCallScope | None = None
        """The call of the session, if it is one."""

    @property
    def open(self) -> bool:
        """Whether it was shown and has not ended."""
        return self._entered and self._status in ("pending", "in_progress")

    async def __aenter__(self) -> "SubagentCall":
        self._entered = True
        self._step = self._steps.call(self._first.title, self._first.locations or ())
        await self._child.update(self._first)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.open:
            return
        if self._scope is not None:
            await self._scope.__aexit__(kind, error, trace)
        await self._ended("completed" if error is None else "failed")

    # -- how far it is ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """The work begins."""
        if self._first.kind not in LOOKING:
            await self._of_session()
        if self._scope is not None:
            await self._scope.start()
        await self._running()

    async def ask_permission(
        self, options: Sequence[PermissionOption] | None = None, *, timeout: float | None = None
    ) -> PermissionAnswer:
        """Ask the user, about a tool call of the session."""
        scope = await self._of_session()
        self._mark("asking")
        await self._child.requires_action()
        try:
            answer = await scope.ask_permission(options, timeout=timeout)
        finally:
            self._mark("running")
        await self._child.running()
        if answer:
            await self._running()
        return answer

    async def fail(self, reason: str | None = None) -> None:
        """It ends as failed."""
        if not self.open:
            return
        if self._scope is not None and self._scope.open:
            await self._scope.fail(reason)
        await self._ended("failed")

    async def finish(
        self,
        *,
        content: Iterable[ToolCallContent] | None = None,
        raw_output: Any = UNSET,
        locations: Iterable[Location] | None = None,
        failed: bool = False,
    ) -> None:
        """It ends with everything that came of it."""
        if content is not None:
            self._content = list(content)
        places = None if locations is None else list(locations)
        if self._scope is not None and self._scope.open:
            shown = None if content is None else self._content
            await self._scope.finish(content=shown, raw_output=raw_output, locations=places, failed=failed)
        change = ToolCallChange(self._first.tool_call_id, raw_output=raw_output)
        if content is not None:
            change.content = _without_terminals(self._content)
        await self._ended("failed" if failed else "completed", change)

    # -- what it shows ------------------------------------------------------------------------------------------

    async def replace(self, content: Iterable[ToolCallContent]) -> None:
        """Show this instead of what is shown."""
        self._content = list(content)
        if self._scope is not None:
            await self._scope.replace(self._content)
        await self._change(content=_without_terminals(self._content))

    async def locations(self, *places: Location) -> None:
        """The files it is about."""
        if self._scope is not None:
            await self._scope.locations(*places)
        known = [place for place in places if isinstance(place, ToolCallLocation)]
        await self._change(locations=known)

    async def title(self, title: str) -> None:
        """Name it differently."""
        self._first = replace(self._first, title=title)
        if self._scope is not None:
            await self._scope.title(_of_subagent(title))
        if self._step is not None:
            self._step.title = title
        await self._change(title=title)

    # -- where it is shown --------------------------------------------------------------------------------------

    async def _of_session(self) -> ToolCallScope:
        """The call as one of the session, announced if it was not."""
        if self._scope is None:
            first = self._first
            self._scope = self._turn.tool_call(
                _of_subagent(first.title),
                kind=first.kind or None,
                name=first.name or None,
                locations=first.locations or (),
                raw_input=first.raw_input,
            )
            await self._scope.__aenter__()
            if self._content:
                await self._scope.replace(self._content)
        return self._scope

    async def _running(self) -> None:
        if self._status == "pending":
            self._status = "in_progress"
            await self._change(status="in_progress")

    async def _ended(self, status: ToolCallStatus, change: ToolCallChange | None = None) -> None:
        if not self.open:
            return
        if status == "completed":
            await self._running()
        self._status = status
        self._mark("done" if status == "completed" else "failed")
        last = change or ToolCallChange(self._first.tool_call_id)
        last.status = status
        await self._child.update(last)

    async def _change(self, **changed: Any) -> None:
        await self._child.update(ToolCallChange(self._first.tool_call_id, **changed))

    def _mark(self, state: Any) -> None:
        if self._step is not None:
            self._steps.turn_to(self._step, state)


def _of_subagent(title: str) -> str:
    return f"Sub-agent: {title}"


def _without_terminals(content: Iterable[ToolCallContent]) -> list[ToolCallContent]:
    """A terminal is one of the session, and unknown in a child of it."""
    return [item for item in content if not isinstance(item, Terminal)]
