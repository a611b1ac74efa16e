"""Formats the figures of all rounds as a Markdown table: medians with their spread, ratios and targets."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.runner import Figures
from benchmarks.workloads import Figure, Target, Workload

SCALE = {"s": 1.0, "ms": 1e3, "µs": 1e6, "MiB": 2**-20, "copies": 1.0, "turns": 1.0}
TITLES = {contender.name: contender.title for contender in CONTENDERS}
SHORT = {"python": "Python", "typescript": "TypeScript", "accord": "version 1"}

# workload name -> contender name -> round -> figures; a failed round is missing
Results = dict[str, dict[str, dict[int, Figures]]]


@dataclass(frozen=True)
class Verdict:
    """The comparison of a measured figure with one target."""

    wanted: str
    measured: str
    reached: bool


def markdown(workloads: Sequence[Workload], contenders: Sequence[Contender], results: Results) -> str:
    titles = [contender.title for contender in contenders]
    head = ["workload", "figure", *titles, "ratio or value", "target", "reached"]
    rows = [head, ["---"] * len(head)]
    for workload in workloads:
        measured = results.get(workload.name, {})
        for place, figure in enumerate(workload.figures):
            verdicts = [verdict for target in figure.targets if (verdict := judge(figure, target, measured))]
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


def judge(figure: Figure, target: Target, measured: dict[str, dict[int, Figures]]) -> Verdict | None:
    """Compare with a target; None if one of the two contenders was not measured."""
    own = measured.get(target.by, {})
    who = {"accord+uvloop": " with uvloop", "accord-v2": " in version 2"}.get(target.by, "")
    if target.limit is not None:
        values = [one[figure.key] for one in own.values() if figure.key in one]
        if not values:
            return None
        limit, value = target.limit * SCALE[figure.unit], statistics.median(values) * SCALE[figure.unit]
        return Verdict(f"at most {short(limit)}", f"{short(value)}{who}", value <= limit)
    assert target.times is not None
    other = measured.get(target.than, {})
    ratios = [
        other[number][figure.key] / max(own[number][figure.key], 1e-9)
        for number in sorted(own.keys() & other.keys())
        if figure.key in own[number] and figure.key in other[number]
    ]
    if not ratios:
        return None
    ratio = statistics.median(ratios)
    return Verdict(
        f"{short(target.times)}x {SHORT[target.than]}{who}",
        f"{short(ratio)}x {SHORT[target.than]}{who} ({spread(ratios)})",
        ratio >= target.times,
    )


def spread(values: list[float]) -> str:
    return f"{short(min(values))}-{short(max(values))}"


def short(value: float) -> str:
    """Format with three digits and without exponent."""
    if value == 0 or value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if value >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")
