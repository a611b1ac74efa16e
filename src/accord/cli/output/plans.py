"""Plans as check lists."""

from accord.cleaning import clean_text, one_line
from accord.cli.output.style import BOLD, DIM, PLAIN, Style
from accord.cli.output.width import cut
from accord.schema import PlanEntry, PlanFile, PlanItems
from accord.session import PlanBody


def plan_lines(plan: PlanBody, style: Style, width: int | None) -> list[str]:
    """One line a step. A plan that is no list of steps is shown as what it is."""
    if isinstance(plan, PlanItems):
        return [_step(entry, style, width) for entry in plan.entries]
    if isinstance(plan, PlanFile):
        return [f"plan: {one_line(clean_text(plan.uri))}"]
    return clean_text(plan.content).strip("\n").split("\n")


def _step(entry: PlanEntry, style: Style, width: int | None) -> str:
    signs = style.signs
    text = one_line(clean_text(entry.content), 500)
    if width is not None:
        text = cut(text, width - 4)
    match entry.status:
        case "completed":
            return style.paint(f"{signs.ticked} {text}", DIM)
        case "in_progress":
            return style.paint(f"{signs.running if style.colour else signs.unticked} {text}", BOLD) + (
                "" if style.colour else " (in progress)"
            )
        case _:
            return style.paint(f"{signs.unticked} {text}", PLAIN)
