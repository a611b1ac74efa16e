"""`python -m benchmarks.gateway`: every work on a gateway of its own, round after round; prints the table."""

import asyncio
import os

from .. import report
from .servers import typescript_missing
from .works import WORKS, done

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
    options = report.options("benchmarks.gateway", __doc__, WORKS)
    notes = [f"The TypeScript server is left out: {why}." for why in [typescript_missing()] if why]
    before = os.getloadavg()[0]
    figures: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for work in options.only:
            for name, value in (await done(WORKS[work])).items():
                figures.setdefault(name, []).append(value)
    head = [report.rounds(options.rounds), *notes, report.load(before), ""]
    report.publish("gateway", "\n".join([*head, report.table(figures, REACH)]), into_docs=options.write_docs)


if __name__ == "__main__":
    asyncio.run(main())
