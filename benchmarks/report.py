"""What the benchmarks of one program have in common: their options, a row of figures, and their place in the page."""

import argparse
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/benchmarks.md"


def options(program: str, about: str | None, works: Iterable[str]) -> argparse.Namespace:
    """`--rounds`, `--only` and `--write-docs`."""
    names = list(works)
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


def short(value: float) -> str:
    """Three digits, no exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shown(values: Sequence[float]) -> str:
    """The median, and the spread."""
    if not values:
        return "-"
    return f"{short(statistics.median(values))} ({short(min(values))}-{short(max(values))})"


def load(before: float) -> str:
    """How busy the machine was."""
    return f"Load of the machine (1 minute): {before:.1f} before, {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} processors."


def rounds(number: int) -> str:
    """How the figures were made."""
    return f"Medians of {number} rounds, in brackets the smallest and the largest."


def table(figures: Mapping[str, Sequence[float]], reach: Mapping[str, str]) -> str:
    """The figures of one program beside what is to be reached."""
    rows = ["| figure | Accord | to reach |", "| --- | --- | --- |"]
    rows += [f"| {name} | {shown(values)} | {reach.get(name, '')} |" for name, values in figures.items()]
    return "\n".join(rows)


def publish(section: str, text: str, *, into_docs: bool) -> None:
    """Print it; and, if wanted, put it between the marks of its section of the page."""
    print(text)
    if into_docs:
        begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
        page = PAGE.read_text()
        first, last = page.index(begin) + len(begin), page.index(end)
        PAGE.write_text(f"{page[:first]}\n\n{text}\n\n{page[last:]}")
