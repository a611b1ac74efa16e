"""`python -m benchmarks.cluster`: run the workloads on a new cluster in each round and print the table."""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks import report
from benchmarks.cluster.outages import lost_front, lost_leader, lost_majority
from benchmarks.cluster.servers import LEASE, Cluster, running_cluster
from benchmarks.cluster.workloads import (
    appends,
    catch_up,
    crowd,
    group_commit,
    memory,
    takeover,
    to_clients,
)
from benchmarks.gateway.workloads import Figures

WORKLOADS: dict[str, Callable[[Cluster], Awaitable[Figures]]] = {
    "appends": appends,
    "group-commit": group_commit,
    "to-clients": to_clients,
    "catch-up": catch_up,
    "crowd": crowd,
    "memory": memory,
    "takeover": takeover,
    "lost-leader": lost_leader,
    "lost-majority": lost_majority,
    "lost-front": lost_front,
}
"""In this order: the later ones end nodes."""
TARGETS = {
    "append 1 KB relative to core request and reply, times": "6 at most",
    "append 1 KB, p99 ms": "50 at most",
    "2,000 records/s in one session: record to ack, p99 ms": "50 at most",
    "1,000 clients over three nodes: p99 lag, ms": "100 at most",
    "load 10,000 updates at another node: first update, ms": "100 at most",
    "load 10,000 updates at another node: response, ms": "500 at most",
    f"takeover after kill -9, with a lease of {LEASE:g} s, s": f"{LEASE + 6:g} at most",
    "idle session at a NATS server, KiB": "1.5 at most",
}


async def main() -> None:
    options = report.options("benchmarks.cluster", __doc__, WORKLOADS)
    before = os.getloadavg()[0]
    figures: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="accord-bench-") as folder:
            async with running_cluster(Path(folder)) as cluster:
                for workload in WORKLOADS:
                    if workload in options.only:
                        for name, value in (await WORKLOADS[workload](cluster)).items():
                            figures.setdefault(name, []).append(value)
    head = [report.rounds(options.rounds), report.load(before), ""]
    table = report.table(figures, TARGETS)
    report.publish("cluster", "\n".join([*head, table]), into_docs=options.write_docs)


if __name__ == "__main__":
    asyncio.run(main())
