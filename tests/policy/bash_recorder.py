"""Runs lines in real bash, with a PATH of stub programs that record how they were called."""

import os
import select
import shutil
import signal
import subprocess
from pathlib import Path

from tests.patience import PATIENCE

SEPARATOR, END = "\x1f", "\x1e"
STUBS = {"ok1": 0, "ok2": 0, "no1": 1, "say": 0}
WRAPPERS = ("env", "xargs", "nohup", "timeout", "nice", "bash", "sh", "setsid", "stdbuf")
_STUB = """#!/bin/sh
set -- "${{0##*/}}" "$@" ""
IFS="{separator}"
printf '%s{end}' "$*" >>"$RECORD"
echo ok2
exit {code}
"""
_SECONDS = PATIENCE


class BashRecorder:
    """Runs lines in an empty folder and returns which stubs were started, with which arguments."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.folder = folder
        self.runs = 0
        for name, code in STUBS.items():
            stub = self.bin / name
            stub.write_text(_STUB.format(separator=SEPARATOR, end=END, code=code))
            stub.chmod(0o755)
        for name in WRAPPERS:
            real = shutil.which(name)
            if real is not None:
                (self.bin / name).symlink_to(os.path.realpath(real))

    def run(self, line: str) -> list[list[str]]:
        """Return every call of a stub that the line led to, including calls in the background."""
        assert "/" not in line, "a line must not name paths outside its folder"
        assert ".." not in line
        self.runs += 1
        here = self.folder / f"run{self.runs}"
        here.mkdir()
        record = self.folder / f"record{self.runs}"
        alive, held = os.pipe()
        process = subprocess.Popen(
            ["/bin/bash", "-c", 'ulimit -t 5 -f 64; exec /bin/bash -c "$1"', "bash-recorder", line],
            cwd=here,
            env={"PATH": str(self.bin), "RECORD": str(record), "HOME": str(here), "FUNCNEST": "8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[held],
            start_new_session=True,
        )
        os.close(held)
        try:
            # Every process of the line inherits the write end. It closes when the last of them has ended.
            select.select([alive], [], [], _SECONDS)
        finally:
            os.close(alive)
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        calls = record.read_text().split(END)[:-1] if record.exists() else []
        shutil.rmtree(here, ignore_errors=True)
        record.unlink(missing_ok=True)
        return [call.split(SEPARATOR)[:-1] for call in calls]
