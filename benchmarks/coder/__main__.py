"""`python -m benchmarks.coder`: every coding agent in turn on every work, round after round; prints the table."""

import asyncio
import os
import statistics
import tempfile
from pathlib import Path

from accord.testing.models import ModelServer

from .. import report
from .agents import ACCORD, AGENTS, CodingAgent
from .works import WORKS, Desk, Figures, answered

REACH = {
    "initialize, CPU ms": "120, or a third of the better",
    "first session/new, ms": "a tenth of the better",
    "memory after initialize, MiB": "26",
    "warm text turn, ms": "half of the better",
    "memory after turns, MiB": "90",
    "memory per further session, MiB": "0.3",
    "cancel of a running command, ms": "20",
    "session/list with 100 turns waiting, ms": "10",
    "load, thousand events a second": "half of the update stream",
}


async def main() -> None:
    options = report.options("benchmarks.coder", __doc__, WORKS)
    present = [agent for agent in AGENTS if agent.missing() is None]
    notes = [f"{agent.title} is left out: {why}." for agent in AGENTS if (why := agent.missing())]
    before = os.getloadavg()[0]
    figures: dict[str, dict[str, list[float]]] = {}
    for number in range(options.rounds + 1):
        for work in options.only:
            for agent in present:
                for name, value in (await one(agent, work)).items():
                    if number:  # the first round only warms the caches up
                        figures.setdefault(name, {}).setdefault(agent.name, []).append(value)
    text = "\n".join([report.rounds(options.rounds), *notes, report.load(before)])
    report.publish("coder", f"{text}\n\n{table(present, figures)}", into_docs=options.write_docs)


async def one(agent: CodingAgent, work: str) -> Figures:
    with tempfile.TemporaryDirectory(prefix="accord-bench-") as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        project.mkdir()
        async with ModelServer(answered, models=["scripted"]) as server:
            return await WORKS[work](Desk(agent, server, home, project))


def table(agents: list[CodingAgent], figures: dict[str, dict[str, list[float]]]) -> str:
    others = [agent for agent in agents if agent is not ACCORD]
    names = [ACCORD.title, *(agent.title for agent in others), "ratio", "to reach"]
    lines = [f"| figure | {' | '.join(names)} |", f"| --- {'| --- ' * len(names)}|"]
    for name, values in figures.items():
        mine = values.get(ACCORD.name, [])
        cells = [report.shown(values.get(agent.name, [])) for agent in (ACCORD, *others)]
        best = min((statistics.median(values[a.name]) for a in others if values.get(a.name)), default=None)
        ratio = f"{best / statistics.median(mine):.1f}x" if best and mine else ""
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio} | {REACH.get(name, '')} |")
    return "\n".join(lines)


asyncio.run(main())
