"""`python -m benchmarks.tui`: run every workload in a new process and print the table."""

import json
import os
import subprocess
import sys

from benchmarks import report
from benchmarks.tui.workloads import WORKLOADS

TARGETS = {
    "first paint, relative to an empty app": "3 at most",
    "10,000 updates: key latency, maximum ms": "100 at most",
    "10,000 updates: longest callback, CPU ms": "100 at most",
    "2,000 messages: newest shown, ms": "1,000 at most",
}


def main() -> None:
    options = report.options("benchmarks.tui", __doc__, WORKLOADS)
    before = os.getloadavg()[0]
    figures: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for workload in options.only:
            for name, value in run_workload(workload).items():
                figures.setdefault(name, []).append(value)
    head = [report.rounds(options.rounds), report.load(before), ""]
    report.publish("tui", "\n".join([*head, report.table(figures, TARGETS)]), into_docs=options.write_docs)


def run_workload(workload: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tui.workloads", workload],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
