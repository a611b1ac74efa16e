"""`python -m benchmarks.run`: run the same short turn with `accord run` and with acpx and print the table."""

import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import report
from benchmarks.contenders import ENVIRONMENT, ROOT, TYPESCRIPT, compile_sources

ACPX = ROOT / ".venv-contenders/acpx/node_modules/.bin/acpx"
ACPX_VERSION = "0.19.1"
PROMPT = '{"do": "text", "size": 100}'
"""The agents of `make bench` read a job; the trivial agent ignores it."""
TARGET = "half of acpx at most"
MIB = 1024 * 1024

Figures = dict[str, dict[str, list[float]]]
"""figure -> program -> values"""


def main() -> None:
    agents = {
        "trivial": ("trivial agent", (sys.executable, str(Path(__file__).with_name("trivial_agent.py")))),
        "typescript": ("TypeScript SDK's agent", TYPESCRIPT.agent),
    }
    options = report.options("benchmarks.run", __doc__, agents)
    if not ACPX.exists():
        sys.exit(f"acpx is not installed in {ACPX.parents[2]}; run `make bench-run`")
    if "typescript" in options.only and (why := TYPESCRIPT.missing()):
        options.only.remove("typescript")
        print(f"The TypeScript SDK's agent is not measured: {why}.")
    compile_sources()
    before = os.getloadavg()[0]
    figures: Figures = {}
    for number in range(options.rounds + 1):
        for name in options.only:
            title, agent = agents[name]
            for program in ("accord", "acpx"):
                measured = measure(program, agent, with_memory=name == "trivial")
                if number:  # the first round only fills the caches
                    for figure, value in measured.items():
                        values = figures.setdefault(f"{title}: {figure}", {})
                        values.setdefault(program, []).append(value)
    text = "\n".join([report.rounds(options.rounds), report.load(before)])
    report.publish("run", f"{text}\n\n{table(figures)}", into_docs=options.write_docs)


def measure(program: str, agent: tuple[str, ...], *, with_memory: bool) -> dict[str, float]:
    """Run one turn in a new home folder and return what the program and its agent used."""
    with tempfile.TemporaryDirectory(prefix="accord-bench-") as home:
        env = ENVIRONMENT | {"HOME": home, "ACCORD_HOME": f"{home}/accord"}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        if program == "accord":
            command = [str(Path(sys.executable).with_name("accord")), "run", PROMPT, "--", *agent]
        else:
            command = [str(ACPX), "--agent", shlex.join(agent), "exec", PROMPT]
        started = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=env, cwd=home,
        )  # fmt: skip
        # The usage includes the agent, which both programs wait for.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{shlex.join(command)} exited with {process.returncode}")
    figures = {"wall, ms": wall * 1e3, "CPU, ms": (usage.ru_utime + usage.ru_stime) * 1e3}
    if with_memory:  # of the largest process; an agent on Node would be the largest
        figures["memory, MiB"] = usage.ru_maxrss * 1024 / MIB
    return figures


def table(figures: Figures) -> str:
    lines = [f"| figure | `accord run` | acpx {ACPX_VERSION} | ratio | target |", "| --- " * 5 + "|"]
    for name, values in figures.items():
        mine, other = values["accord"], values["acpx"]
        ratio = statistics.median(mine) / statistics.median(other)
        lines.append(f"| {name} | {report.shown(mine)} | {report.shown(other)} | {ratio:.2f} | {TARGET} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
