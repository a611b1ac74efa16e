"""Starts an agent and forwards stdin to it byte by byte. The agent's output is not changed.

Usage: `python feeder_program.py COMMAND ...`. Exits with the agent's exit code.
Uses only the standard library.
"""

import os
import subprocess
import sys
import threading
import time
from typing import Final

_SEPARATE_BYTES: Final = 48  # at the start and the end of each chunk, waits after every byte
_POLL_SECONDS: Final = 0.001
_MAX_POLLS: Final = 2000


def main(command: list[str]) -> int:
    """Run the agent; returns its exit code."""
    try:
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0)
    except OSError as error:
        sys.exit(f"{command[0]} could not be started: {error.strerror}")
    assert agent.stdin is not None
    threading.Thread(target=_forward, args=(agent.stdin.fileno(),), daemon=True).start()
    code = agent.wait()
    return code if code >= 0 else 128 - code


def _forward(descriptor: int) -> None:
    wait = True
    try:
        while data := os.read(0, 65536):
            for position in range(len(data)):
                os.write(descriptor, data[position : position + 1])
                if wait and (position < _SEPARATE_BYTES or position + _SEPARATE_BYTES > len(data)):
                    wait = _wait_until_read(descriptor)
    except OSError:
        return  # the agent closed its stdin
    os.close(descriptor)


def _wait_until_read(descriptor: int) -> bool:
    """Wait until the agent has read the byte, so that it never reads several at once.

    Returns False if the agent does not read.
    """
    if sys.platform == "win32":
        time.sleep(_POLL_SECONDS)  # Windows cannot tell whether the pipe is empty
        return True
    from fcntl import ioctl
    from termios import FIONREAD

    for _ in range(_MAX_POLLS):
        try:
            if ioctl(descriptor, FIONREAD, bytes(4)) == bytes(4):
                return True
        except OSError:
            return False
        time.sleep(_POLL_SECONDS)
    return False


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # the thread may still be reading stdin
