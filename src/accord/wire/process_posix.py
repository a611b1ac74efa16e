"""Process trees on POSIX: process groups, `/proc`, and the watchdog shell that ends orphans.

A process is identified by its id and its start time, because ids are reused. A descendant that left the group
and whose parents have ended is found by the mark of the tree in its environment.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """One entry of the process table. `start_time` is in clock ticks since boot."""

    pid: int
    parent: int
    group: int
    session: int
    start_time: int


def read_process(pid: int) -> ProcessEntry | None:
    """Return the process with this id, unless it is dead or a zombie."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        # The name is in parentheses and may itself contain parentheses and spaces.
        fields = os.read(fd, 4096).rpartition(b") ")[2].split()
    except OSError:
        return None
    finally:
        os.close(fd)
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return ProcessEntry(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def find_tree(
    leader: int,
    known_members: Iterable[ProcessEntry] = (),
    is_marked: Callable[[ProcessEntry], bool] = lambda process: False,
) -> dict[int, ProcessEntry]:
    """Return the living processes of the tree that `leader` started in its own session, the leader included.

    `known_members` were found earlier. They stay members when their parent has ended and another process
    adopted them. If one of them has ended, its group and session still identify its descendants. `is_marked`
    says of any process whether its environment has the mark of the tree.
    """
    members: dict[int, ProcessEntry] = {}
    ids = {leader}
    for member in known_members:
        process = read_process(member.pid)
        if process is not None and process.start_time == member.start_time:
            members[member.pid] = process
        if process is None or process.start_time == member.start_time:
            ids |= _tree_ids(member)
    processes = [process for pid in _all_pids() if (process := read_process(pid)) is not None]
    for process in processes:
        if process.pid not in members and is_marked(process):
            members[process.pid] = process
            ids |= _tree_ids(process)
    added = True
    while added:
        added = False
        for process in processes:
            if process.pid not in members and not ids.isdisjoint(
                (process.pid, process.parent, process.group, process.session)
            ):
                members[process.pid] = process
                ids |= _tree_ids(process)
                added = True
    return members


def _tree_ids(member: ProcessEntry) -> set[int]:
    # The tree started its own session, so every group and session of a member belongs to the tree.
    return {member.pid, member.group, member.session} - {0, 1}


class TreeMark:
    """Recognizes the processes of one tree by a random text in their environment."""

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        self._checked: dict[tuple[int, int], bool] = {}  # by process id and start time

    def is_on(self, process: ProcessEntry) -> bool:
        """Return whether a process has the mark. Each process is read once: children inherit the mark."""
        key = (process.pid, process.start_time)
        found = self._checked.get(key)
        if found is None:
            try:
                with open(f"/proc/{process.pid}/environ", "rb") as file:
                    found = self._text in file.read()
            except OSError:
                found = False  # it has ended, or belongs to another user
            self._checked[key] = found
        return found


def is_alive(member: ProcessEntry) -> bool:
    """Return whether this process still runs; a later process with the same id does not count."""
    process = read_process(member.pid)
    return process is not None and process.start_time == member.start_time


def send_signal(member: ProcessEntry, sig: signal.Signals) -> None:
    """Signal exactly this process, never a later one with the same id."""
    try:
        fd = os.pidfd_open(member.pid)
    except OSError:
        return
    try:
        if is_alive(member):
            signal.pidfd_send_signal(fd, sig)
    except OSError:
        pass
    finally:
        os.close(fd)


def _all_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


_SCRIPT: Final = r"""
trap '' HUP INT QUIT TERM PIPE USR1 USR2 ALRM TSTP TTIN TTOU
cd /
watched=' ' marks=' '
while read -r verb id mark; do
    case $verb in
        +) watched="$watched$id " marks="$marks$mark " ;;
        -) case $watched in *" $id "*) watched="${watched%%" $id "*} ${watched#*" $id "}" ;; esac
           case $marks in *" $mark "*) marks="${marks%%" $mark "*} ${marks#*" $mark "}" ;; esac ;;
    esac
done
[ "$watched" = ' ' ] && exit 0
tree=$watched strays=' '
patterns=
for mark in $marks; do patterns="$patterns -e $mark"; done
look() {
    table= marked=' '
    if [ -e /proc/self/environ ]; then
        for file in $(grep -ls $patterns /proc/[0-9]*/environ); do
            file=${file#/proc/} marked="$marked${file%/environ} "
        done
    else
        for pid in $(ps -axEww -o pid=,command= | grep $patterns | sed 's/^ *\([0-9]*\).*/\1/'); do
            [ "$pid" = $$ ] || kill -s $signal "$pid"
        done
    fi
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
            case "$tree,$marked," in *" $2 "*,*, | *" $3 "*,*, | *" $4 "*,*, | *,*" $1 "*,)
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
    """Ends the children of this process when it is killed. Runs one small shell.

    The shell blocks on a pipe whose other end only this process holds. When this process ends, even
    by SIGKILL, the pipe closes. The shell then terminates and kills the registered process groups, and the
    descendants that left them: by descent, and by their mark if their parents have already ended. It runs in
    its own session, ignores terminal signals and holds no other descriptor. Process groups are registered
    from their start until just before they are reaped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[int, str] = {}  # the mark of each group
        self._pipe = -1
        self._shell: subprocess.Popen[bytes] | None = None

    def ready(self) -> None:
        """Start the shell, so that a group can be registered as soon as it exists."""
        with self._lock:
            if self._shell is None:
                self._start_shell()

    def watch(self, group: int, mark: str) -> None:
        """Register a group and the mark of its tree, to be ended when this process dies."""
        with self._lock:
            self._groups[group] = mark
            self._write_line(f"+ {group} {mark}\n")

    def forget(self, group: int) -> None:
        """Unregister a group that has ended, before its id is reused."""
        with self._lock:
            mark = self._groups.pop(group, "")
            self._write_line(f"- {group} {mark}\n")

    def release(self) -> None:
        """Close the pipe: the shell ends the registered groups, then itself."""
        with self._lock:
            self._close_pipe()

    def after_fork(self) -> None:
        """Reset in a forked child: the groups and the pipe belong to the parent."""
        self._lock = threading.Lock()
        self._groups.clear()
        self._close_pipe()

    def _start_shell(self) -> None:
        write_end, read_end = -1, -1
        try:
            read_end, write_end = os.pipe()
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "accord-watchdog"],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath},
                start_new_session=True,
            )
            self._pipe, write_end = write_end, -1
        except OSError:
            # There is no shell: children still see the end of their stdin when we die, and most exit then.
            self._shell = None
        finally:
            for fd in (write_end, read_end):
                if fd >= 0:
                    os.close(fd)

    def _write_line(self, line: str) -> None:
        if self._pipe < 0:
            return
        try:
            os.write(self._pipe, line.encode())
        except BrokenPipeError:
            # The shell was killed: start a new one and register all groups again.
            self._close_pipe()
            self._start_shell()
            if self._pipe >= 0:
                with contextlib.suppress(OSError):
                    os.write(
                        self._pipe,
                        "".join(f"+ {group} {mark}\n" for group, mark in self._groups.items()).encode(),
                    )

    def _close_pipe(self) -> None:
        if self._shell is None:
            return
        os.close(self._pipe)
        self._pipe = -1
        if self._shell.poll() is None:
            self._shell.returncode = 0  # avoids the warning that it still runs; it exits by itself
        self._shell = None


