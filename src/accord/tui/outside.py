"""A program that has the terminal for itself while the screen is away. Everything else waits for it."""

import asyncio
import shlex
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from accord.cleaning import one_line
from accord.client import Launch, run_in_terminal


def run_outside(launch: Launch) -> int:
    """Run it until it exits, and give its exit code. Raises NeverStarted."""
    sys.stdout.write(f"{one_line(shlex.join(launch.command))} runs in this terminal now\n")
    sys.stdout.flush()
    # Ctrl+C is for the program: it is in front, and this one only waits for it.
    before = signal.signal(signal.SIGINT, _not_for_us)
    try:
        with ThreadPoolExecutor(1) as thread:
            code = thread.submit(asyncio.run, run_in_terminal(launch)).result()
        if code != 0:
            sys.stdout.write(f"It exited with {code}. Enter returns to the conversation. ")
            sys.stdout.flush()
            sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, before)
    return code


def _not_for_us(number: int, frame: object) -> None:
    """A handler, not SIG_IGN: that would be the program's, too."""
