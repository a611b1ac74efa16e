"""Runs a program, passes its stdin and stdout through, and records every byte of both directions.

Usage: tee.py FOLDER PROGRAM [ARGUMENT ...]. The records are `to_agent` and `to_client` in the folder.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path


def copy(source: int, target: int, record: Path) -> None:
    """Copy bytes as they arrive, until one end is closed."""
    with record.open("wb", buffering=0) as log:
        try:
            while data := os.read(source, 1 << 20):
                log.write(data)
                view = memoryview(data)
                while view:
                    view = view[os.write(target, view) :]
        except BrokenPipeError:
            pass
    os.close(target)


def main(folder: str, *command: str) -> None:
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    inward = (sys.stdin.fileno(), child.stdin.fileno(), Path(folder, "to_agent"))
    threading.Thread(target=copy, args=inward, daemon=True).start()
    copy(child.stdout.fileno(), sys.stdout.fileno(), Path(folder, "to_client"))
    code = child.wait()
    if code < 0:  # end by the same signal
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)  # the other thread may still wait for the client


if __name__ == "__main__":
    main(*sys.argv[1:])
