"""`python -m benchmarks.gateway`: every work on a gateway of its own, round after round; prints the table."""

import argparse
import asyncio
import os
import statistics

from .servers import ROOT, typescript_missing
from .works import WORKS, done

PAGE = ROOT / "docs/benchmarks.md"
BEGIN, END = "<!-- gateway: begin -->", "<!-- gateway: end -->"

REACH = {
    "forwarding against copying, times": "3 at most",
    "throughput against the TypeScript server, times": "3 at least",
    "each further client, CPU µs": "one socket write",
    "crowd: frames a second": "20 000",
    "crowd: p99 lag, ms": "100 at most",
    "idle attached session, KiB": "100 at most",
    "coming back: the first update, ms": "100 at most",
    "coming back: thousand events a second": "half of the update stream",
}


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/benchmarks.md")
    options = parser.parse_args()
    notes = [f"The TypeScript server is left out: {why}." for why in [typescript_missing()] if why]
    before = os.getloadavg()[0]
    figures: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for work in options.only:
            for name, value in (await done(WORKS[work])).items():
                figures.setdefault(name, []).append(value)
    notes.append(f"Load of the machine (1 minute): {before:.1f} before, {os.getloadavg()[0]:.1f} after.")
    head = [f"Medians of {options.rounds} rounds, in brackets the smallest and the largest.", *notes, ""]
    rows = ["| figure | Accord | to reach |", "| --- | --- | --- |"]
    rows += [f"| {name} | {shown(values)} | {REACH.get(name, '')} |" for name, values in figures.items()]
    text = "\n".join([*head, *rows])
    print(text)
    if options.write_docs:
        page = PAGE.read_text()
        first, last = page.index(BEGIN) + len(BEGIN), page.index(END)
        PAGE.write_text(f"{page[:first]}\n\n{text}\n\n{page[last:]}")


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} ({min(values):.3g}-{max(values):.3g})"


if __name__ == "__main__":
    asyncio.run(main())
