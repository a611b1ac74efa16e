"""Ends our children when we are ended without a chance to do it: one tiny shell for each program that starts any.

The shell blocks on a pipe whose other end only this process holds. However this process ends, SIGKILL included, the
pipe reaches its end, and the shell terminates, then kills, the process groups that were still registered, with the
descendants that left them as far as /proc shows them. It stands in a session of its own, ignores what a terminal
sends, holds no descriptor but the pipe, and is gone as soon as we are. POSIX only.
"""

import contextlib
import os
import subprocess
import threading
from typing import Final

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
