"""`python -m benchmarks.coder`: run every workload on every coding agent and print the table."""

import asyncio
import os
import statistics
import tempfile
from pathlib import Path

from accord.testing.model_server import ModelServer
from benchmarks import report
from benchmarks.coder.agents import ACCORD, AGENTS, CodingAgent
from benchmarks.coder.workloads import WORKLOADS, Figures, Fixture, ScriptedModel

TARGETS = {
    "initialize, CPU ms": "120, or a third of the best other",
    "first session/new, ms": "a tenth of the best other",
    "memory after initialize, MiB": "26",
    "warm text turn, ms": "half of the best other",
    "memory after turns, MiB": "70",
    "memory per additional session, MiB": "0.3",
    "cancel of a running command, ms": "20",
    "session/list with 100 turns waiting, ms": "10",
    "checkpoint cost, 20,000 unchanged files, ms": "150",
    "load, thousand events per second": "half of the update stream",
}


async def main() -> None:
    options = report.options("benchmarks.coder", __doc__, WORKLOADS)
    present = [agent for agent in AGENTS if agent.missing() is None]
    notes = [f"{agent.title} is not measured: {why}." for agent in AGENTS if (why := agent.missing())]
    before = os.getloadavg()[0]
    figures: dict[str, dict[str, list[float]]] = {}
    for number in range(options.rounds + 1):
        for workload in options.only:
            for agent in present:
                for name, value in (await run_workload(agent, workload)).items():
                    if number:  # the first round only fills the caches
                        figures.setdefault(name, {}).setdefault(agent.name, []).append(value)
    text = "\n".join([report.rounds(options.rounds), *notes, report.load(before)])
    report.publish("coder", f"{text}\n\n{table(present, figures)}", into_docs=options.write_docs)


async def run_workload(agent: CodingAgent, workload: str) -> Figures:
    with tempfile.TemporaryDirectory(prefix="accord-bench-", ignore_cleanup_errors=True) as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        project.mkdir()
        model = ScriptedModel(agent)
        async with ModelServer(model, models=["scripted"]) as server:
            return await WORKLOADS[workload](Fixture(agent, server, model, home, project))


def table(agents: list[CodingAgent], figures: dict[str, dict[str, list[float]]]) -> str:
    others = [agent for agent in agents if agent is not ACCORD]
    names = [ACCORD.title, *(agent.title for agent in others), "ratio", "target"]
    lines = [f"| figure | {' | '.join(names)} |", f"| --- {'| --- ' * len(names)}|"]
    for name, values in figures.items():
        mine = values.get(ACCORD.name, [])
        cells = [report.shown(values.get(agent.name, [])) for agent in (ACCORD, *others)]
        best = min((statistics.median(values[a.name]) for a in others if values.get(a.name)), default=None)
        ratio = f"{best / statistics.median(mine):.1f}x" if best and mine else ""
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio} | {TARGETS.get(name, '')} |")
    return "\n".join(lines)


asyncio.run(main())
