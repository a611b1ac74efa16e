"""Plans: what the agent means to do, step by step."""

from typing import Literal, TypeAlias

from .base import Object
from .ids import PlanId
from .marks import Items, Lenient, unstable

PlanEntryPriority: TypeAlias = Literal["high", "medium", "low"]
PlanEntryStatus: TypeAlias = Literal["pending", "in_progress", "completed"]


class PlanEntry(Object):
    """One step. Entries have no ids: their place in the list is their identity."""

    content: str
    priority: PlanEntryPriority
    status: PlanEntryStatus


class Plan(Object, tag_field="sessionUpdate", tag="plan"):
    """The plan as a whole; replaces the one before. May come any number of times in a turn."""

    entries: Lenient[Items[PlanEntry]]


@unstable
class PlanItems(Object, tag_field="type", tag="items"):
    """Unstable. A plan as a list of steps."""

    plan_id: PlanId
    entries: Lenient[Items[PlanEntry]]


@unstable
class PlanFile(Object, tag_field="type", tag="file"):
    """Unstable. A plan kept in a file."""

    plan_id: PlanId
    uri: str


@unstable
class PlanMarkdown(Object, tag_field="type", tag="markdown"):
    """Unstable. A plan as Markdown text."""

    plan_id: PlanId
    content: str


PlanUpdateContent: TypeAlias = PlanItems | PlanFile | PlanMarkdown


@unstable
class PlanUpdate(Object, tag_field="sessionUpdate", tag="plan_update"):
    """Unstable. Creates or replaces one of several plans. Only for clients with the `plan` capability."""

    plan: PlanUpdateContent


@unstable
class PlanRemoved(Object, tag_field="sessionUpdate", tag="plan_removed"):
    """Unstable. A plan is gone. Comes after a `PlanUpdate` with that id."""

    plan_id: PlanId
