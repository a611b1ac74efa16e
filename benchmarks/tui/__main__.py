"""`python -m benchmarks.tui`: every work in a process of its own, round after round; prints the table."""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from .works import WORKS

PAGE = Path(__file__).parents[2] / "docs/benchmarks.md"
BEGIN, END = "<!-- tui: begin -->", "<!-- tui: end -->"

REACH = {
    "first paint, times an empty app": "3 at most",
    "10 000 updates: the slowest key, ms": "100 at most",
    "10 000 updates: longest hold of the loop, CPU ms": "100 at most",
    "2 000 messages: the newest are shown, ms": "1 000 at most",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tui", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    figures: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for work in options.only:
            for name, value in measured(work).items():
                figures.setdefault(name, []).append(value)
    load = f"Load of the machine (1 minute): {before:.1f} before, {os.getloadavg()[0]:.1f} after, on {os.cpu_count()} processors."
    head = [f"Medians of {options.rounds} rounds, in brackets the smallest and the largest.", load, ""]
    rows = ["| figure | Accord | to reach |", "| --- | --- | --- |"]
    rows += [f"| {name} | {shown(values)} | {REACH.get(name, '')} |" for name, values in figures.items()]
    text = "\n".join([*head, *rows])
    print(text)
    if options.write_docs:
        page = PAGE.read_text()
        first, last = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(f"{page[:first]}\n\n{text}\n\n{page[last:]}")


def measured(work: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tui.works", work],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.strip().splitlines()[-1])


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} ({min(values):.3g}-{max(values):.3g})"


if __name__ == "__main__":
    main()
