"""Who belongs to a process: its group, its session, and the descendants that left both, as far as /proc tells.

A process is known by its number together with its time of birth, because numbers are given out again.
"""

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the process table. `born` is in clock ticks since the machine started."""

    pid: int
    parent: int
    group: int
    session: int
    born: int


def process(pid: int) -> Process | None:
    """The process of that number, unless it is dead or only waits to be reaped."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        # The name stands in brackets and may hold anything, brackets and spaces too.
        fields = os.read(fd, 4096).rpartition(b") ")[2].split()
    except OSError:
        return None
    finally:
        os.close(fd)
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def kin(leader: int, known: Iterable[Process] = ()) -> dict[int, Process]:
    """The living processes of the tree that `leader` began in a session of its own, itself included.

    `known` are members found earlier. They stay members when their parent is gone and they belong to somebody else;
    and when one of them is gone itself, its group and session still tell who came from it.
    """
    members: dict[int, Process] = {}
    ids = {leader}
    for member in known:
        now = process(member.pid)
        if now is not None and now.born == member.born:
            members[member.pid] = now
        if now is None or now.born == member.born:
            ids |= _ids(member)
    rest = [found for number in _numbers() if (found := process(number)) is not None]
    grown = True
    while grown:
        grown = False
        for one in rest:
            if one.pid not in members and not ids.isdisjoint((one.pid, one.parent, one.group, one.session)):
                members[one.pid] = one
                ids |= _ids(one)
                grown = True
    return members


def _ids(member: Process) -> set[int]:
    # The tree began with a session of its own, so every group and session a member is in came from the tree.
    return {member.pid, member.group, member.session} - {0, 1}


def alive(member: Process) -> bool:
    """Whether it still runs, and is not another of the same number."""
    now = process(member.pid)
    return now is not None and now.born == member.born


def send(member: Process, sig: signal.Signals) -> None:
    """Signal exactly this process, never a later one of its number."""
    try:
        fd = os.pidfd_open(member.pid)
    except OSError:
        return
    try:
        if alive(member):
            signal.pidfd_send_signal(fd, sig)
    except OSError:
        pass
    finally:
        os.close(fd)


def _numbers() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
