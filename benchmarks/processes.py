"""Reads processor time and memory of a process tree from /proc, in the same way for every contender."""

import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Reading:
    """Usage of one process: seconds of processor time, bytes of memory now and at the peak."""

    cpu: float
    rss: int
    pss: int
    peak: int


def read(pid: int) -> Reading:
    # Linux has a clock for the processor time of each process; its id is derived from the process id.
    cpu = time.clock_gettime(~pid << 3 | 2)
    memory = sizes(PROC / f"{pid}/smaps_rollup")
    return Reading(cpu, memory["Rss"], memory["Pss"], sizes(PROC / f"{pid}/status")["VmHWM"])


def sizes(path: Path) -> dict[str, int]:
    """Parse the `Name:  123 kB` lines of a file. Values are in bytes."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {
        words[0].removesuffix(":"): int(words[1]) * 1024
        for words in lines
        if len(words) == 3 and words[2] == "kB"
    }


def descendants(root: int) -> list[int]:
    """Return the running child processes of `root`, recursively."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            parent = parent_of(entry)
            if parent is not None:
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        mine = children.get(waiting.pop(), [])
        found += mine
        waiting += mine
    return found


def parent_of(entry: Path) -> int | None:
    try:
        # The name is in parentheses and may contain anything; the fields follow the last parenthesis.
        _, _, state, parent, *_ = ["", "", *(entry / "stat").read_text().rpartition(")")[2].split()]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


def read_all(pids: list[int]) -> dict[int, Reading]:
    readings: dict[int, Reading] = {}
    for pid in pids:
        try:
            readings[pid] = read(pid)
        except (OSError, KeyError):  # the process has exited, or is exiting and has no memory left
            continue
    return readings
