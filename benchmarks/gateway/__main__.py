"""`python -m benchmarks.gateway`: run every workload on a new gateway and print the table."""

import asyncio
import os

from benchmarks import report
from benchmarks.gateway.servers import typescript_missing
from benchmarks.gateway.workloads import WORKLOADS, run_workload

TARGETS = {
    "forwarding relative to copying, times": "3 at most",
    "agent in version 1, client in 2: relative to forwarding, times": "2 at most",
    "agent in version 2, client in 1: relative to forwarding, times": "2 at most",
    "throughput relative to the TypeScript server, times": "3 at least",
    "each additional client, CPU µs": "one socket write",
    "1,000 clients: frames per second": "20,000",
    "1,000 clients: p99 lag, ms": "100 at most",
    "idle attached session, KiB": "100 at most",
    "load: first update, ms": "100 at most",
    "load: thousand events per second": "half of the update stream",
}


async def main() -> None:
    options = report.options("benchmarks.gateway", __doc__, WORKLOADS)
    notes = [f"The TypeScript server is not measured: {why}." for why in [typescript_missing()] if why]
    before = os.getloadavg()[0]
    figures: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for workload in options.only:
            for name, value in (await run_workload(WORKLOADS[workload])).items():
                figures.setdefault(name, []).append(value)
    head = [report.rounds(options.rounds), *notes, report.load(before), ""]
    report.publish(
        "gateway", "\n".join([*head, report.table(figures, TARGETS)]), into_docs=options.write_docs
    )


if __name__ == "__main__":
    asyncio.run(main())
