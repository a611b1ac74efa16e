"""Shifts the wall clock of a Python program by the seconds in the file `SOAK_CLOCK`, which may change.

Python imports this module at its start when this folder is in PYTHONPATH.
"""

import os
import time

_FILE = os.environ.get("SOAK_CLOCK")
_time, _time_ns = time.time, time.time_ns


def _shift() -> int:
    try:
        with open(_FILE or os.devnull, encoding="ascii") as file:
            return int(file.read() or "0")
    except (OSError, ValueError):
        return 0


if _FILE:
    time.time = lambda: _time() + _shift()
    time.time_ns = lambda: _time_ns() + _shift() * 10**9
