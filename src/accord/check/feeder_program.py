"""Stands before an agent and hands on what it is sent byte by byte; what the agent says goes past it, untouched.

Run as a file, with nothing but the standard library: `python pieces.py COMMAND ...`. It ends with the agent, as the agent does.
"""

import os
import subprocess
import sys
import threading
import time
from typing import Final

_APART: Final = 48  # bytes at either end of what is handed on at once
_LOOK: Final = 0.001
_LOOKS: Final = 2000


def main(command: list[str]) -> int:
    """Run the agent to its end; the result is its exit code."""
    try:
        agent = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0)
    except OSError as error:
        sys.exit(f"{command[0]} was not started: {error.strerror}")
    assert agent.stdin is not None
    threading.Thread(target=_hand_on, args=(agent.stdin.fileno(),), daemon=True).start()
    code = agent.wait()
    return code if code >= 0 else 128 - code


def _hand_on(descriptor: int) -> None:
    patient = True
    try:
        while data := os.read(0, 65536):
            for place in range(len(data)):
                os.write(descriptor, data[place : place + 1])
                if patient and (place < _APART or place + _APART > len(data)):
                    patient = _taken(descriptor)
    except OSError:
        return  # the agent reads no more
    os.close(descriptor)


def _taken(descriptor: int) -> bool:
    """Wait until the agent has taken the byte, or else it would find several at once. False: it does not read now."""
    if sys.platform == "win32":
        time.sleep(_LOOK)  # nobody can tell here; a moment has to do
        return True
    from fcntl import ioctl
    from termios import FIONREAD

    for _ in range(_LOOKS):
        try:
            if ioctl(descriptor, FIONREAD, bytes(4)) == bytes(4):
                return True
        except OSError:
            return False
        time.sleep(_LOOK)
    return False


if __name__ == "__main__":
    code = main(sys.argv[1:])
    os._exit(code)  # the thread may still wait for words to hand on
