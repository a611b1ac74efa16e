"""Plans: the one of version 1, and several named ones (unstable) that fall back to it for clients without them."""

from collections.abc import Iterable
from typing import TypeAlias

from accord.schema.plans import (
    Plan,
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    PlanFile,
    PlanItems,
    PlanMarkdown,
    PlanRemoved,
    PlanUpdate,
    PlanUpdateContent,
)

Step: TypeAlias = (
    PlanEntry | str | tuple[str, PlanEntryStatus] | tuple[str, PlanEntryStatus, PlanEntryPriority]
)
"""A step of a plan: its text, its status (`pending` if left out) and its priority (`medium` if left out)."""


def entries(steps: Iterable[Step]) -> list[PlanEntry]:
    """The steps in the form of the wire."""
    return [_entry(step) for step in steps]


def _entry(step: Step) -> PlanEntry:
    match step:
        case PlanEntry():
            return step
        case str():
            return PlanEntry(step, "medium", "pending")
        case (text, status):
            return PlanEntry(text, "medium", status)
        case (text, status, priority):
            return PlanEntry(text, priority, status)


class Plans:
    """The named plans of one session, by id."""

    def __init__(self) -> None:
        self._plans: dict[str, PlanUpdateContent] = {}

    def put(self, plan: PlanUpdateContent, *, several: bool) -> Plan | PlanUpdate:
        """Create or replace a plan; the update for a client that shows several plans, or only one."""
        self._plans[plan.plan_id] = plan
        return PlanUpdate(plan) if several else self._merged()

    def remove(self, plan_id: str, *, several: bool) -> Plan | PlanRemoved | None:
        """Take a plan away; nothing to send if there was none."""
        if self._plans.pop(plan_id, None) is None:
            return None
        return PlanRemoved(plan_id) if several else self._merged()

    def _merged(self) -> Plan:
        steps: list[PlanEntry] = []
        for plan in self._plans.values():
            steps += (
                plan.entries
                if isinstance(plan, PlanItems)
                else [PlanEntry(_heading(plan), "medium", "in_progress")]
            )
        return Plan(steps)


def _heading(plan: PlanFile | PlanMarkdown) -> str:
    if isinstance(plan, PlanFile):
        return plan.uri
    lines = (line.strip(" #*-\t") for line in plan.content.splitlines())
    return next((line for line in lines if line), plan.plan_id)
