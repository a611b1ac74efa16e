"""The workloads as data: the job of the agent, what is measured, and the targets for Accord."""

from dataclasses import dataclass, replace
from typing import Any, Literal

Measure = Literal["turn", "sessions", "requests", "order", "message", "start"]


@dataclass(frozen=True)
class Target:
    """A target: a factor relative to another contender, or an absolute limit."""

    times: float | None = None
    than: str = "python"
    limit: float | None = None
    by: str = "accord"


@dataclass(frozen=True)
class Figure:
    """One measured number. Smaller is better for all figures."""

    key: str
    title: str
    unit: Literal["s", "ms", "µs", "MiB", "copies", "turns"]
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Workload:
    """`job` is sent to the agent as a JSON prompt; `repeat` counts sessions, turns or starts."""

    name: str
    title: str
    measure: Measure
    figures: tuple[Figure, ...]
    job: dict[str, Any]
    repeat: int = 1
    one_core: bool = False
    uvloop: bool = False
    version_2: bool = False
    others: bool = True
    """Whether other libraries than Accord do it, too."""

    def runs(self, contender: str) -> bool:
        """Return whether this contender does the work."""
        special = {"accord": True, "accord+uvloop": self.uvloop, "accord-v2": self.version_2}
        return special.get(contender, self.others)

    def smaller(self) -> "Workload":
        """Return a tenth of the work, to check that everything runs."""
        job = self.job | ({"count": max(10, self.job["count"] // 10)} if "count" in self.job else {})
        return replace(self, job=job, repeat=self.repeat // 10 if self.measure == "order" else self.repeat)


def updates(
    count: int, *, awaited: bool = True, text: str = "fixed", pause: float | None = None
) -> dict[str, Any]:
    """Send `count` updates of 40 characters: a fixed text, the time of sending, or their number (shorter).

    `awaited` awaits each update; otherwise a library may use a faster way. `pause` is a wait after each
    update, in seconds; 0 lets the event loop run once.
    """
    return {"do": "stream", "count": count, "awaited": awaited, "text": text, "pause": pause}


CPU = Figure("cpu", "CPU of client + agent", "s")
"""Shown beside the elapsed time, because a busy machine affects it less."""

WORKLOADS = (
    Workload(
        "burst",
        "50,000 updates of 40 characters, as fast as possible",
        "turn",
        (
            Figure(
                "seconds",
                "time",
                "s",
                (Target(12), Target(7, "typescript"), Target(0.9, "accord", by="accord-v2")),
            ),
            CPU,
        ),
        updates(50_000, awaited=False),
        version_2=True,
    ),
    Workload(
        "awaited",
        "the same, the agent awaits every update and its event loop runs",
        "turn",
        (
            Figure(
                "seconds", "time", "s", (Target(6), Target(3, "typescript"), Target(10, by="accord+uvloop"))
            ),
            CPU,
        ),
        updates(50_000, pause=0),
        uvloop=True,
    ),
    Workload(
        "requests",
        "5,000 `fs/read_text_file` calls in sequence, client and agent on one core",
        "requests",
        (
            Figure("seconds", "time", "s", (Target(4), Target(7, by="accord+uvloop"))),
            Figure("p50", "p50", "µs"),
            Figure("p99", "p99", "µs", (Target(3),)),
            CPU,
        ),
        {"do": "read", "count": 5_000},
        one_core=True,
        uvloop=True,
    ),
    Workload(
        "calls",
        "5,000 calls of an extension method in sequence, client and agent on one core",
        "requests",
        (Figure("seconds", "time", "s", (Target(0.9, "accord", by="accord-v2"),)), CPU),
        {"do": "call", "count": 5_000},
        one_core=True,
        version_2=True,
        others=False,
    ),
    Workload(
        "sessions",
        "100 sessions x 500 updates on one connection",
        "sessions",
        (
            Figure("seconds", "time", "s", (Target(8), Target(0.9, "accord", by="accord-v2"))),
            Figure("p99", "p99 lag", "ms", (Target(4),)),
            CPU,
        ),
        updates(500, text="stamp"),
        repeat=100,
        version_2=True,
    ),
    Workload(
        "paced",
        "100 sessions at 20 updates/s each, for 5 s",
        "sessions",
        (Figure("cpu", "CPU of client + agent", "s", (Target(4),)), Figure("p99", "p99 lag", "ms")),
        updates(100, text="stamp", pause=0.05),
        repeat=100,
    ),
    Workload(
        "diff",
        "one 1 MB diff, sent and received as events",
        "message",
        (Figure("p50", "time", "ms", (Target(1), Target(1, "typescript"))),),
        {"do": "diff", "size": 1_000_000},
    ),
    Workload(
        "text",
        "one 20 MB text, sent and received as events",
        "message",
        (
            Figure("p50", "time", "ms", (Target(1), Target(1, "typescript"))),
            Figure("client_copies", "copies at the memory peak, client", "copies", (Target(limit=4),)),
            Figure("agent_copies", "copies at the memory peak, agent", "copies", (Target(limit=4),)),
            Figure("peak", "peak memory of client + agent", "MiB"),
        ),
        {"do": "text", "size": 20_000_000},
    ),
    Workload(
        "start",
        "start until the response to `initialize`",
        "start",
        (
            Figure("seconds", "time", "ms", (Target(8), Target(2, "typescript"))),
            Figure("cpu", "CPU", "ms"),
            Figure("rss", "memory of the agent (RSS)", "MiB", (Target(limit=26 * 2**20),)),
            Figure("pss", "memory of the agent (PSS)", "MiB"),
        ),
        {},
        repeat=5,
    ),
    Workload(
        "order",
        "200 turns of 20 chunks with an awaiting handler",
        "order",
        (
            Figure("disordered", "turns with chunks out of order", "turns", (Target(limit=0),)),
            Figure("incomplete", "turns that ended before their last chunk was handled", "turns"),
        ),
        updates(20, awaited=False, text="number"),
        repeat=200,
    ),
)