WATCHDOG: Final = Watchdog()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WATCHDOG.after_fork)


NEW_SESSION: Final = True
CREATION_FLAGS: Final = 0

_MAX_SCANS: Final = 8
"""How often at most a tree is scanned for new members before it is killed."""
_RESET_SIGNALS: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)


@contextmanager
def prepared_signals() -> Generator[None]:
    """Start the watchdog, and reset signals while a child is started, so that the child gets default signals.

    Signals that this thread blocks, or ignores like a background job of a script, would stay blocked or
    ignored in the child. Signals with a handler get their default there anyway.
    """
    WATCHDOG.ready()
    ignored: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        ignored = [sig for sig in _RESET_SIGNALS if signal.getsignal(sig) is signal.SIG_IGN]
    for sig in ignored:
        signal.signal(sig, _ignore)
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for sig in ignored:
            signal.signal(sig, signal.SIG_IGN)


def _ignore(sig: int, frame: object) -> None:
    """Do nothing, like SIG_IGN."""


class ProcessGroup:
    """The tree of one child: its session and process group, and the descendants that left them.

    The child is not reaped before `release`, so that its id, which is also the id of the group, is not
    reused.
    """

    def __init__(self, child: "subprocess.Popen[bytes]", mark: str) -> None:
        self._child = child
        self._mark = TreeMark(mark)
        self._members: dict[int, ProcessEntry] = {}
        self._known_members: dict[int, ProcessEntry] = {}
        self._reaped = False
        WATCHDOG.watch(child.pid, mark)

    def scan(self) -> None:
        """Find the members now: those that left the group cannot be found once their parent has ended."""
        if not self._reaped and sys.platform.startswith("linux"):
            self._members = find_tree(self._child.pid, self._known_members.values(), self._mark.is_on)
            self._known_members |= self._members

    def terminate(self) -> None:
        """Ask all members to end; wake stopped ones."""
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        """Kill all members. They are stopped first, so that none forks or leaves the group unseen."""
        for _ in range(_MAX_SCANS):
            members_before = set(self._known_members)
            self._send(signal.SIGSTOP)
            if members_before >= self._known_members.keys():
                break
        self._send(signal.SIGKILL)

    def interrupt(self) -> None:
        """Send SIGINT to all members, as Ctrl-C does."""
        self._send(signal.SIGINT)

    def has_survivors(self) -> bool:
        """Return whether a process other than the child is left."""
        if self._reaped:
            return False
        if not sys.platform.startswith("linux"):
            return self._child.poll() is not None and self._group_exists()
        self.scan()
        return any(pid != self._child.pid for pid in self._members)

    def release(self) -> None:
        """Reap the child and release its id; the tree has ended."""
        if not self._reaped:
            self._reaped = True
            WATCHDOG.forget(self._child.pid)
            self._child.poll()

    def _send(self, sig: signal.Signals) -> None:
        if self._reaped:
            return
        self.scan()
        try:
            os.killpg(self._child.pid, sig)
        except OSError:
            pass  # the group is empty
        for member in self._members.values():
            # A member may have left the group since the scan; these two signals can be sent twice.
            if member.group != self._child.pid or sig in (signal.SIGSTOP, signal.SIGKILL):
                send_signal(member, sig)

    def _group_exists(self) -> bool:
        try:
            os.killpg(self._child.pid, 0)
        except OSError:
            return False
        return True
