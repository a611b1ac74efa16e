"""Shared by the benchmarks of single programs: options, table rows, and writing to docs/benchmarks.md."""

import argparse
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/benchmarks.md"


def options(program: str, about: str | None, workloads: Iterable[str]) -> argparse.Namespace:
    """Parse `--rounds`, `--only` and `--write-docs`."""
    names = list(workloads)
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--write-docs", action="store_true", help="write the table to docs/benchmarks.md")
    return parser.parse_args()


def short(value: float) -> str:
    """Format with three digits, and without exponent from 100 on."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shown(values: Sequence[float]) -> str:
    """Format the median, the minimum and the maximum."""
    if not values:
        return "-"
    return f"{short(statistics.median(values))} ({short(min(values))}-{short(max(values))})"


def load(before: float) -> str:
    """Describe the system load."""
    after = os.getloadavg()[0]
    return f"System load (1 minute): {before:.1f} before, {after:.1f} after, on {os.cpu_count()} processors."


def rounds(number: int) -> str:
    """Describe what the figures are."""
    return f"Medians of {number} rounds, with minimum and maximum in parentheses."


def table(figures: Mapping[str, Sequence[float]], targets: Mapping[str, str]) -> str:
    """Format the figures of one program beside their targets."""
    rows = ["| figure | Accord | target |", "| --- | --- | --- |"]
    rows += [f"| {name} | {shown(values)} | {targets.get(name, '')} |" for name, values in figures.items()]
    return "\n".join(rows)


def publish(section: str, text: str, *, into_docs: bool) -> None:
    """Print the text, and optionally write it between the marks of its section in docs/benchmarks.md."""
    print(text)
    if into_docs:
        begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
        page = PAGE.read_text()
        first, last = page.index(begin) + len(begin), page.index(end)
        PAGE.write_text(f"{page[:first]}\n\n{text}\n\n{page[last:]}")
