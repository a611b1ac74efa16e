"""Shared by the Python clients: reads the workload, counts updates and prints the figures."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

WARM_UP = json.dumps({"do": "stream", "count": 50, "awaited": True, "text": "fixed"})


class Stopwatch:
    """Measures one run of one workload."""

    def __init__(self, workload: dict[str, Any], agent: list[str]) -> None:
        self.agent = agent
        self.measure: str = workload["measure"]
        self.repeat: int = workload["repeat"]
        self.loop: str = workload.get("loop", "asyncio")
        self.protocol: Literal[1, 2] = workload.get("protocol", 1)
        self.folder: str = workload["folder"]
        self.job = json.dumps(workload["job"])
        # Requests are warmed up by the same requests, everything else by a few updates.
        self.warm_up = json.dumps(workload["job"] | {"count": 50}) if self.measure == "requests" else WARM_UP
        self.expected: int = workload["job"].get("count", 1)
        self.updates = 0
        self.characters = 0
        self.lags: list[int] = []
        self.numbers: list[int] = []
        self.sent: int | None = None
        self.started = 0.0
        self.seconds = 0.0
        # What the application does with each text; it only counts during the warm-up.
        self.received: Callable[[str], None] = self.count

    @classmethod
    def from_arguments(cls) -> "Stopwatch":
        return cls(json.loads(sys.argv[1]), sys.argv[2:])

    def start(self) -> None:
        """Reset the counters after the warm-up and start the clock."""
        self.updates = self.characters = 0
        self.received = {
            "sessions": self.stamped,
            "message": self.large,
            "order": self.numbered,
            "requests": self.reads,
        }.get(self.measure, self.count)
        self.mark("start")
        self.started = time.perf_counter()

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self.started
        self.mark("stop")

    def mark(self, name: str) -> None:
        """Send a mark to the driver and wait until it has read processor time and memory."""
        print(json.dumps({"mark": name}), flush=True)
        sys.stdin.readline()

    def count(self, text: str) -> None:
        self.updates += 1
        self.characters += len(text)

    def stamped(self, text: str) -> None:
        """Record the lag; the text is the time at which it was sent."""
        self.updates += 1
        self.lags.append(now() - int(text))

    def numbered(self, text: str) -> None:
        self.updates += 1
        self.numbers.append(int(text))

    def reads(self, text: str) -> None:
        """Record how long each call of the agent took; the agent sends all of them at the end."""
        self.lags = json.loads(text)
        self.updates += len(self.lags)

    async def dwell(self, text: str) -> None:
        """Wait for zero, one or two iterations of the event loop, depending on the update."""
        for _ in range(int(text) % 3 if text.isdigit() else 0):
            await asyncio.sleep(0)

    def large(self, text: str) -> None:
        """Record the lag of a large text; the first text is the time at which the large one was sent."""
        if self.sent is None:
            self.sent = int(text)
        else:
            self.updates += 1
            self.characters += len(text)
            self.lags.append(now() - self.sent)

    def report(self, **more: float) -> None:
        """Print the figures, or exit with an error if updates were lost."""
        expected = self.expected * self.repeat
        if self.updates != expected:
            sys.exit(f"{self.updates} of {expected} updates arrived")
        figures = {"seconds": self.seconds, **more}
        if self.lags:
            figures["p50"] = percentile(self.lags, 0.5) / 1e9
            figures["p99"] = percentile(self.lags, 0.99) / 1e9
        print(json.dumps({"figures": figures}), flush=True)


def now() -> int:
    """Return the time of the clock that all processes share, in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def percentile(values: list[int], share: float) -> float:
    ordered = sorted(values)
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * share))])
