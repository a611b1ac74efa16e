"""Plans: what the agent intends to do. Version 1 has one without an id; it is kept under the empty id."""

from typing import Final, TypeAlias

from msgspec import Struct

from accord.schema import PlanEntry, PlanFile, PlanItems, PlanMarkdown

THE_PLAN: Final = ""
"""The id of the single plan of version 1."""

PlanBody: TypeAlias = PlanItems | PlanFile | PlanMarkdown


class PlanState(Struct):
    """One plan; every change replaces the whole body."""

    plan_id: str
    body: PlanBody

    @property
    def entries(self) -> list[PlanEntry]:
        """The steps, where the plan is a list of them."""
        return self.body.entries if isinstance(self.body, PlanItems) else []
