"""`make soak`: run Accord's programs for a while, do random damage, and check that nothing is lost.

Everything happens in a temporary folder and on the loopback address. A failure prints how to repeat it.
"""

import argparse
import secrets
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from tests.soak.soak_rounds import ROUNDS
from tests.soak.soak_world import SoakWorld, adopt_orphans


def soak(folder: Path, seed: str, seconds: float, rounds: list[str]) -> tuple[Counter[str], str | None]:
    """Run rounds for this time, each kind at least once. Return the counts, and the failure or None."""
    counts: Counter[str] = Counter()
    random = Random(seed)
    world = SoakWorld(folder)
    names, weights = rounds, [ROUNDS[name][1] for name in rounds]
    first = random.sample(names, len(names))
    end = time.monotonic() + seconds
    while first or time.monotonic() < end:
        name = first.pop() if first else random.choices(names, weights)[0]
        counts[name] += 1
        world.random = Random(
            f"{seed}-{counts.total()}"
        )  # of its own, because a round takes as much as it needs
        try:
            ROUNDS[name][0](world)
            world.check()
            if not first and time.monotonic() >= end:
                world.check_everything()
        except Exception:  # noqa: BLE001 - the report of the run
            return counts, f"round {counts.total()} ({name}):\n{traceback.format_exc()}\n{world.stderr()}"
        print(f"{counts.total()}: {name}", flush=True)
    sessions = len(world.acknowledged)
    updates = sum(len(told.updates) + len(told.texts) for told in world.acknowledged.values())
    turns = sum(told.turns for told in world.acknowledged.values())
    print(f"{sessions} sessions, {turns} turns and {updates} updates were acknowledged; nothing was lost.")
    return counts, None


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to run (default: 2)")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="repeat the run with this seed")
    parser.add_argument(
        "--only", action="append", choices=list(ROUNDS), help="run only this kind; repeatable"
    )
    options = parser.parse_args()
    adopt_orphans()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak", ignore_cleanup_errors=True) as folder:
        counts, failure = soak(Path(folder), options.seed, options.minutes * 60, options.only or list(ROUNDS))
    print(
        f"\n{counts.total()} rounds in {(time.monotonic() - started) / 60:.1f} minutes, seed {options.seed}"
    )
    for name, count in counts.most_common():
        print(f"{count:6}  {name}")
    if failure is None:
        return 0
    print(f"\nfailed in {failure}\nrepeat it with: make soak MINUTES={options.minutes:g} SEED={options.seed}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
