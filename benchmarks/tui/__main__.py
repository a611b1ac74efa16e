"""`python -m benchmarks.tui`: run every workload in a new process and print the table."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence

from benchmarks import report
from benchmarks.tui.terminal_runs import SECONDS, measure
from benchmarks.tui.workloads import WORKLOADS

TARGETS = {
    "first paint, relative to an empty app": "3 at most",
    "10,000 updates: key latency, maximum ms": "100 at most",
    "10,000 updates: longest callback, CPU ms": "100 at most",
    "2,000 messages: newest shown, ms": "1,000 at most",
}


FASTER = 3.0
"""How many times faster than Toad each figure should be."""
QUIETER = 2.0
"""The same for bytes per second."""


def main() -> None:
    toad = os.environ.get("TOAD", "")
    options = report.options("benchmarks.tui", __doc__, [*WORKLOADS, "terminal"])
    before = os.getloadavg()[0]
    terminal: dict[str, dict[str, list[float]]] = {}
    figures: dict[str, list[float]] = {}
    for number in range(options.rounds):
        for workload in options.only:
            if workload == "terminal":
                for client, program in (("Accord", sys.executable), *([("Toad", toad)] if toad else [])):
                    turns = client == "Accord" or number == 0  # those of Toad take minutes
                    for name, value in measure(client, program, turns=turns).items():
                        terminal.setdefault(client, {}).setdefault(name, []).append(value)
                continue
            for name, value in run_workload(workload).items():
                figures.setdefault(name, []).append(value)
    head = [report.rounds(options.rounds), report.load(before), ""]
    tables = [report.table(figures, TARGETS)] if figures else []
    if terminal:
        tables += ["", "On a terminal of 120 x 40:", "", terminal_table(terminal)]
    report.publish("tui", "\n".join([*head, *tables]), into_docs=options.write_docs)


def terminal_table(figures: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Accord beside Toad, with how many times smaller each figure is."""
    toad = figures.get("Toad")
    head = "Toad" if toad else "Toad: not run, it needs `TOAD=PATH` and Python 3.14"
    rows = [f"| figure | Accord | {head} | ratio | target |", "| --- | --- | --- | --- | --- |"]
    for name, own in figures["Accord"].items():
        other = toad[name] if toad else []
        given_up = "over " if SECONDS in other else ""
        ratio = f"{statistics.median(other) / max(statistics.median(own), 1e-9):.1f}" if other else "-"
        target = QUIETER if "bytes" in name else FASTER
        rows.append(
            f"| {name} | {report.shown(own)} | {given_up}{report.shown(other)} | {given_up}{ratio} "
            f"| {target:g} at least |"
        )
    return "\n".join(rows)


def run_workload(workload: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tui.workloads", workload],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
