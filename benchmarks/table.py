"""Turns the figures of all rounds into a Markdown table: medians with their spread, ratios, what is to be reached."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .contenders import CONTENDERS, Contender
from .contest import Figures
from .workloads import Figure, Reach, Workload

SCALE = {"s": 1.0, "ms": 1e3, "µs": 1e6, "MiB": 2**-20, "copies": 1.0, "turns": 1.0}
TITLES = {contender.name: contender.title for contender in CONTENDERS}
SHORT = {"python": "Python", "typescript": "TypeScript"}

# workload name -> contender name -> the figures of each round; a round that failed is missing from both sides
Results = dict[str, dict[str, dict[int, Figures]]]


@dataclass(frozen=True)
class Verdict:
    """One thing to reach: what it says, what was measured, and whether that is enough."""

    wanted: str
    measured: str
    reached: bool


def markdown(workloads: Sequence[Workload], contenders: Sequence[Contender], results: Results) -> str:
    titles = [contender.title for contender in contenders]
    head = ["work", "figure", *titles, "Accord against", "to reach", ""]
    rows = [head, ["---"] * len(head)]
    for workload in workloads:
        measured = results.get(workload.name, {})
        for place, figure in enumerate(workload.figures):
            verdicts = [verdict for reach in figure.reach if (verdict := judge(figure, reach, measured))]
            rows.append(
                [
                    workload.title if place == 0 else "",
                    figure.title,
                    *(cell(figure, measured.get(contender.name, {})) for contender in contenders),
                    "<br>".join(verdict.measured for verdict in verdicts),
                    "<br>".join(verdict.wanted for verdict in verdicts),
                    "<br>".join("yes" if verdict.reached else "**no**" for verdict in verdicts),
                ]
            )
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def cell(figure: Figure, rounds: dict[int, Figures]) -> str:
    values = [one[figure.key] * SCALE[figure.unit] for one in rounds.values() if figure.key in one]
    if not values:
        return "-"
    unit = figure.unit if figure.unit not in ("copies", "turns") else ""
    return f"{short(statistics.median(values))} {unit} ({spread(values)})".replace("  ", " ")


def judge(figure: Figure, reach: Reach, measured: dict[str, dict[int, Figures]]) -> Verdict | None:
    """None where one of the two did not take part."""
    own = measured.get(reach.by, {})
    who = " with uvloop" if reach.by.endswith("uvloop") else ""
    if reach.limit is not None:
        values = [one[figure.key] for one in own.values() if figure.key in one]
        if not values:
            return None
        limit, value = reach.limit * SCALE[figure.unit], statistics.median(values) * SCALE[figure.unit]
        return Verdict(f"at most {short(limit)}", f"{short(value)}{who}", value <= limit)
    assert reach.times is not None
    other = measured.get(reach.than, {})
    ratios = [
        other[number][figure.key] / max(own[number][figure.key], 1e-9)
        for number in sorted(own.keys() & other.keys())
        if figure.key in own[number] and figure.key in other[number]
    ]
    if not ratios:
        return None
    ratio = statistics.median(ratios)
    return Verdict(
        f"{short(reach.times)}x {SHORT[reach.than]}{who}",
        f"{short(ratio)}x {SHORT[reach.than]}{who} ({spread(ratios)})",
        ratio >= reach.times,
    )


def spread(values: list[float]) -> str:
    return f"{short(min(values))}-{short(max(values))}"


def short(value: float) -> str:
    """Three digits, no exponent."""
    if value == 0 or value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")
