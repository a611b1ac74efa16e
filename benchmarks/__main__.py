"""`python -m benchmarks`: run every workload on every contender and print the table."""

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contenders import (
    BARE,
    CONTENDERS,
    ROOT,
    TYPESCRIPT,
    Contender,
    compile_sources,
)
from benchmarks.runner import WorkloadError, measure, starts
from benchmarks.table import Results, markdown
from benchmarks.workloads import WORKLOADS, Workload

LATEST = Path(__file__).parent / "results/latest.json"
PAGE = ROOT / "docs/benchmarks.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


@dataclass(frozen=True)
class Options:
    rounds: int
    workloads: tuple[Workload, ...]
    contenders: tuple[Contender, ...]
    quick: bool
    write_docs: bool


def main() -> None:
    options = arguments(sys.argv[1:])
    present: list[Contender] = []
    notes: list[str] = []
    for contender in options.contenders:
        if reason := contender.missing():
            notes.append(f"{contender.title} is not measured: {reason}.")
        else:
            present.append(contender)
    load_before = os.getloadavg()[0]
    results = run_rounds(options, present, notes)
    notes.append(f"System load (1 minute): {load_before:.1f} before, {os.getloadavg()[0]:.1f} after.")
    if any(workload.measure == "start" for workload in options.workloads):
        notes += bare_starts(present)
    table = markdown(options.workloads, present, results)
    if options.quick:
        notes.append("A quick run: it did only a tenth of the work that each line names.")
    about = "\n".join([*machine(present, options.rounds), *notes])
    print(f"{about}\n\n{table}")
    LATEST.parent.mkdir(exist_ok=True)
    LATEST.write_text(json.dumps({"about": about.splitlines(), "results": results}, indent=1))
    if options.write_docs:
        write_docs(f"{about}\n\n{table}")


def arguments(given: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [workload.name for workload in WORKLOADS]
    others = [contender.name for contender in CONTENDERS]
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds (5)")
    parser.add_argument("--only", nargs="+", choices=names, metavar="WORK", help=", ".join(names))
    parser.add_argument("--contenders", nargs="+", choices=others, metavar="NAME", help=", ".join(others))
    parser.add_argument("--quick", action="store_true", help="two rounds of a tenth of the work")
    parser.add_argument("--write-docs", action="store_true", help="write the table to docs/benchmarks.md")
    parsed = parser.parse_args(given)
    if parsed.write_docs and (parsed.quick or parsed.only or parsed.contenders):
        parser.error("--write-docs needs all workloads and contenders: drop --quick, --only and --contenders")
    workloads = tuple(one for one in WORKLOADS if parsed.only is None or one.name in parsed.only)
    if parsed.quick:
        workloads = tuple(workload.smaller() for workload in workloads)
    return Options(
        2 if parsed.quick else parsed.rounds,
        workloads,
        tuple(one for one in CONTENDERS if parsed.contenders is None or one.name in parsed.contenders),
        parsed.quick,
        parsed.write_docs,
    )


def run_rounds(options: Options, contenders: list[Contender], notes: list[str]) -> Results:
    """Run each workload on all contenders in turn. Each round starts with another contender."""
    results: Results = {}
    for number in range(options.rounds):
        shift = number % max(1, len(contenders))
        compile_sources()
        for workload in options.workloads:
            for contender in contenders[shift:] + contenders[:shift]:
                if not workload.runs(contender.name):
                    continue
                progress(f"round {number + 1} of {options.rounds}: {workload.name}, {contender.title}")
                try:
                    figures = measure(contender, workload)
                except WorkloadError as failure:
                    notes.append(
                        f"{contender.title} failed in round {number + 1} of {workload.name}: {failure}"
                    )
                else:
                    results.setdefault(workload.name, {}).setdefault(contender.name, {})[number] = figures
    progress("")
    return results


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)


def machine(contenders: list[Contender], rounds: int) -> list[str]:
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    system = f"Linux {platform.release()}, Python {platform.python_version()}"
    versions = ", ".join(f"{contender.title} {contender.version()}" for contender in contenders)
    return [
        f"{today}, {os.cpu_count()} cores of {cpu}, {system}.",
        f"{versions}.",
        f"Medians of {rounds} rounds, with minimum and maximum in parentheses.",
    ]


def bare_starts(contenders: list[Contender]) -> list[str]:
    languages = ("Python", "Node") if TYPESCRIPT in contenders else ("Python",)
    found = {language: starts(BARE[language], 5) for language in languages}
    parts = [
        f"{language} {one['seconds'] * 1e3:.0f} ms and {one['rss'] / 2**20:.0f} MiB"
        for language, one in found.items()
    ]
    return [f"The interpreters alone take: {', '.join(parts)}."]


def write_docs(text: str) -> None:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
