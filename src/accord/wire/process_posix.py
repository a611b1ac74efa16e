"""Process trees on POSIX: groups, `/proc`, and the shell that kills orphans."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

# MERGED wire.kin: Who belongs to a process: its group, its session, and the descendants that left both, as far as /proc tells.
#
# A process is known by its number together with its time of birth, because numbers are given out again.


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """One line of the process table. `born` is in clock ticks since the machine started."""

    pid: int
    parent: int
    group: int
    session: int
    born: int


def process(pid: int) -> ProcessEntry | None:
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
    return ProcessEntry(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def kin(leader: int, known: Iterable[ProcessEntry] = ()) -> dict[int, ProcessEntry]:
    """The living processes of the tree that `leader` began in a session of its own, itself included.

    `known` are members found earlier. They stay members when their parent is gone and they belong to somebody else;
    and when one of them is gone itself, its group and session still tell who came from it.
    """
    members: dict[int, ProcessEntry] = {}
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


def _ids(member: ProcessEntry) -> set[int]:
    # The tree began with a session of its own, so every group and session a member is in came from the tree.
    return {member.pid, member.group, member.session} - {0, 1}


def alive(member: ProcessEntry) -> bool:
    """Whether it still runs, and is not another of the same number."""
    now = process(member.pid)
    return now is not None and now.born == member.born


def send(member: ProcessEntry, sig: signal.Signals) -> None:
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


# MERGED wire.watchdog: Ends our children when we are ended without a chance to do it: one tiny shell for each program that starts any.
#
# The shell blocks on a pipe whose other end only this process holds. However this process ends, SIGKILL included, the
# pipe reaches its end, and the shell terminates, then kills, the process groups that were still registered, with the
# descendants that left them as far as /proc shows them. It stands in a session of its own, ignores what a terminal
# sends, holds no descriptor but the pipe, and is gone as soon as we are. POSIX only.

_SCRIPT: Final = r"""
trap '' HUP INT QUIT TERM PIPE USR1 USR2 ALRM TSTP TTIN TTOU
cd /
watched=' '
while read -r verb id; do
    case $verb in
        +) watched="$watched$id " ;;
        -) case $watched in *" $id "*) watched="${watched%%" $id "*} ${watched#*" $id "}" ;; esac ;;
    esac
done
[ "$watched" = ' ' ] && exit 0
tree=$watched strays=' '
look() {
    table=
    for stat in /proc/[0-9]*/stat; do
        { read -r line < "$stat"; } 2>/dev/null || continue
        pid=${line%% *}
        set -- ${line##*) }
        table="$table $pid:$2:$3:$4:${20}"
    done
    grown=yes
    while [ "$grown" ]; do
        grown=
        for entry in $table; do
            IFS=:
            set -- $entry
            unset IFS
            case $tree in *" $1 "*) continue ;; esac
            case $tree in *" $2 "* | *" $3 "* | *" $4 "*)
                tree="$tree$1 " strays="$strays$1:$5 " grown=yes ;;
            esac
        done
    done
}
for signal in TERM KILL; do
    look
    for id in $watched; do kill -s $signal -- "-$id"; done
    for entry in $table; do
        case $strays in *" ${entry%%:*}:${entry##*:} "*) kill -s $signal "${entry%%:*}" ;; esac
    done
    [ $signal = TERM ] && sleep 1
