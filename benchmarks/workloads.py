"""The work every contender does, as data: what the agent is asked for, what is measured, what Accord has to reach."""

from dataclasses import dataclass, replace
from typing import Any, Literal

Measure = Literal["turn", "sessions", "requests", "order", "message", "start"]


@dataclass(frozen=True)
class Reach:
    """A figure to reach: so many times better than another contender, or an absolute limit."""

    times: float | None = None
    than: str = "python"
    limit: float | None = None
    by: str = "accord"


@dataclass(frozen=True)
class Figure:
    """One number a run gives; smaller is better for all of them."""

    key: str
    title: str
    unit: Literal["s", "ms", "µs", "MiB", "copies", "turns"]
    reach: tuple[Reach, ...] = ()


@dataclass(frozen=True)
class Workload:
    """`job` is the prompt the agent gets as JSON; `repeat` counts sessions, requests, turns or starts."""

    name: str
    title: str
    measure: Measure
    figures: tuple[Figure, ...]
    job: dict[str, Any]
    repeat: int = 1
    one_core: bool = False
    uvloop: bool = False

    def smaller(self) -> "Workload":
        """A tenth of the work, for a look whether everything runs."""
        job = self.job | ({"count": max(10, self.job["count"] // 10)} if "count" in self.job else {})
        many = self.measure in ("requests", "order")
        return replace(self, job=job, repeat=self.repeat // 10 if many else self.repeat)


def updates(count: int, *, awaited: bool = True, text: str = "fixed", pause: float = 0) -> dict[str, Any]:
    """Send `count` updates of 40 characters: a fixed text, the time of sending, or (shorter) their number."""
    return {"do": "stream", "count": count, "awaited": awaited, "text": text, "pause": pause}


CPU = Figure("cpu", "CPU of client + agent", "s")
"""Beside a time that a busy machine stretches: what the work itself took. It scatters less."""

WORKLOADS = (
    Workload(
        "burst",
        "50 000 updates of 40 characters, sent as fast as they come",
        "turn",
        (Figure("seconds", "time", "s", (Reach(10), Reach(7, "typescript"))), CPU),
        updates(50_000, awaited=False),
    ),
    Workload(
        "awaited",
        "the same, the agent awaiting every update",
        "turn",
        (Figure("seconds", "time", "s", (Reach(4.5), Reach(3, "typescript"), Reach(7, by="accord+uvloop"))),),
        updates(50_000),
        uvloop=True,
    ),
    Workload(
        "requests",
        "5 000 request round trips in sequence, both on one core",
        "requests",
        (
            Figure("seconds", "time", "s", (Reach(3.5), Reach(10, by="accord+uvloop"))),
            Figure("p50", "p50", "µs"),
            Figure("p99", "p99", "µs", (Reach(3),)),
        ),
        {},
        repeat=5_000,
        one_core=True,
        uvloop=True,
    ),
    Workload(
        "sessions",
        "100 sessions x 500 updates on one connection",
        "sessions",
        (Figure("seconds", "time", "s", (Reach(7),)), Figure("p99", "p99 lag", "ms", (Reach(4),)), CPU),
        updates(500, text="stamp"),
        repeat=100,
    ),
    Workload(
        "paced",
        "100 sessions at 20 updates/s each, for 5 s",
        "sessions",
        (Figure("cpu", "CPU of client + agent", "s", (Reach(4),)), Figure("p99", "p99 lag", "ms")),
        updates(100, text="stamp", pause=0.05),
        repeat=100,
    ),
    Workload(
        "diff",
        "one 1 MB diff, there and rendered as events",
        "message",
        (Figure("p50", "time", "ms", (Reach(1), Reach(1, "typescript"))),),
        {"do": "diff", "size": 1_000_000},
    ),
    Workload(
        "text",
        "one 20 MB text, there and rendered as events",
        "message",
        (
            Figure("p50", "time", "ms", (Reach(1), Reach(1, "typescript"))),
            Figure("client_copies", "copies in memory at the peak, client", "copies", (Reach(limit=4),)),
            Figure("agent_copies", "copies in memory at the peak, agent", "copies", (Reach(limit=4),)),
            Figure("peak", "peak memory of client + agent", "MiB"),
        ),
        {"do": "text", "size": 20_000_000},
    ),
    Workload(
        "start",
        "start to `initialize` answered",
        "start",
        (
            Figure("seconds", "time", "ms", (Reach(6), Reach(2, "typescript"))),
            Figure("cpu", "CPU", "ms"),
            Figure("rss", "memory of the agent then (RSS)", "MiB", (Reach(limit=26 * 2**20),)),
            Figure("pss", "memory of the agent then (PSS)", "MiB"),
        ),
        {},
        repeat=5,
    ),
    Workload(
        "order",
        "200 turns of 20 chunks with an awaiting handler",
        "order",
        (
            Figure("disordered", "turns with chunks out of order", "turns", (Reach(limit=0),)),
            Figure("incomplete", "turns that ended before their last chunk was handled", "turns"),
        ),
        updates(20, awaited=False, text="number"),
        repeat=200,
    ),
)
