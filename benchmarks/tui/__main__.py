"""`python -m benchmarks.tui`: every work in a process of its own, round after round; prints the table."""

import json
import os
import subprocess
import sys

from .. import report
from .works import WORKS

REACH = {
    "first paint, times an empty app": "3 at most",
    "10 000 updates: the slowest key, ms": "100 at most",
    "10 000 updates: longest hold of the loop, CPU ms": "100 at most",
    "2 000 messages: the newest are shown, ms": "1 000 at most",
}


def main() -> None:
    options = report.options("benchmarks.tui", __doc__, WORKS)
    before = os.getloadavg()[0]
    figures: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for work in options.only:
            for name, value in measured(work).items():
                figures.setdefault(name, []).append(value)
    head = [report.rounds(options.rounds), report.load(before), ""]
    report.publish("tui", "\n".join([*head, report.table(figures, REACH)]), into_docs=options.write_docs)


def measured(work: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tui.works", work],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
