"""`make cluster-check`: three NATS servers and three nodes as real processes, with damage at random moments.

Afterwards the promises of docs/cluster.md are verified from the histories of all clients, nodes and agents
and from the logs. Everything happens on the loopback address. A failing run is kept in build/cluster-check.
"""

import argparse
import asyncio
import secrets
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.cluster_check.check_clients import CheckedClient, open_everywhere
from tests.cluster_check.check_world import SHORT_TIMES, NotHealed, check_world
from tests.cluster_check.checked_node import BUGS
from tests.cluster_check.nemesis import DAMAGES, Nemesis, limit_streams
from tests.cluster_check.promises import Report, check
from tests.cluster_check.stored_logs import save_logs
from tests.soak.soak_world import adopt_orphans

from accord.errors import AccordError

KEPT = Path("build/cluster-check")
_CLIENTS = 6


async def run(folder: Path, options: argparse.Namespace) -> list[str]:
    """Run everything; return what was wrong with the programs themselves."""
    times: dict[str, float] = dict(zip(SHORT_TIMES, options.times, strict=True))
    async with check_world(folder, options.bug, times) as world:
        sessions: set[str] = set()
        clients = [CheckedClient(f"c{n}", world, sessions, options.seed) for n in range(_CLIENTS)]
        nemesis = Nemesis(world, options.seed, options.only)
        end, calm = asyncio.Event(), asyncio.Event()
        working = [asyncio.ensure_future(client.run(end)) for client in clients]
        damaging = asyncio.ensure_future(nemesis.run(calm))
        done, _ = await asyncio.wait(
            (damaging, *working), timeout=options.minutes * 60, return_when=asyncio.FIRST_EXCEPTION
        )
        for task in done:
            task.result()
        calm.set()
        await damaging
        findings: list[str] = []
        try:
            await world.heal()
            await limit_streams(world, world.log_bytes)
        except (NotHealed, AccordError) as error:
            findings.append(str(error))
        end.set()
        await asyncio.gather(*working)
        if not findings:
            await open_everywhere(world, sessions, options.seed)
        findings += await asyncio.to_thread(world.end_nodes)
        await save_logs(world)
        await asyncio.to_thread(world.end_servers)
    for name, count in nemesis.done.items():
        print(f"{count:6}  {name}")
    return findings


def show(report: Report, takeovers: int) -> bool:
    """Print the report; return whether all promises were kept."""
    for name, count in sorted(report.counts.items()):
        print(f"{count:6}  {name}")
    for name, count in report.refusals.most_common():
        print(f"{count:6}  {name}")
    if report.counts["takeovers"] < takeovers:
        report.broken("enough happened", f"{report.counts['takeovers']} takeovers, {takeovers} wanted")
    for violation in report.violations[:40]:
        print(f"VIOLATION {violation}")
    print(f"{len(report.violations)} violations")
    return not report.violations


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make cluster-check", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to do damage (default: 2)")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="repeat the decisions of a run")
    parser.add_argument("--only", action="append", choices=list(DAMAGES), help="only this damage; repeatable")
    parser.add_argument("--takeovers", type=int, default=0, help="fail if there were fewer takeovers")
    parser.add_argument(
        "--times", type=float, nargs=3, default=list(SHORT_TIMES.values()), help="renew, deadline and lease"
    )
    parser.add_argument("--bug", choices=["none", *BUGS], default="none", help="break a promise on purpose")
    parser.add_argument("--keep", action="store_true", help="keep the histories of a good run, too")
    parser.add_argument("--verify", type=Path, help="verify the histories in this folder again")
    return parser.parse_args()


def main() -> int:
    chosen = options()
    if chosen.verify is not None:
        return 0 if show(check(chosen.verify), chosen.takeovers) else 1
    adopt_orphans()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it ends its programs
    folder = KEPT.resolve() / f"{chosen.seed}-{chosen.bug}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()
    findings = asyncio.run(run(folder, chosen))
    report = check(folder)
    report.violations = [*findings, *report.violations]
    print(f"seed {chosen.seed}, {(time.monotonic() - started) / 60:.1f} minutes")
    good = show(report, chosen.takeovers)
    if good and not chosen.keep:
        shutil.rmtree(folder)
    else:
        print(f"the histories, logs and outputs are in {folder}; verify them again with --verify")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