done
exit 0
"""


class Watchdog:
    """The shell and the pipe to it. Process groups are watched from their start until just before they are reaped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._pipe = -1
        self._shell: subprocess.Popen[bytes] | None = None

    def ready(self) -> None:
        """Have the shell running, so that a group can be registered the moment it exists."""
        with self._lock:
            if self._shell is None:
                self._begin()

    def watch(self, group: int) -> None:
        """End this group should we die."""
        with self._lock:
            self._groups.add(group)
            self._tell(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """The group is over; its number may soon be another's."""
        with self._lock:
            self._groups.discard(group)
            self._tell(f"- {group}\n")

    def release(self) -> None:
        """Let the shell go: it ends what is still registered, then itself."""
        with self._lock:
            self._drop()

    def after_fork(self) -> None:
        """In a forked copy of this process: the groups are the parent's business, and so is the pipe."""
        self._lock = threading.Lock()
        self._groups.clear()
        self._drop()

    def _begin(self) -> None:
        ours, theirs = -1, -1
        try:
            theirs, ours = os.pipe()
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "accord-watchdog"],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath},
                start_new_session=True,
            )
            self._pipe, ours = ours, -1
        except OSError:
            # No shell on this system: children still see their input end when we die, and most leave by that.
            self._shell = None
        finally:
            for fd in (ours, theirs):
                if fd >= 0:
                    os.close(fd)

    def _tell(self, line: str) -> None:
        if self._pipe < 0:
            return
        try:
            os.write(self._pipe, line.encode())
        except BrokenPipeError:
            # Somebody ended the shell: begin again, with everything it knew.
            self._drop()
            self._begin()
            if self._pipe >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._pipe, "".join(f"+ {group}\n" for group in sorted(self._groups)).encode())

    def _drop(self) -> None:
        if self._shell is None:
            return
        os.close(self._pipe)
        self._pipe = -1
        if self._shell.poll() is None:
            self._shell.returncode = 0  # it goes by itself; nobody is to be warned that it still runs
        self._shell = None


WATCHDOG: Final = Watchdog()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WATCHDOG.after_fork)


# MERGED wire.groups: The tree of one child on POSIX: a session and process group of its own, and whoever left it.
#
# The child stays unreaped until `release`, so that its number, which is also the group's, cannot become another's.

NEW_SESSION: Final = True
CREATION_FLAGS: Final = 0

_ROUNDS: Final = 8
"""How often a tree is looked through for newcomers before it is killed."""
_OFTEN_IGNORED: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)


@contextmanager
def starting() -> Generator[None]:
    """While a child is started: the watchdog stands ready, and signals are such that the child has its defaults.

    What is blocked in this thread, or ignored as in a job that a script put into the background, would stay so in the
    child; what has a handler is back at its default there.
    """
    WATCHDOG.ready()
    ignored: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        ignored = [number for number in _OFTEN_IGNORED if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, _ignore)
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def _ignore(number: int, frame: object) -> None:
    """A handler that does what ignoring does."""


class ProcessGroup:
    """All processes that one child began."""

    def __init__(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = child
        self._members: dict[int, ProcessEntry] = {}
        self._seen: dict[int, ProcessEntry] = {}
        self._reaped = False
        WATCHDOG.watch(child.pid)

    def look(self) -> None:
        """Note who belongs to the tree now: once a parent is gone, those who left the group cannot be found by it."""
        if not self._reaped and sys.platform.startswith("linux"):
            self._members = kin(self._child.pid, self._seen.values())
            self._seen |= self._members

    def terminate(self) -> None:
        """Ask all of them to end; those that stand still are woken for it."""
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """End all of them. They are stopped first, so that nobody is born or leaves the group unseen meanwhile."""
        for _ in range(_ROUNDS):
            known = set(self._seen)
            self._send(signal.SIGSTOP)
            if known >= self._seen.keys():
                break
        self._send(signal.SIGKILL)

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._send(signal.SIGINT)

    def living(self) -> bool:
        """Whether anyone is left besides the child itself."""
        if self._reaped:
            return False
        if not sys.platform.startswith("linux"):
            return self._child.poll() is not None and self._group_answers()
        self.look()
        return any(pid != self._child.pid for pid in self._members)

    def release(self) -> None:
        """The tree is over: reap the child and let its number go."""
        if not self._reaped:
            self._reaped = True
            WATCHDOG.forget(self._child.pid)
            self._child.poll()

    def _send(self, sig: signal.Signals) -> None:
        if self._reaped:
            return
        self.look()
        try:
            os.killpg(self._child.pid, sig)
        except OSError:
            pass  # nobody left in the group, or nobody of ours
        for member in self._members.values():
            # One that was in the group when we looked may have left it since; these two do no harm twice.
            if member.group != self._child.pid or sig in (signal.SIGSTOP, signal.SIGKILL):
                send(member, sig)

    def _group_answers(self) -> bool:
        try:
            os.killpg(self._child.pid, 0)
        except OSError:
            return False
        return True
